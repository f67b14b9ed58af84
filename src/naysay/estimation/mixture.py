r"""Fit Q as the weights of a mixture model, by EM on class probabilities with one label each.

All functions share one model. Given P(Y | x) = p, a complementary label has the probability

.. math:: P(ȳ \mid x) = (1 - ε) \sum_k p_k Q_{kȳ} + ε \, b_ȳ

where b are the frequencies of all labels and ε is the share of examples whose p is uninformative.
A classifier is sometimes wrong with a probability near 1; without ε one such row would have as much
influence as hundreds of others. The log-likelihood is concave in ((1 - ε) Q, ε), so EM converges
to the global maximum from any start.

The probabilities may be miscalibrated: overconfident, or biased against a class. They are
therefore replaced by p^(1/T) w, divided by its sum, with a temperature T and class weights w that
are fitted too.
"""

# X and Q are variables, although they are in upper case
# pyright: reportConstantRedefinition=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import xlogy

from naysay._base.checks import check_one_label_each, check_probabilities, row_slices
from naysay.transition.algebra import Floats

Probs = NDArray[np.floating[Any]]  # float32 stays float32

_MAX_DIAGONAL = 0.5  # with larger entries a class and its label could be exchanged
_MAX_STEPS = 300  # EM steps
_MAX_EPSILON = 0.9
_MIN_EPSILON = 1e-4  # bounds the influence of a single row
_TEMPERATURES = (0.25, 5.0)  # range of the search


