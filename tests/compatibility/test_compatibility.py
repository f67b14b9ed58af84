"""Files that earlier versions wrote are read by this one, and mean the same.

Each folder beside this file holds models, a checkpoint, a matrix, records and predictions as the
version it is named after wrote them with `write.py`.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import write
from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.cli import app
from naysay.experiments.records import RecordFile
from naysay.experiments.suites import SUITES

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
MODELS = ["given", "estimated", "annotators", "cpe-t", "two-views", "ga", "images"]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request):
    return request.param


@pytest.fixture
def expected(folder):
    return json.loads((folder / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_predicts_what_it_did(folder, expected, name):
    clf = ComplementaryClassifier.load(folder / name, device="cpu")
    found = clf.predict_proba(write.inputs_of(name))
    np.testing.assert_allclose(found, expected[name], atol=2e-5)


def test_the_matrices_of_annotators_come_along(folder):
    clf = ComplementaryClassifier.load(folder / "annotators")
    np.testing.assert_array_equal(clf.transitions_["bob"], write.ERRING)


def test_a_model_of_a_table_predicts_what_it_did(folder, tmp_path):
    out = tmp_path / "predictions.csv"
    arguments = [str(folder / "table"), str(folder / "flowers.csv"), "--out", str(out)]
    assert CliRunner().invoke(app, ["predict", *arguments]).exit_code == 0
    found, before = (path.read_text("utf-8").splitlines() for path in (out, folder / out.name))
    assert found[0] == before[0]
    for now, then in zip(found[1:], before[1:], strict=True):
        assert now.split(",")[0] == then.split(",")[0]
        numbers = [np.array(line.rsplit(",", 3)[1:], float) for line in (now, then)]
        np.testing.assert_allclose(*numbers, atol=2e-5)


def test_training_goes_on_from_a_checkpoint(folder, expected, tmp_path):
    shutil.copy(folder / "training.safetensors", tmp_path)
    history, _ = write.start_training(tmp_path)
    losses = [record["loss"] for record in history]
    np.testing.assert_allclose(losses, expected["training"], atol=2e-5)


def test_a_matrix_is_read(folder):
    found = TransitionMatrix.read(folder / "Q.csv")
    assert list(found.classes) == write.NAMES
    np.testing.assert_array_equal(found, write.HABITS)


def test_records_are_read_and_belong_to_a_table(folder):
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    records = list(RecordFile(folder / "records.jsonl").read())
    assert len(records) == len(lines)
    groups = {
        spec.group
        for suite in SUITES.values()
        for recipe in suite.recipes
        for _, spec in suite.specs(recipe, trials=1)
    }
    assert {record.spec.hash for record in records} == {json.loads(line)["hash"] for line in lines}
    assert {record.spec.group for record in records} <= groups
