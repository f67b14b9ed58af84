"""Accuracy, precision and recall with an error bar, from complementary labels alone."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from naysay._base.checks import check_label_indices, check_number
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix, NaysayWarning
from naysay.transition import TransitionMatrix
from naysay.transition.algebra import (
    Floats,
    as_matrix,
    check_comp_labels,
    check_samples,
    invert,
    joint_counts,
    score_interval,
    spread_slopes,
)

__all__ = [
    "Estimate",
    "accuracy_without_labels",
    "bounding_terms",
    "bounds_of_mean",
    "precision_without_labels",
    "recall_without_labels",
]


def bounding_terms(values: Floats, counts: NDArray[np.int64], z: float) -> tuple[Floats, Floats]:
    """Return the tables u of a lower and an upper bound, each of shape (label, prediction).

    Any table u with ``(Q u)[y, k] ≥ 1[y = k]`` bounds the accuracy from above: given the true
    class, u[ȳ, f(x)] is on average at least as large as "the prediction is right". (With an
    invertible Q, u = Q⁻¹ makes that an equality.) The best such u is the dual solution of a linear
    programme: the largest accuracy among the joint distributions of class and prediction that
    explain the labels. Every u that the programme may return gives a valid bound, so the labels
    are needed to choose a tight one only.

    They are best where mistakes fall on all other classes alike; how many there are is the one
    number taken from the counts, so that no table is fitted to chance.
    """
    n_classes, n = len(values), int(counts.sum())
    tolerance = n_classes * np.finfo(np.float64).eps
    lower = np.linalg.pinv(values, rtol=tolerance).astype(np.float64, copy=False)
    upper = lower.copy()
    misses = np.abs(values @ lower - np.eye(n_classes)).max(axis=0)
    # a class that a singular Q still tells from all others needs no programme
    is_known = (misses < 1e-9) & (np.abs(lower).max(axis=0) <= n_classes)
    labels = _likely_labels(values, counts)
    # what sampling error costs per unit of u: an upper bound of z · standard error
    penalty = z * np.sqrt((labels + 1 / n) / (n * n_classes))
    for predicted in np.flatnonzero(counts.any(axis=0) & ~is_known):
        target = np.zeros(n_classes)
        target[predicted] = 1
        costs = (labels[:, predicted], penalty[:, predicted])
        upper[:, predicted] = _cheapest_above(values, target, *costs)
        lower[:, predicted] = -_cheapest_above(values, -target, *costs)
    return lower, upper


def bounds_of_mean(shares: Floats, terms: Floats, n: int, z: float) -> tuple[float, float]:
    """Return an interval for the mean of terms that have these shares in a sample of n.

    The second part of its half-width, as in Bernstein's inequality, is for terms so rare that
    the sample may hold none.
    """
    mean = float((shares * terms).sum())
    variance = float((shares * (terms - mean) ** 2).sum())
    half = z * np.sqrt(variance / n) + z**2 * float(np.ptp(terms)) / (2 * n)
    return mean - half, mean + half


def _likely_labels(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return P(label | prediction), if a share of the predictions are right and the rest random.

    The share is the most likely one of a grid.
    """
    n_classes = len(values)
    rest = (values.sum(axis=0, keepdims=True) - values) / (n_classes - 1)
    candidates = [(a * values + (1 - a) * rest).T for a in np.linspace(0, 0.99, 34)]
    seen = counts > 0
    likelihoods = []
    for probabilities in candidates:
        with np.errstate(divide="ignore"):
            likelihoods.append((counts[seen] * np.log(probabilities[seen])).sum())
    return candidates[int(np.argmax(likelihoods))]


def _cheapest_above(values: Floats, target: Floats, shares: Floats, penalty: Floats) -> Floats:
    """Return u with Q u ≥ target that minimises Σ_j shares_j u_j + penalty_j |u_j|."""
    from scipy.optimize import linprog  # half a second to load, for singular matrices only

    # |u| is the sum of two non-negative parts; the inverse of a uniform Q is within their limit.
    solution = linprog(
        np.concatenate([shares + penalty, penalty - shares]),
        A_ub=np.concatenate([-values, values], axis=1),
        b_ub=-target,
        bounds=(0, len(values)),
        method="highs",
    )
    parts = solution.x.reshape(2, -1)
    return parts[0] - parts[1]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A probability estimated from complementary labels; ``print`` it to read it.

    ``value`` is not forced into 0..1: clipping would bias it. Where labels of this kind allow
    bounds only, ``value`` and ``standard_error`` are None and ``interval`` holds the bounds.
    """

    value: float | None
    """The estimate; None where only bounds exist."""
    standard_error: float | None
    """Its standard error; None where only bounds exist."""
    interval: tuple[float, float]
    """The interval, within 0..1, that contains the truth with the chosen confidence."""
    confidence: float
    """How often such intervals contain the truth."""
    n_labels: int
    """Number of complementary labels it comes from."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "interval": list(self.interval)}

    def __str__(self) -> str:
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        given = f"from {self.n_labels:,} complementary labels"
        if self.value is None or self.standard_error is None:
            return f"{low} to {high} % ({self.confidence * 100:g} % bounds), {given}"
        return (
            f"{100 * self.value:.1f} % ± {100 * self.standard_error:.1f} "
            f"({self.confidence * 100:g} % interval: {low} to {high} %), {given}"
        )


