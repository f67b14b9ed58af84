"""Estimate the transition matrix of a user's data, with intervals, from a few true labels."""

import csv
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from naysay._base.errors import InvalidData, NoAnchorPoints
from naysay._base.files import replacing
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.habit import Habit
from naysay.datasets.own import OwnData
from naysay.quality import Agreement, check_matrix
from naysay.workflows.annotators import (
    FEWEST_EXAMPLES,
    Anchors,
    anchors_without_label,
    check_consistent,
    matrix_of_each,
    observations,
)

_COLUMNS: tuple[str, ...] = ("true class", "excluded", "share", "low", "high")


def estimate_own(
    own: OwnData,
    *,
    anchors: Anchors | None = None,
    epochs: int = 100,
    seed: int = 0,
    allow_diagonal: bool = False,
    progress: bool = False,
) -> Habit:
    """Estimate the transition matrix of a user's data from anchors.

    Parameters are those of `naysay.workflows.fit.fit_own`. No examples are held out.

    """
    if not own.is_label.any():
        raise InvalidData(
            f"{own.source} must have complementary labels (--label), which show how annotators "
            "choose. Answers to suggestions or choices out of some classes have no such matrix: "
            "train a model on them with naysay fit."
        )
    X_anchor, y_anchor = anchors_without_label(own, anchors)
    if not len(y_anchor) and not (own.true_labels >= 0).any():
        raise NoAnchorPoints(
            "The estimate needs anchors: examples whose true class is known, 5 or 10 of each "
            "class. Name their column in true_label (--true-label), or pass a file of them "
            "(--anchors)."
        )
    check_consistent(own, None, allow_diagonal)
    labelled = np.flatnonzero(own.labels_per_example > 0)
    if len(labelled) < FEWEST_EXAMPLES:
        raise InvalidData(
            f"{own.source} must have at least {FEWEST_EXAMPLES} examples with a label. "
            f"It has {len(labelled)}."
        )
    clf = ComplementaryClassifier(
        transition="estimate",
        allow_diagonal=allow_diagonal,
        classes=own.classes,
        epochs=epochs,
        progress=progress,
        random_state=seed,
    )
    clf.fit_quietly(
        own.X[labelled],
        observations(own, labelled),
        anchors=(X_anchor, y_anchor) if len(y_anchor) else None,
        true_labels=own.true_labels[labelled],
    )
    assert clf.habit_ is not None  # because transition="estimate"
    return clf.habit_


def agreement_with_labels(habit: Habit, own: OwnData) -> Agreement | None:
    """Test an estimate by the labels and the out-of-fold predictions that it was refined on."""
    if habit.judgements is None or habit.uncertainty is None:
        return None
    labels, answered = np.flatnonzero(own.is_label), np.unique(own.example)
    examples, first = np.unique(own.example[labels], return_index=True)  # one label of each
    return check_matrix(
        own.label[labels[first]],
        habit.transition,
        predictions=habit.judgements.argmax(axis=1)[np.searchsorted(answered, examples)],
        Q_samples=habit.uncertainty.samples,
    )


def list_entries(habit: Habit) -> list[dict[str, Any]]:
    """List the entries of Q with their intervals, which are None if they are not known.

    Zeros on the diagonal are omitted.
    """
    Q, known = habit.transition, habit.uncertainty
    values = np.asarray(Q)
    arrays = (values, None, None) if known is None else (values, known.lower, known.upper)
    entries = []
    for row, column in np.ndindex(values.shape):
        if row == column and not values[row, column]:
            continue
        figures = (None if each is None else float(each[row, column]) for each in arrays)
        cells = (Q.classes[row], Q.classes[column], *figures)
        entries.append(dict(zip(_COLUMNS, cells, strict=True)))
    return entries


def write_intervals(habit: Habit, path: str | Path) -> None:
    """Write the entries of Q and their intervals to a CSV file, completely or not at all."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(list_entries(habit))


def to_dict(habit: Habit, annotators: Sequence[str], agreement: Agreement | None) -> dict[str, Any]:
    """Convert an estimate to plain values for JSON."""
    Q = habit.transition
    matrices = matrix_of_each(annotators, habit.by_annotator, Q)
    return {
        "classes": list(Q.classes),
        "transition": np.asarray(Q).tolist(),
        "entries": list_entries(habit),
        "by_annotator": {name: np.asarray(each).tolist() for name, each in matrices.items()},
        "diagnosis": Q.diagnose().to_dict(),
        "mistakes": None if habit.mistakes is None else asdict(habit.mistakes),
        "agreement": None if agreement is None else agreement.to_dict(),
        "advice": None if habit.uncertainty is None else habit.uncertainty.advice,
    }
