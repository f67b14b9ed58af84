"""Uncertainty of an estimate of Q: an interval for each entry, and samples of the matrix."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincinv, ndtr

from naysay._base.checks import check_count, check_number, check_seed
from naysay.estimation.mixture import (
    Fit,
    Rows,
    best_calibration,
    check_rows,
    fit_matrix,
    raise_zeros,
)
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats

_MAX_ROWS = 10_000  # for the calibration of the probabilities
_ZERO = 1e-12  # smaller entries count as zero
_N_BISECTIONS = 40  # half-widths to a few 1e-12


@dataclass(frozen=True, kw_only=True, eq=False)
class Uncertainty:
    """Uncertainty of an estimate of Q: an interval for every entry, and samples of the matrix.

    Attributes
    ----------
    lower, upper : ndarray of shape (n_classes, n_classes)
        Bounds of the interval of each entry, each with the given level by itself. They contain
        the estimated entry.
    samples : ndarray of shape (n_samples, n_classes, n_classes)
        Posterior samples of the matrix, for instance for
        ``metrics.accuracy_without_labels(…, Q_samples=…)``.
    row_error : ndarray of shape (n_classes,)
        Expected error of the row of each class: mean L1 distance of the samples from the
        estimate, between 0 and 2.
    """

    lower: Floats
    upper: Floats
    samples: Floats
    row_error: Floats
    classes: tuple[str, ...]

    @classmethod
    def of_samples(cls, Q: TransitionMatrix, samples: Floats, level: float = 0.95) -> "Uncertainty":
        """Compute intervals that contain `level` of the samples, and the estimate."""
        estimate = np.asarray(Q)
        lower, upper = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return cls(
            lower=np.minimum(lower, estimate),
            upper=np.maximum(upper, estimate),
            samples=samples,
            row_error=np.abs(samples - estimate).sum(axis=2).mean(axis=0),
            classes=Q.classes,
        )

    @property
    def advice(self) -> str:
        """Sentence that names the class for which more anchors would help most."""
        worst = int(self.row_error.argmax())
        return (
            f"More anchors of class {self.classes[worst]!r} would help most: the absolute errors "
            f"in its row of Q are expected to add up to {self.row_error[worst]:.2g}, those in the "
            f"median row to {np.median(self.row_error):.2g}."
        )

    def __str__(self) -> str:
        width = self.upper - self.lower
        return (
            f"Uncertainty of Q, {len(self.classes)} classes: the mean width of the intervals is "
            f"{width.mean():.2g}, the largest {width.max():.2g}. {self.advice}"
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
    r"""Compute an interval for every entry of an estimate of Q, and samples of the matrix.

    The posterior of the matrix given the labels has a Dirichlet prior with half a pseudo-label per
    entry (Jeffreys). It is approximated by a normal distribution at its mode (Laplace), with one
    block of the information matrix per label j,

    .. math:: H_j = \sum_{i: ȳ_i = j} p_i p_i^\top / P(ȳ_i \mid x_i)^2

    under the constraint that rows sum to 1. Imprecise probabilities give wide intervals. Entries
    near zero are not normal: each is drawn from the gamma distribution with the same mean and
    variance, with the ranks of the normal draws. With one-hot probabilities the result is the
    Dirichlet posterior.

    The estimate carries information too. If its distance from the mode is not larger than chance
    explains, labels and estimate together have a smaller variance than the labels alone; if it is
    larger, the labels dominate. Each interval is centred on the entry of Q, cut off at 0 and 1,
    and contains `level` of the combined distribution.

    The intervals cover the sampling error of the labels. They assume correct probabilities, up to
    the temperature and the class weights that `refine` fits too.

    Parameters
    ----------
    probs, comp_labels, allow_diagonal, seed
        As for `refine`; the model must not have been trained on these labels.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The estimate, for instance from `refine` or `from_anchors`.
    level : float, default=0.95
        Coverage of the interval of each entry.
    n_samples : int, default=200

    Examples
    --------
    >>> Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    >>> labels = np.random.default_rng(0).integers(4, size=2000)
    >>> found = uncertainty(np.eye(4)[labels], Q.sample(labels), Q)
    >>> inside = (found.lower <= np.asarray(Q)) & (np.asarray(Q) <= found.upper)
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
    selected = rng.permutation(len(array))[:_MAX_ROWS]
    calibration = best_calibration(Rows.group(array[selected], labels[selected]), fit)
    rows = Rows.group(array, labels).calibrated(calibration)
    mode = fit(rows, tolerance=1e-4)
    posterior = _posterior(rows, mode, half, n_samples, rng).given(estimate)
    half_width = posterior.half_width(estimate, level)
    return Uncertainty(
        lower=np.maximum(estimate - half_width, 0),
        upper=np.minimum(estimate + half_width, 1),
        samples=posterior.samples,
        row_error=np.abs(posterior.samples - estimate).sum(axis=2).mean(axis=0),
        classes=start.classes,
    )