BEYOND_CHANCE = 4  # standard errors
_ROUNDING = 1e-9


class _Sample(NamedTuple):
    """What the estimates are made of."""

    values: Floats  # Q
    inverse: Floats | None  # of Q; None where it is singular
    slopes: Floats  # see `spread_slopes`; of an inverse only
    samples: Floats | None  # inverses of other plausible Q
    counts: NDArray[np.int64]  # (label, prediction)
    z: float
    confidence: float


def accuracy_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
) -> Estimate:
    r"""Estimate the accuracy of predictions of the true class, without one true label.

    .. math:: P(f(X) = Y) = E[ Q^{-1}_{Ȳ f(X)} ]

    The mean over the examples is unbiased. For a uniform Q it is ``1 - (K-1) P(f(x) = ȳ)``. The
    interval is about the accuracy on new examples of the same kind; near 100 % it is not
    symmetric (a score interval, Wilson's for a uniform Q).

    Where Q is singular, or so nearly that the interval would be wider than 0..1, labels of this
    kind allow bounds only: ``value`` is None and ``interval`` holds the bounds of a linear
    programme, sampling error included.

    Use examples that the model was not trained on. It has learned to avoid the labels it saw, so
    on those the estimate is too high.

    Parameters
    ----------
    predictions : array of shape (n,)
        Predicted true classes, as indices, or as names where Q has names.
    comp_labels : array of shape (n,)
        One complementary label per example, in the same form.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        May have a diagonal (annotators who err).
    confidence : float, default=0.95
        Of the interval.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Where Q itself was estimated: plausible matrices, such as draws of a bootstrap or of a
        Dirichlet posterior; 50 or more. They need not be centred on Q: how far the estimates
        from them are from the one from Q (68 % are nearer), squared, is added to the variance of
        the labels.

    Returns
    -------
    Estimate
        With ``value``, ``standard_error`` and ``interval``.

    Warns
    -----
    NaysayWarning
        If the estimate is outside 0..1 by more than chance explains: Q is not that of the labels.

    Raises
    ------
    InvalidLabels
        If labels and predictions do not fit together, or Q never gives one of the labels.

    Examples
    --------
    >>> labels = [1, 2, 0, 1, 0, 2, 1, 0, 2, 1]
    >>> found = accuracy_without_labels([0, 0, 1, 2, 2, 1, 1, 1, 0, 0], labels, np.full((3, 3), 0.5)
    ...                                 - 0.5 * np.eye(3))
    >>> found.value, round(found.standard_error, 3)
    (0.8, 0.2)
    """
    found, outside = accuracy_and_errors_outside(
        predictions, comp_labels, Q, confidence=confidence, Q_samples=Q_samples
    )
    if outside > BEYOND_CHANCE:
        warnings.warn(
            f"{describe_outside(found)} does not explain: Q does not describe these labels. "
            "Estimate it again.",
            NaysayWarning,
            stacklevel=2,
        )
    return found


def accuracy_and_errors_outside(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
) -> tuple[Estimate, float]:
    """Estimate the accuracy, and by how many standard errors it lies outside 0..100 %.

    Parameters are those of `accuracy_without_labels`, which warns if these are many.
    """
    sample = _read(predictions, comp_labels, Q, confidence, Q_samples)
    shares = sample.counts.sum(axis=0) / sample.counts.sum()
    found = _share_correct(sample, shares)
    return found, errors_outside(found, shares, sample.values)


