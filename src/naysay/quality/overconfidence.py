"""Find how overconfident probabilities are, by the answers of annotators who may err."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from naysay._base.mapped import compute, count_values, find_rows
from naysay.estimation.mixture import Calibration, Probs
from naysay.transition.algebra import Floats

LEAST_LIKELIHOOD = 1e-30  # of an answer

_TEMPERATURES = np.geomspace(1 / 16, 64, 31)
_SHARES = np.array([0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 0.96])
_SD_ODDS = 1.0  # of the log-odds that a prediction is right, in the prior
_LIMITS = (0.001, 0.999)  # of an accuracy
_WEIGHT = 1 / 3  # of an answer: probabilities of real models are never calibrated exactly
_MAX_ROWS = 10_000  # answers, chosen at random
_STEPS_OF_WEIGHTS, _STEPS_OF_MATRIX = 30, 3
_STRENGTHS = np.geomspace(3, 10_000, 16)  # pseudo-answers of each class
_NEGLIGIBLE = 1e-6  # expected number of answers
_LEAST_GAIN = 3.0  # in log-likelihood, of a matrix other than the given one
_BISECTIONS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrations:
    r"""Calibrations that the answers do not refute, and the common matrix under the best of them.

    Each replaces p by :math:`(1 - ε) p^{1/T} w / \sum_k p_k^{1/T} w_k + ε / K`.
    """

    temperatures: Floats = field(default_factory=lambda: np.ones(1))
    shares: Floats = field(default_factory=lambda: np.zeros(1))  # ε
    weights: Floats | None = None  # w of the classes, of all calibrations; None if all are 1
    log_likelihoods: Floats = field(default_factory=lambda: np.zeros(1))
    """Those of all answers and the prior."""
    parts: Floats | None = None
    """(n_calibrations, n_annotators) parts of each annotator in them."""
    others: Probs
    """(label, class) distributions of the labels of each class that are no mistakes."""

    def apply(self, probs: Probs, *, like: NDArray[Any] | None = None) -> Probs:
        """Calibrate probabilities by the most likely calibration; in a file if `like` is in one."""
        best = int(self.log_likelihoods.argmax())
        share = float(self.shares[best])
        calibration = Calibration(float(self.temperatures[best]), self.weights)

        def calibrate(rows: slice) -> Probs:
            found = calibration(probs[rows])
            return found if share == 0 else (1 - share) * found + share / probs.shape[1]

        where = probs if like is None else like
        return compute(where, len(probs), probs.dtype, calibrate, shape=probs.shape[1:])

    def evidence(self, annotator: int) -> Floats:
        """Compute the log-likelihoods without the answers of one annotator."""
        if self.parts is None:
            return self.log_likelihoods
        return self.log_likelihoods - self.parts[:, annotator]

    def likelihoods(self, probs: Probs, labels: NDArray[np.int64], columns: Probs) -> Floats:
        """Compute likelihoods of answers, shape (2, n_calibrations, n): as wrong, and as correct.

        `probs` has one row for each answer, and `columns` the probabilities of the label given each
        class if it is no mistake.
        """
        flat = np.stack([np.full(len(labels), 1 / probs.shape[1]), columns.mean(axis=1)])
        found = np.empty((2, len(self.temperatures), len(labels)))
        for temperature in np.unique(self.temperatures).tolist():
            rows = Calibration(temperature, self.weights)(probs)
            own = as_wrong_and_correct(rows, labels, columns)
            same = self.temperatures == temperature
            shares = self.shares[same, None]
            found[:, same] = (1 - shares) * own[:, None] + shares * flat[:, None]
        return found


@dataclass(frozen=True, eq=False)
class Sample:
    """Answers sorted by annotator, with one row of probabilities each."""

    probs: Probs
    labels: NDArray[np.int64]
    starts: NDArray[np.int64]  # of the answers of each annotator
    annotators: NDArray[np.integer[Any]]  # those who gave any
    n_annotators: int
    n_examples: int

    @classmethod
    def of(
        cls,
        probs: Probs,
        labels: NDArray[np.int64],
        example: NDArray[np.int64],
        which: NDArray[np.integer[Any]],
    ) -> "Sample":
        """Choose answers; label i is about row ``example[i]``, given by annotator ``which[i]``.

        If there are too many, annotators are drawn with all their answers: a rate that is fitted to
        a few answers of each of many annotators would explain the errors of any model.
        """
        rng, n_annotators = np.random.default_rng(0), int(which.max()) + 1
        drawn = rng.permutation(n_annotators)
        n_before = np.cumsum(count_values(which, n_annotators)[drawn])
        used = np.zeros(n_annotators, dtype=bool)
        used[drawn[: np.searchsorted(n_before, _MAX_ROWS) + 1]] = True
        chosen = find_rows(labels, len(labels), lambda part: used[which[part]])
        chosen = rng.choice(chosen, min(len(chosen), _MAX_ROWS), replace=False)
        chosen = chosen[np.lexsort((chosen, which[chosen]))]
        annotators, starts = np.unique(which[chosen], return_index=True)
        n_examples = len(np.unique(example[chosen]))
        rows = probs[example[chosen]]
        return cls(rows, labels[chosen], starts, annotators, n_annotators, n_examples)

    def calibrate(self, given: Probs, limit: float) -> Calibrations:
        """Find calibrations, class weights, and a common matrix.

        Class weights other than 1 must raise the log-likelihood as much as the Bayesian information
        criterion demands, and another matrix than the given one as much as `shrink` demands.
        """
        found, rates = self._judge(Calibrations(others=given), given[self.labels], limit)
        found = self._with_class_weights(found, rates)
        return replace(found, others=self._common_matrix(found, rates, given))

    def judge(self, found: Calibrations, own: Sequence[Probs], limit: float) -> Calibrations:
        """Judge all calibrations with these class weights and a matrix of each annotator.

        The answers of one who always errs show as clearly how accurate the model is as those of one
        who never does, so each calibration is judged by the likelihood of all answers under the
        best error rate of each annotator. It is left out if, for each annotator, whose own answers
        then count in full, its log-likelihood is less than the largest by more than `limit`.
        """
        ends = [*self.starts[1:], len(self.labels)]
        parts = zip(self.annotators, self.starts, ends, strict=True)
        columns: list[Probs] = [own[each][self.labels[low:high]] for each, low, high in parts]
        return self._judge(found, np.concatenate(columns), limit)[0]

    def _judge(
        self, found: Calibrations, columns: Probs, limit: float
    ) -> tuple[Calibrations, Floats]:
        """Judge all calibrations, and find the rate of the annotator of each answer."""
        shape = (len(_TEMPERATURES), len(_SHARES), self.n_annotators)
        rates, largest = np.zeros(shape), np.zeros(shape)
        prior = self._prior(found.weights)
        # several answers about one example are not independent
        weight = _WEIGHT * self.n_examples / len(self.labels)
        for t, temperature in enumerate(_TEMPERATURES):
            every = replace(
                found, temperatures=np.full(len(_SHARES), temperature), shares=_SHARES
            ).likelihoods(self.probs, self.labels, columns)
            rates[t][:, self.annotators], largest[t][:, self.annotators] = fit_rates(
                every[0], every[1], self.starts, _BISECTIONS
            )
        total = weight * largest.sum(axis=2) + prior
        of_each = total[:, :, None] + (1 - weight) * largest
        kept = np.nonzero((of_each >= of_each.max(axis=(0, 1)) - limit).any(axis=2))
        best = np.unravel_index(int(total.argmax()), total.shape)
        rate = np.repeat(rates[best][self.annotators], self._numbers)
        judged = replace(
            found,
            temperatures=_TEMPERATURES[kept[0]],
            shares=_SHARES[kept[1]],
            log_likelihoods=total[kept],
            parts=weight * largest[kept],
        )
        return judged, rate

    def _prior(self, weights: Floats | None) -> Floats:
        """Compute the log-prior of each temperature and share.

        It is normal in the log-odds of the accuracy that a calibration claims, around that which
        the probabilities claim as they are: where labels say little about the accuracy, a model is
        taken for about as good as it says.
        """
        claimed = np.array(
            [
                Calibration(each, weights)(self.probs).max(axis=1).mean()
                for each in (1, *_TEMPERATURES)
            ]
        )
        accuracy = (1 - _SHARES) * claimed[1:, None] + _SHARES / self.probs.shape[1]
        return -(((_log_odds(accuracy) - _log_odds(claimed[:1])) / _SD_ODDS) ** 2) / 2

    def _with_class_weights(self, found: Calibrations, rates: Floats) -> Calibrations:
        """Fit class weights to the best calibration by iterative scaling."""
        best = int(found.log_likelihoods.argmax())
        share = float(found.shares[best])
        calibrated = Calibration(float(found.temperatures[best]), found.weights)(self.probs)
        of_class = (1 - rates)[:, None] * found.others[self.labels]  # P(label | class)
        of_class[np.arange(len(self.labels)), self.labels] = rates
        flat = share * of_class.mean(axis=1)
        weights = np.ones(calibrated.shape[1])
        values = np.empty(_STEPS_OF_WEIGHTS)
        for step in range(_STEPS_OF_WEIGHTS):
            weighted = calibrated * weights
            weighted /= weighted.sum(axis=1, keepdims=True)
            informative = (1 - share) * (weighted * of_class).sum(axis=1)
            likelihood = np.maximum(informative + flat, LEAST_LIKELIHOOD)
            values[step] = np.log(likelihood).sum()
            expected = (1 - share) * (weighted * of_class).T @ (1 / likelihood)
            predicted = weighted.T @ (informative / likelihood)
            weights *= (expected + 1) / (predicted + 1)  # so that no weight reaches 0
        n_parameters = len(weights) - 1
        if values[-1] - values[0] <= 0.5 * np.log(self.n_examples) * n_parameters:
            return found
        return replace(found, weights=weights * (1 if found.weights is None else found.weights))

    def _common_matrix(self, found: Calibrations, rates: Floats, given: Probs) -> Probs:
        """Estimate the labels other than mistakes of all annotators together."""
        others = found.others
        rows = found.apply(self.probs)
        for _ in range(_STEPS_OF_MATRIX):
            wrong, correct = as_wrong_and_correct(rows, self.labels, others[self.labels])
            likelihood = np.maximum(rates * wrong + (1 - rates) * correct, LEAST_LIKELIHOOD)
            sums = np.zeros(others.shape)
            np.add.at(sums, self.labels, ((1 - rates) / likelihood)[:, None] * rows)
            others = shrink(sums * others, given)
        return others

    @property
    def _numbers(self) -> NDArray[np.int64]:
        return np.diff(np.append(self.starts, len(self.labels)))


def fit_rates(
    wrong: Floats, correct: Floats, starts: NDArray[np.int64], n_bisections: int
) -> tuple[Floats, Floats]:
    """Fit an error rate to answers from each start on, in each row of likelihoods.

    Returns the rates and their log-likelihoods.
    """
    numbers = np.diff(np.append(starts, wrong.shape[1]))
    difference = wrong - correct

    def mixed(rates: Floats) -> Floats:
        every = correct + np.repeat(rates, numbers, axis=1) * difference
        return np.maximum(every, LEAST_LIKELIHOOD)

    below, width = np.zeros((len(wrong), len(starts))), 1.0  # the log-likelihood is concave
    for _ in range(n_bisections):
        width /= 2
        slopes = np.add.reduceat(difference / mixed(below + width), starts, axis=1)
        below += width * (slopes > 0)
    rates = np.where(below == 0, 0, below + width)
    return rates, np.add.reduceat(np.log(mixed(rates)), starts, axis=1)


def _log_odds(accuracy: Floats) -> Floats:
    """Compute log-odds that stay finite."""
    limited = accuracy.clip(*_LIMITS)
    return np.log(limited / (1 - limited))


def as_wrong_and_correct(probs: Probs, labels: NDArray[np.int64], columns: Probs) -> Floats:
    """Compute the likelihood of each answer as a wrong and as a correct one, shape (2, n)."""
    found = np.empty((2, len(labels)))
    found[0] = probs[np.arange(len(labels)), labels]
    found[1] = np.einsum("ik,ik->i", probs, columns)
    return found


def shrink(counts: Probs, given: Probs) -> Probs:
    """Shrink counts of labels towards given distributions, as strongly as the counts require.

    The strength has the largest likelihood, that of a Dirichlet-multinomial distribution of the
    counts, and the given distributions are kept if this is hardly larger than theirs.
    """
    counts = np.where(given > 0, counts, 0).astype(np.float64)
    used = counts > _NEGLIGIBLE
    kept, expected, totals = counts[used], given[used].astype(np.float64), counts.sum(axis=0)
    gains = [
        (gammaln(s) - gammaln(s + totals)).sum()
        + (gammaln(s * expected + kept) - gammaln(s * expected)).sum()
        for s in _STRENGTHS
    ]
    if max(gains) <= float((kept * np.log(expected)).sum()) + _LEAST_GAIN:
        return given
    counts += _STRENGTHS[int(np.argmax(gains))] * given
    return (counts / np.maximum(counts.sum(axis=0), 1e-300)).astype(given.dtype)
