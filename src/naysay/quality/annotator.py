"""Estimate the transition matrix and the error rate of each annotator."""

import os
from collections.abc import Callable, Iterable, Iterator
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
from naysay._base.mapped import compute, count_values
from naysay.estimation.mixture import Probs
from naysay.observations import Observations
from naysay.quality.overconfidence import (
    LEAST_LIKELIHOOD,
    Calibrations,
    Sample,
    as_wrong_and_correct,
    fit_rates,
    shrink,
)
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats
from naysay.transition.alignment import count_names

_MAX_STEPS = 20  # EM steps
_MOST_ANSWERS = 50_000  # of an annotator, for the error rate
_FEW_ANSWERS = 1_000  # of an annotator, to choose among calibrations
_WIDEST = 0.5  # interval of a rate that is known
_MANY_CLASSES, _FEWER_STEPS = 200, 6  # with more classes, steps take long and change less
_TOLERANCE = 1e-4
_INITIAL_ERROR_RATE = 0.02  # start of the diagonal if Q has none
_BISECTIONS = 20
_ROUNDS = 2  # of the calibrations and the matrices of annotators who differ, in turn
_PREFERENCE = 0.1  # share of answers beyond what the predicted classes explain
_PREFERENCE_ERRORS = 3.0  # standard errors of such a share
_STEPS_OF_OTHERS, _MOSTLY_WRONG = 5, 0.5
# Limit of the likelihood ratio of a 95 % interval. For large samples it is 3.84; with few answers,
# whose number of mistakes is discrete, intervals of that width contain the rate too rarely.
_LIMIT = 4.3
_FROM_FIRST = np.zeros(1, dtype=np.int64)
_NO_ERRORS: dict[str, Any] = {"error_rate": 0.0, "standard_error": 0.0, "interval": (0.0, 0.0)}
_UNKNOWN: dict[str, Any] = {"error_rate": None, "standard_error": 1.0, "interval": (0.0, 1.0)}
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
    error_rate: float | None
    """Share of answers that exclude the true class, not shrunk; None if it is unknown, because the
    interval spans more than half of 0 to 1."""
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
    """All annotators, sorted by decreasing error rate, those with an unknown rate last.

    ``print`` it for a table.
    """

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

    where M has the other entries of the matrix. The probabilities should be out of sample.

    Errors of an overconfident model look like mistakes of the annotators. With up to 200 classes
    the probabilities of an example, where c is the most likely class, are therefore replaced by

    .. math:: m_c \, p_k^{1/T} / \textstyle\sum_l p_l^{1/T} + S_{ck}

    with a temperature T, and for each predicted class a share :math:`m_c` of the model and
    confusions S, which the answers of all annotators show. The interval contains the rates that are
    likely under any of these calibrations that answers about other examples do not refute. No
    accuracy of the model is assumed: with uniform labels and annotators who may all err, many
    accuracies are possible, and the interval is wide. If it spans more than half of 0 to 1, the
    rate is unknown (None). M is the common matrix, or, for an annotator who mostly does not err and
    whose answers show clearly that they differ, a matrix of their own.

    Annotators with labels that are much more frequent than the predictions and Q explain, at any
    error rate, are not used to calibrate, and their intervals include the case that they choose
    these labels whatever the class is. If all annotators are such, Q is wrong, or the model, and
    all rates are unknown.

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
        errs = bool(start.diagonal().any())
        calibrated = errs and matrix.n_classes <= _MANY_CLASSES
        calibrations = Calibrations()
        common = _without_diagonal(first)
        own = [common] * len(names)
        few = [each.at_most(_MOST_ANSWERS) for each in of_each]
        preferred = np.zeros((len(names), matrix.n_classes), dtype=bool)
        if calibrated:
            preferred = np.array(list(pool.map(partial(_preferred_labels, common), few)))
        agree = preferred.sum(axis=1) == 0
        unknown = not agree.any()
        if calibrated and not unknown:
            sample = Sample.of(array, indices, observations.example, codes, agree)
            calibrations = sample.calibrate(own, _LIMIT / 2)
            common = sample.common_matrix(calibrations, common)
            for _ in range(_ROUNDS):
                probs = calibrations.apply(array, like=indices)
                given = [replace(each, probs=probs) for each in few]
                last, own = own, list(pool.map(partial(_own_entries, common), given))
                if all(new is old for new, old in zip(own, last, strict=True)):
                    break
                calibrations = sample.calibrate(own, _LIMIT / 2)
            probs = calibrations.apply(array, like=indices)
            every, *of_each = (replace(each, probs=probs) for each in (every, *of_each))
        pooled, counts = _fit(every, first, 0, pool.map)
        if not calibrated:
            # few answers determine the common matrix poorly, so it is shrunk towards Q
            own = [_without_diagonal(counts + strength * first)] * len(names)
        estimates = [
            partial(_estimate, each, pooled, strength, matrix.classes, may_err) for each in of_each
        ]
        figures = pool.map(partial(_describe, pooled=pooled, strength=strength), of_each)
        rates: Iterable[dict[str, Any]] = [_NO_ERRORS] * len(names)
        if unknown:
            rates = [_UNKNOWN] * len(names)
        elif errs:
            rates = pool.map(partial(_error_rate, calibrations), few, own, preferred)
        listed = [
            Annotator(name=name, _estimate=estimate, **found, **rate)
            for name, estimate, found, rate in zip(
                names.tolist(), estimates, figures, rates, strict=True
            )
        ]
    return Annotators(
        listed=tuple(sorted(listed, key=_order)),
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

    def at_most(self, n: int) -> "_Answers":
        """Draw answers at random if there are more."""
        if len(self.label) <= n or self.example is None:
            return self
        rows = np.sort(np.random.default_rng(0).choice(len(self.label), n, replace=False))
        return replace(self, example=self.example[rows], label=self.label[rows])

    def copied(self) -> "_Answers":
        """Copy the row of each answer, unless they are too many."""
        if len(self.label) * self.probs.shape[1] > _COPIED:
            return self
        return replace(self, probs=self.probs[self.example], example=None)

    def rows(self, of: slice) -> Probs:
        return self.probs[of if self.example is None else self.example[of]]

    def likelihoods(self, calibrations: Calibrations, others: Probs) -> Floats:
        """Compute likelihoods as wrong and as correct answers, of those that are possible."""
        parts = [
            calibrations.likelihoods(self.rows(s), self.label[s], others) for s in self.slices()
        ]
        both = np.concatenate(parts, axis=2)
        return both[:, :, both.max(axis=(0, 1)) > LEAST_LIKELIHOOD]

    def class_shares(self) -> Floats:
        """Compute the mean probability of each class."""
        sums = [self.rows(s).sum(axis=0, dtype=np.float64) for s in self.slices()]
        return np.sum(sums, axis=0) / len(self.label)

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
        possible = likelihood > LEAST_LIKELIHOOD
        inverse = np.where(possible, 1 / np.where(possible, likelihood, 1), 0)
        starts = np.searchsorted(label, np.arange(int(label[0]), int(label[-1]) + 2))
        shape = (len(starts) - 1, len(label))
        by_label = csr_array((inverse.astype(rows.dtype), np.arange(len(label)), starts), shape)
        return int(label[0]), by_label @ rows


def _describe(answers: _Answers, pooled: Probs, strength: float) -> dict[str, Any]:
    """Estimate the figures of one annotator other than the error rate."""
    values, counts = _fit(answers.copied(), pooled, strength * pooled)
    weights = counts.sum(axis=0, dtype=np.float64)  # of the classes
    if not weights.any():  # no answer is possible under the model
        weights = np.ones_like(weights)
    weights = weights / weights.sum()
    uniform = np.asarray(TransitionMatrix.uniform(len(values)), dtype=values.dtype)
    return {
        "n_answers": len(answers.label),
        "bias": _distance(values, pooled, weights),
        "distance_from_uniform": _distance(values, uniform, weights),
    }


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


def _preferred_labels(common: Probs, answers: _Answers) -> NDArray[np.bool_]:
    """Find labels that are much more frequent than at any error rate; mostly none.

    Without mistakes, labels are as frequent as the common matrix makes them for the predicted
    classes; the labels that are mistakes are as frequent as the classes.
    """
    classes, n = answers.class_shares(), len(answers.label)
    most = np.maximum(classes, common @ classes)
    most += _PREFERENCE_ERRORS * np.sqrt((most + 1 / n) / n)
    excess = np.maximum(np.bincount(answers.label, minlength=len(most)) / n - most, 0)
    return (excess > 0) & (excess.sum() > _PREFERENCE)


def _own_entries(common: Probs, answers: _Answers) -> Probs:
    """Estimate the labels of one annotator other than mistakes.

    Those of one who mostly errs cannot be distinguished from the errors of the classifier.
    """
    answers, others = answers.copied(), common
    for _ in range(_STEPS_OF_OTHERS):
        parts = [
            as_wrong_and_correct(answers.rows(s), answers.label[s], others[answers.label[s]])
            for s in answers.slices()
        ]
        both = np.concatenate(parts, axis=1)[:, None]
        rate = float(fit_rates(both[0], both[1], _FROM_FIRST, _BISECTIONS)[0][0, 0])
        if rate > _MOSTLY_WRONG:
            return common
        values = (1 - rate) * others
        np.fill_diagonal(values, rate)
        others = shrink(answers.expected_counts(values) * ~np.eye(len(values), dtype=bool), common)
    return others


def _error_rate(
    calibrations: Calibrations, answers: _Answers, others: Probs, preferred: NDArray[np.bool_]
) -> dict[str, Any]:
    """Estimate the share of wrong answers, its standard error and its interval.

    The interval contains each rate that is likely under some calibration. Those with the smallest
    and the largest rates are found by some of the answers, if there are many. One rate for all
    classes hardly shows that preferred labels are also chosen where they are the class, so the
    interval extends to the rate with all of these answers wrong.

    With w_i the probability that answer i is wrong, the observed information about the rate e
    is Σ (w_i - e)² / (e (1 - e))². If all w_i are 0 or 1 the standard error is the binomial one; it
    grows up to 1 as the model is less informative. It is at least that of the interval, and the
    binomial standard error with two pseudo-answers, one correct and one wrong, so that a few
    answers of one kind do not give a standard error of zero.
    """
    for some in (answers.at_most(_FEW_ANSWERS), answers):
        wrong, correct = some.likelihoods(calibrations, others)
        n = wrong.shape[1]
        if not n:
            return _UNKNOWN
        rates, largest = fit_rates(wrong, correct, _FROM_FIRST, _BISECTIONS)
        lowest = largest - (calibrations.log_likelihoods[:, None] + _LIMIT / 2)
        lows, highs = _likely_rates(wrong, correct, rates, lowest)
        if some is answers:
            break
        calibrations = calibrations.select([0, int(lows.argmin()), int(highs.argmax())])
    rate, low, high = float(rates[0, 0]), float(lows.min()), float(highs.max())
    if preferred.any():
        high = round(high + (1 - high) * float(answers.class_shares()[preferred].sum()), 6)
    is_wrong = rate * wrong[0] / (rate * wrong[0] + (1 - rate) * correct[0])
    root = float(np.sqrt(((is_wrong - rate) ** 2).sum()))
    variance = rate * (1 - rate)
    smoothed = (n * rate + 1) / (n + 2)
    least = float(np.sqrt(smoothed * (1 - smoothed) / (n + 2)))
    of_interval = (high - low) / (2 * _Z)
    error = max(least, of_interval, variance / max(root, variance) if variance else 0.0)
    known = round(rate, 6) if high - low <= _WIDEST else None
    return {"error_rate": known, "standard_error": error, "interval": (low, high)}


def _likely_rates(
    wrong: Floats, correct: Floats, rates: Floats, lowest: Floats
) -> tuple[Floats, Floats]:
    """Find the smallest and the largest rate of each row whose log-likelihood is at least `lowest`.

    `rates` has the most likely ones.
    """

    def are_likely(values: Floats) -> NDArray[np.bool_]:
        likelihood = np.maximum(values * wrong + (1 - values) * correct, LEAST_LIKELIHOOD)
        return np.log(likelihood).sum(axis=1, keepdims=True) >= lowest

    ends: list[Floats] = []
    for end in (0.0, 1.0):
        likely, unlikely = rates, np.full_like(rates, end)
        for _ in range(_BISECTIONS):
            middle = (likely + unlikely) / 2
            inside = are_likely(middle)
            likely, unlikely = np.where(inside, middle, likely), np.where(inside, unlikely, middle)
        ends.append(np.where(are_likely(np.full_like(rates, end)), end, likely).round(6))
    return ends[0], ends[1]


def _without_diagonal(counts: Probs) -> Probs:
    """Compute the shares of the labels of each class, other than the class itself."""
    counts = counts.copy()
    np.fill_diagonal(counts, 0)
    totals = counts.sum(axis=0)
    counts /= np.where(totals > 0, totals, 1)
    return counts


def _order(each: Annotator) -> float:
    return 1.0 if each.error_rate is None else -each.error_rate


def _percentages(each: Annotator) -> str:
    low, high = each.interval
    value = "unknown" if each.error_rate is None else f"{each.error_rate:>6.1%}"
    return f"{value} ({low:.1%} to {high:.1%})"


def _distance(values: Probs, others: Probs, weights: Floats) -> float:
    return float(np.abs(values - others).sum(axis=0) @ weights / 2)
