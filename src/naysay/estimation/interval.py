"""How sure the entries of Q are: an interval for each, and samples of the whole matrix."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincinv, ndtr

from naysay._base.checks import check_count, check_number, check_seed, named
from naysay.estimation.mixture import (
    Fit,
    Rows,
    best_calibration,
    check_rows,
    fit_matrix,
    raise_zeros,
)
from naysay.transition import TransitionMatrix, as_transition_matrix

__all__ = ["Uncertainty", "uncertainty"]

_N_CHOICE = 10_000  # rows that tell what is wrong with the probabilities
_LEAST = 1e-12
_HALVINGS = 40  # of the distance of a bound from the estimate: to a few 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """What is known of Q: an interval for every entry, and matrices that may be the true one.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_classes, n_classes)
        Bounds of each entry, which hold for each entry alone. The entry of the matrix that was
        asked about is between them.
    samples : ndarray of shape (n_samples, n_classes, n_classes)
        Matrices drawn from what is known, for instance for
        ``metrics.accuracy_without_labels(…, Q_samples=…)``.
    row_error : ndarray of shape (n_classes,)
        How far off the row of each class is expected to be: mean L1 distance of the samples from
        that of the matrix that was asked about, 0 to 2.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    samples: NDArray[np.float64]
    row_error: NDArray[np.float64]
    classes: tuple[str, ...]

    @property
    def advice(self) -> str:
        """Say of which class more anchors, examples of known class, would help most."""
        worst = int(self.row_error.argmax())
        return (
            f"More anchors of class {named(worst, self.classes)} would help most: its row of Q is "
            f"off by about {self.row_error[worst]:.2g} (L1). The median row is off by "
            f"{np.median(self.row_error):.2g}."
        )

    def __str__(self) -> str:
        width = self.upper - self.lower
        return (
            f"Uncertainty of Q, {len(self.classes)} classes: intervals are {width.mean():.2g} wide "
            f"in the mean, {width.max():.2g} at most. {self.advice}"
        )


def uncertainty(
    probs: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    level: float = 0.95,
    n_samples: int = 200,
    allow_diagonal: bool = False,
    seed: int | np.random.Generator = 0,
) -> Uncertainty:
    r"""Return an interval for every entry of an estimate of Q, and samples of the matrix.

    The posterior of the matrix given the labels has a Dirichlet prior of half a label per entry
    (Jeffreys). Near its peak the likelihood is a normal distribution with one block per label j,

    .. math:: H_j = \sum_{i: ȳ_i = j} p_i p_i^\top / P(ȳ_i \mid x_i)^2

    under the condition that rows sum to 1. Unsure probabilities thus give wide intervals. Entries
    near zero are not normal: each is drawn from the gamma distribution of that mean and variance,
    with the ranks of the normal draws. With sure probabilities this is the Dirichlet posterior.

    The estimate is information too, and its distance from the peak tells how much: where chance
    explains that distance, the labels and the estimate together leave less doubt than the labels
    alone. Where it is larger, the labels count. The middle of each interval is the entry of Q,
    unless 0 or 1 cuts it off, and it is as wide as it must be to hold `level` of what is left.

    What the intervals hold is the chance of the labels drawn. They take the probabilities as
    right, up to the temperature and the class weights that `refine` fits too.

    Parameters
    ----------
    probs, comp_labels, allow_diagonal, seed
        As for `refine`; the probabilities again from a model that did not see these labels.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The estimate that the intervals are for, as `refine` or `from_anchors` gives it.
    level : float, default=0.95
        Share of cases in which the interval of an entry is to hold the true one.
    n_samples : int, default=200

    Examples
    --------
    >>> Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    >>> labels = np.random.default_rng(0).integers(4, size=2000)
    >>> known = uncertainty(np.eye(4)[labels], Q.sample(labels), Q)
    >>> inside = (known.lower <= np.asarray(Q)) & (np.asarray(Q) <= known.upper)
    >>> bool(inside.mean() > 0.8)
    True
    """
    start = as_transition_matrix(Q, allow_diagonal=allow_diagonal)
    level = check_number(level, "level", above=0, below=1)
    n_samples = check_count(n_samples, "n_samples")
    array, labels = check_rows(probs, comp_labels, start.classes)
    rng = check_seed(seed)
    n_classes = start.n_classes
    half = np.full((n_classes, n_classes), 0.5)
    if not allow_diagonal:
        np.fill_diagonal(half, 0)
    estimate = np.asarray(start)
    begin = raise_zeros(
        estimate, 0.1 / n_classes, otherwise=estimate, allow_diagonal=allow_diagonal
    )
    fit = partial(fit_matrix, start=begin, prior_counts=half, allow_diagonal=allow_diagonal)
    choice = rng.permutation(len(array))[:_N_CHOICE]
    calibration = best_calibration(Rows.group(array[choice], labels[choice]), fit)
    rows = Rows.group(array, labels).calibrated(calibration)
    peak = fit(rows, tolerance=1e-4)
    posterior = _posterior(rows, peak, half, n_samples, rng).given(estimate)
    reach = posterior.reach(estimate, level)
    return Uncertainty(
        lower=np.maximum(estimate - reach, 0),
        upper=np.minimum(estimate + reach, 1),
        samples=posterior.samples,
        row_error=np.abs(posterior.samples - estimate).sum(axis=2).mean(axis=0),
        classes=start.classes,
    )


