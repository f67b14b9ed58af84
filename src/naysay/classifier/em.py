"""EM around a classifier: weights of classes from evidence and out-of-fold predictions.

The evidence about an example is a likelihood L over its classes. Each round gives the pair of
example i and class k the weight ``w_ik ∝ L_ik p_k(x_i)``, with p predicted by a classifier that has
not seen example i, and fits the classifier on weighted rows, one for each pair.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from naysay._base.checks import row_slices

Floats = NDArray[np.float64]

TEMPERATURES = tuple(2 ** (step / 2) for step in range(-8, 5))  # from 1/16 to 4
_NEIGHBOURS = (10, 20, 40, 80)
_POOLING_ROUNDS = 15
_MOST_POOLED = 10_000  # examples: finding neighbours takes quadratic time
_NEGLIGIBLE = 0.01  # weight of a class of an example; smaller ones are left out
_COPIES = 5  # of each example, for classifiers that take no weights
_ANY_NUMBERS: dict[str, Any] = {"accept_sparse": "csr", "ensure_min_samples": 2}
_MIXED_IN = 0.01  # share of equal probabilities: no prediction is certain


class Calibrated(NamedTuple):
    """Predictions at the temperature at which the evidence is most likely."""

    probs: Floats
    temperature: float
    log_likelihood: float  # mean of log P(evidence | x)


def calibrate_on_evidence(probs: Floats, log_evidence: Floats) -> Calibrated:
    """Sharpen or soften out-of-fold predictions so that the evidence is most likely.

    Classifiers that were fitted on uncertain classes are far too unsure of their predictions.
    Without this step, each round would therefore make the weights less certain than the last.
    """

    def log_likelihood(temperature: float) -> float:
        scores = log_at_temperature(probs, temperature) + log_evidence
        return float(np.logaddexp.reduce(scores, axis=1).mean())

    likelihoods = list(map(log_likelihood, TEMPERATURES))
    best = int(np.argmax(likelihoods))
    calibrated = np.exp(log_at_temperature(probs, TEMPERATURES[best]))
    return Calibrated(calibrated, TEMPERATURES[best], likelihoods[best])


def log_at_temperature(probs: Floats, temperature: float) -> Floats:
    """Divide the logarithms of probabilities by a temperature; no class gets probability zero."""
    scores = np.log((1 - _MIXED_IN) * probs + _MIXED_IN / probs.shape[1])
    return log_softmax(scores / temperature, axis=1)


def weigh_classes(probs: Floats, log_evidence: Floats) -> Floats:
    """Compute the posterior of the classes, ``w_ik ∝ L_ik p_k(x_i)``; rows of NaN become zeros."""
    with np.errstate(divide="ignore"):
        return np.nan_to_num(softmax(np.log(probs) + log_evidence, axis=1))


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


def fit_weighted(estimator: Any, X: Any, weights: Floats) -> Fitted:
    """Fit a copy of a classifier on a row for each example and class whose weight counts.

    Every class keeps its largest weight, so that a classifier knows all of them. A classifier that
    takes no weights gets five copies of each example, whose classes have the shares of the weights.
    """
    named = _name_of_weights(estimator)
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
    classes, codes = np.unique(label, return_inverse=True)
    fitted = cast("Any", clone(estimator)).fit(_safe_indexing(X, example), codes, **given)
    return Fitted(fitted, classes)


def _name_of_weights(estimator: Any) -> str | None:
    """Find the parameter of `fit` for the weights of examples, if there is one."""
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = _name_of_weights(last)
        return None if inner is None else f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def cross_predict(
    estimator: Any, X: Any, weights: Floats, fold: NDArray[np.int64], n_jobs: int | None
) -> Floats:
    """Predict each example by a classifier that was fitted on the weights of the other folds."""

    def predict(number: int) -> Floats:
        others, rows = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        fitted = fit_weighted(estimator, _safe_indexing(X, others), weights[others])
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

    predicted: Calibrated  # out-of-fold
    history: list[dict[str, float]]


def run_rounds(
    estimator: Any,
    X: Any,
    log_evidence: Floats,
    start: Floats,
    fold: NDArray[np.int64],
    *,
    max_rounds: int,
    patience: int,
    n_jobs: int | None,
) -> Rounds:
    """Alternate between weights and out-of-fold predictions, from predictions to start with.

    The rounds end when `patience` of them in a row have not made the evidence more likely.
    """
    probs, best, best_round = start, None, 0
    history: list[dict[str, float]] = []
    for number in range(1, max_rounds + 1):
        began = perf_counter()
        weights = weigh_classes(probs, log_evidence)
        found = calibrate_on_evidence(
            cross_predict(estimator, X, weights, fold, n_jobs), log_evidence
        )
        history.append(
            {
                "round": number,
                "log_likelihood": found.log_likelihood,
                "temperature": found.temperature,
                "seconds": perf_counter() - began,
            }
        )
        if best is None or found.log_likelihood > best.predicted.log_likelihood:
            best, best_round = Rounds(found, history), number
        elif number - best_round >= patience:
            break
        probs = found.probs
    assert best is not None  # there is a first round
    return best


def pool_neighbours(X: Any, log_evidence: Floats, rng: np.random.Generator) -> Floats:
    """Predict classes from the evidence about the nearest neighbours of each example.

    Neighbours have mostly the same class. For each example, EM finds the shares of the classes
    among its neighbours, itself left out. The number of neighbours, whether columns are
    standardised, and whether neighbours are better than all examples together, are decided by the
    likelihood of the evidence that was left out. Rows are NaN for examples that were not pooled:
    at most 10,000 are, drawn at random. X that has missing values or text is not compared at all;
    the result is then the shares of the classes among all examples.
    """
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    everyone = _shares_of_classes(evidence)
    best = calibrate_on_evidence(np.tile(everyone, (len(evidence), 1)), log_evidence)
    probs = best.probs
    rows = np.sort(rng.permutation(len(evidence))[:_MOST_POOLED])
    for inputs in _spaces(X, rows):
        n_neighbours = [k for k in _NEIGHBOURS if k < len(rows)] or [len(rows) - 1]
        search = NearestNeighbors(n_neighbors=n_neighbours[-1]).fit(inputs)
        found = search.kneighbors(return_distance=False)
        for k in n_neighbours:
            pooled = _pool(evidence[rows], found[:, :k])
            calibrated = calibrate_on_evidence(pooled, log_evidence[rows])
            if calibrated.log_likelihood > best.log_likelihood:
                best = calibrated
                probs = np.full(evidence.shape, np.nan)
                probs[rows] = calibrated.probs
    return probs


def _spaces(X: Any, rows: NDArray[np.int64]) -> Sequence[Any]:
    """List rows of X as numbers, as they are and standardised; nothing where this is impossible."""
    try:
        inputs = check_array(_safe_indexing(X, rows), **_ANY_NUMBERS)
    except (TypeError, ValueError):
        return ()
    if issparse(inputs):
        return (inputs,)
    return inputs, StandardScaler().fit_transform(inputs)


def _shares_of_classes(evidence: Floats) -> Floats:
    """Find the most likely shares of the classes among all examples, by EM."""
    shares = np.full(evidence.shape[1], 1 / evidence.shape[1])
    for _ in range(_POOLING_ROUNDS):
        joint = evidence * shares
        shares = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def _pool(evidence: Floats, neighbours: NDArray[np.int64]) -> Floats:
    """Find the most likely shares of the classes among the neighbours of each example, by EM."""
    n_classes = evidence.shape[1]
    probs = np.full(evidence.shape, 1 / n_classes)
    for rows in row_slices(len(evidence), neighbours.shape[1] * n_classes):
        of_neighbours = evidence[neighbours[rows]]
        for _ in range(_POOLING_ROUNDS):
            joint = of_neighbours * probs[rows, None]
            probs[rows] = (joint / joint.sum(axis=2, keepdims=True)).mean(axis=1)
    return probs
