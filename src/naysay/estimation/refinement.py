"""Refine Q on a classifier's probabilities, and keep the result only where it is surely better."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_seed
from naysay.estimation.mixture import (
    Calibration,
    Fit,
    Rows,
    best_calibration,
    check_rows,
    fit_matrix,
    log_likelihoods,
    normalise,
    raise_zeros,
)
from naysay.transition import TransitionMatrix, as_transition_matrix

_CHOICE = 2**21  # numbers in the rows that choose between matrices; all rows fit the one chosen
_N_FOLDS = 4
_STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # pseudo-counts of a row, towards the prior
_SURE = 1.64  # standard errors by which a refined matrix must win: 95 %, one-sided
_NEAR_UNIFORM = 0.3  # mean over rows of the distance Σ |Q - uniform|
_LEAST = 0.1  # of the mean entry: where zeros of the initial matrix start, to be able to grow


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
    r"""Improve an estimate of Q with the class probabilities of examples that have labels.

    EM: each label is shared out among the classes that may have led to it,

    .. math:: r_{ik} ∝ p_k(x_i) Q_{kȳ_i}, \qquad Q_{kj} ∝ s P_{kj} + \sum_{i: ȳ_i = j} r_{ik}

    with P the prior matrix and s its weight in labels. Along with Q it fits what is wrong with the
    probabilities: their temperature (a network is often too sure of itself, which would blur Q),
    the share of examples on which they are of no use, and where that gains more than it costs
    (Schwarz' criterion) a weight for each class (a network that has learned with a wrong matrix
    names some class too seldom, and others would take over its labels).

    The result is one of three: the refined matrix, `initial`, or exactly uniform. Four-fold
    cross-validation by the likelihood of the labels decides, and chooses s. Another matrix than
    the initial one must win by 1.64 standard errors of the paired difference, and the refined one
    against the better of both. So labels that say too little leave the matrix as it was, and
    labels that are surely uniform give the uniform matrix.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) from any model that was not trained on these labels: of held-out examples, or
        cross-fitted. A model has memorised the labels it was trained on, and Q would follow. An
        example whose true class is known may have a row of zeros and a one.
    comp_labels : array of shape (n,)
        Their complementary labels, as indices or names.
    initial : TransitionMatrix or array of shape (n_classes, n_classes)
        As `from_anchors` gives it. It says which row belongs to which class.
    allow_diagonal : bool, default=False
        Let labels name the true class by mistake, in at most half of the cases.
    prior : TransitionMatrix or array, optional
        The matrix towards which rows with few labels are pulled, such as the scheme that annotators
        were given; `initial` when left out. Its zeros are known: what a scheme never offers stays
        zero, but for the diagonal where that is allowed.
    from_these_labels : bool, default=False
        Whether `initial` and `probs` were made from these labels, as by networks that learned
        them, each from a part. Near uniform, its rows less than 0.3 away in the mean, a matrix must
        then earn its entries: it makes the labels more likely even where they are uniform, because
        it follows them, or because classes that networks confuse look like a habit. If it gains no
        more log-likelihood, of labels it was not fitted on, than it has entries, the uniform
        matrix takes its place: a little stricter than Akaike's criterion.
    seed : int or numpy.random.Generator, default=0
        Of the folds.

    Returns
    -------
    TransitionMatrix

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
    choice = check_seed(seed).permutation(len(array))[: max(1, _CHOICE // n_classes)]
    comparison = _CrossValidation(array[choice], labels[choice], allow_diagonal=allow_diagonal)
    uniform = _uniform_like(start)
    tests_uniform = from_these_labels and prior is None
    if tests_uniform and not comparison.is_earned(start, comparison.score_of(start), len(array)):
        start = uniform

    # 1. The matrix to beat: the initial one, without what the prior rules out, or uniform.
    target, possible = start, np.ones((n_classes, n_classes), dtype=bool)
    if prior is not None:
        target = as_transition_matrix(prior, allow_diagonal=allow_diagonal)
        possible = (np.asarray(target) > 0) | (np.eye(n_classes, dtype=bool) & allow_diagonal)
        start = _keep_to(possible, start, np.asarray(target))
    best, score = start, comparison.score_of(start)
    if (possible | np.eye(n_classes, dtype=bool)).all():
        uniform_score = comparison.score_of(uniform)
        if _is_better(uniform_score, score):
            best, score = uniform, uniform_score

    # 2. Matrices fitted by EM, drawn to the target more or less strongly, cross-validated.
    pull = np.asarray(target)
    grow = partial(raise_zeros, otherwise=pull, possible=possible, allow_diagonal=allow_diagonal)
    fit = partial(
        fit_matrix, start=grow(np.asarray(start), _LEAST / n_classes), allow_diagonal=allow_diagonal
    )
    fits = [partial(fit, prior_counts=strength * pull) for strength in _STRENGTHS]
    calibration = best_calibration(comparison.rows, fits[1])
    scores = [comparison.score(each, calibration) for each in fits]
    winner = int(np.argmax([each.sum() for each in scores]))
    if not _is_better(scores[winner], score):
        return best

    # 3. The winner fitted to all rows, from where some of them lead: all rows take longer.
    some, all_rows = comparison.rows, Rows.group(array, labels)
    begin = grow(fits[winner](some.calibrated(calibration)).Q, _LEAST / 10 / n_classes)
    values = fits[winner](all_rows.calibrated(calibration), start=begin, tolerance=1e-4).Q
    fitted = TransitionMatrix(
        values, names if start.has_names else None, allow_diagonal=allow_diagonal
    )
    if tests_uniform and not comparison.is_earned(fitted, scores[winner], len(array)):
        return uniform
    return fitted


class _CrossValidation:
    """Compare ways to fit the same rows by the likelihood of labels they were not fitted on."""

    def __init__(
        self, probs: NDArray[np.floating], labels: NDArray[np.int64], *, allow_diagonal: bool
    ) -> None:
        self.probs = probs
        self.labels = labels
        self.allow_diagonal = allow_diagonal
        self.scores: dict[bytes, NDArray[np.float64]] = {}  # of matrices that stay as they are
        self.rows = Rows.group(probs, labels)
        self.fold = np.arange(len(labels)) % _N_FOLDS  # the rows are in random order

    def score_of(self, Q: TransitionMatrix) -> NDArray[np.float64]:
        """Return log P(ȳ | x) of each row under a matrix that stays as it is."""
        values = np.asarray(Q)
        key = values.tobytes()
        if key not in self.scores:
            stays = partial(
                fit_matrix, start=values, prior_counts=None, allow_diagonal=self.allow_diagonal
            )
            self.scores[key] = self.score(stays, best_calibration(self.rows, stays))
        return self.scores[key]

    def is_earned(self, Q: TransitionMatrix, scores: NDArray[np.float64], n_all: int) -> bool:
        """Say whether Q is far from uniform, or its scores gain more than it has free entries.

        The contest has a share of all labels, and asks for the same share of the gain.
        """
        uniform = _uniform_like(Q)
        if Q.distance(uniform) >= _NEAR_UNIFORM:
            return True
        n_free = Q.n_classes * (Q.n_classes - (1 if self.allow_diagonal else 2))
        gain = (scores - self.score_of(uniform)).sum()
        return bool(gain > n_free * len(self.labels) / n_all)

    def score(self, fit: Callable[..., Fit], calibration: Calibration) -> NDArray[np.float64]:
        """Return log P(ȳ | x) of each row, fitted on the other folds, class weights included."""
        probs = Calibration(calibration.temperature)(self.probs)
        weighs = calibration.weights is not None
        scores = np.empty(len(self.labels))
        for fold in range(_N_FOLDS):
            others, own = self.fold != fold, np.flatnonzero(self.fold == fold)
            if not len(own) or not others.any():
                return np.zeros(len(self.labels))  # too few to say anything
            fitted = fit(Rows.group(probs[others], self.labels[others]), weighs=weighs)
            own = own[np.argsort(self.labels[own], kind="stable")]
            rows = Rows.group(probs[own], self.labels[own])
            if weighs:
                rows = rows.calibrated(Calibration(weights=fitted.weights))
            # of the rows fitted on too: the frequencies of the others would tell their labels
            seen = np.bincount(self.labels[others], minlength=probs.shape[1]) + 1
            scores[own] = log_likelihoods(rows, fitted.Q, fitted.unsure, seen / seen.sum())
        return scores


def _uniform_like(Q: TransitionMatrix) -> TransitionMatrix:
    return TransitionMatrix.uniform(Q.n_classes, classes=Q.classes if Q.has_names else None)


def _keep_to(
    possible: NDArray[np.bool_], Q: TransitionMatrix, otherwise: NDArray[np.float64]
) -> TransitionMatrix:
    """Return Q without what is not possible; a row of nothing else is as `otherwise`."""
    values = np.asarray(Q)
    if possible[values > 0].all():
        return Q
    kept = normalise(np.where(possible, values, 0), otherwise, allow_diagonal=Q.allow_diagonal)
    names = Q.classes if Q.has_names else None
    return TransitionMatrix(kept, names, allow_diagonal=Q.allow_diagonal)


def _is_better(scores: NDArray[np.float64], others: NDArray[np.float64]) -> bool:
    """Say whether the mean of scores is surely above that of the others, row by row."""
    gain = scores - others
    return bool(gain.mean() * np.sqrt(len(gain)) > _SURE * gain.std())
