r"""Q as the weights of a mixture, by EM on rows of class probabilities.

What every function here shares: given P(Y | x) = p, a complementary label has the probability

.. math:: P(ȳ \mid x) = (1 - ε) \sum_k p_k Q_{kȳ} + ε \, b_ȳ

where b are the frequencies of all labels and ε the share of examples about which p says nothing: a
classifier is sometimes surely wrong, and without ε one such row would speak as loudly as hundreds.
The logarithm of this is concave in (Q, ε), so EM finds the one best fit from any start.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from naysay._checks import check_label_indices, check_probabilities
from naysay._errors import InvalidLabels
from naysay.transition import TransitionMatrix

Floats = NDArray[np.floating[Any]]

MOST_WRONG = 0.5  # bound of the diagonal: beyond it the classes of a row and a label could swap
_MOST_STEPS = 300  # of EM
_MOST_UNSURE = 0.9
_LEAST_UNSURE = 1e-4  # of ε: no row of probabilities is worth more than this many labels
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

    def tempered(self, temperature: float) -> "Rows":
        """Return the rows with softmax temperature divided by `temperature`."""
        return Rows(temper(self.probs, temperature), self.starts)


@dataclass(frozen=True)
class Fit:
    """A matrix and the share of unsure rows, with what they say of the rows fitted."""

    Q: NDArray[np.float64]
    unsure: float
    log_likelihood: float


def check_rows(
    probs: ArrayLike, comp_labels: ArrayLike, classes: tuple[str, ...]
) -> tuple[Floats, NDArray[np.int64]]:
    """Return checked probabilities, in single precision where they came so, and labels."""
    labels = check_label_indices(comp_labels, classes, name="comp_labels")
    array = check_many(probs, n_classes=len(classes), name="probs")
    if labels.shape != (len(array),) or not len(array):
        raise InvalidLabels(
            f"comp_labels must hold one label per row of probs, shape ({len(array)},), and at "
            f"least one. Got shape {labels.shape}."
        )
    return array, labels


def check_many(probs: ArrayLike, *, n_classes: int, name: str) -> Floats:
    """Return checked probabilities, in single precision where they came so."""
    array = np.asarray(probs)
    if array.dtype != np.float32 or array.ndim != 2:
        return check_probabilities(array, n_classes=n_classes, name=name)
    # a part at a time: a copy in double precision of a million rows is large
    for start in range(0, max(1, len(array)), _CHUNK):
        check_probabilities(array[start : start + _CHUNK], n_classes=n_classes, name=name)
    return array


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


def log_likelihoods(rows: Rows, Q: NDArray[np.float64], unsure: float) -> NDArray[np.float64]:
    """Return log P(ȳ | x) of each row, in the order of `rows`."""
    background = rows.counts / rows.counts.sum()
    parts = [
        (1 - unsure) * (rows.of_label(label) @ Q[:, label].astype(rows.probs.dtype))
        + unsure * background[label]
        for label in range(len(Q))
    ]
    return np.log(np.concatenate(parts).astype(np.float64))


def expect(
    rows: Rows, Q: NDArray[np.float64], unsure: float
) -> tuple[NDArray[np.float64], float, float]:
    """Return expected counts of (class, label), of unsure rows, and the log-likelihood."""
    n = rows.counts.sum()
    background = rows.counts / n
    counts = np.zeros_like(Q)
    n_unsure = total = 0.0
    for label in np.flatnonzero(rows.counts).tolist():
        probs = rows.of_label(label)
        with _quiet_products():
            mixed = (1 - unsure) * (probs @ Q[:, label].astype(probs.dtype))
            mixed += unsure * background[label]
            inverse = 1 / mixed
            counts[:, label] = (1 - unsure) * Q[:, label] * (probs.T @ inverse)
        n_unsure += unsure * background[label] * float(inverse.sum(dtype=np.float64))
        total += float(np.log(mixed).sum(dtype=np.float64))
    return counts, n_unsure, total


def _quiet_products() -> np.errstate:
    """Keep quiet about flags that the product raises on lanes of a register it does not use."""
    return np.errstate(invalid="ignore")


def fit_unsure(rows: Rows, Q: NDArray[np.float64], *, allow_diagonal: bool) -> Fit:
    """Fit ε alone, for a matrix that is given."""
    share = np.repeat(rows.counts / rows.counts.sum(), rows.counts)
    with _quiet_products():
        predicted = np.concatenate(
            [rows.of_label(label) @ Q[:, label].astype(rows.probs.dtype) for label in range(len(Q))]
        ).astype(np.float64)

    def loss(unsure: float) -> float:
        return -float(np.log((1 - unsure) * predicted + unsure * share).sum())

    if allow_diagonal:
        return Fit(Q, _LEAST_UNSURE, -loss(_LEAST_UNSURE))
    found: Any = minimize_scalar(loss, bounds=(_LEAST_UNSURE, _MOST_UNSURE), method="bounded")
    return Fit(Q, float(found.x), -float(found.fun))


def fit_matrix(
    rows: Rows,
    start: NDArray[np.float64],
    *,
    prior_counts: NDArray[np.float64],
    allow_diagonal: bool,
    tolerance: float = 1e-4,
) -> Fit:
    """Fit Q and ε by EM with pseudo-counts; rows without any evidence stay as they start.

    It ends when no row changes by more than `tolerance` (L1) in a step. Two steps of EM show where
    it is heading, a third goes there at once (SQUAREM): with unsure probabilities plain EM needs
    hundreds of steps. A leap that loses likelihood is taken back.

    References
    ----------
    Varadhan, Roland 2008: Simple and globally convergent methods for accelerating the convergence
    of any EM algorithm, scheme S3.
    """
    n_classes = len(start)

    def step(state: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return the state after one step of EM, and the penalised likelihood before it."""
        Q, unsure = state[:-1].reshape(n_classes, n_classes), float(state[-1])
        counts, n_unsure, total = expect(rows, Q, unsure)
        total += float(xlogy(prior_counts, Q).sum())
        return pack(counts + prior_counts, n_unsure / rows.counts.sum(), Q), total

    def pack(
        counts: NDArray[np.float64], unsure: float, otherwise: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        Q = normalise(counts, otherwise, allow_diagonal=allow_diagonal)
        return np.append(Q, _bounded_share(unsure, allow_diagonal))

    first = np.append(start, _start(allow_diagonal))
    for _ in range(_MOST_STEPS // 3):
        second, _ = step(first)
        third, total = step(second)
        if np.abs(third - second)[:-1].reshape(n_classes, -1).sum(axis=1).max() < tolerance and (
            abs(third[-1] - second[-1]) < tolerance / 10
        ):
            first = third
            break
        change = second - first
        bend = third - second - change
        length = max(1.0, float(np.linalg.norm(change) / max(np.linalg.norm(bend), 1e-300)))
        leap = np.maximum(first + 2 * length * change + length**2 * bend, third / 10)
        Q = third[:-1].reshape(n_classes, n_classes)
        landed, reached = step(pack(leap[:-1].reshape(Q.shape), float(leap[-1]), Q))
        first = landed if reached >= total else third
    Q, unsure = first[:-1].reshape(n_classes, n_classes), float(first[-1])
    return Fit(Q, unsure, expect(rows, Q, unsure)[2])


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


def as_matrix(Q: TransitionMatrix | ArrayLike, *, allow_diagonal: bool) -> TransitionMatrix:
    """Return the matrix, without a diagonal unless that is allowed."""
    if isinstance(Q, TransitionMatrix) and (allow_diagonal or not np.asarray(Q).diagonal().any()):
        return Q
    names = Q.classes if isinstance(Q, TransitionMatrix) and Q.has_names else None
    return TransitionMatrix(np.asarray(Q), names, allow_diagonal=allow_diagonal)