def errors_outside(found: Estimate, shares: Floats, Q: Floats) -> float:
    """Return by how many standard errors an accuracy lies outside 0..100 %; 0 within.

    Those of a perfect model with these shares of predictions at least: the error of the sample is
    too small, even 0, where no label happens to contradict a prediction.
    """
    if found.value is None or found.standard_error is None:
        return 0.0
    beyond = abs(found.value - 0.5) - 0.5 - _ROUNDING
    if beyond <= 0:
        return 0.0
    variances = (Q * np.linalg.inv(Q).T ** 2).sum(axis=1) - 1
    if_perfect = np.sqrt(max(shares @ variances, 0.0) / found.n_labels)
    return beyond / max(found.standard_error, float(if_perfect), _ROUNDING)


def describe_outside(found: Estimate) -> str:
    """Return the start of a sentence about an accuracy that cannot be, up to "which chance"."""
    assert found.value is not None
    assert found.standard_error is not None
    return (
        f"The accuracy must be within 0 and 100 %; the estimate is {100 * found.value:.1f} % ± "
        f"{100 * found.standard_error:.1f}, which chance"
    )


def precision_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
) -> tuple[Estimate, ...]:
    """Estimate P(Y = k | f(X) = k) for every class k: how often a prediction of k is right.

    The mean of Q⁻¹[ȳ, k] over the examples predicted as k, unbiased given how many they are.
    Parameters and bounds for a singular Q are as in `accuracy_without_labels`. A class that is
    never predicted has value None and the interval 0..1.

    Returns
    -------
    tuple of Estimate
        One per class; each interval has the chosen confidence by itself.
    """
    sample = _read(predictions, comp_labels, Q, confidence, Q_samples)
    return tuple(_share_correct(sample, shares) for shares in np.eye(len(sample.values)))


def recall_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
) -> tuple[Estimate, ...]:
    r"""Estimate P(f(X) = k | Y = k) for every class k: how many examples of k are found.

    .. math:: E[ Q^{-1}_{Ȳ k} 1[f(X) = k] ] \;/\; E[ Q^{-1}_{Ȳ k} ]

    Both means are unbiased; their ratio is not, but its bias vanishes like 1/n. The standard
    error is that of the delta method, the interval is Fieller's, which also holds where the
    denominator, the share of class k, is small. Where that share cannot be told from zero (its
    score interval reaches 0), value is None and the interval 0..1. With few labels a value is
    therefore only given where the share came out high, by chance perhaps: among the values that
    are given, intervals then miss far more often than they say. Parameters are as in
    `accuracy_without_labels`; `Q_samples` widen the interval by way of both means.

    Returns
    -------
    tuple of Estimate
        One per class; each interval has the chosen confidence by itself.

    Raises
    ------
    InvalidTransitionMatrix
        If Q is singular: the share of a class is then unknown.
    """
    sample = _read(predictions, comp_labels, Q, confidence, Q_samples)
    if sample.inverse is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible to estimate recall; this one is singular. Use "
            "accuracy_without_labels or precision_without_labels, which then give bounds."
        )
    return tuple(_recall(sample, sample.inverse, k) for k in range(len(sample.values)))


def _read(
    predictions: ArrayLike, comp_labels: ArrayLike, Q: Any, confidence: float, Q_samples: Any
) -> _Sample:
    matrix = as_matrix(Q)
    check_number(confidence, "confidence", above=0, below=1)
    predicted = check_label_indices(predictions, matrix.classes, name="predictions")
    if predicted.ndim != 1:
        raise InvalidLabels(
            "predictions must hold one class per example, shape (n,). "
            f"Got shape {predicted.shape}. Of probabilities pass probs.argmax(axis=1)."
        )
    labels = check_comp_labels(comp_labels, matrix, len(predicted), of="prediction")
    values = np.asarray(matrix)
    inverse = invert(values)
    if Q_samples is not None and inverse is None:
        raise InvalidInput("Q_samples needs an invertible Q. This one is singular: leave it out.")
    return _Sample(
        values=values,
        inverse=inverse,
        slopes=np.zeros(len(values)) if inverse is None else spread_slopes(values, inverse),
        samples=None if Q_samples is None else check_samples(Q_samples, len(values)),
        counts=joint_counts(labels, predicted, len(values)),
        z=float(ndtri((1 + confidence) / 2)),
        confidence=float(confidence),
    )


def _share_correct(sample: _Sample, shares: Floats) -> Estimate:
    """Estimate how many predictions are right, those of class k counted `shares[k]` in all."""
    used = shares > 0
    counts = sample.counts[:, used]
    n = int(counts.sum())
    if not n:
        return _unknown(sample, 0)
    if sample.inverse is not None:
        terms = sample.inverse[:, used]
        mean, variance = _moments(counts, terms)
        doubt = 0.0
        if sample.samples is not None:
            sums = np.einsum("jk,sjk->s", counts, sample.samples[:, :, used])
            doubt = _doubt(sums / n, mean)
        slope = float(shares @ sample.slopes)
        low, high = score_interval(mean, variance, slope, n, sample.z, doubt)
        if high - low < 1 or doubt:  # bounds would take Q for certain
            error = np.sqrt(variance / max(n - 1, 1) + doubt)
            return Estimate(
                value=mean,
                standard_error=float(error),
                interval=_within_unit(low, high),
                confidence=sample.confidence,
                n_labels=n,
            )
    return _bounds(sample, used)