@dataclass(frozen=True)
class _Posterior:
    """Samples of Q, and mean and shape of a gamma distribution per entry (infinite: fixed)."""

    samples: Floats
    mean: Floats
    shape: Floats

    def given(self, estimate: Floats) -> "_Posterior":
        """Combine the posterior given the labels with the information in the estimate.

        Let s² be the posterior variance given the labels and d the mean squared distance of the
        estimate from the mode, in units of s². An estimate that is independent of the labels, with
        error variance a², has d = 1 + a²/s², and both together have variance s² (d - 1)/d. The
        optimal average of such an estimate and the labels has d = s²/(a² + s²) and variance
        s² (1 - d). The distance d therefore determines the remaining variance; at least two
        standard errors of d remain. A row that is farther away than chance explains gets its own
        share.
        """
        fixed = np.isinf(self.shape)
        precision = np.where(fixed, 1, self.shape) / np.maximum(self.mean, _ZERO) ** 2
        squares = np.where(fixed, 0, (estimate - self.mean) ** 2 * precision)
        n_free = np.maximum((~fixed).sum(axis=1) - 1, 1)  # of each row, which sums to 1
        of_row = squares.sum(axis=1) / n_free
        of_all = float(squares.sum() / n_free.sum())
        noise = float(2 * np.sqrt(2 / n_free.sum()))
        left = max(abs(1 - of_all) / max(1, of_all), min(1.0, noise))
        is_far = of_row > 1 + 2 * np.sqrt(2 / n_free)
        shares = np.where(is_far, np.maximum(left, 1 - 1 / np.maximum(of_row, 1)), left)[:, None]
        mean = estimate + shares * (self.mean - estimate)
        variance = shares / np.where(fixed, 1, precision)
        possible = ~fixed & (mean > _ZERO)
        shape = np.where(possible, mean**2 / variance, np.inf)
        drawn = np.maximum(mean + np.sqrt(shares) * (self.samples - self.mean), 0)
        return _Posterior(drawn / drawn.sum(axis=2, keepdims=True), mean, shape)

    def half_width(self, estimate: Floats, level: float) -> Floats:
        """Find the half-width of intervals around the estimate that have probability `level`."""
        fixed = np.isinf(self.shape)
        shape = np.where(fixed, 1, self.shape)
        scale = np.where(fixed, 1, self.mean) / shape

        def share_within(distance: Floats) -> Floats:
            above = gammainc(shape, (estimate + distance) / scale)
            return above - gammainc(shape, np.maximum(estimate - distance, 0) / scale)

        least, most = np.zeros_like(estimate), np.full_like(estimate, 2.0)
        for _ in range(_N_BISECTIONS):
            middle = (least + most) / 2
            enough = share_within(middle) >= level
            least, most = np.where(enough, least, middle), np.where(enough, middle, most)
        return np.where(fixed, np.abs(estimate - self.mean), most)


def _posterior(
    rows: Rows,
    fit: Fit,
    prior_counts: Floats,
    n_samples: int,
    rng: np.random.Generator,
) -> _Posterior:
    """Approximate the posterior around its mode: samples, and a distribution per entry."""
    Q = fit.Q
    covariances = [_covariance(rows, fit, prior_counts, label) for label in range(len(Q))]
    normal = np.empty((n_samples, *Q.shape))
    for label, covariance in enumerate(covariances):
        values, vectors = np.linalg.eigh(covariance)
        scale = vectors * np.sqrt(np.maximum(values, 0))
        normal[:, :, label] = rng.standard_normal((n_samples, len(Q))) @ scale.T
    # condition on rows that sum to 1: subtract the excess in proportion to the covariance
    total: Floats = np.sum(covariances, axis=0)
    share = np.linalg.pinv(total, hermitian=True)
    excess = normal.sum(axis=2) @ share
    variance = np.empty_like(Q)
    for label, covariance in enumerate(covariances):
        normal[:, :, label] -= excess @ covariance
        left = (covariance - covariance @ share @ covariance).diagonal()
        variance[:, label] = np.maximum(left, 0)
    possible = (Q > _ZERO) & (variance > 0)
    deviation = np.sqrt(np.where(possible, variance, 1))
    ranks = np.clip(ndtr(normal / deviation), 1e-9, 1 - 1e-9)
    shape = np.where(possible, (Q / deviation) ** 2, 1)
    drawn = np.where(possible, gammaincinv(shape, ranks) * Q / shape, Q)
    drawn /= drawn.sum(axis=2, keepdims=True)
    return _Posterior(drawn, Q, np.where(possible, shape, np.inf))


def _covariance(rows: Rows, fit: Fit, prior_counts: Floats, label: int) -> Floats:
    """Compute the covariance of column `label` of Q, without the constraint on row sums."""
    column = fit.Q[:, label]
    free = column > _ZERO
    probs = rows.of_label(label)[:, free]
    background = fit.epsilon * rows.counts[label] / rows.counts.sum()
    mixed = (1 - fit.epsilon) * (probs @ column[free].astype(probs.dtype)) + background
    weighted = probs * ((1 - fit.epsilon) / mixed)[:, None]
    information = (weighted.T @ weighted).astype(np.float64)
    information[np.diag_indices_from(information)] += prior_counts[free, label] / column[free] ** 2
    covariance = np.zeros((len(column), len(column)))
    covariance[np.ix_(free, free)] = np.linalg.pinv(information, hermitian=True)
    return covariance
