"""Files that earlier versions wrote are read by this one, and mean the same.

Each folder beside this file holds models, a checkpoint, a matrix, records, an annotation task and
predictions as the version it is named after wrote them with `write.py`. ``0.1.0-first`` is from the
commits in which each kind of file was written first: models and a matrix of the one before 42d6152
(format 1), a task of 7c731d5, records of 7e3a8ab.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import write
from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.annotation.store import Task
from naysay.cli import app
from naysay.datasets import read_own
from naysay.experiments.records import RecordFile
from naysay.experiments.suites import SUITES

HERE = Path(__file__).parent


def written(pattern, but=()):
    """Mark a test to read all files of a name; each must be in two versions at least."""
    paths = sorted(path for path in HERE.glob(f"*/{pattern}") if path.parent.name not in but)
    assert len({path.relative_to(HERE).parts[0] for path in paths}) >= 2, pattern
    names = [path.relative_to(HERE).as_posix() for path in paths]
    return pytest.mark.parametrize("path", paths, ids=names)


def expected_of(folder):
    return json.loads((folder / "expected.json").read_text("utf-8"))


def test_the_files_are_small():
    assert sum(path.stat().st_size for path in HERE.rglob("*.*")) < 1e6


@written("*/model.json", but={"table", "texts"})  # whose inputs are files; see below
def test_a_model_predicts_what_it_did(path):
    folder = path.parent
    clf = ComplementaryClassifier.load(folder, device="cpu")
    found = clf.predict_proba(write.inputs_of(folder.name))
    np.testing.assert_allclose(found, expected_of(folder.parent)[folder.name], atol=2e-5)


@written("annotators")
def test_the_matrices_of_annotators_come_along(path):
    clf = ComplementaryClassifier.load(path)
    np.testing.assert_array_equal(clf.transitions_["bob"], write.ERRING)


@written("task.db")
def test_an_annotation_task_goes_on(path, tmp_path):
    copied = Path(shutil.copy(path, tmp_path))
    answers = write.read_task(copied)
    assert answers == expected_of(path.parent)["task"]
    read = read_own(copied)
    assert (list(read.annotators), list(read.classes)) == (["ann", "bob"], write.NAMES)
    with Task(copied) as task:
        person = task.local_person("bob")
        question = task.deal(person.id)[0]
        given = {"id": "a new answer", "deal": question.deal, "said": "not"}
        task.answer(person.id, given | {"label": question.offered[0]})
    assert len(write.read_task(copied)) == len(answers) + 1


@written("*predictions.csv")
def test_a_model_of_a_file_predicts_what_it_did(path, tmp_path):
    model, data = ("texts", "texts") if path.name.startswith("texts") else ("table", "flowers")
    out = tmp_path / path.name
    arguments = [str(path.parent / model), str(path.parent / f"{data}.csv"), "--out", str(out)]
    assert CliRunner().invoke(app, ["predict", *arguments]).exit_code == 0
    found, before = (each.read_text("utf-8").splitlines() for each in (out, path))
    assert found[0] == before[0]
    for now, then in zip(found[1:], before[1:], strict=True):
        assert now.split(",")[0] == then.split(",")[0]
        numbers = [np.array(line.rsplit(",", 3)[1:], float) for line in (now, then)]
        np.testing.assert_allclose(*numbers, atol=2e-5)


@written("training.safetensors")
def test_training_goes_on_from_a_checkpoint(path, tmp_path):
    shutil.copy(path, tmp_path)
    history, _ = write.start_training(tmp_path)
    losses = [record["loss"] for record in history]
    np.testing.assert_allclose(losses, expected_of(path.parent)["training"], atol=2e-5)


@written("Q.csv")
def test_a_matrix_is_read(path):
    found = TransitionMatrix.read(path)
    assert list(found.classes) == write.NAMES
    np.testing.assert_array_equal(found, write.HABITS)


@written("records.jsonl")
def test_records_are_read_and_belong_to_a_table(path):
    lines = path.read_text("utf-8").splitlines()
    records = list(RecordFile(path).read())
    assert len(records) == len(lines)
    groups = {
        spec.group
        for suite in SUITES.values()
        for recipe in suite.recipes
        for _, spec in suite.specs(recipe, trials=1)
    }
    assert {record.spec.hash for record in records} == {json.loads(line)["hash"] for line in lines}
    assert {record.spec.group for record in records} <= groups
