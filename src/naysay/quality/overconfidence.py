"""Find what probabilities are worth, by the answers of annotators who may err."""

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

_TEMPERATURES = (0.5, 1.0, 2.0, 4.0, 16.0, 64.0)
_SMOOTHING = (1.0, 10.0, 100.0)  # pseudo-answers of each predicted class
_SCALES = ((0.85, 0.7, 0.5, 0.3), (1.2, 1.5, 2.0, 4.0))  # of the distances of rates from 1 / K
_STEPS, _STEPS_PER_SCALE, _BISECTIONS = 25, 6, 8
_FIRST_SHARE, _FIRST_RATE = 0.05, 0.2  # of confusions, and of mistakes
_LEAST_SHARE = 1e-3  # of confusions, that they are smoothed with
_BY_CHANCE = 2.0  # difference of log-likelihoods per class that refutes no calibration
_MAX_ROWS = 10_000  # answers, chosen at random
_STEPS_OF_MATRIX = 3
_STRENGTHS = np.geomspace(3, 10_000, 16)  # pseudo-answers of each class
_NEGLIGIBLE = 1e-6  # expected number of answers
_LEAST_GAIN = 3.0  # in log-likelihood, of a matrix other than the given one
_LIMITS = (0.001, 0.999)  # of an accuracy


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibrations:
    r"""Calibrations that the answers do not refute, the most likely one first.

    Each replaces p, where class c is the most likely one, by
    :math:`m_c \, p^{1/T} / \sum_k p_k^{1/T} + S_{ck}`.
    """

    temperatures: Floats = field(default_factory=lambda: np.ones(1))
    model_shares: Floats | None = None
    """m, shape (n_calibrations, K); None if p remains as it is."""
    confusions: Floats | None = None
    """S, shape (n_calibrations, K, K)."""
    log_likelihoods: Floats = field(default_factory=lambda: np.zeros(1))
    """Relative to the largest, where the limit of `Sample.calibrate` refutes a calibration."""

    def apply(self, probs: Probs, *, like: NDArray[Any] | None = None) -> Probs:
        """Calibrate probabilities by the first calibration; in a file if `like` is in one."""
        if self.model_shares is None or self.confusions is None:
            return probs
        shares, confusions = self.model_shares[0], self.confusions[0]
        calibration = Calibration(float(self.temperatures[0]))

        def calibrate(rows: slice) -> Probs:
            predicted = probs[rows].argmax(axis=1)
            found = calibration(probs[rows]) * shares[predicted, None]
            return (found + confusions[predicted]).astype(probs.dtype)

        where = probs if like is None else like
        return compute(where, len(probs), probs.dtype, calibrate, shape=probs.shape[1:])

    def select(self, rows: Sequence[int]) -> "Calibrations":
        """Keep some of them."""
        if self.model_shares is None or self.confusions is None:
            return self
        return replace(
            self,
            temperatures=self.temperatures[rows],
            model_shares=self.model_shares[rows],
            confusions=self.confusions[rows],
            log_likelihoods=self.log_likelihoods[rows],
        )

    def likelihoods(self, probs: Probs, labels: NDArray[np.int64], others: Probs) -> Floats:
        """Compute likelihoods of answers, shape (2, n_calibrations, n): as wrong, and as correct.

        `probs` has one row for each answer.
        """
        found = np.empty((2, len(self.temperatures), len(labels)))
        columns, predicted = others[labels], probs.argmax(axis=1)
        for temperature in np.unique(self.temperatures).tolist():
            own = as_wrong_and_correct(Calibration(temperature)(probs), labels, columns)
            for each in np.flatnonzero(self.temperatures == temperature).tolist():
                found[:, each] = own
                if self.model_shares is not None and self.confusions is not None:
                    rows = self.confusions[each][predicted]
                    found[:, each] *= self.model_shares[each][predicted]
                    found[:, each] += as_wrong_and_correct(rows, labels, columns)
        return found


