"""Estimate the transition matrix and the error rate of each annotator."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from naysay._base.checks import check_label_indices, check_number, check_probabilities, row_slices
from naysay._base.errors import InvalidInput
from naysay._base.frames import make_frame
from naysay._base.mapped import compute, count_values, find_rows, parts_of, take
from naysay.estimation.mixture import Probs
from naysay.observations import Observations
from naysay.quality.wrong_labels import AnnotatorModel, calibrate_by_labels
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats
from naysay.transition.alignment import count_names

_MAX_STEPS = 20  # EM steps
_MANY_CLASSES, _FEWER_STEPS = 200, 6  # with more classes, steps take long and change less
_TOLERANCE = 1e-4
_INITIAL_ERROR_RATE = 0.02  # start of the diagonal if Q has none
# To calibrate the probabilities: limits of the error rates, and pseudo-answers of each class.
_FIRST_RATES, _FIRST_STRENGTH = (0.005, 0.995), 100.0
_IMPOSSIBLE = 1e-30  # answers with a smaller probability under the model are ignored
_BISECTIONS = 24
_RATE_STEPS = 2  # between the error rate and the other entries of the matrix
# Limit of the likelihood ratio of a 95 % interval. For large samples it is 3.84; with few answers,
# whose number of mistakes is discrete, intervals of that width contain the rate too rarely.
_LIMIT = 4.3
_Z = 1.96  # standard errors from the middle to the ends of a 95 % interval
_SHOWN = 20  # annotators in the printed table
_MAX_THREADS = 8  # each needs memory for some matrices
_SLICE = 2**18  # probabilities at once: what stays in the cache of a core
_COPIED = 2**23  # probabilities of the answers of one annotator that are copied, to read them once


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotator:
    """Estimates for one annotator."""

    name: str
    n_answers: int
    bias: float
    """Mean total variation distance of its rows from those of all annotators, 0 to 1."""
    distance_from_uniform: float
    """Mean total variation distance of its rows from those of the uniform matrix."""
    error_rate: float
    """Share of answers that exclude the true class, not shrunk."""
    standard_error: float
    """Standard error of the error rate; 1 if the answers contain no information about it."""
    interval: tuple[float, float]
    """Interval that contains the error rate with 95 % confidence."""
    _estimate: Callable[[], TransitionMatrix] = field(repr=False)

    @property
    def transition(self) -> TransitionMatrix:
        """Transition matrix of the annotator, shrunk towards that of all annotators.

        It is estimated again at each call: those of 500 annotators with 1,000 classes take 6 GB.
        """
        return self._estimate()

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON, without the matrix, which may be large."""
        return {name: value for name, value in vars(self).items() if name != "_estimate"}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Annotators:
    """All annotators, sorted by decreasing error rate; ``print`` it for a table."""

    listed: tuple[Annotator, ...]
    pooled: TransitionMatrix
    """Transition matrix of all answers together."""

    @property
    def transitions(self) -> dict[str, TransitionMatrix]:
        """Matrix of each annotator by name, for ``ComplementaryClassifier(transition=…)``."""
        return {each.name: each.transition for each in self.listed}

    def to_frame(self, library: str | None = None) -> Any:
        """Convert to a data frame of pandas or polars, one row per annotator."""
        figures = ("name", "n_answers", "error_rate", "standard_error", "bias")
        columns = {name: [getattr(each, name) for each in self.listed] for name in figures}
        for place, name in enumerate(("error_rate_low", "error_rate_high")):
            columns[name] = [each.interval[place] for each in self.listed]
        return make_frame(columns, library)

    def __iter__(self) -> Iterator[Annotator]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def __str__(self) -> str:
        width = max(len("annotator"), *(len(each.name) for each in self.listed[:_SHOWN]))
        lines = [f"{'annotator':<{width}}  answers  wrong answers (95 % interval)  bias"]
        lines += [
            f"{each.name:<{width}}  {each.n_answers:>7,}  {_percentages(each):<29}  {each.bias:.2f}"
            for each in self.listed[:_SHOWN]
        ]
        if len(self.listed) > _SHOWN:
            lines.append(f"… and {len(self.listed) - _SHOWN:,} more")
        return "\n".join(lines)