def _bounds(sample: _Sample, used: NDArray[np.bool_]) -> Estimate:
    """Return bounds for the share of correct predictions among those of the classes `used`."""
    counts = np.where(used, sample.counts, 0)
    n = int(counts.sum())
    lower, upper = bounding_terms(sample.values, counts, sample.z)
    shares = counts[:, used] / n
    low = bounds_of_mean(shares, lower[:, used], n, sample.z)[0]
    high = bounds_of_mean(shares, upper[:, used], n, sample.z)[1]
    return Estimate(
        value=None,
        standard_error=None,
        interval=_within_unit(low, high),
        confidence=sample.confidence,
        n_labels=n,
    )


def _recall(sample: _Sample, inverse: Floats, k: int) -> Estimate:
    counts = sample.counts
    n = int(counts.sum())
    of_label, found = counts.sum(axis=1) / n, counts[:, k] / n
    below, above = inverse[:, k] @ of_label, inverse[:, k] @ found  # P(Y=k), P(Y=k, f=k)
    # One more answer of each label, half of them found: what was not seen may occur all the same.
    more_of_label = (n * of_label + 1) / (n + len(counts))
    more_found = (n * found + 0.5) / (n + len(counts))
    mean_below, mean_above = inverse[:, k] @ more_of_label, inverse[:, k] @ more_found
    squares = inverse[:, k] ** 2
    var_below = squares @ more_of_label - mean_below**2
    var_above = squares @ more_found - mean_above**2
    covariance = squares @ more_found - mean_above * mean_below
    if sample.samples is not None:
        columns = sample.samples[:, :, k]
        belows, aboves = columns @ of_label, columns @ found
        doubt_below, doubt_above = _doubt(belows, below), _doubt(aboves, above)
        doubt_missed = _doubt(belows - aboves, below - above)
        limit = np.sqrt(doubt_below * doubt_above)  # the three need not fit together
        var_below += n * doubt_below
        var_above += n * doubt_above
        covariance += n * np.clip((doubt_below + doubt_above - doubt_missed) / 2, -limit, limit)
    t = sample.z**2 / n
    curvature = below**2 - t * var_below
    # `var_below` is 0 where no label happened to contradict class k, the score interval is not.
    low, _ = score_interval(below, var_below, sample.slopes[k], n, sample.z)
    if low <= 0 or curvature <= 0:
        return _unknown(sample, n)
    value = above / below
    # Fieller: all ratios r with (above - r · below)² ≤ z² · its variance / n
    middle = above * below - t * covariance
    constant = above**2 - t * var_above
    root = np.sqrt(max(middle**2 - curvature * constant, 0.0))
    variance = (var_above - 2 * value * covariance + value**2 * var_below) / below**2
    return Estimate(
        value=float(value),
        standard_error=float(np.sqrt(max(variance, 0.0) / max(n - 1, 1))),
        interval=_within_unit((middle - root) / curvature, (middle + root) / curvature),
        confidence=sample.confidence,
        n_labels=n,
    )


def _moments(counts: NDArray[np.int64], terms: Floats) -> tuple[float, float]:
    """Return mean and variance of the terms of all examples."""
    shares = counts / counts.sum()
    mean = float((shares * terms).sum())
    return mean, float((shares * (terms - mean) ** 2).sum())


def _doubt(estimates: Floats, value: Any) -> float:
    """Return the mean square distance of estimates over samples of Q from `value`, that from Q.

    From `value`, not from their own middle: samples may be centred on a better matrix than Q. By
    the distance that 68 % do not exceed: a sample of Q that is nearly singular gives an estimate
    far off, and one would be enough to make the plain mean useless.
    """
    return float(np.quantile(np.abs(estimates - value), 0.6827)) ** 2


def _within_unit(low: Any, high: Any) -> tuple[float, float]:
    return float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))


def _unknown(sample: _Sample, n: int) -> Estimate:
    return Estimate(
        value=None,
        standard_error=None,
        interval=(0.0, 1.0),
        confidence=sample.confidence,
        n_labels=n,
    )