@dataclass(frozen=True, eq=False)
class Sample:
    """Answers sorted by annotator, with one row of probabilities each."""

    probs: Probs
    labels: NDArray[np.int64]
    example: NDArray[np.int64]  # of each answer, from 0
    starts: NDArray[np.int64]  # of the answers of each annotator
    annotators: NDArray[np.int64]  # those who gave any

    @classmethod
    def of(
        cls,
        probs: Probs,
        labels: NDArray[np.int64],
        example: NDArray[np.int64],
        which: NDArray[np.int64],
        of: NDArray[np.bool_] | None = None,
    ) -> "Sample":
        """Choose answers; label i is about row ``example[i]``, given by annotator ``which[i]``.

        Only those of the annotators that `of` marks are used, if given. If there are too many,
        annotators are drawn with all their answers: a rate that is fitted to a few answers of each
        of many annotators would explain the errors of any model.
        """
        rng, n_annotators = np.random.default_rng(0), int(which.max()) + 1
        drawn = rng.permutation(n_annotators)
        if of is not None:
            drawn = drawn[of[drawn]]
        n_before = np.cumsum(count_values(which, n_annotators)[drawn])
        used = np.zeros(n_annotators, dtype=bool)
        used[drawn[: np.searchsorted(n_before, _MAX_ROWS) + 1]] = True
        chosen = find_rows(labels, len(labels), lambda part: used[which[part]])
        chosen = rng.choice(chosen, min(len(chosen), _MAX_ROWS), replace=False)
        chosen = chosen[np.lexsort((chosen, which[chosen]))]
        annotators, starts = np.unique(which[chosen], return_index=True)
        about = np.unique(example[chosen], return_inverse=True)[1]
        return cls(probs[example[chosen]], labels[chosen], about, starts, annotators)

    def calibrate(self, matrices: Sequence[Probs], limit: float) -> Calibrations:
        """Find the calibrations that the answers do not refute.

        `matrices` has the (label, class) distributions of the labels of each annotator that are no
        mistakes. Calibrations are fitted to the answers about half of the examples and
        judged by those about the other half, under the best error rate of each annotator. The best
        of them may have a log-likelihood that is larger by some per class by chance alone, because
        their confusions are estimates.
        """
        n_classes, n = self.probs.shape[1], len(self.labels)
        columns = np.empty((n, n_classes), dtype=self.probs.dtype)
        ends = [*self.starts[1:], n]
        for each, low, high in zip(self.annotators.tolist(), self.starts, ends, strict=True):
            columns[low:high] = matrices[each][self.labels[low:high]]
        tempered = [Calibration(each)(self.probs) for each in _TEMPERATURES]
        base = np.stack(
            [as_wrong_and_correct(each, self.labels, columns) for each in tempered], axis=1
        )
        parts = _Parts.of(self, base.repeat(len(_SMOOTHING), axis=1), matrices)
        fitted, rates = parts.fit()
        n_examples = int(self.example.max()) + 1
        fold = (np.random.default_rng(0).permutation(n_examples) % 2)[self.example]
        total = np.zeros((len(fitted), parts.base.shape[1]))
        for each in np.unique(fold):
            learned = parts.take(fold != each) if n_examples > 1 else parts
            judged = parts.take(fold == each)
            for number, found in enumerate(learned.fit(rates)[0]):
                total[number] += judged.log_likelihood(found)
        # several answers about one example are not independent
        chance = _BY_CHANCE * n_classes * n / n_examples
        total = ((total - total.max()) * limit / chance).ravel()
        shares, confusions = (np.concatenate(each) for each in zip(*fitted, strict=True))
        temperatures = np.tile(np.repeat(_TEMPERATURES, len(_SMOOTHING)), len(fitted))
        kept = np.flatnonzero(total >= -limit)
        place = (np.arange(n), self.probs.argmax(axis=1))
        shown = {each: rows[place] for each, rows in zip(_TEMPERATURES, tempered, strict=True)}
        accuracy: Floats = np.empty(len(kept))
        for number, each in enumerate(kept.tolist()):
            values = shares[each][place[1]] * shown[temperatures[each]]
            accuracy[number] = (values + confusions[each][place[1], place[1]]).mean()
        # where the answers say little, the model is taken for about as good as it says
        difference = _log_odds(accuracy) - _log_odds(self.probs.max(axis=1).mean())
        kept = kept[np.argsort(np.log1p(difference**2) / 2 - total[kept], kind="stable")]
        return Calibrations(
            temperatures=temperatures[kept],
            model_shares=shares[kept],
            confusions=confusions[kept],
            log_likelihoods=total[kept],
        )

    def common_matrix(self, found: Calibrations, given: Probs) -> Probs:
        """Estimate the labels other than mistakes of all annotators together.

        It is the given matrix unless the likelihood is as much larger as `shrink` demands.
        """
        wrong, correct = found.select([0]).likelihoods(self.probs, self.labels, given)
        rates = fit_rates(wrong, correct, self.starts, _BISECTIONS)[0][0]
        rates = rates.repeat(np.diff(np.append(self.starts, len(self.labels))))
        others, rows = given, found.apply(self.probs)
        for _ in range(_STEPS_OF_MATRIX):
            wrong, correct = as_wrong_and_correct(rows, self.labels, others[self.labels])
            likelihood = np.maximum(rates * wrong + (1 - rates) * correct, LEAST_LIKELIHOOD)
            sums = np.zeros(others.shape)
            np.add.at(sums, self.labels, ((1 - rates) / likelihood)[:, None] * rows)
            others = shrink(sums * others, given)
        return others