@dataclass(frozen=True)
class _Posterior:
    """Matrices drawn, and a gamma distribution for each entry; one without shape is certain."""

    samples: NDArray[np.float64]
    mean: NDArray[np.float64]
    shape: NDArray[np.float64]

    def given(self, estimate: NDArray[np.float64]) -> "_Posterior":
        """Return what labels and estimate together tell of each entry.

        In units of the errors that the labels leave, let d be the mean square of the distance of
        the estimate from the peak. An estimate that knows nothing of the labels, of error
        variance a² against their s², has d = 1 + a²/s², and both together leave s² (d - 1)/d.
        One that is the best mean of such a matrix and of the labels has d = s²/(a² + s²), and
        leaves s² (1 - d). So the distance tells what the estimate is worth, as far as d is known:
        no less than two standard errors of d are left. A row farther away counts for itself.
        """
        certain = np.isinf(self.shape)
        squares = np.where(certain, 0, (estimate - self.mean) ** 2 * self._precision)
        n_free = np.maximum((~certain).sum(axis=1) - 1, 1)  # of each row: it sums to 1
        of_row = squares.sum(axis=1) / n_free
        of_all = squares.sum() / n_free.sum()
        left = max(abs(1 - of_all) / max(1, of_all), min(1.0, 2 * np.sqrt(2 / n_free.sum())))
        is_far = of_row > 1 + 2 * np.sqrt(2 / n_free)
        shares = np.where(is_far, np.maximum(left, 1 - 1 / np.maximum(of_row, 1)), left)[:, None]
        mean = estimate + shares * (self.mean - estimate)
        variance = shares / np.where(certain, 1, self._precision)
        possible = ~certain & (mean > _LEAST)
        shape = np.where(possible, mean**2 / variance, np.inf)
        drawn = np.maximum(mean + np.sqrt(shares) * (self.samples - self.mean), 0)
        return _Posterior(drawn / drawn.sum(axis=2, keepdims=True), mean, shape)

    @property
    def _precision(self) -> NDArray[np.float64]:
        """One over the variance of each entry; of no meaning where it is certain."""
        return np.where(np.isinf(self.shape), 1, self.shape) / np.maximum(self.mean, _LEAST) ** 2

    def reach(self, estimate: NDArray[np.float64], level: float) -> NDArray[np.float64]:
        """Return how far from the estimate each entry is at most, in a share `level` of cases."""
        certain = np.isinf(self.shape)
        shape = np.where(certain, 1, self.shape)
        scale = np.where(certain, 1, self.mean) / shape

        def share_within(distance: NDArray[np.float64]) -> NDArray[np.float64]:
            above = gammainc(shape, (estimate + distance) / scale)
            return above - gammainc(shape, np.maximum(estimate - distance, 0) / scale)

        least, most = np.zeros_like(estimate), np.full_like(estimate, 2.0)
        for _ in range(_HALVINGS):
            middle = (least + most) / 2
            enough = share_within(middle) >= level
            least, most = np.where(enough, least, middle), np.where(enough, middle, most)
        return np.where(certain, np.abs(estimate - self.mean), most)


def _posterior(
    rows: Rows,
    fit: Fit,
    prior_counts: NDArray[np.float64],
    n_samples: int,
    rng: np.random.Generator,
) -> _Posterior:
    """Return the posterior around its peak: draws of the matrix, and the distribution by entry."""
    Q = fit.Q
    covariances = [_covariance(rows, fit, prior_counts, label) for label in range(len(Q))]
    normal = np.stack(
        [_normal_draws(covariance, n_samples, rng) for covariance in covariances], axis=2
    )  # (samples, classes, labels)
    # condition on rows that sum to 1: take the excess back where entries are least certain
    share = np.linalg.pinv(np.sum(covariances, axis=0), hermitian=True)
    excess = normal.sum(axis=2) @ share
    for label, covariance in enumerate(covariances):
        normal[:, :, label] -= excess @ covariance
    variance = np.stack(
        [
            np.maximum((covariance - covariance @ share @ covariance).diagonal(), 0)
            for covariance in covariances
        ],
        axis=1,
    )
    possible = (Q > _LEAST) & (variance > 0)
    deviation = np.sqrt(np.where(possible, variance, 1))
    ranks = np.clip(ndtr(normal / deviation), 1e-9, 1 - 1e-9)
    shape = np.where(possible, (Q / deviation) ** 2, 1)
    drawn = np.where(possible, gammaincinv(shape, ranks) * Q / shape, Q)
    drawn /= drawn.sum(axis=2, keepdims=True)
    return _Posterior(drawn, Q, np.where(possible, shape, np.inf))


def _covariance(
    rows: Rows, fit: Fit, prior_counts: NDArray[np.float64], label: int
) -> NDArray[np.float64]:
    """Return the covariance of column `label` of Q, before rows are made to sum to 1."""
    column = fit.Q[:, label]
    free = column > _LEAST
    probs = rows.of_label(label)[:, free]
    background = fit.unsure * rows.counts[label] / rows.counts.sum()
    mixed = (1 - fit.unsure) * (probs @ column[free].astype(probs.dtype)) + background
    weighted = probs * ((1 - fit.unsure) / mixed)[:, None]
    information = (weighted.T @ weighted).astype(np.float64)
    information[np.diag_indices_from(information)] += prior_counts[free, label] / column[free] ** 2
    covariance = np.zeros((len(column), len(column)))
    covariance[np.ix_(free, free)] = np.linalg.pinv(information, hermitian=True)
    return covariance


def _normal_draws(
    covariance: NDArray[np.float64], n_samples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(covariance)
    scale = vectors * np.sqrt(np.maximum(values, 0))
    return rng.standard_normal((n_samples, len(covariance))) @ scale.T