@dataclass(frozen=True)
class Rows:
    """Class probabilities with one complementary label per row, sorted by label."""

    probs: Probs
    starts: NDArray[np.int64]

    @classmethod
    def group(cls, probs: Probs, labels: NDArray[np.int64]) -> "Rows":
        """Sort the rows by their label."""
        counts = np.bincount(labels, minlength=probs.shape[1])
        return cls(probs[np.argsort(labels, kind="stable")], np.append(0, np.cumsum(counts)))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows with each label."""
        return np.diff(self.starts)

    def of_label(self, label: int) -> Probs:
        """Select the rows with this label."""
        return self.probs[self.starts[label] : self.starts[label + 1]]

    def calibrated(self, calibration: "Calibration") -> "Rows":
        """Apply a calibration to the probabilities."""
        return Rows(calibration(self.probs), self.starts)


@dataclass(frozen=True)
class Calibration:
    """Temperature and class weights that correct miscalibrated probabilities."""

    temperature: float = 1.0
    weights: Floats | None = None

    def __call__(self, probs: Probs) -> Probs:
        """Compute p^(1/T) w, divided by its sum."""
        if self.temperature != 1:
            tempered = np.empty_like(probs)
            for rows in row_slices(*probs.shape):
                # dividing by the largest keeps whole rows from underflowing
                relative = probs[rows] / probs[rows].max(axis=1, keepdims=True)
                powers = relative ** (1 / self.temperature)
                tempered[rows] = powers / powers.sum(axis=1, keepdims=True)
            probs = tempered
        if self.weights is None:
            return probs
        weighted = probs * self.weights.astype(probs.dtype)
        weighted /= weighted.sum(axis=1, keepdims=True)
        return weighted


@dataclass(frozen=True)
class Fit:
    """Fitted matrix, share ε of uninformative rows and class weights (None if not fitted)."""

    Q: Floats
    epsilon: float
    weights: Floats | None
    log_likelihood: float


def check_rows(
    probs: ArrayLike, comp_labels: ArrayLike, classes: tuple[str, ...]
) -> tuple[Probs, NDArray[np.int64]]:
    """Check probabilities and one label for each row."""
    array = check_probabilities(probs, n_classes=len(classes), name="probs")
    return array, check_one_label_each(
        comp_labels, classes, len(array), name="comp_labels", of="row of probs"
    )


def best_calibration(rows: Rows, fitter: Callable[..., Fit]) -> Calibration:
    """Choose the temperature and the class weights with the largest likelihood under `fitter`.

    By the Bayesian information criterion (Schwarz), a temperature other than 1 counts as one
    parameter and class weights as one less than the number of classes: each must raise the
    log-likelihood by ½ log n per parameter.
    """
    penalty = 0.5 * np.log(len(rows.probs))

    def fit(temperature: float, fit_weights: bool) -> Fit:
        return fitter(rows.calibrated(Calibration(temperature)), fit_weights=fit_weights)

    def search(fit_weights: bool) -> tuple[float, Fit]:
        found = minimize_scalar(
            lambda log: -fit(float(np.exp(log)), fit_weights).log_likelihood,
            bounds=np.log(_TEMPERATURES),
            method="bounded",
            options={"xatol": 0.1},
        )
        temperature = float(np.exp(found.x))
        return temperature, fit(temperature, fit_weights)

    temperature, best = search(False)
    plain = fit(1.0, False)
    if best.log_likelihood - plain.log_likelihood <= penalty:
        temperature, best = 1.0, plain
    gain = fit(temperature, True).log_likelihood - best.log_likelihood
    if gain <= penalty * (rows.probs.shape[1] - 1):
        return Calibration(temperature)
    temperature, weighted = search(True)
    return Calibration(temperature, weighted.weights)


def fit_matrix(
    rows: Rows,
    start: Floats,
    *,
    prior_counts: Floats | None,
    allow_diagonal: bool,
    is_uniform: bool = False,
    fit_weights: bool = False,
    tolerance: float = 1e-3,
) -> Fit:
    """Fit Q and ε by EM with pseudo-counts `prior_counts`; without them only ε is fitted.

    With `is_uniform` only the rate of mistakes is fitted: all entries of the diagonal are equal,
    and so are all others.

    Rows of Q that no label is evidence about keep their start. With `fit_weights` class weights
    are fitted too, by a step of iterative scaling after each EM step. The fit ends when no row of
    Q changes by more than `tolerance` (L1) in a step. Every third step is an extrapolation of the
    two before (SQUAREM), which is undone if the likelihood falls; with imprecise probabilities
    plain EM would need hundreds of steps.

    References
    ----------
    Varadhan, Roland 2008: Simple and globally convergent methods for accelerating the convergence
    of any EM algorithm, scheme S3.
    Darroch, Ratcliff 1972: Generalized iterative scaling for log-linear models.
    """
    em = _EM(rows, prior_counts, allow_diagonal, is_uniform)
    weights = np.ones(len(start)) if fit_weights else None
    first = em.pack(start, _MIN_EPSILON if allow_diagonal else 0.01, weights)
    for _ in range(_MAX_STEPS // 3):
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
    Q, epsilon, weights = em.unpack(first)
    return Fit(Q, epsilon, weights, expect(rows, Q, epsilon, weights).log_likelihood)


@dataclass(frozen=True)
class _EM:
    """EM steps on a state vector: Q, ε and, if they are fitted, class weights."""

    rows: Rows
    prior_counts: Floats | None
    allow_diagonal: bool
    is_uniform: bool = False

    def pack(self, Q: Floats, epsilon: float, weights: Floats | None) -> Floats:
        return np.concatenate([Q.ravel(), [epsilon], [] if weights is None else weights])

    def unpack(self, state: Floats) -> tuple[Floats, float, Floats | None]:
        n_classes = self.rows.probs.shape[1]
        Q, epsilon, weights = np.split(state, [n_classes**2, n_classes**2 + 1])
        return Q.reshape(n_classes, -1), float(epsilon[0]), weights if len(weights) else None

    def step(self, state: Floats) -> tuple[Floats, float]:
        """Compute the state after one EM step, and the penalised log-likelihood before it."""
        Q, epsilon, weights = self.unpack(state)
        found = expect(self.rows, Q, epsilon, weights)
        counts, likelihood = found.counts, found.log_likelihood
        if weights is not None:
            # with one pseudo-count no weight can reach 0
            weights = weights * (counts.sum(axis=1) + 1) / (found.predicted + 1)
        if self.prior_counts is not None:
            counts = counts + self.prior_counts
            likelihood += float(xlogy(self.prior_counts, Q).sum())
        updated = self.pack(counts, found.n_uninformative / self.rows.counts.sum(), weights)
        return self.bounded(updated, otherwise=state), likelihood

    def bounded(self, state: Floats, *, otherwise: Floats) -> Floats:
        """Normalise the rows of Q, keep ε within bounds, and scale weights to mean 1."""
        counts, epsilon, weights = self.unpack(state)
        Q = self.unpack(otherwise)[0]
        if self.is_uniform:
            Q = uniform_with_mistakes(len(Q), counts.trace() / counts.sum())
        elif self.prior_counts is not None:
            Q = normalise(counts, Q, allow_diagonal=self.allow_diagonal)
        # a free diagonal explains the same labels as ε does, so ε is fixed then
        upper = _MIN_EPSILON if self.allow_diagonal else _MAX_EPSILON
        epsilon = float(np.clip(epsilon, _MIN_EPSILON, upper))
        return self.pack(Q, epsilon, None if weights is None else weights / weights.mean())

    def distance(self, after: Floats, before: Floats) -> float:
        """Compute the largest change of a row of Q (L1), of ten times ε or of a class weight."""
        Q, epsilon, weights = self.unpack(np.abs(after - before))
        return max(Q.sum(axis=1).max(), 10 * epsilon, 0 if weights is None else weights.max())


class Expected(NamedTuple):
    """Expected sufficient statistics of one EM step, and the log-likelihood."""

    counts: Floats  # (class, label)
    predicted: Floats  # class probabilities summed over informative rows
    n_uninformative: float
    log_likelihood: float


def expect(rows: Rows, Q: Floats, epsilon: float, weights: Floats | None = None) -> Expected:
    """Compute the E-step: the expected counts r_ik ∝ w_k p_k(x_i) Q_kȳ, summed by label."""
    background = rows.counts / rows.counts.sum()
    counts = np.zeros_like(Q)
    predicted = np.zeros(len(Q))
    n_uninformative = total = 0.0
    for label in np.flatnonzero(rows.counts).tolist():
        probs = rows.of_label(label)
        column = (Q[:, label] if weights is None else weights * Q[:, label]).astype(probs.dtype)
        # vectorised products can raise flags for lanes of a register that they do not use
        with np.errstate(invalid="ignore"):
            sums = 1.0 if weights is None else probs @ weights.astype(probs.dtype)
            informative = (1 - epsilon) * (probs @ column) / sums
            likely = informative + epsilon * background[label]
            inverse = 1 / (likely * sums)
            counts[:, label] = (1 - epsilon) * column * (probs.T @ inverse)
            if weights is not None:
                predicted += weights * (probs.T @ (informative * inverse))
        n_uninformative += epsilon * background[label] * float((1 / likely).sum(dtype=np.float64))
        total += float(np.log(likely).sum(dtype=np.float64))
    return Expected(counts, predicted, n_uninformative, total)


def mixture_log_likelihoods(rows: Rows, Q: Floats, epsilon: float, background: Floats) -> Floats:
    """Compute log P(ȳ | x) of each row, in the order of `rows`; `background` is b."""
    parts = [
        (1 - epsilon) * (rows.of_label(label) @ Q[:, label].astype(rows.probs.dtype))
        + epsilon * background[label]
        for label in range(len(Q))
    ]
    return np.log(np.concatenate(parts).astype(np.float64))


def uniform_with_mistakes(n_classes: int, rate: float) -> Floats:
    """Make the matrix of annotators who err at this rate, at most ½, and are uniform otherwise."""
    rate = min(rate, _MAX_DIAGONAL)
    Q = np.full((n_classes, n_classes), (1 - rate) / (n_classes - 1))
    np.fill_diagonal(Q, rate)
    return Q


def raise_zeros(
    Q: Floats,
    floor: float,
    *,
    otherwise: Floats,
    allow_diagonal: bool,
    possible: NDArray[np.bool_] | bool = True,
) -> Floats:
    """Raise possible entries of Q to at least `floor`: EM never moves away from zero."""
    raised = np.where(possible, np.maximum(Q, floor), 0)
    return normalise(raised, otherwise, allow_diagonal=allow_diagonal)


def normalise(counts: Floats, otherwise: Floats, *, allow_diagonal: bool) -> Floats:
    """Divide rows by their sums, with a zero or bounded diagonal; empty rows are `otherwise`."""
    counts = counts.copy()
    diagonal = counts.diagonal().copy()
    np.fill_diagonal(counts, 0)
    others = counts.sum(axis=1)
    if allow_diagonal:
        np.fill_diagonal(counts, np.minimum(diagonal, others * _MAX_DIAGONAL / (1 - _MAX_DIAGONAL)))
    totals = counts.sum(axis=1, keepdims=True)
    return np.where(totals > 0, counts / np.where(totals > 0, totals, 1), otherwise)
