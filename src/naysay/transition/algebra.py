"""Checks and counts of complementary labels, and the inverse of Q that estimators apply."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import (
    as_real_numbers,
    check_label_indices,
    check_one_label_each,
    impossible_label,
)
from naysay._base.errors import InvalidLabels, InvalidTransitionMatrix
from naysay._base.mapped import parts_of
from naysay.transition.matrix import TransitionMatrix

Floats = NDArray[np.float64]
_NEARLY = 1e-9  # step from a singular sample of Q to one that is nearly singular


def check_comp_labels(
    comp_labels: ArrayLike,
    matrix: TransitionMatrix,
    n: int | None = None,
    *,
    of: str = "",
    allow_impossible: bool = False,
) -> NDArray[np.int64]:
    """Check that there is a label, or n of them, one per `of`; convert them to indices.

    Labels whose column of Q is all zero are refused unless they are allowed.
    """
    if n is not None:
        labels = check_one_label_each(comp_labels, matrix.classes, n, name="comp_labels", of=of)
    else:
        labels = check_label_indices(comp_labels, matrix.classes, name="comp_labels")
        if labels.ndim != 1 or not labels.size:
            raise InvalidLabels(
                f"comp_labels must have at least one label, shape (n,). Got shape {labels.shape}."
            )
    if not (matrix.is_uniform or allow_impossible):
        counts = np.bincount(labels, minlength=matrix.n_classes)
        counts[matrix.entries.indices] = 0  # counts that remain belong to labels that cannot occur
        if counts.any():
            label = int(np.flatnonzero(counts)[0])
            raise impossible_label(label, int(counts[label]), matrix.classes)
    return labels


def joint_counts(
    labels: NDArray[np.int64], predictions: NDArray[np.int64], n_classes: int
) -> NDArray[np.int64]:
    """Count how often label j occurs with prediction k, shape (n_classes, n_classes)."""
    flat = np.zeros(n_classes**2, dtype=np.int64)
    for rows in parts_of(len(labels)):
        cells = labels[rows] * n_classes + predictions[rows]
        flat += np.bincount(cells, minlength=n_classes**2)
    return flat.reshape(n_classes, n_classes)


def invert(values: Floats) -> Floats | None:
    """Compute the inverse of Q; None if Q is singular to working precision."""
    if np.linalg.matrix_rank(values) < len(values):
        return None
    return np.linalg.inv(values).astype(np.float64, copy=False)


def check_samples(Q_samples: Any, n_classes: int) -> Floats:
    """Check samples of Q, shape (n_samples, n_classes, n_classes)."""
    rule = f"Q_samples must be at least 2 matrices, shape (n, {n_classes}, {n_classes})"
    samples = as_real_numbers(Q_samples, rule, InvalidTransitionMatrix)
    if samples.ndim != 3 or samples.shape[1:] != (n_classes, n_classes) or len(samples) < 2:
        raise InvalidTransitionMatrix(f"{rule}. Got shape {samples.shape}.")
    if not (samples >= 0).all() or (np.abs(samples.sum(axis=2) - 1) > 1e-6).any():
        raise InvalidTransitionMatrix(
            f"{rule}, without negative entries and with rows that sum to 1. Some row does not."
        )
    return samples.astype(np.float64, copy=False)


def invert_samples(Q_samples: Any, n_classes: int) -> Floats:
    """Check samples of Q and invert each, shape (n_samples, n_classes, n_classes).

    Samples of an estimate from few anchors may be nearly singular, and exactly so once they are
    rounded in a model file. These are moved slightly towards the identity: inverses are as large.
    """
    samples = check_samples(Q_samples, n_classes)
    try:
        return np.linalg.inv(samples).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        is_singular = np.linalg.matrix_rank(samples) < n_classes
    if is_singular.all():
        raise InvalidTransitionMatrix(
            f"Q_samples must be invertible matrices, shape (n, {n_classes}, {n_classes}). All are "
            "singular: draw them from a smoother distribution."
        )
    moved = samples + _NEARLY * (np.eye(n_classes) - samples)
    samples = np.where(is_singular[:, None, None], moved, samples)
    return np.linalg.inv(samples).astype(np.float64, copy=False)