def annotators(
    observations: Observations,
    probs: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    strength: float = 10.0,
    allow_diagonal: bool = True,
) -> Annotators:
    r"""Estimate the transition matrix, the bias and the error rate of each annotator.

    .. math:: r_{ik} ∝ Q^a_{kȳ_i} \, p_k(x_i), \quad
        Q^a_{kj} ∝ \sum_{i: ȳ_i = j} r_{ik} + s \, \bar Q_{kj}

    EM estimates :math:`\bar Q` from all answers together, without the last term, and then the
    matrix of each annotator a. The last term adds s pseudo-answers per class that follow
    :math:`\bar Q`, so the matrix of an annotator with few answers is shrunk towards it. EM takes at
    most 20 steps, and with more than 200 classes, where steps take long, at most 6.

    The error rate e is not shrunk. It maximises the likelihood of the annotator's answers,

    .. math:: P(ȳ \mid x) = e \, p_ȳ(x) + (1 - e) \sum_{k ≠ ȳ} p_k(x) M_{kȳ}

    where M has the other entries of the matrix, and its interval contains the rates whose
    likelihood is not much smaller. The probabilities should be out of sample. Mistakes of an
    overconfident model look like mistakes of the annotators. With up to 200 classes the
    probabilities are therefore calibrated first, as in `find_wrong_labels`, by the answers and a
    first estimate of each error rate.

    To train with a matrix per annotator, prefer ``ComplementaryClassifier(transition="estimate")``,
    which applies `estimation.refine` to the answers of each annotator: it calibrates the
    probabilities, chooses the amount of shrinkage by cross-validation, and keeps the common matrix
    unless another one is significantly better.

    Parameters
    ----------
    observations : Observations
        With annotators; labels as indices, or as names if Q has names. Only complementary labels
        chosen out of all classes are used.
    probs : array of shape (n_examples, n_classes)
        P(Y | x) from any model.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The start of EM. If its diagonal is zero, an error rate of 2 % is assumed at the start.
    strength : float, default=10
        The number s of pseudo-answers per class.
    allow_diagonal : bool, default=True
        Whether annotators may exclude the true class by mistake. If False and the diagonal of Q is
        zero, the diagonals of all matrices are zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(3, size=2000)
    >>> label = TransitionMatrix.uniform(3).sample(true, seed=1)
    >>> label = np.where((np.arange(2000) % 2 == 1) & (rng.random(2000) < 0.3), true, label)
    >>> answers = Observations(example=np.arange(2000), label=label, annotator=["a", "b"] * 1000)
    >>> found = annotators(answers, 0.9 * np.eye(3)[true] + 0.1 / 3, TransitionMatrix.uniform(3))
    >>> [(each.name, round(each.error_rate, 1)) for each in found]
    [('b', 0.3), ('a', 0.0)]
    """
    matrix = as_transition_matrix(Q)
    may_err = allow_diagonal or matrix.allow_diagonal
    check_number(strength, "strength", above=0)
    observations = observations.comp_labels
    if observations.annotator is None or not len(observations.example):
        raise InvalidInput(
            "observations must contain complementary labels with annotator=, and at least one."
        )
    array = check_probabilities(probs, n_classes=matrix.n_classes, name="probs")
    if len(array) != observations.n_examples:
        raise InvalidInput(
            f"probs must have one row per example, {observations.n_examples}. Got {len(array)}."
        )
    indices = check_label_indices(observations.label, matrix.classes, name="label")
    who, m = observations.annotator, len(indices)
    names = np.array(sorted(count_names(who)))
    codes = compute(
        indices, m, np.int64, lambda part: np.searchsorted(names, who[part]).astype(np.int64)
    )
    start = np.asarray(matrix)
    if allow_diagonal and not start.diagonal().any():
        start = (1 - _INITIAL_ERROR_RATE) * start + _INITIAL_ERROR_RATE * np.eye(matrix.n_classes)
    first = np.ascontiguousarray(start.T, dtype=array.dtype)
    shape = array.shape
    every = _Answers(array, *_sort_answers(observations.example, indices, shape))
    example, label = _sort_answers(observations.example, indices, shape, codes)
    ends = np.cumsum(count_values(codes, len(names))).tolist()
    of_each = [
        _Answers(array, example[start:end], label[start:end]) for start, end in pairwise([0, *ends])
    ]
    with ThreadPoolExecutor(min(_MAX_THREADS, os.cpu_count() or 1)) as pool:
        if matrix.n_classes <= _MANY_CLASSES and start.diagonal().any():
            models = list(pool.map(partial(_first_model, Q=first), of_each))
            array = calibrate_by_labels(array, indices, models, codes, observations.example)
            every, *of_each = (replace(each, probs=array) for each in (every, *of_each))
        pooled, counts = _fit(every, first, 0, pool.map)
        # few answers determine the common matrix poorly, so it is shrunk too, towards Q
        common = _without_diagonal(counts + strength * first)
        estimates = [
            partial(_estimate, each, pooled, strength, matrix.classes, may_err) for each in of_each
        ]
        errs = bool(start.diagonal().any())
        describe = partial(_describe, pooled=pooled, common=common, strength=strength, errs=errs)
        figures = pool.map(describe, of_each)
        listed = [
            Annotator(name=name, _estimate=estimate, **found)
            for name, estimate, found in zip(names.tolist(), estimates, figures, strict=True)
        ]
    return Annotators(
        listed=tuple(sorted(listed, key=lambda each: -each.error_rate)),
        pooled=_as_matrix(pooled, matrix.classes, may_err),
    )


