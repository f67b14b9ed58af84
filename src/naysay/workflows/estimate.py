"""Estimate the transition matrix of a user's data, with intervals, from a few true labels."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naysay._base.errors import InvalidData, NoAnchorPoints
from naysay._base.files import replacing
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.habit import Habit
from naysay.datasets.own import OwnData
from naysay.transition import TransitionMatrix
from naysay.workflows.annotators import (
    FEWEST_EXAMPLES,
    Anchors,
    check_consistent,
    join_anchors,
    observations,
)

__all__ = ["by_annotator", "estimate_own", "list_entries", "to_dict", "write_intervals"]

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

    Returns
    -------
    Habit
        ``transition`` is the matrix. ``uncertainty`` has ``lower`` and ``upper``, the bounds of
        each entry; it is None if there are too few answers to estimate them. ``by_annotator`` has
        a matrix for each annotator, if the data name annotators and these differ significantly.

    Raises
    ------
    NoAnchorPoints
        If a class has no anchor.
    """
    X_anchor, y_anchor = join_anchors(own, anchors)
    if not len(y_anchor):
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
    answers = observations(own, labelled)
    clf.fit_quietly(own.X[labelled], answers, anchors=(X_anchor, y_anchor))
    assert clf.habit_ is not None  # because transition="estimate"
    return clf.habit_


def by_annotator(habit: Habit, annotators: Sequence[str]) -> dict[str, TransitionMatrix]:
    """Return a matrix for each annotator: the common one for those who have none."""
    return {name: habit.by_annotator.get(name, habit.transition) for name in annotators}


def list_entries(habit: Habit) -> list[dict[str, Any]]:
    """List the entries of Q with their intervals, which are None if they are not known.

    Zeros on the diagonal are omitted.
    """
    Q, bounds = habit.transition, habit.uncertainty
    values = np.asarray(Q)
    entries = []
    for row, column in np.ndindex(values.shape):
        if row == column and not values[row, column]:
            continue
        low, high = (
            (None, None)
            if bounds is None
            else (float(bounds.lower[row, column]), float(bounds.upper[row, column]))
        )
        share = float(values[row, column])
        cells = (Q.classes[row], Q.classes[column], share, low, high)
        entries.append(dict(zip(_COLUMNS, cells, strict=True)))
    return entries


def write_intervals(habit: Habit, path: str | Path) -> None:
    """Write the entries of Q and their intervals to a CSV file, completely or not at all."""
    with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(list_entries(habit))


def to_dict(habit: Habit, annotators: Sequence[str]) -> dict[str, Any]:
    """Return an estimate as plain values for JSON."""
    Q = habit.transition
    return {
        "classes": list(Q.classes),
        "transition": np.asarray(Q).tolist(),
        "entries": list_entries(habit),
        "by_annotator": {
            name: np.asarray(each).tolist()
            for name, each in by_annotator(habit, annotators).items()
        },
        "diagnosis": Q.diagnose().to_dict(),
        "advice": None if habit.uncertainty is None else habit.uncertainty.advice,
    }
