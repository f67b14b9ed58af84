r"""Q as the weights of a mixture, by EM on rows of class probabilities.

What every function here shares: given P(Y | x) = p, a complementary label has the probability

.. math:: P(ȳ \mid x) = (1 - ε) \sum_k p_k Q_{kȳ} + ε \, b_ȳ

where b are the frequencies of all labels and ε the share of examples about which p says nothing: a
classifier is sometimes surely wrong, and without ε one such row would speak as loudly as hundreds.
The logarithm of this is concave in ((1 - ε) Q, ε), so EM finds the one best fit from any start.

The probabilities themselves may be off: too sure, or with a class that is named too seldom. What
p^(1/T) w, divided by its sum, makes of them is fitted along, T and the weights w of the classes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from naysay._base.checks import check_one_label_each, check_probabilities

Floats = NDArray[np.floating[Any]]

MOST_WRONG = 0.5  # bound of the diagonal: beyond it the classes of a row and a label could swap
_MOST_STEPS = 300  # of EM
_MOST_UNSURE = 0.9
_LEAST_UNSURE = 1e-4  # of ε: no row of probabilities is worth more than this many labels
_TEMPERATURES = (0.25, 5.0)
_CHUNK = 50_000


@dataclass(frozen=True)
class Rows:
    """Class probabilities with a complementary label each, grouped by label."""

    probs: Floats
    starts: NDArray[np.int64]

    @classmethod
    def group(cls, probs: Floats, labels: NDArray[np.int64]) -> "Rows":
        """Sort the rows by their label."""
        n_classes = probs.shape[1]
        order = np.argsort(labels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_classes))])
        return cls(probs[order], starts)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How often each label occurs."""
        return np.diff(self.starts)

    def of_label(self, label: int) -> Floats:
        """Return the rows that have this label."""
        return self.probs[self.starts[label] : self.starts[label + 1]]

    def calibrated(self, calibration: "Calibration") -> "Rows":
        """Return the rows with other probabilities."""
        return Rows(calibration(self.probs), self.starts)


@dataclass(frozen=True)
class Calibration:
    """What is to be done to probabilities that are too sure, or name a class too seldom."""

    temperature: float = 1.0
    weights: NDArray[np.float64] | None = None

    def __call__(self, probs: Floats) -> Floats:
        """Return p^(1/T) w, divided by its sum."""
        tempered = temper(probs, self.temperature)
        if self.weights is None:
            return tempered
        weighted = tempered * self.weights.astype(probs.dtype)
        weighted /= weighted.sum(axis=1, keepdims=True)
        return weighted


@dataclass(frozen=True)
class Fit:
    """A matrix, the share of unsure rows and class weights, and how likely they make the labels."""

    Q: NDArray[np.float64]
    unsure: float
    weights: NDArray[np.float64]
    log_likelihood: float


def check_rows(
    probs: ArrayLike, comp_labels: ArrayLike, classes: tuple[str, ...]
) -> tuple[Floats, NDArray[np.int64]]:
    """Return checked probabilities, in single precision where they came so, and labels."""
    array = check_probabilities(probs, n_classes=len(classes), name="probs")
    labels = check_one_label_each(
        comp_labels, classes, len(array), name="comp_labels", of="row of probs"
    )
    return array, labels


def best_calibration(rows: Rows, fitter: Callable[..., Fit]) -> Calibration:
    """Return the temperature of the probabilities, and class weights, that `fitter` fits best with.

    Another temperature than 1 must gain as much likelihood as Schwarz' criterion asks of one more
    parameter, and weights as much as it asks of one less than there are classes.
    """
    price = 0.5 * np.log(len(rows.probs))

    def search(weighs: bool) -> tuple[float, Fit]:
        found: Any = minimize_scalar(
            lambda log: -at(float(np.exp(log)), weighs).log_likelihood,
            bounds=np.log(_TEMPERATURES),
            method="bounded",
            options={"xatol": 0.1},
        )
        temperature = float(np.exp(found.x))
        return temperature, at(temperature, weighs)

    def at(temperature: float, weighs: bool) -> Fit:
        return fitter(rows.calibrated(Calibration(temperature)), weighs=weighs)

    temperature, best = search(False)
    plain = at(1.0, False)
    if best.log_likelihood - plain.log_likelihood <= price:
        temperature, best = 1.0, plain
    gain = at(temperature, True).log_likelihood - best.log_likelihood
    if gain <= price * (rows.probs.shape[1] - 1):
        return Calibration(temperature)
    temperature, weighted = search(True)
    return Calibration(temperature, weighted.weights)


