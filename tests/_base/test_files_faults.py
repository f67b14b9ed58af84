"""A fault at any system call that writes leaves the old content or the new, never neither."""

import contextlib
import itertools
import os
import traceback
from functools import cache, partial
from unittest import mock

import pyarrow as pa
import pytest
import torch
from pyarrow import csv, parquet

from faults import IS_SUPPORTED, run, run_with_fault
from naysay import (
    ComplementaryClassifier,
    InvalidModelFile,
    InvalidTransitionMatrix,
    TransitionMatrix,
)
from naysay._base import files
from naysay.classifier.model_files import load_model
from naysay.design import Scheme, propose
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.spec import RunSpec
from naysay.report.page import write_page
from naysay.training.state import read_checkpoint, write_checkpoint
from naysay.transition.folder import read_matrices, write_matrices
from naysay.workflows.export import export
from naysay.workflows.predict import write_tables
from saved_models import make_model, save_model

pytestmark = [
    pytest.mark.skipif(not IS_SUPPORTED, reason="looks at calls of Linux on x86-64"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]


def matrix(seed):
    return TransitionMatrix.without_zeros(4, seed=seed)


# For each kind of output: write one with a seed; read the seed.


def write_text(folder, seed):
    write_page(f"{seed}" * 20_000, folder / "page.html")


def read_text(folder):
    text = (folder / "page.html").read_text()
    assert len(text) == 20_000
    return int(text[0])


def write_predictions(folder, seed, *, kind):
    table = pa.table({"prediction": [f"class {seed}"] * 500, "P(a)": [0.5] * 500})
    write_tables([table, table], folder / f"p.{kind}")


def read_predictions(folder, *, kind):
    read = csv.read_csv if kind == "csv" else parquet.read_table
    (name,) = set(read(folder / f"p.{kind}")["prediction"].to_pylist())
    return int(name[-1])


def write_record(folder, seed):
    spec = RunSpec(
        dataset="mnist", setting="with0", method="forward", knows="true Q", recipe="r", trial=seed
    )
    record = RunRecord(spec=spec, accuracy=0.9, seconds=1.5, device="a processor")
    RecordFile(folder / "r.jsonl").append(record)


def read_record(folder):
    return RecordFile(folder / "r.jsonl").read()[-1].spec.trial


@cache
def program(seed):
    return torch.export.export(torch.nn.Linear(1, 2 + seed), (torch.zeros(1, 1),))


@cache
def classifier():
    return ComplementaryClassifier(learner="network", network="linear", epochs=1).fit(
        [[0.0], [1.0], [2.0], [3.0]] * 5, [0, 1, 2, 1] * 5
    )


def write_export(folder, seed):
    with mock.patch.object(torch.export, "export", return_value=program(seed)):
        export(classifier(), folder / "model.pt2")


def read_export(folder):
    return torch.export.load(folder / "model.pt2").module()(torch.zeros(1, 1)).shape[1] - 2


def write_matrix(folder, seed):
    matrix(seed).write(folder / "Q.csv")


def read_matrix(folder):
    return seed_of(TransitionMatrix.read(folder / "Q.csv"))


def write_model(folder, seed):
    save_model(make_model(transition=matrix(seed)), folder / "model", version="0", report="<p>")


def read_model(folder):
    return seed_of(load_model(folder / "model").transition)


def write_several(folder, seed):
    write_matrices({"ann": matrix(seed), "bob": matrix(seed)}, folder / "new" / "matrices")


def read_several(folder):
    ann, bob = read_matrices(folder / "new" / "matrices").values()
    assert ann == bob
    return seed_of(ann)


def write_state(folder, seed):
    write_checkpoint(folder / "c.safetensors", {"w": torch.ones(3)}, {"seed": seed})


def read_state(folder):
    return read_checkpoint(folder / "c.safetensors")[1]["seed"]


def write_scheme(folder, seed):
    propose(3, 2, n_groups=3 + seed).write(folder / "task")


def read_scheme(folder):
    return len(Scheme.read(folder / "task").lists) - 3


def seed_of(Q):
    return next(seed for seed in range(3) if matrix(seed).distance(Q) < 1e-9)


KINDS = {
    "text": (write_text, read_text),
    "matrix": (write_matrix, read_matrix),
    "model": (write_model, read_model),
    "matrices": (write_several, read_several),
    "checkpoint": (write_state, read_state),
    "scheme": (write_scheme, read_scheme),
    **{
        kind: (partial(write_predictions, kind=kind), partial(read_predictions, kind=kind))
        for kind in ("csv", "parquet")
    },
    "record": (write_record, read_record),
    "export": (write_export, read_export),
}

STOPPED = ("text", "parquet", "model", "matrices", "checkpoint", "record", "export")
"""The other kinds are written by the same calls as one of these."""


def names_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.unmeasured
@pytest.mark.parametrize("kind, older", [*((kind, True) for kind in STOPPED), ("model", False)])
@pytest.mark.parametrize("kill", [True, False])
def test_a_fault_at_any_call_leaves_the_old_or_the_new(tmp_path, kind, kill, older):
    write, read = KINDS[kind]
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole", 2)
    expected = names_below(tmp_path / "whole")
    for number in itertools.count(1):
        folder = tmp_path / str(number)
        folder.mkdir()
        if older:
            write(folder, 0)
        end = run_with_fault(number, lambda folder=folder: write(folder, 1), kill=kill)
        if end in ("done", "not reached"):
            assert read(folder) == 1
        elif older:
            assert read(folder) in (0, 1), number
        else:
            with contextlib.suppress(FileNotFoundError, InvalidModelFile, InvalidTransitionMatrix):
                assert read(folder) == 1, number
        write(folder, 2)
        assert read(folder) == 2
        assert names_below(folder) == expected, number
        if end == "not reached":
            break
    assert number > (3 if kind == "record" else 8)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_flushed_before_it_is_renamed_and_the_folder_after(tmp_path, kind):
    write, _ = KINDS[kind]
    end, calls = run(lambda: write(tmp_path, 1))
    assert end == "done"
    moves = [n for n, (name, *_) in enumerate(calls) if name == "rename"]
    last = max((n for n in moves if "/.naysay-" not in calls[n][2]), default=len(calls))
    target = tmp_path / "r.jsonl" if kind == "record" else calls[last][2]
    flushed = {}
    for n, (name, place, *_) in enumerate(calls):
        if name == "fsync":
            flushed.setdefault(place, []).append(n)
    written = {place: n for n, (name, place, *_) in enumerate(calls) if "write" in name}
    assert any(n < last for n in written.values())
    for place, n in written.items():
        assert any(n < when < last for when in flushed[place]), place
    after = max(written.values()) if kind == "record" else last
    assert any(when > after for when in flushed[os.path.dirname(target)])


@pytest.mark.unmeasured
def test_processes_that_write_the_same_target_do_not_disturb_each_other(tmp_path):
    def write_often():
        for seed in range(40):
            write_several(tmp_path, seed % 3)
            write_text(tmp_path, seed % 3)

    pids = []
    for _ in range(3):
        pids.append(os.fork())
        if not pids[-1]:
            code = 1
            try:
                write_often()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
    assert read_several(tmp_path) in range(3)
    assert read_text(tmp_path) in range(3)
    assert names_below(tmp_path) == [
        "new",
        *(f"new/matrices{name}" for name in ("", "/ann.csv", "/bob.csv")),
        "page.html",
    ]


def test_a_folder_that_was_replaced_is_not_put_back_while_another_process_replaces_it(
    tmp_path, monkeypatch
):
    write_several(tmp_path, 0)
    target, taken = tmp_path / "new" / "matrices", tmp_path / "taken"
    flush = files.flush

    def flush_while_another_process_is_between_its_renames(path):
        if path == target.parent and not (next(path.glob(".naysay-*")) / "new").exists():
            target.rename(taken)
        flush(path)

    monkeypatch.setattr(files, "flush", flush_while_another_process_is_between_its_renames)
    write_several(tmp_path, 1)
    assert not target.exists()
    assert seed_of(read_matrices(taken)["ann"]) == 1
