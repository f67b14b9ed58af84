"""Refine an estimate of Q with class probabilities; cross-validation decides on the result."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_seed
from naysay.estimation.mixture import (
    Calibration,
    Fit,
    Probs,
    Rows,
    best_calibration,
    check_rows,
    expect,
    fit_matrix,
    mixture_log_likelihoods,
    normalise,
    raise_zeros,
    uniform_with_mistakes,
)
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats

_MAX_CELLS = 2**21  # probabilities used to select a matrix; all rows are used to fit it
_N_FOLDS = 4
_STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # pseudo-counts per row, distributed as the prior
_Z = 1.64  # required standard errors of the paired difference: 95 %, one-sided
_NEAR_UNIFORM = 0.3  # mean over rows of the L1 distance from the uniform matrix
_FLOOR = 0.1  # start of zero entries, as a share of the mean entry


def refine(
    probs: ArrayLike,
    comp_labels: ArrayLike,
    initial: TransitionMatrix | ArrayLike,
    *,
    allow_diagonal: bool = False,
    prior: TransitionMatrix | ArrayLike | None = None,
    from_these_labels: bool = False,
    seed: int | np.random.Generator = 0,
) -> TransitionMatrix:
    r"""Improve an estimate of Q with class probabilities of examples with complementary labels.

    An EM algorithm distributes each label over the classes that may have led to it,

    .. math:: r_{ik} ∝ p_k(x_i) Q_{kȳ_i}, \qquad Q_{kj} ∝ s P_{kj} + \sum_{i: ȳ_i = j} r_{ik}

    with P the prior matrix and s its weight in pseudo-labels. A calibration of the probabilities is
    fitted together with Q: a temperature (networks are often overconfident, which would blur Q),
    the share of examples whose probabilities are uninformative, and, if the Bayesian information
    criterion supports it, a weight for each class (a network trained with a wrong matrix predicts
    some class too rarely, and its labels would be attributed to other classes).

    The result is the refined matrix, `initial`, or the uniform matrix. Four-fold cross-validation
    of the log-likelihood of the labels selects among them and chooses s. The uniform matrix must
    be better than `initial` by 1.64 standard errors of the paired difference, and the refined
    matrix must be better than both. Labels with too little information therefore leave the
    matrix unchanged, and uniform labels give exactly the uniform matrix. With `allow_diagonal`
    the uniform matrix has the most likely rate of mistakes, the same for all classes, as diagonal.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) from any model that was not trained on these labels: predictions for held-out
        examples, or out-of-fold predictions. A model memorises the labels it was trained on,
        which would bias Q. An example whose true class is known may have a one-hot row.
    comp_labels : array of shape (n,)
        Their complementary labels, as indices or names.
    initial : TransitionMatrix or array of shape (n_classes, n_classes)
        First estimate, for instance from `from_anchors`. It fixes which row belongs to which
        class.
    allow_diagonal : bool, default=False
        Allow labels that name the true class by mistake, at most half of the labels of a class.
    prior : TransitionMatrix or array, optional
        The matrix towards which rows with few labels are shrunk, for instance the matrix of an
        annotation scheme; `initial` by default. Its zeros are fixed: a label that a scheme never
        offers keeps probability zero, except on the diagonal if that is allowed.
    from_these_labels : bool, default=False
        Whether `initial` and `probs` were estimated from these labels, for instance by networks
        that were cross-fitted on them. A matrix near the uniform one (mean L1 distance of its rows
        below 0.3) can then fit better even if the labels are uniform, because it was fitted to
        them, or because the networks confuse classes. It is therefore replaced by the uniform
        matrix unless its cross-validated log-likelihood is larger by more than its number of free
        entries, which is slightly stricter than Akaike's criterion.
    seed : int or numpy.random.Generator, default=0
        For the folds.

    Examples
    --------
    >>> Q = TransitionMatrix.with_zeros(5, seed=1)
    >>> labels = np.random.default_rng(0).integers(5, size=5000)
    >>> found = refine(np.eye(5)[labels], Q.sample(labels), TransitionMatrix.uniform(5))
    >>> bool(np.abs(np.asarray(found) - np.asarray(Q)).sum(axis=1).max() < 0.1)
    True
    """
    start = as_transition_matrix(initial, allow_diagonal=allow_diagonal)
    names, n_classes = start.classes, start.n_classes
    array, labels = check_rows(probs, comp_labels, names)
    selected = check_seed(seed).permutation(len(array))[: max(1, _MAX_CELLS // n_classes)]
    comparison = _CrossValidation(array[selected], labels[selected], allow_diagonal)
    uniform, uniform_score = comparison.fit_uniform(Rows.group(array, labels), names)
    must_beat_uniform = from_these_labels and prior is None

    def is_nearly_uniform(Q: TransitionMatrix, scores: Floats) -> bool:
        """Test whether Q is near the uniform matrix and gains less than its free entries."""
        n_free = n_classes * (n_classes - 1) - (1 if allow_diagonal else n_classes)
        # the gain is that of the selected labels, so the threshold is the same part
        least = n_free * len(selected) / len(array)
        return Q.distance(uniform) < _NEAR_UNIFORM and (scores - uniform_score).sum() <= least

    if must_beat_uniform and is_nearly_uniform(start, comparison.score_of(start)):
        start = uniform

    # 1. The reference: the initial matrix, restricted to the support of the prior, or uniform.
    target, possible = start, np.ones((n_classes, n_classes), dtype=bool)
    if prior is not None:
        target = as_transition_matrix(prior, allow_diagonal=allow_diagonal)
        possible = (np.asarray(target) > 0) | (np.eye(n_classes, dtype=bool) & allow_diagonal)
        if not possible[np.asarray(start) > 0].all():
            keeps_diagonal = start.allow_diagonal
            allowed = np.where(possible, np.asarray(start), 0)
            allowed = normalise(allowed, np.asarray(target), allow_diagonal=keeps_diagonal)
            start = TransitionMatrix(allowed, names, allow_diagonal=keeps_diagonal)
    best, score = start, comparison.score_of(start)
    if (possible | np.eye(n_classes, dtype=bool)).all() and _is_better(uniform_score, score):
        best, score = uniform, uniform_score

    # 2. Fits by EM, shrunk towards the target with different strengths, cross-validated.
    target_values = np.asarray(target)
    grow = partial(
        raise_zeros, otherwise=target_values, possible=possible, allow_diagonal=allow_diagonal
    )
    fit = partial(
        fit_matrix, start=grow(np.asarray(start), _FLOOR / n_classes), allow_diagonal=allow_diagonal
    )
    fits = [partial(fit, prior_counts=strength * target_values) for strength in _STRENGTHS]
    calibration = best_calibration(comparison.rows, fits[1])
    scores = [comparison.score(each, calibration) for each in fits]
    winner = int(np.argmax([each.sum() for each in scores]))
    if not _is_better(scores[winner], score):
        return best

    # 3. The best fit on all rows. It starts at the fit on the selected rows, to save steps.
    some, all_rows = comparison.rows, Rows.group(array, labels)
    begin = grow(fits[winner](some.calibrated(calibration)).Q, _FLOOR / 10 / n_classes)
    values = fits[winner](all_rows.calibrated(calibration), start=begin, tolerance=1e-4).Q
    fitted = TransitionMatrix(values, names, allow_diagonal=allow_diagonal)
    if must_beat_uniform and is_nearly_uniform(fitted, scores[winner]):
        return uniform
    return fitted


class _CrossValidation:
    """Cross-validated log-likelihoods of labels under different fits to the same rows."""

    def __init__(self, probs: Probs, labels: NDArray[np.int64], allow_diagonal: bool) -> None:
        self.probs, self.labels, self.allow_diagonal = probs, labels, allow_diagonal
        self.scores: dict[bytes, Floats] = {}  # of fixed matrices
        self.rows = Rows.group(probs, labels)
        self.fold = np.arange(len(labels)) % _N_FOLDS  # the rows are in random order

    def score_of(self, Q: TransitionMatrix) -> Floats:
        """Compute log P(ȳ | x) of each row under a fixed matrix; ε and weights are fitted."""
        values = np.asarray(Q)
        key = values.tobytes()
        if key not in self.scores:
            fixed = partial(
                fit_matrix, start=values, prior_counts=None, allow_diagonal=self.allow_diagonal
            )
            self.scores[key] = self.score(fixed, best_calibration(self.rows, fixed))
        return self.scores[key]

    def fit_uniform(
        self, all_rows: Rows, names: tuple[str, ...]
    ) -> tuple[TransitionMatrix, Floats]:
        """Make the uniform matrix, with the most likely rate of mistakes if the diagonal is free.

        The second value is log P(ȳ | x) of each row, with the rate of the other folds.
        """
        uniform = TransitionMatrix.uniform(len(names), classes=names)
        if not self.allow_diagonal:
            return uniform, self.score_of(uniform)
        fit = partial(
            fit_matrix,
            start=uniform_with_mistakes(len(names), _FLOOR),
            prior_counts=np.zeros((len(names), len(names))),
            allow_diagonal=True,
            is_uniform=True,
            tolerance=1e-4,
        )
        calibration = best_calibration(self.rows, fit)
        calibrated = all_rows.calibrated(calibration)
        found = fit(calibrated)
        if found.log_likelihood > expect(calibrated, np.asarray(uniform), found.epsilon)[-1]:
            uniform = TransitionMatrix(found.Q, names, allow_diagonal=True)
        return uniform, self.score(fit, calibration)

    def score(self, fit: Callable[..., Fit], calibration: Calibration) -> Floats:
        """Compute log P(ȳ | x) of each row with a fit, weights included, on the other folds."""
        probs = Calibration(calibration.temperature)(self.probs)
        fit_weights = calibration.weights is not None
        scores = np.empty(len(self.labels))
        for fold in range(_N_FOLDS):
            others, held_out = self.fold != fold, np.flatnonzero(self.fold == fold)
            if not len(held_out) or not others.any():
                return np.zeros(len(self.labels))  # too few rows to compare anything
            fitted = fit(Rows.group(probs[others], self.labels[others]), fit_weights=fit_weights)
            held_out = held_out[np.argsort(self.labels[held_out], kind="stable")]
            rows = Rows.group(probs[held_out], self.labels[held_out])
            rows = rows.calibrated(Calibration(weights=fitted.weights))
            # b from the fitted rows: frequencies of held-out labels would leak those labels
            seen = np.bincount(self.labels[others], minlength=probs.shape[1]) + 1
            scores[held_out] = mixture_log_likelihoods(
                rows, fitted.Q, fitted.epsilon, seen / seen.sum()
            )
        return scores


def _is_better(scores: Floats, others: Floats) -> bool:
    """Test whether the mean paired difference of scores is significantly above zero."""
    difference = scores - others
    return bool(difference.mean() * np.sqrt(len(difference)) > _Z * difference.std())
