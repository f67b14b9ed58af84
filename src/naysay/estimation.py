"""Estimate the transition matrix from a few true labels, and class shares from no true label."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._checks import (
    check_anchor_counts,
    check_class_names,
    check_label_indices,
    check_n_classes,
    check_probabilities,
    named,
)
from naysay._errors import InvalidInput, InvalidLabels, NaysayWarning
from naysay.transition import TransitionMatrix

__all__ = ["class_prior", "from_anchors"]

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


def class_prior(comp_labels: ArrayLike, Q: TransitionMatrix | ArrayLike) -> NDArray[np.float64]:
    r"""Estimate the share of each class from complementary labels alone.

    .. math:: \hat π = \arg\min_{π ≥ 0} \| Q^\top π - \barπ \|_2, \text{ divided by its sum}

    :math:`\barπ` are the frequencies of the complementary labels, which are Qᵀ π in the long run.
    With a singular Q several π explain them equally well, and this is one of those. The inverse
    of Q enlarges the errors of the frequencies, K - 1 times where Q is uniform: with 100 classes,
    10,000 labels say little about any one share, though Qᵀ π of the estimate is near the
    frequencies.

    Parameters
    ----------
    comp_labels : array of shape (n,)
        As indices, or as names where Q has names.
    Q : TransitionMatrix or array-like of shape (K, K)

    Returns
    -------
    ndarray of shape (K,)
        Not negative, sum 1.

    Raises
    ------
    InvalidLabels
        If there is no label, or one whose column of Q is all zero.

    Examples
    --------
    >>> class_prior([1, 1, 1, 2, 2, 0], [[0, 0.5, 0.5], [1, 0, 0], [0, 1, 0]]).round(3)
    array([0.667, 0.167, 0.167])
    """
    from scipy.optimize import nnls  # half a second to load, for this function only

    matrix = Q if isinstance(Q, TransitionMatrix) else TransitionMatrix(Q, allow_diagonal=True)
    labels = check_label_indices(comp_labels, matrix.classes, name="comp_labels")
    if labels.ndim != 1 or not labels.size:
        raise InvalidLabels(
            f"comp_labels must hold at least one label, shape (n,). Got shape {labels.shape}."
        )
    counts = np.bincount(labels, minlength=matrix.n_classes)
    values = np.asarray(matrix)
    impossible = np.flatnonzero((counts > 0) & ~values.any(axis=0))
    if impossible.size:
        label = int(impossible[0])
        raise InvalidLabels(
            f"comp_labels contains class {named(label, matrix.classes)}, but Q[:, {label}] is all "
            "zero, so that label could never occur. Re-estimate Q or drop the "
            f"{counts[label]} rows."
        )
    shares = nnls(values.T, counts / labels.size)[0]
    return shares / shares.sum()


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
