"""Estimate the class prior without true labels."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels, check_samples, invert

# Largest standard deviation of a share under the prior, relative to an equal share. Samples of an
# estimated Q vary less than it errs, because networks share errors, and a Q with nearly equal rows
# turns its errors into extreme shares. Both figures were chosen with networks trained on digits.
_MAX_DEVIATION = 2.0
_MAX_DEVIATION_ESTIMATED = 0.5
_NOISE_ESTIMATED = 4.0  # factor of the variance of the label frequencies


def class_prior(
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    shrink: bool = False,
    Q_samples: ArrayLike | None = None,
) -> Floats:
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
        Shrink the shares towards equal ones, as far as chance explains their differences. The
        result is the mode of a posterior distribution whose prior has equal shares as its mean;
        the labels determine the variance of the prior (empirical Bayes). With too few labels the
        variance is zero, and the shares are equal. Q must be invertible, because the labels do not
        determine the shares otherwise.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Samples of Q if it was estimated, for instance from `uncertainty`. The variation of the
        label frequencies over the samples counts as chance too, and the shares stay nearer to
        equal ones, because samples of an estimated matrix vary less than it errs. Requires
        ``shrink=True``.

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
    if shrink:
        return _shrunk(values, counts, Q_samples)
    shares = nnls(values.T, counts / counts.sum())[0]
    return shares / shares.sum()


def _shrunk(values: Floats, counts: NDArray[np.int64], Q_samples: ArrayLike | None) -> Floats:
    """Compute the posterior mode of the shares; the variance of the prior is estimated first.

    Both normal distributions, that of the label frequencies and the prior, take their variances
    from shares halfway between equal ones and the estimate: large classes may be far from the mean.
    """
    if invert(values) is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible to estimate class shares with shrinkage; this one is singular. "
            "Use known shares, or none."
        )
    n_classes, n = len(values), counts.sum()
    samples = None if Q_samples is None else check_samples(Q_samples, n_classes)
    at_most = _MAX_DEVIATION if samples is None else _MAX_DEVIATION_ESTIMATED
    equal = shares = np.full(n_classes, 1 / n_classes)
    for _ in range(4):  # more steps change little
        halfway = (shares + equal) / 2
        expected = halfway @ values
        noise = np.diag(np.where(expected > 0, expected, 1) / n)
        if samples is not None:
            differences = halfway @ samples - expected
            noise = _NOISE_ESTIMATED * noise + differences.T @ differences / len(samples)
        root = np.linalg.cholesky(noise)
        # with noise of variance 1: labels = design @ shares
        inverse = np.linalg.inv(root).astype(np.float64, copy=False)
        design, labels = inverse @ values.T, inverse @ counts / n
        deviations = np.sqrt(n_classes * halfway)  # of the prior, relative to its variance
        variance = _prior_variance(design, labels - design @ equal, deviations, at_most)
        if variance == 0:
            return equal
        weights = 1 / (np.sqrt(variance) * deviations)
        both = np.vstack([design, np.diag(weights)])
        shares = nnls(both, np.concatenate([labels, weights * equal]))[0]
        shares /= shares.sum()
    return shares


def _prior_variance(design: Floats, residuals: Floats, deviations: Floats, at_most: float) -> float:
    """Find the variance v of the prior that makes the labels most likely.

    The covariance of the residuals is I + v A Aᵀ.
    """
    n_classes = len(residuals)
    centred = design - design.mean(axis=1, keepdims=True)  # the shares sum to 1
    directions, singular_values, _ = np.linalg.svd(centred * deviations)
    squares = (directions.T @ residuals) ** 2
    variances = np.append(0, np.geomspace(1e-8, 1, 200)) * (at_most / n_classes) ** 2
    ratios = 1 + variances[:, None] * singular_values**2
    return float(variances[(np.log(ratios) + squares / ratios).sum(axis=1).argmin()])
