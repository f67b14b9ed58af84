"""Test whether complementary labels can come from a transition matrix."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, xlogy

from naysay._base.checks import check_count, check_label_indices, check_seed
from naysay._base.errors import InvalidLabels
from naysay._base.mapped import find_rows, take
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels, check_samples, joint_counts

LEVEL = 0.02  # of each of the two tests, so that together they reject a right matrix in under 4 %
_N_SIMULATED = 199
MAX_CLASSES = 200  # with more, simulation takes minutes
_MAX_GROUPS = 16  # of predicted classes, for the same reason
_CLEAR = 0.005  # level at which a matrix is clearly refuted: the least that 199 sets show
_PER_CELL = 5  # labels, with which the chi-square distribution is a bound
_BEYOND_DOUBT = 1e-6  # bound below which nothing is simulated
_MANY_CLASSES, _FEWEST_SIMULATED = 100, 59  # with more classes, a set takes a fifth of a second
_TOGETHER = 2**19  # entries of matrices of the sets that are simulated together
_ENOUGH = 10  # simulated sets that are as far from Q as the labels: more decide nothing
_MOST_STEPS, _GAP = 60, 0.01  # of the interior-point method, and of the log-likelihood at its end


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Test whether complementary labels can come from a matrix; ``print`` it for a sentence."""

    n_labels: int
    p_frequencies: float | None
    """p-value of the label frequencies; None if it was not computed."""
    p_predictions: float | None
    """p-value of the counts of labels and predicted classes; None if it was not computed."""

    @property
    def refuted(self) -> bool:
        """Whether one of the tests rejects the matrix at the 2 % level."""
        return any(p is not None and p < LEVEL for p in (self.p_frequencies, self.p_predictions))

    @property
    def clearly_refuted(self) -> bool:
        """Whether one of the tests rejects the matrix at the 0.5 % level."""
        return any(p is not None and p <= _CLEAR for p in (self.p_frequencies, self.p_predictions))

    @property
    def reason(self) -> str | None:
        """Sentence about the test that refutes the matrix; None if no test does."""
        in_groups = " among the examples of each predicted class"
        for p, of_what in ((self.p_frequencies, ""), (self.p_predictions, in_groups)):
            if p is not None and p < LEVEL:
                return (
                    "the labels refute the transition matrix: no class shares explain how often "
                    f"each label occurs{of_what} ({format_p_value(p)})"
                )
        return None

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {**vars(self), "refuted": self.refuted}

    def __str__(self) -> str:
        tested = {"frequencies": self.p_frequencies, "labels by prediction": self.p_predictions}
        figures = ", ".join(
            f"{name} {format_p_value(p)}" for name, p in tested.items() if p is not None
        )
        return f"{self.reason or 'the labels may come from this matrix'}; {figures or 'not tested'}"


def format_p_value(value: float) -> str:
    """Write a p-value; one that is too small for a number as a bound."""
    return "p < 1e-300" if value < 1e-300 else f"p = {value:.2g}"