_Fitted = tuple[Floats, Floats]  # model shares and confusions


@dataclass(eq=False)
class _Parts:
    """Answers by predicted class and label, for one calibration per row of `base`."""

    base: Floats  # (2, n_calibrations, n) likelihoods under p^(1/T), as wrong and as correct
    cells: NDArray[np.int64]  # predicted class * K + label
    who: NDArray[np.int64]
    which: NDArray[np.int64]  # number of the matrix of the annotator
    matrices: list[Floats]
    n_annotators: int

    @classmethod
    def of(cls, sample: Sample, base: Floats, matrices: Sequence[Probs]) -> "_Parts":
        numbers = np.diff(np.append(sample.starts, len(sample.labels)))
        annotators: list[int] = sample.annotators.tolist()
        own = [matrices[each] for each in annotators]
        distinct = list({id(each): each for each in own}.values())
        places = {id(each): place for place, each in enumerate(distinct)}
        which = np.array([places[id(each)] for each in own], dtype=np.int64)
        cells = sample.probs.argmax(axis=1) * sample.probs.shape[1] + sample.labels
        who = np.arange(len(numbers)).repeat(numbers)
        exact: list[Floats] = [each.astype(np.float64) for each in distinct]
        return cls(base, cells, who, which.repeat(numbers), exact, len(numbers))

    def take(self, rows: NDArray[np.bool_]) -> "_Parts":
        return _Parts(
            self.base[:, :, rows],
            self.cells[rows],
            self.who[rows],
            self.which[rows],
            self.matrices,
            self.n_annotators,
        )

    def log_likelihood(self, found: _Fitted) -> Floats:
        """Compute that of each calibration, under the best rate of each annotator."""
        _, starts = np.unique(self.who, return_index=True)
        wrong, correct = self._likelihoods(found)
        return fit_rates(wrong, correct, starts, _BISECTIONS)[1].sum(axis=1)

    def fit(self, reference: Floats | None = None) -> tuple[list[_Fitted], Floats]:
        """Fit calibrations and rates, and then calibrations to rates at other distances from 1 / K.

        With uniform labels all these distances may be scaled by one factor if the confusions are
        scaled inversely, so the answers refute hardly any factor at which both remain possible.
        The distances are those of the reference, if given. Returns the first rates too.
        """
        n_classes, n_calibrations = len(self.matrices[0]), self.base.shape[1]
        shares = np.full((n_calibrations, n_classes), 1 - _FIRST_SHARE)
        confusions = np.full((*shares.shape, n_classes), _FIRST_SHARE / n_classes)
        rates = np.full((n_calibrations, self.n_annotators), _FIRST_RATE)
        first = (shares, confusions)
        for _ in range(_STEPS):
            first, rates = self._step(first, rates)
        every, first_rates = [first], rates
        distances, ratio = rates - 1 / n_classes, np.ones(n_calibrations)
        if reference is not None:
            numbers = np.bincount(self.who, minlength=self.n_annotators)
            own, distances = distances, reference - 1 / n_classes
            squares = np.maximum((distances**2) @ numbers, 1e-9)
            ratio = ((own * distances) @ numbers / squares).clip(0.1, 10)
        for scales in _SCALES:
            found, last = first, ratio
            for scale in scales:
                found = _flatten(found, scale / last)
                last = np.full(n_calibrations, scale)
                rates = (1 / n_classes + scale * distances).clip(0, 1)
                for _ in range(_STEPS_PER_SCALE):
                    found, _ = self._step(found, rates)
                every.append(found)
        return every, first_rates

    def _likelihoods(self, found: _Fitted) -> Floats:
        shares, confusions = found
        values = self.base * shares[:, self.cells // shares.shape[1]]
        flat = confusions.reshape(len(shares), -1)
        values[0] += flat[:, self.cells]
        for number, others in enumerate(self.matrices):
            mixed = (confusions.reshape(-1, len(others)) @ others.T).reshape(flat.shape)
            if len(self.matrices) == 1:
                values[1] += mixed[:, self.cells]
            else:
                rows = self.which == number
                values[1][:, rows] += mixed[:, self.cells[rows]]
        return values

    def _step(self, found: _Fitted, rates: Floats) -> tuple[_Fitted, Floats]:
        """Do one step of EM, for calibrations and for rates."""
        shares, confusions = found
        n_calibrations, n_classes = shares.shape
        wrong, correct = self._likelihoods(found)
        mine = rates[:, self.who]
        inverse = 1 / np.maximum(mine * wrong + (1 - mine) * correct, LEAST_LIKELIHOOD)
        rate, right = mine * inverse, (1 - mine) * inverse
        expected = confusions * self._sum(rate, self.cells, n_classes**2).reshape(confusions.shape)
        for number, others in enumerate(self.matrices):
            rows = self.which == number if len(self.matrices) > 1 else slice(None)
            sums = self._sum(right[:, rows], self.cells[rows], n_classes**2)
            mixed = sums.reshape(-1, n_classes) @ others
            expected += confusions * mixed.reshape(confusions.shape)
        by_model = rate * self.base[0] + right * self.base[1]
        kept = shares * self._sum(by_model, self.cells // n_classes, n_classes)
        numbers = np.bincount(self.who, minlength=self.n_annotators)
        rates = self._sum(rate * wrong, self.who, self.n_annotators) / np.maximum(numbers, 1)
        # smoothed with the mean share of confusions, and with equal confusions
        confused = expected.sum(axis=2)
        totals = confused + kept
        share = confused.sum(axis=1) / totals.sum(axis=1)
        pseudo = np.tile(_SMOOTHING, n_calibrations // len(_SMOOTHING))
        confused = (confused + (pseudo * share)[:, None]) / (totals + pseudo[:, None])
        expected += (pseudo * np.maximum(share, _LEAST_SHARE) / n_classes)[:, None, None]
        expected *= (confused / expected.sum(axis=2))[:, :, None]
        return (1 - confused, expected), rates

    @staticmethod
    def _sum(values: Floats, places: NDArray[np.int64], n: int) -> Floats:
        """Sum the values of each row by place."""
        every = (np.arange(len(values))[:, None] * n + places).ravel()
        sums: Floats = np.bincount(every, values.ravel(), len(values) * n).astype(np.float64)
        return sums.reshape(-1, n)


def _flatten(found: _Fitted, factor: Floats) -> _Fitted:
    """Divide the distance of all probabilities from 1 / K by a factor, where it is possible."""
    shares, confusions = found
    shares = shares / factor[:, None]
    confusions = confusions / factor[:, None, None]
    confusions += ((1 - 1 / factor) / shares.shape[1])[:, None, None]
    confusions = np.maximum(confusions, 0)
    totals = shares + confusions.sum(axis=2)
    return shares / totals, confusions / totals[:, :, None]


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
