"""Logs of suggestions, choices out of some classes and labels, in tables and array files."""

import numpy as np
import pandas as pd
import pytest

from naysay import InvalidData, InvalidInput, InvalidLabels
from naysay.datasets import read_own, summarise

LOG = pd.DataFrame(
    {
        "age": [3, 9, 5, 5, 7],
        "animal": ["a", "b", "c", "c", "d"],
        "suggested": ["cat", "dog", "owl", "cat", "dog"],
        "ok": ["yes", "no", "No", "TRUE", None],
        "not": [None, "cat|owl", None, None, "dog"],
        "out_of": [None, None, None, None, "cat|dog"],
        "is": [None, None, "cat", None, None],
    }
)
COLUMNS = {"label": "not", "suggested": "suggested", "accepted": "ok", "offered": "out_of"}


def test_answers_of_all_kinds_are_read_from_one_table():
    own = read_own(LOG, **COLUMNS, true_label="is", example_id="animal")
    assert own.classes == ("cat", "dog", "owl")
    assert own.feature_names == ("age",)
    answers = zip(own.example, own.label, own.accepted, own.offered, own.answer_row, strict=True)
    assert [tuple(each) for each in answers] == [
        (0, 0, 1, None, 0),  # a is a cat
        (1, 0, -1, None, 1),  # b is no cat, and no owl, and no dog
        (1, 2, -1, None, 1),
        (1, 1, 0, None, 1),
        (2, 2, 0, None, 2),
        (2, 0, 1, None, 3),
        (3, 1, -1, (0, 1), 4),  # "which of cat and dog is it not?"; the suggestion has no answer
    ]
    assert own.is_label.tolist() == [False, True, True, False, False, False, False]
    assert own.ruled_out.tolist() == [
        [False, False, False],
        [True, True, True],
        [False, False, True],
        [False, True, False],
    ]
    summary = summarise(own)
    assert summary.accepted_per_class == {"cat": 2, "dog": 0, "owl": 0}
    assert summary.rejected_per_class == {"cat": 0, "dog": 1, "owl": 1}
    assert summary.labels_per_class == {"cat": 1, "dog": 1, "owl": 1}
    assert summary.all_excluded == ("b",)
    assert summary.true_excluded == ()
    assert "suggested and rejected" in str(summary)


def test_a_log_needs_no_labels_and_may_be_a_file(tmp_path):
    LOG.to_csv(tmp_path / "log.csv", index=False)
    arrays = {"X": LOG[["age"]].to_numpy(), "suggested": np.array([1, 0, 0, 1, 1])}
    np.savez(tmp_path / "log.npz", **arrays, accepted=np.array([True, False, True, True, False]))
    options = {"suggested": "suggested", "accepted": "ok", "features": ["age"]}
    own = read_own(tmp_path / "log.csv", **options)
    assert own.accepted.tolist() == [1, 0, 0, 1]
    assert own.n_dropped == 1  # nobody answered
    own = read_own(tmp_path / "log.npz", classes=["cat", "dog"])
    assert own.accepted.tolist() == [1, 0, 1, 1, 0]
    assert own.label.tolist() == [1, 0, 0, 1, 1]
    with pytest.raises(InvalidLabels, match="exactly one label per example"):
        _ = own.comp_labels


def test_a_single_class_that_is_never_suggested_is_no_problem():
    log = pd.DataFrame({"x": [1, 2], "s": ["cat", "dog"], "ok": [1, 0]})
    own = read_own(log, suggested="s", accepted="ok", classes=["cat", "dog", "owl"])
    assert summarise(own).never_named == ()
    own = read_own(log, suggested="s", accepted="ok", classes=["cat", "dog", "owl", "fox"])
    assert summarise(own).never_named == ("owl", "fox")


@pytest.mark.parametrize(
    "change, options, error, message",
    [
        ({"ok": ["yes", "no", "perhaps", "no", "no"]}, {}, InvalidLabels, "Got also 'perhaps'"),
        ({"ok": ["no"] * 5}, {}, InvalidLabels, "none of its 5 answers is yes"),
        ({"suggested": ["cat", None, "owl", "cat", "dog"]}, {}, InvalidData, "Data row 2 has 'no'"),
        ({}, {"accepted": None}, InvalidInput, "must be given together"),
        ({}, {"label": None}, InvalidInput, "offered .* needs label"),
        (
            {},
            {"label": None, "offered": None, "suggested": None},
            InvalidInput,
            "must be given together",
        ),
        ({"out_of": ["cat|dog"] * 5}, {}, InvalidData, "Data row 2 has a label that is not among"),
    ],
)
def test_bad_logs_are_refused(change, options, error, message):
    with pytest.raises(error, match=message):
        read_own(LOG.assign(**change), **{**COLUMNS, **options})