def check_matrix(
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    predictions: ArrayLike | None = None,
    Q_samples: ArrayLike | None = None,
    n_simulated: int = _N_SIMULATED,
    seed: int | np.random.Generator = 0,
) -> Agreement:
    r"""Test whether complementary labels can come from a transition matrix.

    Whatever the examples are, the distribution of their labels is a mixture of the rows of Q. The
    first test compares the frequencies of all labels with the nearest such mixture, the second
    those of the examples of each predicted class, whose sum is more powerful. The statistic is
    twice the log-likelihood ratio of the observed frequencies and the mixture,

    .. math:: G = 2 \sum_{f, j} n_{fj} \log \frac{n_{fj}}{n_f (π_f^\top Q)_j}, \qquad
              π_f \text{ most likely}

    and its p-value is from simulated sets of labels, of which there are fewer where many are as far
    from Q. A p-value that simulation cannot show, below 1/200, is the chi-square bound with the
    most degrees of freedom possible, if there are at least 5 labels for each cell.

    The tests cannot find every wrong matrix. The frequencies alone refute a matrix only if they
    are outside all mixtures, and a matrix whose mixtures contain those of the right one, as the
    uniform matrix often does, is refuted only by predictions that are mostly correct.

    Parameters
    ----------
    comp_labels : array of shape (n,)
        As indices, or as names if Q has names; one label per example, because several labels of an
        example are not independent.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
    predictions : array of shape (n,), optional
        Predicted classes of the same examples, from a model that was not trained on their labels.
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Samples of Q if it was estimated. Labels are then simulated from the samples, so that an
        estimate is refuted only by more than its own uncertainty.
    n_simulated : int, default=199
        Largest number of simulated sets of labels. With 0, all p-values are the bound, which is
        faster and refutes less, or None.
    seed : int or numpy.random.Generator, default=0

    Examples
    --------
    >>> Q = TransitionMatrix.with_zeros(5, 1, seed=0)
    >>> true = np.random.default_rng(0).integers(5, size=300)
    >>> labels = Q.sample(true, seed=1)
    >>> check_matrix(labels, Q, predictions=true).refuted
    False
    >>> check_matrix(labels, TransitionMatrix.uniform(5), predictions=true).refuted
    True
    """
    matrix = as_transition_matrix(Q)
    labels = check_comp_labels(comp_labels, matrix, allow_impossible=True)
    n_classes, values = matrix.n_classes, np.asarray(matrix)
    rng, n_simulated = check_seed(seed), check_count(n_simulated, "n_simulated", least=0)
    samples = None if Q_samples is None else check_samples(Q_samples, n_classes)
    all_labels = np.bincount(labels, minlength=n_classes)[None]
    p_predictions = None
    if predictions is not None:
        predicted = check_label_indices(predictions, matrix.classes, name="predictions")
        if predicted.shape != labels.shape:
            raise InvalidLabels(
                f"predictions must have one class per label, shape {labels.shape}. Got shape "
                f"{predicted.shape}."
            )
        group = rng.permutation(n_classes) % min(n_classes, _MAX_GROUPS)
        by_class = joint_counts(labels, predicted, n_classes)
        counts = np.zeros((group.max() + 1, n_classes), dtype=np.int64)
        np.add.at(counts, group, by_class.T)
        counts = counts[counts.any(axis=1)]
        p_predictions = p_value_of_mixtures(counts, values, rng, samples, n_simulated)
    return Agreement(
        n_labels=len(labels),
        p_frequencies=p_value_of_mixtures(all_labels, values, rng, samples, n_simulated),
        p_predictions=p_predictions,
    )


def check_by_all_labels(
    labels: NDArray[np.int64],
    Q: TransitionMatrix,
    predicted: NDArray[np.int64],
    **options: Any,
) -> Agreement:
    """Test a matrix that was not estimated by labels of distinct examples.

    `predicted` has the class of the example of each label by a model that has not seen the label,
    or -1. The frequencies of labels do not need it.
    """
    found = check_matrix(labels, Q, **options)
    seen = find_rows(predicted, len(predicted), lambda part: predicted[part] >= 0)
    if not len(seen):
        return found
    predicted = take(predicted, seen)
    by_prediction = check_matrix(take(labels, seen), Q, predictions=predicted, **options)
    return replace(found, p_predictions=by_prediction.p_predictions)


