"""Estimate the class prior without true labels."""

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

    :math:`\barπ` are the frequencies of the complementary labels, which estimate Qᵀ π. With a
    singular Q several π fit equally well, and one of them is returned. The inverse of Q multiplies
    the errors of the frequencies, by K - 1 if Q is uniform: with 100 classes, 10,000 labels
    determine single shares poorly, even though Qᵀ π of the estimate is close to the frequencies.

    Parameters
    ----------
    comp_labels : array of shape (n,)
        As indices, or as names where Q has names.
    Q : TransitionMatrix or array-like of shape (K, K)
    shrink : bool, default=False
        Shrink the shares towards equal ones (Stein's rule), by the ratio of the expected squared
        error to the squared distance from equal shares. With too few labels the result is equal
        shares. Q must be invertible, because the labels do not determine the shares otherwise.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Samples of Q if it was estimated, for instance from `uncertainty`. The variation of the
        shares over the samples is added to the expected squared error, as a median because nearly
        singular samples give arbitrary shares. Requires ``shrink=True``.

    Examples
    --------
    >>> class_prior([1, 1, 1, 2, 2, 0], [[0, 0.5, 0.5], [1, 0, 0], [0, 1, 0]]).round(3)
    array([0.667, 0.167, 0.167])
    """
    if Q_samples is not None and not shrink:
        raise InvalidInput(
            "Q_samples are used only to shrink the shares. Pass shrink=True too, or leave them out."
        )
    matrix = as_transition_matrix(Q)
    counts = np.bincount(check_comp_labels(comp_labels, matrix), minlength=matrix.n_classes)
    values = np.asarray(matrix)
    frequencies = counts / counts.sum()
    shares = nnls(values.T, frequencies)[0]
    shares = shares / shares.sum()
    if not shrink:
        return shares
    weight = _shrinkage_weight(values, counts, Q_samples)
    return weight * shares + (1 - weight) / matrix.n_classes


def _shrinkage_weight(
    values: NDArray[np.float64], counts: NDArray[np.int64], Q_samples: ArrayLike | None
) -> float:
    """Compute the weight of the estimate against equal shares: 1 - error² / distance², or 0."""
    inverse = invert(values)
    if inverse is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible to estimate class shares with shrinkage; this one is singular. "
            "Use known shares, or none."
        )
    n = counts.sum()
    frequencies = counts / n
    unbiased = frequencies @ inverse
    # one pseudo-label each: unseen labels may occur, and the variance must not be zero
    expected = (counts + 1) / (n + len(counts))
    noise = (expected @ inverse**2 - (expected @ inverse) ** 2).sum() / n
    if Q_samples is not None:
        others = frequencies @ invert_samples(Q_samples, len(values))
        noise += np.median(((others - unbiased) ** 2).sum(axis=1))
    differences = ((unbiased - 1 / len(values)) ** 2).sum()
    return float(max(0.0, 1 - noise / differences)) if differences > 0 else 0.0
