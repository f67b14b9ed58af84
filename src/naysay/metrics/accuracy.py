"""Accuracy, precision and recall with standard errors, from complementary labels alone."""

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from naysay._base.checks import check_label_indices, check_number
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix, NaysayWarning
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import (
    Floats,
    check_comp_labels,
    invert,
    invert_samples,
    joint_counts,
)

BEYOND_CHANCE = 4  # standard errors outside 0..100 % that chance does not explain
_ROUNDING = 1e-9
_OUTSIDE = "the whole interval is outside 0 to 100 %, so Q does not describe these labels"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A probability estimated from labels; ``print`` it for a summary.

    ``value`` is not clipped to 0..1, because that would bias it. If the labels identify bounds
    only, ``value`` and ``standard_error`` are None and ``interval`` holds the bounds. If
    ``unknown`` has a reason, there is no figure at all, and ``interval`` is 0..1.
    """

    value: float | None
    standard_error: float | None
    interval: tuple[float, float]
    """Confidence interval, clipped to 0..1."""
    confidence: float
    """Coverage of the interval."""
    n_labels: int
    """Number of complementary labels used."""
    n_true_labels: int = 0
    """Number of true labels used."""
    n_answers: int = 0
    """Number of answers to suggestions used."""
    unknown: str | None = None
    """Why there is no estimate; None if there is one."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {**asdict(self), "interval": list(self.interval)}

    def __str__(self) -> str:
        if self.unknown is not None:
            return f"unknown: {self.unknown}"
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        given = f"from {self.n_labels:,} complementary labels"
        if self.n_true_labels:
            given = f"from {self.n_true_labels:,} true labels"
        elif self.n_answers:
            given = f"from {self.n_answers:,} answers to suggestions"
        if self.value is None or self.standard_error is None:
            return f"{low} to {high} % ({self.confidence * 100:g} % bounds), {given}"
        return (
            f"{100 * np.clip(self.value, 0, 1):.1f} % ± {100 * self.standard_error:.1f} "
            f"({self.confidence * 100:g} % interval: {low} to {high} %), {given}"
        )


def accuracy_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
    examples: ArrayLike | None = None,
) -> Estimate:
    r"""Estimate the accuracy of predicted classes without any true label.

    .. math:: P(f(X) = Y) = E[ Q^{-1}_{Ȳ f(X)} ]

    The mean over the examples is unbiased. For a uniform Q it is ``1 - (K-1) P(f(x) = ȳ)``. The
    interval is for the accuracy on new examples from the same distribution. It is a score interval
    (Wilson's for a uniform Q), so it is not symmetric near 100 %.

    If Q is singular, or so close to singular that the interval would be wider than 0..1, the labels
    identify bounds only: ``value`` is None and ``interval`` holds the bounds from a linear
    programme, with sampling error included.

    Use examples that the model was not trained on. A model learns to avoid the labels of its
    training examples, so the estimate is too high there.

    Parameters
    ----------
    predictions : array of shape (n,)
        Predicted true classes, as indices, or as names where Q has names.
    comp_labels : array of shape (n,)
        One complementary label per example, in the same form.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        May have a non-zero diagonal, for annotators who make mistakes.
    confidence : float, default=0.95
        Coverage of the interval.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        At least 50 samples of Q if it was estimated, for instance from a bootstrap or from
        `estimation.uncertainty`. They need not be centred on Q: the squared distance of their
        estimates from the estimate with Q (the distance that 68 % do not exceed) is added to the
        variance.
    examples : array of shape (n,), optional
        The number or name of the example that each label is about, if there are several labels per
        example. They are averaged within each example, because they are not independent.

    Warns
    -----
    NaysayWarning
        If the estimate is outside 0..1 by more than chance explains: Q does not describe the
        labels.

    Examples
    --------
    >>> labels = [1, 2, 0, 1, 0, 2, 1, 0, 2, 1]
    >>> found = accuracy_without_labels([0, 0, 1, 2, 2, 1, 1, 1, 0, 0], labels, np.full((3, 3), 0.5)
    ...                                 - 0.5 * np.eye(3))
    >>> round(found.value, 3), round(found.standard_error, 3)
    (0.8, 0.2)
    """
    sample = Sample(predictions, comp_labels, Q, confidence, Q_samples, examples)
    found, outside = sample.accuracy()
    if outside > BEYOND_CHANCE:
        warnings.warn(
            f"{describe_outside(found)} does not explain: Q does not describe these labels. "
            "Estimate it again.",
            NaysayWarning,
            stacklevel=2,
        )
    return found