def p_value_of_mixtures(
    counts: NDArray[np.int64],
    Q: Floats,
    rng: np.random.Generator,
    Q_samples: Floats | None = None,
    n_simulated: int = _N_SIMULATED,
) -> float | None:
    """Compute the p-value of label counts, one row per group, if groups are mixtures of rows of Q.

    It is None if there are too many classes to simulate, or it is not wanted, and the chi-square
    bound does not decide: it is none if there are few labels for each cell.
    """
    possible = Q.any(axis=0)
    if counts[:, ~possible].any():
        return 0.0
    observed = counts.astype(np.float64)
    shares = _likeliest_shares(observed, Q)
    statistic = max(float(_deviance(observed, shares @ Q).sum()), 0.0)  # rounding may lower it
    bound = float(chdtrc(max(len(counts) * (int(possible.sum()) - 1), 1), statistic))
    is_dense = Q_samples is not None or observed.sum() >= _PER_CELL * len(counts) * possible.sum()
    is_bound = is_dense and Q_samples is None
    if is_bound and (not n_simulated or bound < _BEYOND_DOUBT):
        return bound
    if not n_simulated or len(Q) > MAX_CLASSES:
        return None
    if len(Q) > _MANY_CLASSES:
        n_simulated = min(n_simulated, _FEWEST_SIMULATED)
    # The most likely shares follow a few labels too closely, so that labels simulated from them are
    # nearer to Q than they should be. Those of a single class in each group are not.
    nulls = [shares] if is_dense else [shares, np.eye(len(Q))[shares.argmax(axis=-1)]]
    least = statistic - 2 * _GAP * len(counts)  # exact fits, all near zero, count as equally far
    p_values, n_as_far = list[float](), 0
    for null in nulls:
        n_as_far = n_drawn = 0
        while n_drawn < n_simulated and n_as_far < _ENOUGH:
            n = min(max(1, _TOGETHER // (len(counts) * len(Q) ** 2)), n_simulated - n_drawn)
            expected = np.broadcast_to(null @ Q, (n, *counts.shape))
            if Q_samples is not None:
                drawn = Q_samples[rng.integers(len(Q_samples), size=n)]
                same = np.broadcast_to(observed, expected.shape)
                expected = _likeliest_shares(same, drawn, null) @ drawn
            simulated = rng.multinomial(counts.sum(axis=1), _normalise(expected)).astype(float)
            nearest = _likeliest_shares(simulated, Q, null) @ Q
            n_as_far += int((_deviance(simulated, nearest).sum(axis=-1) >= least).sum())
            n_drawn += n
        p_values.append((1 + n_as_far) / (1 + n_drawn))
        if n_as_far >= _ENOUGH:
            break
    return min(bound, *p_values) if is_bound and not n_as_far else max(p_values)


def _likeliest_shares(counts: Floats, Q: Floats, start: Floats | None = None) -> Floats:
    """Find the most likely shares of the rows of Q for each group of counts, shape (…, labels).

    EM would take thousands of steps where there are many labels. An interior-point method maximises
    the log-likelihood plus μ times the sum of the logarithms of the shares, for ever smaller μ, by
    Newton's method for the relative changes of the shares.
    """
    totals = np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    n_classes: int = Q.shape[-2]
    of_group = Q[..., None, :, :] if Q.ndim > 2 else Q
    shares: Floats = np.full((*counts.shape[:-1], n_classes), 1 / n_classes)
    least = _GAP / n_classes
    mu: Floats = totals / n_classes
    if start is not None:
        shares, mu = shares / 10 + 0.9 * start, np.ones_like(totals)
    diagonal: NDArray[np.int64] = np.arange(n_classes)
    for _ in range(_MOST_STEPS):
        expected: Floats = np.maximum(shares @ Q, 1e-300)
        gradient: Floats = counts / expected @ np.swapaxes(Q, -1, -2) - totals + mu / shares
        scaled: Floats = of_group * (np.sqrt(counts) / expected)[..., None, :] * shares[..., None]
        curvature: Floats = scaled @ np.swapaxes(scaled, -1, -2)
        curvature[..., diagonal, diagonal] += mu
        rest: Floats = (gradient * shares)[..., None]
        change: Floats = np.asarray(np.linalg.solve(curvature, rest), np.float64)[..., 0]
        furthest: Floats = np.maximum(-change.min(axis=-1, keepdims=True), 1e-300)
        length = np.minimum(1, 0.9 / furthest)
        shares = shares * (1 + length * change)
        if (mu <= least).all() and (np.abs(change) < _GAP).all():
            break
        faster: Floats = np.where(length == 1, 0.05, np.where(length > 0.5, 0.3, 1))
        mu = np.maximum(mu * faster, least)
    return _normalise(shares)


def _normalise(values: Floats) -> Floats:
    return values / np.maximum(values.sum(axis=-1, keepdims=True), 1e-300)


def _deviance(counts: Floats, expected: Floats) -> Floats:
    """Compute G of every group of counts, shape (…,)."""
    shares = counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1)
    ratio = np.divide(shares, expected, out=np.ones_like(shares), where=expected > 0)
    return 2 * xlogy(counts, ratio).sum(axis=-1)