def fit_matrix(
    rows: Rows,
    start: NDArray[np.float64],
    *,
    prior_counts: NDArray[np.float64] | None,
    allow_diagonal: bool,
    weighs: bool = False,
    tolerance: float = 1e-3,
) -> Fit:
    """Fit Q and ε by EM with pseudo-counts; rows without any evidence stay as they start.

    Without pseudo-counts Q stays as it starts. With `weighs` the weights of the classes are fitted
    too, by a step of iterative scaling after each step of EM. It ends when no row changes by more
    than `tolerance` (L1) in a step. Two steps show where it is heading, a third goes there at once
    (SQUAREM): with unsure probabilities plain EM needs hundreds. A leap that loses likelihood is
    taken back.

    References
    ----------
    Varadhan, Roland 2008: Simple and globally convergent methods for accelerating the convergence
    of any EM algorithm, scheme S3.
    Darroch, Ratcliff 1972: Generalized iterative scaling for log-linear models.
    """
    em = _EM(rows, prior_counts, allow_diagonal, weighs)
    first = em.pack(start, _LEAST_UNSURE if allow_diagonal else 0.01, np.ones(len(start)))
    for _ in range(_MOST_STEPS // 3):
        second, _ = em.step(first)
        third, likelihood = em.step(second)
        if em.distance(third, second) < tolerance:
            first = third
            break
        change = second - first
        bend = third - second - change
        length = max(1.0, float(np.linalg.norm(change) / max(np.linalg.norm(bend), 1e-300)))
        leap = np.maximum(first + 2 * length * change + length**2 * bend, third / 10)
        landed, likelihood_of_leap = em.step(em.bounded(leap, otherwise=third))
        first = landed if likelihood_of_leap >= likelihood else third
    Q, unsure, weights = em.unpack(first)
    likelihood = expect(rows, Q, unsure, weights).log_likelihood
    return Fit(Q, unsure, np.ones(len(Q)) if weights is None else weights, likelihood)


@dataclass(frozen=True)
class _EM:
    """Steps of EM on states: Q, ε and, if they are fitted, class weights, as one vector."""

    rows: Rows
    prior_counts: NDArray[np.float64] | None
    allow_diagonal: bool
    weighs: bool

    def pack(
        self, Q: NDArray[np.float64], unsure: float, weights: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        state = np.append(Q, unsure)
        return np.append(state, weights) if self.weighs and weights is not None else state

    def unpack(
        self, state: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float, NDArray[np.float64] | None]:
        n_classes = self.rows.probs.shape[1]
        size = n_classes**2
        Q = state[:size].reshape(n_classes, n_classes)
        return Q, float(state[size]), state[size + 1 :] if self.weighs else None

    def step(self, state: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the state after one step of EM, and the penalised likelihood before it."""
        Q, unsure, weights = self.unpack(state)
        found = expect(self.rows, Q, unsure, weights)
        counts, likelihood = found.counts, found.log_likelihood
        if weights is not None:
            named = counts.sum(axis=1)
            weights = weights * (named + 1) / (found.predicted + 1)  # no class is lost for good
        if self.prior_counts is not None:
            counts = counts + self.prior_counts
            likelihood += float(xlogy(self.prior_counts, Q).sum())
        updated = self.pack(counts, found.n_unsure / self.rows.counts.sum(), weights)
        return self.bounded(updated, otherwise=state), likelihood

    def bounded(
        self, state: NDArray[np.float64], *, otherwise: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the state with rows that sum to 1, ε in bounds, and weights of mean 1."""
        Q, unsure, weights = self.unpack(state)
        kept = self.unpack(otherwise)[0]
        if self.prior_counts is not None:
            kept = normalise(Q, kept, allow_diagonal=self.allow_diagonal)
        # with a free diagonal nothing tells mistakes from unsure rows, so there are none
        most_unsure = _LEAST_UNSURE if self.allow_diagonal else _MOST_UNSURE
        unsure = float(np.clip(unsure, _LEAST_UNSURE, most_unsure))
        return self.pack(kept, unsure, None if weights is None else weights / weights.mean())

    def distance(self, after: NDArray[np.float64], before: NDArray[np.float64]) -> float:
        """Return by how much a row of Q (L1), ten times ε or a class weight has moved at most."""
        Q, unsure, weights = self.unpack(np.abs(after - before))
        return max(Q.sum(axis=1).max(), 10 * unsure, 0 if weights is None else weights.max())


class Expected(NamedTuple):
    """What EM expects: how often each class led to each label, and what else it counts."""

    counts: NDArray[np.float64]  # (class, label)
    predicted: NDArray[np.float64]  # how often the probabilities name each class, in sure rows
    n_unsure: float
    log_likelihood: float


def expect(
    rows: Rows, Q: NDArray[np.float64], unsure: float, weights: NDArray[np.float64] | None = None
) -> Expected:
    """Return what the rows are expected to be, with classes of these weights, 1 by default."""
    background = rows.counts / rows.counts.sum()
    counts = np.zeros_like(Q)
    predicted = np.zeros(len(Q))
    n_unsure = total = 0.0
    for label in np.flatnonzero(rows.counts).tolist():
        probs = rows.of_label(label)
        column = (Q[:, label] if weights is None else weights * Q[:, label]).astype(probs.dtype)
        # products raise flags on lanes of a register that they do not use
        with np.errstate(invalid="ignore"):
            sums = 1.0 if weights is None else probs @ weights.astype(probs.dtype)
            sure = (1 - unsure) * (probs @ column) / sums
            likely = sure + unsure * background[label]
            inverse = 1 / (likely * sums)
            counts[:, label] = (1 - unsure) * column * (probs.T @ inverse)
            if weights is not None:
                predicted += weights * (probs.T @ (sure * inverse))
        n_unsure += unsure * background[label] * float((1 / likely).sum(dtype=np.float64))
        total += float(np.log(likely).sum(dtype=np.float64))
    return Expected(counts, predicted, n_unsure, total)


def log_likelihoods(
    rows: Rows, Q: NDArray[np.float64], unsure: float, background: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return log P(ȳ | x) of each row, in the order of `rows`; `background` is b."""
    parts = [
        (1 - unsure) * (rows.of_label(label) @ Q[:, label].astype(rows.probs.dtype))
        + unsure * background[label]
        for label in range(len(Q))
    ]
    return np.log(np.concatenate(parts).astype(np.float64))


def temper(probs: Floats, temperature: float) -> Floats:
    """Return the probabilities that the same logits divided by `temperature` would give."""
    if temperature == 1:
        return probs
    powers = np.empty_like(probs)
    for start in range(0, len(probs), _CHUNK):
        part = probs[start : start + _CHUNK]
        # relative to the greatest: no row can underflow as a whole
        raised = (part / part.max(axis=1, keepdims=True)) ** (1 / temperature)
        powers[start : start + _CHUNK] = raised / raised.sum(axis=1, keepdims=True)
    return powers


def raise_zeros(
    Q: NDArray[np.float64],
    floor: float,
    *,
    otherwise: NDArray[np.float64],
    allow_diagonal: bool,
    possible: NDArray[np.bool_] | bool = True,
) -> NDArray[np.float64]:
    """Return Q with no zero where an entry is possible: EM could never leave a zero."""
    raised = np.where(possible, np.maximum(Q, floor), 0)
    return normalise(raised, otherwise, allow_diagonal=allow_diagonal)


def normalise(
    counts: NDArray[np.float64], otherwise: NDArray[np.float64], *, allow_diagonal: bool
) -> NDArray[np.float64]:
    """Divide rows by their sums, diagonal zero or bounded; rows of nothing are as `otherwise`."""
    counts = counts.copy()
    diagonal = counts.diagonal().copy()
    np.fill_diagonal(counts, 0)
    others = counts.sum(axis=1)
    if allow_diagonal:
        np.fill_diagonal(counts, np.minimum(diagonal, others * MOST_WRONG / (1 - MOST_WRONG)))
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), otherwise)