def precision_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
    examples: ArrayLike | None = None,
) -> tuple[Estimate, ...]:
    """Estimate the precision P(Y = k | f(X) = k) of every class k without true labels.

    The estimate is the mean of Q⁻¹[ȳ, k] over the examples predicted as k, which is unbiased given
    their number. Parameters and bounds for a singular Q are as in `accuracy_without_labels`. A
    class that is never predicted has the value None and the interval 0..1. Each interval has the
    given confidence by itself.
    """
    return Sample(predictions, comp_labels, Q, confidence, Q_samples, examples).precision()


def recall_without_labels(
    predictions: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    confidence: float = 0.95,
    Q_samples: ArrayLike | None = None,
) -> tuple[Estimate, ...]:
    r"""Estimate the recall P(f(X) = k | Y = k) of every class k without true labels.

    .. math:: E[ Q^{-1}_{Ȳ k} 1[f(X) = k] ] \;/\; E[ Q^{-1}_{Ȳ k} ]

    Both means are unbiased; the bias of their ratio is of order 1/n. The standard error is from the
    delta method and the interval is Fieller's, which is valid for a small denominator too. If the
    denominator, the share of class k, is not significantly above zero (its score interval contains
    0), the value is None and the interval is 0..1. With few labels a value is therefore given only
    if the share was estimated high, perhaps by chance, and among such values the coverage of the
    intervals is far below `confidence`. Parameters are as in `accuracy_without_labels`; `Q_samples`
    add to the variance of both means. Q must be invertible, because the share of a class is not
    identified otherwise. Each interval has the given confidence by itself.
    """
    sample = Sample(predictions, comp_labels, Q, confidence, Q_samples)
    if sample.inverse is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible to estimate recall; this one is singular. Use "
            "accuracy_without_labels or precision_without_labels, which then give bounds."
        )
    return tuple(sample.recall(sample.inverse[:, k], k) for k in range(len(sample.Q)))


def describe_outside(found: Estimate) -> str:
    """Write the start of a sentence about an accuracy outside 0..100 %, up to "which chance"."""
    assert found.value is not None
    assert found.standard_error is not None
    return (
        f"The accuracy must be within 0 and 100 %; the estimate is {100 * found.value:.1f} % ± "
        f"{100 * found.standard_error:.1f}, which chance"
    )


def within_bounds(low: Any, high: Any) -> tuple[float, float]:
    """Clip an interval to 0..1. Rounding, which would exclude an accuracy of 1, is undone."""
    lower, upper = (float(np.clip(end, 0, 1)) for end in (low, high))
    return 0.0 if lower < _ROUNDING else lower, 1.0 if upper > 1 - _ROUNDING else upper


def wilson(mean: float, c: float) -> tuple[float, float]:
    """Compute the middle of Wilson's interval of a share, and half its width; c is z² / n."""
    half = np.sqrt(c * mean * (1 - mean) + c**2 / 4) / (1 + c)
    return (mean + c / 2) / (1 + c), float(half)


