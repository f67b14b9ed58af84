"""Estimate the transition matrix from a few true labels."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import (
    check_anchor_counts,
    check_class_names,
    check_count,
    check_label_indices,
    check_n_classes,
    check_probabilities,
)
from naysay._base.errors import InvalidInput, InvalidLabels, NaysayWarning
from naysay.transition import TransitionMatrix

_FEW_ANCHORS = 5  # per class: the fewest that the paper uses


def from_anchors(
    comp_probs: ArrayLike,
    anchor_labels: ArrayLike,
    n_classes: int,
    *,
    classes: Sequence[str] | None = None,
    allow_diagonal: bool = False,
) -> TransitionMatrix:
    r"""Estimate Q from predictions at anchors, examples whose true class is known.

    .. math:: \hat Q_{y \cdot} = \mathrm{mean}_{x \in S_y} \hat P(Ȳ = \cdot \mid x)

    An anchor x of class y has P(Y = y | x) = 1, so P(Ȳ | x) is row y of Q.

    Parameters
    ----------
    comp_probs : array of shape (n_anchors, n_classes)
        P(Ȳ | x) at the anchors, from any model trained on the complementary labels.
    anchor_labels : array of shape (n_anchors,)
        True classes of the anchors, as indices or names; 5 or 10 of each class are usual.
    n_classes : int
    classes : sequence of str, optional
        Class names.
    allow_diagonal : bool, default=False
        Keep the diagonal (annotators who err). Otherwise it is set to zero and each row divided
        by its sum.

    Raises
    ------
    NoAnchorPoints
        If a class has no anchor.

    References
    ----------
    Yu et al. 2018, section 7, equation (15). https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    >>> Q = from_anchors([[0, 0.9, 0.1], [0.4, 0, 0.6], [1, 0, 0]] * 5, [0, 1, 2] * 5, 3)
    >>> np.asarray(Q)
    array([[0. , 0.9, 0.1],
           [0.4, 0. , 0.6],
           [1. , 0. , 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    names = check_class_names(classes, n_classes)
    probs = check_probabilities(comp_probs, n_classes=n_classes, name="comp_probs")
    labels = check_label_indices(anchor_labels, names, name="anchor_labels")
    if labels.shape != (len(probs),):
        raise InvalidLabels(
            f"anchor_labels must hold one class per row of comp_probs, shape ({len(probs)},). "
            f"Got shape {labels.shape}."
        )
    counts = np.bincount(labels, minlength=n_classes)
    check_anchor_counts(counts, names)
    rows = np.stack([probs[labels == label].mean(axis=0) for label in range(n_classes)])
    if not allow_diagonal:
        np.fill_diagonal(rows, 0)
    totals = rows.sum(axis=1, keepdims=True)
    if (totals == 0).any():
        name = names[int(np.argmin(totals))]
        raise InvalidInput(
            f"comp_probs must leave class {name!r} some other label; at its anchors all "
            "probability is on the class itself. For annotators who err pass allow_diagonal=True."
        )
    _warn_of_few(probs, labels, counts, names)
    return TransitionMatrix(rows / totals, names, allow_diagonal=allow_diagonal)


def choose_anchors(
    comp_probs: ArrayLike, labels: ArrayLike, n_per_class: int = 10
) -> NDArray[np.int64]:
    r"""Choose from examples of known class those that are the surest of their class.

    `from_anchors` takes each anchor to be of its class beyond doubt, P(Y = y | x) = 1. No label
    then names y, so the surest examples have the smallest predicted P(Ȳ = y | x).

    Parameters
    ----------
    comp_probs : array of shape (n, n_classes)
        P(Ȳ | x) of the examples, from a model trained on complementary labels.
    labels : array of shape (n,)
        Their true classes, as indices.
    n_per_class : int, default=10
        How many to take of each class; all where there are fewer.

    Returns
    -------
    int array
        Rows of comp_probs, by class.

    Examples
    --------
    >>> choose_anchors([[0.1, 0.9], [0.4, 0.6], [0.8, 0.2]], [0, 0, 1], 1).tolist()
    [0, 2]
    """
    array = np.asarray(comp_probs)
    n_classes = check_n_classes(array.shape[1] if array.ndim == 2 else 0)
    probs = check_probabilities(array, n_classes=n_classes, name="comp_probs")
    names = check_class_names(None, n_classes)
    true = check_label_indices(labels, names, name="labels")
    if true.shape != (len(probs),):
        raise InvalidLabels(
            f"labels must hold one class per row of comp_probs, shape ({len(probs)},). "
            f"Got shape {true.shape}."
        )
    n_per_class = check_count(n_per_class, "n_per_class")
    own = probs[np.arange(len(probs)), true]
    surest = np.argsort(own, kind="stable")
    return np.concatenate([surest[true[surest] == k][:n_per_class] for k in range(n_classes)])


def _warn_of_few(
    probs: NDArray[np.float64],
    labels: NDArray[np.int64],
    counts: NDArray[np.int64],
    names: Sequence[str],
) -> None:
    """Say how far off a row may be when its anchors are few."""
    fewest = int(counts.argmin())
    n = int(counts[fewest])
    if n >= _FEW_ANCHORS:
        return
    if n > 1:
        spread = probs[labels == fewest].std(axis=0, ddof=1).max() / np.sqrt(n)
        doubt = f"its row may be off by ±{1.96 * spread:.2g} (95 %)"
    else:
        doubt = "nothing says how far off its row is"
    warnings.warn(
        f"Q was estimated from {n} anchor{'s' if n > 1 else ''} for class {names[fewest]!r}; "
        f"{doubt}. More true labels help most here ({_FEW_ANCHORS} to 10 per class are usual).",
        NaysayWarning,
        stacklevel=3,
    )