# Matrices are transposed from here on, with the labels in rows: an answer needs one column of Q.


def _sort_answers(
    example: NDArray[np.int64],
    label: NDArray[np.int64],
    shape: tuple[int, ...],
    codes: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sort examples and labels by the codes of annotators, if given, by label and by example.

    The shape is that of the probabilities: examples and classes.
    """
    (n, n_classes), m = shape, len(label)

    def number(part: slice) -> NDArray[np.int64]:
        of_annotator = 0 if codes is None else codes[part] * n_classes
        return (of_annotator + label[part]) * n + example[part]

    numbers = compute(label, m, np.int64, number)
    numbers.sort()  # where they are
    return (
        compute(label, m, np.int64, lambda part: numbers[part] % n),
        compute(label, m, np.int64, lambda part: numbers[part] // n % n_classes),
    )


@dataclass(frozen=True, eq=False)
class _Answers:
    """Answers sorted by label, about examples with these probabilities."""

    probs: Probs
    example: NDArray[np.int64] | None  # None if there is one row for each answer
    label: NDArray[np.int64]

    def copied(self) -> "_Answers":
        """Copy the row of each answer, unless they are too many."""
        if len(self.label) * self.probs.shape[1] > _COPIED:
            return self
        return replace(self, probs=self.probs[self.example], example=None)

    def rows(self, of: slice) -> Probs:
        return self.probs[of if self.example is None else self.example[of]]

    def slices(self) -> Iterator[slice]:
        return row_slices(len(self.label), self.probs.shape[1], _SLICE)

    def expected_counts(self, values: Probs, run: Callable[..., Any] = map) -> Probs:
        """Compute the E-step: expected number of answers j about class k, shape (K, K)."""
        counts = np.zeros_like(values)
        for label, sums in run(partial(self._ratios, values), self.slices()):
            counts[label : label + len(sums)] += sums
        counts *= values
        return counts

    def _ratios(self, values: Probs, of: slice) -> tuple[int, Probs]:
        """Sum p / P(ȳ | x) by label, from the first label in the slice to the last."""
        rows, label = self.rows(of), self.label[of]
        likelihood = np.einsum("ik,ik->i", rows, values[label])
        possible = likelihood > _IMPOSSIBLE
        inverse = np.where(possible, 1 / np.where(possible, likelihood, 1), 0)
        starts = np.searchsorted(label, np.arange(int(label[0]), int(label[-1]) + 2))
        shape = (len(starts) - 1, len(label))
        by_label = csr_array((inverse.astype(rows.dtype), np.arange(len(label)), starts), shape)
        return int(label[0]), by_label @ rows


def _describe(
    answers: _Answers, pooled: Probs, common: Probs, strength: float, errs: bool
) -> dict[str, Any]:
    """Estimate the figures of one annotator."""
    answers = answers.copied()
    values, counts = _fit(answers, pooled, strength * pooled)
    weights = counts.sum(axis=0, dtype=np.float64)  # of the classes
    if not weights.any():  # no answer is possible under the model
        weights = np.ones_like(weights)
    weights = weights / weights.sum()
    uniform = np.asarray(TransitionMatrix.uniform(len(values)), dtype=values.dtype)
    rate, error, interval = 0.0, 0.0, (0.0, 0.0)
    if errs:
        rate, error, interval = _error_rate(answers, counts, strength * common)
    return {
        "n_answers": len(answers.label),
        "bias": _distance(values, pooled, weights),
        "distance_from_uniform": _distance(values, uniform, weights),
        "error_rate": rate,
        "standard_error": error,
        "interval": interval,
    }


def _first_model(answers: _Answers, Q: Probs) -> AnnotatorModel:
    """Fit the model of one annotator with probabilities that are not calibrated yet.

    A rate or a matrix common to all annotators would not do: the answers of one who always errs, or
    who chooses differently, would make the probabilities appear uninformative. Nor would a matrix
    from few answers, which describes the errors of the classifier as well.
    """
    values, _ = _fit(answers.copied(), Q, _FIRST_STRENGTH * Q)
    others = _without_diagonal(values)
    wrong, correct = _likelihoods(answers, others)
    rate = _most_likely_rate(wrong, correct) if len(wrong) else _INITIAL_ERROR_RATE
    return AnnotatorModel(float(np.clip(rate, *_FIRST_RATES)), others)


def _estimate(
    answers: _Answers, pooled: Probs, strength: float, classes: tuple[str, ...], may_err: bool
) -> TransitionMatrix:
    values, _ = _fit(answers.copied(), pooled, strength * pooled)
    return _as_matrix(values, classes, may_err)


def _as_matrix(values: Probs, classes: tuple[str, ...], may_err: bool) -> TransitionMatrix:
    rows = values.T.astype(np.float64)
    return TransitionMatrix(rows / rows.sum(axis=1, keepdims=True), classes, allow_diagonal=may_err)


def _fit(
    answers: _Answers, start: Probs, prior_counts: Any, run: Callable[..., Any] = map
) -> tuple[Probs, Probs]:
    """Fit the matrix by EM, and compute the expected counts under it."""
    values, counts = start, answers.expected_counts(start, run)
    difference = np.empty_like(start)
    for _ in range(_MAX_STEPS if len(start) <= _MANY_CLASSES else _FEWER_STEPS):
        counts += prior_counts
        totals = counts.sum(axis=0)
        is_empty = totals <= 0
        updated = np.divide(counts, np.where(is_empty, 1, totals), out=counts)
        if is_empty.any():  # the row of a class without any expected answer does not change
            updated[:, is_empty] = values[:, is_empty]
        np.subtract(updated, values, out=difference)
        values, counts = updated, answers.expected_counts(updated, run)
        if max(difference.max(), -difference.min()) < _TOLERANCE:
            break
    return values, counts


def _error_rate(
    answers: _Answers, counts: Probs, prior_counts: Probs
) -> tuple[float, float, tuple[float, float]]:
    """Estimate the share of wrong answers, its standard error and its interval.

    With w_i the probability that answer i is wrong, the observed information about the rate e
    is Σ (w_i - e)² / (e (1 - e))². If all w_i are 0 or 1 the standard error is the binomial one; it
    grows up to 1 as the model is less informative. It is at least that of the interval, and the
    binomial standard error with two pseudo-answers, one correct and one wrong, so that a few
    answers of one kind do not give a standard error of zero.
    """
    rate, wrong, correct = 0.0, np.empty(0), np.empty(0)
    for step in range(_RATE_STEPS):
        others = _without_diagonal(counts + prior_counts)
        wrong, correct = _likelihoods(answers, others)
        if not len(wrong):
            return 0.0, 1.0, (0.0, 1.0)
        rate = _most_likely_rate(wrong, correct)
        if step + 1 < _RATE_STEPS:
            values = (1 - rate) * others
            np.fill_diagonal(values, rate)
            counts = answers.expected_counts(values)
    lowest = _log_likelihood(wrong, correct, rate) - _LIMIT / 2

    def is_likely(e: float) -> bool:
        return _log_likelihood(wrong, correct, e) >= lowest

    low = 0.0 if is_likely(0.0) else _bisect(lambda e: not is_likely(e), 0.0, rate)
    high = 1.0 if is_likely(1.0) else _bisect(is_likely, rate, 1.0)

    def squares(wrong: Floats, correct: Floats) -> Floats:
        return (rate * wrong / (rate * wrong + (1 - rate) * correct) - rate) ** 2

    n, root = len(wrong), _sum(squares, wrong, correct) ** 0.5
    variance = rate * (1 - rate)
    smoothed = (n * rate + 1) / (n + 2)
    least = float(np.sqrt(smoothed * (1 - smoothed) / (n + 2)))
    of_interval = (high - low) / (2 * _Z)
    error = max(least, of_interval, variance / max(root, variance) if variance else 0.0)
    return rate, error, (low, high)


def _without_diagonal(counts: Probs) -> Probs:
    """Compute the shares of the labels of each class, other than the class itself."""
    counts = counts.copy()
    np.fill_diagonal(counts, 0)
    totals = counts.sum(axis=0)
    counts /= np.where(totals > 0, totals, 1)
    return counts


def _likelihoods(answers: _Answers, others: Probs) -> tuple[Floats, Floats]:
    """Compute the likelihood of each possible answer as a wrong and as a correct one."""
    like, n = answers.label, len(answers.label)
    wrong, correct = (compute(like, n, np.float64, lambda _: 0) for _ in range(2))
    for each in answers.slices():
        rows, label = answers.rows(each), answers.label[each]
        wrong[each] = rows[np.arange(len(label)), label]
        correct[each] = np.einsum("ik,ik->i", rows, others[label])
    possible = find_rows(like, n, lambda part: np.maximum(wrong[part], correct[part]) > _IMPOSSIBLE)
    return (
        (wrong, correct) if len(possible) == n else (take(wrong, possible), take(correct, possible))
    )


def _sum(term: Callable[[Floats, Floats], Floats], wrong: Floats, correct: Floats) -> float:
    """Add the terms of all answers, some at a time."""
    return sum(float(term(wrong[part], correct[part]).sum()) for part in parts_of(len(wrong)))


def _most_likely_rate(wrong: Floats, correct: Floats) -> float:
    """Find where the log-likelihood, which is concave, has its maximum."""

    def increases(rate: float) -> bool:
        return _sum(lambda w, c: (w - c) / (rate * w + (1 - rate) * c), wrong, correct) > 0

    return _bisect(increases, 0.0, 1.0)


def _log_likelihood(wrong: Floats, correct: Floats, rate: float) -> float:
    with np.errstate(divide="ignore"):
        return _sum(lambda w, c: np.log(rate * w + (1 - rate) * c), wrong, correct)


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Find the end of the range, starting at `low`, in which a condition holds, to six decimals."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return float(round((low + high) / 2, 6))


def _percentages(each: Annotator) -> str:
    low, high = each.interval
    return f"{each.error_rate:>6.1%} ({low:.1%} to {high:.1%})"


def _distance(values: Probs, others: Probs, weights: Floats) -> float:
    return float(np.abs(values - others).sum(axis=0) @ weights / 2)