class Sample:
    """Joint counts of labels and predictions, and the estimates that follow from them."""

    def __init__(
        self,
        predictions: ArrayLike,
        comp_labels: ArrayLike,
        Q: TransitionMatrix | ArrayLike,
        confidence: float = 0.95,
        Q_samples: ArrayLike | None = None,
        examples: ArrayLike | None = None,
    ) -> None:
        matrix = as_transition_matrix(Q)
        self.confidence = check_number(confidence, "confidence", above=0, below=1)
        self.z = float(ndtri((1 + confidence) / 2))
        predicted = check_label_indices(predictions, matrix.classes, name="predictions")
        if predicted.ndim != 1:
            raise InvalidLabels(
                "predictions must contain one class per example, shape (n,). "
                f"Got shape {predicted.shape}. For probabilities pass probs.argmax(axis=1)."
            )
        labels = check_comp_labels(comp_labels, matrix, len(predicted), of="prediction")
        self.Q = np.asarray(matrix)
        self.inverse = invert(self.Q)  # None if Q is singular
        if Q_samples is not None and self.inverse is None:
            raise InvalidInput(
                "Q_samples needs an invertible Q. This one is singular: leave it out."
            )
        n_classes = matrix.n_classes
        self.slopes = (
            np.zeros(n_classes) if self.inverse is None else _spread_slopes(self.Q, self.inverse)
        )
        self.inverses = None if Q_samples is None else invert_samples(Q_samples, n_classes)
        self.labels, self.predicted, self.example = labels, predicted, None
        self.counts = joint_counts(labels, predicted, n_classes)  # (label, prediction)
        self.n_predicted = self.counts.sum(axis=0)
        if examples is not None:
            names, self.example = np.unique(np.asarray(examples), return_inverse=True)
            if self.example.shape != labels.shape:
                raise InvalidLabels(
                    f"examples must have one entry per label, {len(labels)}. Got shape "
                    f"{self.example.shape}."
                )
            if len(names) == len(labels):
                self.example = None
            else:  # every example counts as one label
                weights = 1 / np.bincount(self.example)[self.example]
                flat = np.bincount(labels * n_classes + predicted, weights, n_classes**2)
                self.counts = flat.reshape(n_classes, n_classes)

    def accuracy(self) -> tuple[Estimate, float]:
        """Estimate the accuracy, and by how many standard errors it lies outside 0..100 %.

        The standard error is at least that of a perfect model with these shares of predictions,
        because that of the sample is 0 if no label contradicts a prediction.
        """
        shares = self.counts.sum(axis=0) / self.counts.sum()
        found = self.share_correct(shares)
        if found.value is None or found.standard_error is None or self.inverse is None:
            return found, 0.0
        beyond = max(abs(found.value - 0.5) - 0.5 - _ROUNDING, 0.0)
        variances = (self.Q * self.inverse.T**2).sum(axis=1) - 1
        if_perfect = np.sqrt(max(shares @ variances, 0.0) / found.n_labels)
        return found, beyond / max(found.standard_error, float(if_perfect), _ROUNDING)

    def precision(self) -> tuple[Estimate, ...]:
        """Estimate the precision of every class."""
        return tuple(self.share_correct(shares) for shares in np.eye(len(self.Q)))

    def expected_widths(self, precision: tuple[Estimate, ...]) -> Floats:
        """Compute how wide the intervals of these precisions are on average over samples of labels.

        With few labels and many classes, the variance of a sample can be far too small, because
        labels that contribute much did not occur. Wrong predictions are taken to be of any other
        class equally often. The widths are 0 for a singular Q, which gives bounds.
        """
        if self.inverse is None:
            return np.zeros(len(self.Q))
        share = np.array([np.clip(each.value or 0, 0, 1) for each in precision])
        of_same = np.einsum("kj,jk->k", self.Q, self.inverse**2)
        variance = of_same - (1 - share) * self.slopes - share**2
        n = np.maximum(self.counts.sum(axis=0), 1)
        return 2 * self.z * np.sqrt(np.maximum(variance, 0) / n)

    def share_correct(self, shares: Floats) -> Estimate:
        """Estimate the share of correct predictions, of which `shares[k]` are of class k."""
        used = shares > 0
        counts = self.counts[:, used]
        n = counts.sum()
        if not n:
            return self._estimate(0, 0, 1)
        if self.inverse is None:
            return self._bounds(used)
        mean, variance = _moments(counts / n, self.inverse[:, used])
        n = self._effective_number(used, n, mean, variance)
        error_of_Q = 0.0  # variance due to the uncertainty of Q
        if self.inverses is not None:
            error_of_Q = _squared_error(
                np.einsum("jk,sjk->s", counts, self.inverses[:, :, used]) / counts.sum(), mean
            )
        slope = float(shares @ self.slopes)
        low, high = _score_interval(mean, variance, slope, n, self.z, error_of_Q)
        if high - low >= 1 and not error_of_Q:  # the bounds assume that Q is exact
            return self._bounds(used)
        error = np.sqrt(variance / max(n - 1, 1) + error_of_Q)
        return self._estimate(self.n_predicted[used].sum(), low, high, mean, error)

    def _effective_number(
        self, used: NDArray[np.bool_], n: float, mean: float, variance: float
    ) -> float:
        """Compute how many independent labels have as small an error as these.

        The labels of an example are averaged, so it is the number of examples, times the ratio of
        the variance of a single label and of the mean of the labels of an example.
        """
        if self.example is None or self.inverse is None:
            return n
        chosen = used[self.predicted]
        terms = self.inverse[self.labels[chosen], self.predicted[chosen]] - mean
        codes = np.unique(self.example[chosen], return_inverse=True)[1]
        sums, counts = np.bincount(codes, terms), np.bincount(codes)
        of_means = float(((sums / counts) ** 2).sum()) / len(counts)
        return n * variance / of_means if of_means > 0 else n

    def recall(self, terms: Floats, k: int) -> Estimate:
        """Estimate P(f = k | Y = k), a ratio of means of `terms`, column k of Q⁻¹."""
        n_classes, n = len(self.Q), int(self.counts.sum())
        of_label, found = self.counts.sum(axis=1) / n, self.counts[:, k] / n
        below, above = terms @ of_label, terms @ found  # P(Y=k), P(Y=k, f=k)
        # Variances with one pseudo-label of each kind, half of them predicted as k, because labels
        # that are not in the sample may occur.
        more_of_label = (n * of_label + 1) / (n + n_classes)
        more_found = (n * found + 0.5) / (n + n_classes)
        mean_below, mean_above = terms @ more_of_label, terms @ more_found
        squares = terms**2
        var_below = squares @ more_of_label - mean_below**2
        var_above = squares @ more_found - mean_above**2
        covariance = squares @ more_found - mean_above * mean_below
        if self.inverses is not None:
            columns = self.inverses[:, :, k]
            belows, aboves = columns @ of_label, columns @ found
            error_below = _squared_error(belows, below)
            error_above = _squared_error(aboves, above)
            error_missed = _squared_error(belows - aboves, below - above)
            limit = np.sqrt(error_below * error_above)  # quantiles need not be consistent
            var_below += n * error_below
            var_above += n * error_above
            covariance += n * np.clip((error_below + error_above - error_missed) / 2, -limit, limit)
        t = self.z**2 / n
        curvature = below**2 - t * var_below
        # `var_below` can be 0 by chance; the score interval then still has a positive width.
        low, _ = _score_interval(below, var_below, self.slopes[k], n, self.z)
        if low <= 0 or curvature <= 0:
            return self._estimate(n, 0, 1)
        value = above / below
        # Fieller's interval: all ratios r with (above - r · below)² ≤ z² · its variance / n
        middle = above * below - t * covariance
        constant = above**2 - t * var_above
        root = np.sqrt(max(middle**2 - curvature * constant, 0.0))
        variance = (var_above - 2 * value * covariance + value**2 * var_below) / below**2
        error = np.sqrt(max(variance, 0.0) / max(n - 1, 1))
        return self._estimate(
            n, (middle - root) / curvature, (middle + root) / curvature, value, error
        )

    def _bounds(self, used: NDArray[np.bool_]) -> Estimate:
        """Compute bounds for the share of correct predictions among the classes `used`."""
        counts = np.where(used, self.counts, 0)
        n = max(round(counts.sum()), 1)
        lower, upper = _bounding_terms(self.Q, counts, self.z)
        shares = counts[:, used] / n
        low, _ = _bounds_of_mean(shares, lower[:, used], n, self.z)
        _, high = _bounds_of_mean(shares, upper[:, used], n, self.z)
        return self._estimate(self.n_predicted[used].sum(), low, high)

    def _estimate(
        self, n: int, low: float, high: float, value: Any = None, standard_error: Any = None
    ) -> Estimate:
        is_outside = value is not None and (low >= 1 or high <= 0)
        if is_outside:
            low, high = 0, 1
        return Estimate(
            value=None if value is None else float(value),
            standard_error=None if standard_error is None else float(standard_error),
            interval=within_bounds(low, high),
            confidence=self.confidence,
            n_labels=int(n),
            unknown=_OUTSIDE if is_outside else None,
        )


