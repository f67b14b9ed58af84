"""EM around a classifier: weights of classes from evidence and out-of-fold predictions.

The evidence about an example is a likelihood L over its classes. Each round gives the pair of
example i and class k the weight ``w_ik ∝ L_ik p_k(x_i)``, with p predicted by a classifier that has
not seen example i, and fits the classifier on weighted rows, one for each pair.
"""

from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from naysay.classifier.pooling import (
    Evidence,
    Floats,
    HeldOutCalibration,
    pool_evidence,
    shares_of_classes,
)
from naysay.classifier.preparation import Preparation

_POOLING_FOLDS = 5
_MOST_POOLED = 6_000  # examples: finding neighbours takes quadratic time
_NEGLIGIBLE = 0.01  # weight of a class of an example; smaller ones are left out
_COPIES = 5  # of each example, for classifiers that take no weights
_ANY_NUMBERS: dict[str, Any] = {
    "accept_sparse": "csr",
    "ensure_min_samples": 2,
    "ensure_all_finite": "allow-nan",
}


def weigh_classes(probs: Floats, likelihood: Floats) -> Floats:
    """Compute the posterior of the classes, ``w_ik ∝ L_ik p_k(x_i)``; rows of NaN become zeros."""
    joint = probs * likelihood
    return np.nan_to_num(joint / joint.sum(axis=1, keepdims=True))


class Fitted(NamedTuple):
    """A classifier, and the index of each class that it was fitted on."""

    estimator: Any
    classes: NDArray[np.int64]

    def predict(self, X: Any, n_classes: int) -> Floats:
        """Predict the probabilities of all classes."""
        found = np.asarray(self.estimator.predict_proba(X), dtype=np.float64)
        probs = np.zeros((len(found), n_classes))
        probs[:, self.classes] = found
        return probs


def fit_weighted(
    estimator: Any, X: Any, weights: Floats, sample_weight: Floats | None = None
) -> Fitted:
    """Fit a copy of a classifier on a row for each example and class whose weight counts.

    Every class keeps its largest weight, so that a classifier knows all of them. A classifier that
    takes no weights gets five copies of each example, whose classes have the shares of the weights.
    The rows of an example are weighted by its `sample_weight` too.
    """
    named = name_of_weights(estimator)
    if named is None:
        totals = weights.sum(axis=1, keepdims=True)
        ends = np.cumsum(weights / np.where(totals > 0, totals, 1), axis=1)
        weights = np.diff(np.floor(ends * _COPIES + 0.5), axis=1, prepend=0)
    kept = (weights >= _NEGLIGIBLE) | ((weights == weights.max(axis=0)) & (weights > 0))
    example, label = np.nonzero(kept)
    given: dict[str, Any] = {}
    if named is None:
        copies = weights[example, label].astype(np.int64)
        example, label = np.repeat(example, copies), np.repeat(label, copies)
    else:
        given = {named: weights[example, label]}
        if sample_weight is not None:
            given[named] = given[named] * sample_weight[example]
    classes, codes = np.unique(label, return_inverse=True)
    fitted = clone(estimator).fit(_safe_indexing(X, example), codes, **given)
    return Fitted(fitted, classes)


def name_of_weights(estimator: Any) -> str | None:
    """Find the parameter of `fit` for the weights of examples, if there is one."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = name_of_weights(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def cross_predict(
    estimator: Any,
    X: Any,
    weights: Floats,
    fold: NDArray[np.int64],
    n_jobs: int | None,
    sample_weight: Floats | None = None,
) -> Floats:
    """Predict each example by a classifier that was fitted on the weights of the other folds."""

    def predict(number: int) -> Floats:
        others, rows = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        of_others = None if sample_weight is None else sample_weight[others]
        fitted = fit_weighted(estimator, _safe_indexing(X, others), weights[others], of_others)
        return fitted.predict(_safe_indexing(X, rows), weights.shape[1])

    probs = np.empty(weights.shape)
    numbers = range(int(fold.max()) + 1)
    for number, found in zip(
        numbers, Parallel(n_jobs)(map(delayed(predict), numbers)), strict=True
    ):
        probs[fold == number] = found
    return probs


class Rounds(NamedTuple):
    """The best of the rounds of an EM algorithm, by the likelihood of the evidence."""

    probs: Floats  # out-of-fold, calibrated
    calibration: HeldOutCalibration
    number: int
    history: list[dict[str, float]]


def run_rounds(
    estimator: Any,
    X: Any,
    evidence: Evidence,
    start: Floats,
    *,
    max_rounds: int,
    patience: int,
    n_jobs: int | None,
) -> Rounds:
    """Alternate between weights and out-of-fold predictions, starting from predictions.

    Classifiers that were fitted on uncertain classes are strongly underconfident. They
    are therefore calibrated on the evidence; without this, each round would make the weights less
    certain than the last. The rounds end when `patience` of them in a row have not made the
    evidence more likely.
    """
    probs, best = start, None
    history: list[dict[str, float]] = []
    for number in range(1, max_rounds + 1):
        began = perf_counter()
        weights = weigh_classes(probs, evidence.likelihood)
        found = cross_predict(estimator, X, weights, evidence.fold, n_jobs, evidence.weight)
        calibration = evidence.fit_calibration(found)
        probs = calibration.calibrate(found)
        history.append(
            {
                "round": number,
                "log_likelihood": calibration.total / max(1, len(calibration.scores)),
                "temperature": calibration.temperature,
                "seconds": perf_counter() - began,
            }
        )
        if best is None or calibration.total > best.calibration.total:
            best = Rounds(probs, calibration, number, history)
        elif number - best.number >= patience:
            break
    assert best is not None  # there is a first round
    return best


def start_from_neighbours(X: Any, evidence: Evidence, prior: Floats | None) -> Floats:
    """Predict classes from the evidence about neighbours, if this beats the class shares.

    Only the numeric columns of a data frame are compared. Where there are none, or where neighbours
    are not alike, the predictions are the shares of the classes among all examples. At most 6,000
    examples are pooled, drawn at random; the rows of the others are NaN.
    """
    n, rng = len(evidence.likelihood), np.random.default_rng(evidence.seed)
    everyone = np.tile(shares_of_classes(evidence.likelihood), (n, 1))
    shares = evidence.fit_calibration(everyone).calibrate(everyone)
    rows = np.sort(rng.permutation(n)[:_MOST_POOLED])
    if hasattr(X, "select_dtypes"):
        X = X.select_dtypes("number")
    try:
        inputs = check_array(_safe_indexing(X, rows), **_ANY_NUMBERS)
    except (TypeError, ValueError):
        return shares
    inputs = Preparation.fit(inputs).apply(inputs).astype(np.float32)
    fold = rng.permutation(len(rows)) % _POOLING_FOLDS
    part = Evidence(inputs, evidence.likelihood[rows], fold, evidence.seed)
    pooled = pool_evidence(part, prior)
    if pooled.calibration.total <= part.fit_calibration(everyone[rows]).total:
        return shares
    probs = np.full(everyone.shape, np.nan)
    probs[rows] = pooled.calibration.calibrate(pooled.out_of_fold)
    return probs
