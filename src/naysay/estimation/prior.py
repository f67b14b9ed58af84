"""Estimate class shares from no true label."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import check_comp_labels, invert, invert_samples


def class_prior(
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    shrink: bool = False,
    Q_samples: ArrayLike | None = None,
) -> NDArray[np.float64]:
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
    shrink : bool, default=False
        Move the shares towards equal ones as far as chance explains that they differ from them
        (Stein's rule): the expected square of their errors, over that of the differences. Equal
        shares are what remains where labels are too few to tell. Q must be invertible.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Where Q itself was estimated: plausible matrices, as `uncertainty` draws them. How the
        shares differ over them counts as chance too (the median of the squares, for one that is
        nearly singular can give anything). Only for shares that shrink.

    Returns
    -------
    ndarray of shape (K,)
        Not negative, sum 1.

    Raises
    ------
    InvalidLabels
        If there is no label, or one whose column of Q is all zero.
    InvalidTransitionMatrix
        If the shares are to shrink and Q is singular, so that labels do not tell them.

    Examples
    --------
    >>> class_prior([1, 1, 1, 2, 2, 0], [[0, 0.5, 0.5], [1, 0, 0], [0, 1, 0]]).round(3)
    array([0.667, 0.167, 0.167])
    """
    if Q_samples is not None and not shrink:
        raise InvalidInput(
            "Q_samples say how far shares are to shrink. Pass shrink=True too, or leave them out."
        )
    matrix = as_transition_matrix(Q)
    counts = np.bincount(check_comp_labels(comp_labels, matrix), minlength=matrix.n_classes)
    values = np.asarray(matrix)
    frequencies = counts / counts.sum()
    shares = nnls(values.T, frequencies)[0]
    shares = shares / shares.sum()
    if not shrink:
        return shares
    trust = _trust(values, counts, Q_samples)
    return trust * shares + (1 - trust) / matrix.n_classes


def _trust(
    values: NDArray[np.float64], counts: NDArray[np.int64], Q_samples: ArrayLike | None
) -> float:
    """Return which part of the differences from equal shares chance does not explain, 0 to 1."""
    inverse = invert(values)
    if inverse is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible for labels to tell the share of each class; this one is "
            "singular. Use shares that you know, or none."
        )
    n = counts.sum()
    frequencies = counts / n
    unbiased = frequencies @ inverse
    # labels that were not seen may occur all the same: one alone would leave no doubt
    expected = (counts + 1) / (n + len(counts))
    noise = (expected @ inverse**2 - (expected @ inverse) ** 2).sum() / n
    if Q_samples is not None:
        others = frequencies @ invert_samples(Q_samples, len(values))
        noise += np.median(((others - unbiased) ** 2).sum(axis=1))
    differences = ((unbiased - 1 / len(values)) ** 2).sum()
    return float(max(0.0, 1 - noise / differences)) if differences > 0 else 0.0