def _moments(shares: Floats, terms: Floats) -> tuple[float, float]:
    """Compute mean and variance of terms that have these shares in a sample."""
    mean = float((shares * terms).sum())
    return mean, float((shares * (terms - mean) ** 2).sum())


def _squared_error(estimates: Floats, value: Any) -> float:
    """Compute the squared distance of estimates with samples of Q from `value`, that with Q.

    The distance is from `value`, not from the mean of the estimates, because the samples may be
    centred on a better matrix than Q. It is the distance that 68 % do not exceed, because a single
    nearly singular sample would dominate the mean.
    """
    return float(np.quantile(np.abs(estimates - value), 0.6827)) ** 2


def _spread_slopes(values: Floats, terms: Floats) -> Floats:
    """Compute the slope of E[terms²] in the share of each class, shape (n_classes,).

    ``terms[j, k]`` is the contribution of label j to class k. Its mean square is
    ``(Q @ terms²)[k, k]`` for examples of class k, and ``(Q @ terms²)[i, k]``, averaged over i, for
    examples of other classes.
    """
    mean_squares = values @ terms**2
    same_class = mean_squares.diagonal()
    return same_class - (mean_squares.sum(axis=0) - same_class) / (len(values) - 1)


def _score_interval(
    mean: Any, variance: Any, slope: Any, n: Any, z: float, error_of_Q: Any = 0.0
) -> tuple[Any, Any]:
    """Compute the score interval: all a with (mean - a)² ≤ z² (V(a) / n + error_of_Q).

    ``V(a) = variance + slope (a - mean) - (a² - mean²)`` is the variance if a is the true value.
    For a uniform Q this is Wilson's interval for the frequency with which the prediction is the
    excluded class. Unlike mean ± z · standard error it does not shrink to a point if no label in
    the sample contradicts the predictions.
    """
    c = z**2 / n
    middle = mean + c * slope / 2
    constant = mean**2 * (1 - c) - c * (variance - slope * mean) - z**2 * error_of_Q
    root = np.sqrt(np.maximum(middle**2 - (1 + c) * constant, 0))
    return (middle - root) / (1 + c), (middle + root) / (1 + c)


