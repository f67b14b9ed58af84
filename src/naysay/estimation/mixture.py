r"""Q as the weights of a mixture, by EM on rows of class probabilities.

What every function here shares: given P(Y | x) = p, a complementary label has the probability

.. math:: P(ȳ \mid x) = (1 - ε) \sum_k p_k Q_{kȳ} + ε \, b_ȳ

where b are the frequencies of all labels and ε the share of examples about which p says nothing: a
classifier is sometimes surely wrong, and without ε one such row would speak as loudly as hundreds.
The logarithm of this is concave in ((1 - ε) Q, ε), so EM finds the one best fit from any start.

The probabilities themselves may be off: too sure, or with a class that is named too seldom. What
p^(1/T) w, divided by its sum, makes of them is fitted along, T and the weights w of the classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from naysay._base.checks import check_one_label_each, check_probabilities

Floats = NDArray[np.floating[Any]]

MOST_WRONG = 0.5  # bound of the diagonal: beyond it the classes of a row and a label could swap
_MOST_STEPS = 300  # of EM
_MOST_UNSURE = 0.9
_LEAST_UNSURE = 1e-4  # of ε: no row of probabilities is worth more than this many labels
_CHUNK = 50_000

_State = tuple[NDArray[np.float64], float, NDArray[np.float64] | None]  # Q, ε, class weights


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
        with _quiet_products():
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


def _quiet_products() -> np.errstate:
    """Keep quiet about flags that the product raises on lanes of a register it does not use."""
    return np.errstate(invalid="ignore")


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
    n_classes = len(start)
    n = rows.counts.sum()

    def unpack(state: NDArray[np.float64]) -> _State:
        Q = state[: n_classes**2].reshape(n_classes, n_classes)
        return Q, float(state[n_classes**2]), state[n_classes**2 + 1 :] if weighs else None

    def pack(
        counts: NDArray[np.float64],
        unsure: float,
        weights: NDArray[np.float64] | None,
        otherwise: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        Q = otherwise
        if prior_counts is not None:
            Q = normalise(counts, otherwise, allow_diagonal=allow_diagonal)
        state = np.append(Q, _bounded_share(unsure, allow_diagonal))
        return state if weights is None else np.append(state, weights / weights.mean())

    def step(state: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the state after one step of EM, and the penalised likelihood before it."""
        Q, unsure, weights = unpack(state)
        found = expect(rows, Q, unsure, weights)
        if weights is not None:
            named = found.counts.sum(axis=1)
            weights = weights * (named + 1) / (found.predicted + 1)  # no class is lost for good
        counts, total = found.counts, found.log_likelihood
        if prior_counts is not None:
            counts = counts + prior_counts
            total += float(xlogy(prior_counts, Q).sum())
        return pack(counts, found.n_unsure / n, weights, Q), total

    first = np.append(start, _start(allow_diagonal))
    if weighs:
        first = np.append(first, np.ones(n_classes))
    for _ in range(_MOST_STEPS // 3):
        second, _ = step(first)
        third, total = step(second)
        if _is_still(unpack(third), unpack(second), tolerance):
            first = third
            break
        change = second - first
        bend = third - second - change
        length = max(1.0, float(np.linalg.norm(change) / max(np.linalg.norm(bend), 1e-300)))
        leap = np.maximum(first + 2 * length * change + length**2 * bend, third / 10)
        counts, unsure, weights = unpack(leap)
        landed, reached = step(pack(counts, unsure, weights, unpack(third)[0]))
        first = landed if reached >= total else third
    Q, unsure, weights = unpack(first)
    reached = expect(rows, Q, unsure, weights).log_likelihood
    return Fit(Q, unsure, np.ones(n_classes) if weights is None else weights, reached)


def _is_still(after: _State, before: _State, tolerance: float) -> bool:
    """Say whether neither a row of Q nor a weight has moved by more than the tolerance."""
    moved = [np.abs(after[0] - before[0]).sum(axis=1).max(), 10 * abs(after[1] - before[1])]
    if after[2] is not None and before[2] is not None:
        moved.append(np.abs(after[2] - before[2]).max())
    return max(moved) < tolerance


def spread(Q: NDArray[np.float64], floor: float, *, allow_diagonal: bool) -> NDArray[np.float64]:
    """Return Q with no zero off the diagonal: EM could never leave a zero."""
    raised = np.maximum(Q, floor)
    return normalise(raised, Q, allow_diagonal=allow_diagonal)


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


def _start(allow_diagonal: bool) -> float:
    return _LEAST_UNSURE if allow_diagonal else 0.01


def _bounded_share(share: float, allow_diagonal: bool) -> float:
    """Keep ε in bounds; with a free diagonal nothing tells mistakes from unsure rows, so none."""
    return _LEAST_UNSURE if allow_diagonal else float(np.clip(share, _LEAST_UNSURE, _MOST_UNSURE))