def _bounding_terms(values: Floats, counts: NDArray[np.int64], z: float) -> tuple[Floats, Floats]:
    """Compute the tables u of a lower and an upper bound, each of shape (label, prediction).

    Any table u with ``(Q u)[y, k] ≥ 1[y = k]`` bounds the accuracy from above: given the true
    class, u[ȳ, f(x)] is on average at least as large as "the prediction is right". (With an
    invertible Q, u = Q⁻¹ makes that an equality.) The best u is the dual solution of a linear
    programme: the largest accuracy among the joint distributions of class and prediction that are
    compatible with the labels. Every feasible u gives a valid bound; the labels only help to choose
    a tight one.

    The choice assumes that mistakes fall on all other classes equally. The share of mistakes is
    the only number taken from the counts, so that the tables are not overfitted.
    """
    n_classes, n = len(values), int(counts.sum())
    tolerance = n_classes * np.finfo(np.float64).eps
    lower = np.linalg.pinv(values, rtol=tolerance).astype(np.float64, copy=False)
    upper = lower.copy()
    misses = np.abs(values @ lower - np.eye(n_classes)).max(axis=0)
    # a class that even a singular Q identifies needs no linear programme
    is_known = (misses < 1e-9) & (np.abs(lower).max(axis=0) <= n_classes)
    labels = _likely_labels(values, counts)
    # cost of sampling error per unit of u: an upper bound of z · standard error
    penalty = z * np.sqrt((labels + 1 / n) / (n * n_classes))
    for predicted in np.flatnonzero(counts.any(axis=0) & ~is_known):
        target = np.zeros(n_classes)
        target[predicted] = 1
        costs = (labels[:, predicted], penalty[:, predicted])
        upper[:, predicted] = _cheapest_above(values, target, *costs)
        lower[:, predicted] = -_cheapest_above(values, -target, *costs)
    return lower, upper


def _bounds_of_mean(shares: Floats, terms: Floats, n: int, z: float) -> tuple[float, float]:
    """Compute an interval for the mean of terms that have these shares in a sample of n."""
    mean, variance = _moments(shares, terms)
    # the second term, as in Bernstein's inequality, allows for terms too rare to be in the sample
    half = z * np.sqrt(variance / n) + z**2 * float(np.ptp(terms)) / (2 * n)
    return mean - half, mean + half


def _likely_labels(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """Compute P(label | prediction) for the likeliest share of correct predictions, on a grid."""
    rest = (values.sum(axis=0, keepdims=True) - values) / (len(values) - 1)  # random mistakes
    candidates = [(a * values + (1 - a) * rest).T for a in np.linspace(0, 0.99, 34)]
    seen = counts > 0
    with np.errstate(divide="ignore"):
        likelihoods = [(counts[seen] * np.log(probs[seen])).sum() for probs in candidates]
    return candidates[int(np.argmax(likelihoods))]


def _cheapest_above(values: Floats, target: Floats, shares: Floats, penalty: Floats) -> Floats:
    """Find u with Q u ≥ target that minimises Σ_j shares_j u_j + penalty_j |u_j|."""
    from scipy.optimize import linprog  # takes half a second, needed for singular matrices only

    # |u| is the sum of two non-negative parts, bounded so that Q⁻¹ of a uniform Q is feasible
    solution = linprog(
        np.concatenate([shares + penalty, penalty - shares]),
        A_ub=np.concatenate([-values, values], axis=1),
        b_ub=-target,
        bounds=(0, len(values)),
        method="highs",
    )
    parts = solution.x.reshape(2, -1)
    return parts[0] - parts[1]
