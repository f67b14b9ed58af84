"""Accuracy from a few true labels, made more precise by the predictions for all other examples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, softmax, stdtrit, xlogy

from naysay._base.checks import as_real_numbers, check_number
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.metrics.accuracy import Estimate, wilson, within_bounds
from naysay.transition.algebra import Floats

_TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
_SHARES = np.linspace(0.05, 1, 20)
_MOST = 0.5  # share of the classes
_UNLIKE_SHARES = 0.01  # p-value of the classes of a random sample
_LEAST_RATIO = 0.4  # of the variances with and without scores: a few labels cannot show a lower one


def accuracy_with_few_labels(
    true_labels: ArrayLike,
    predictions: ArrayLike,
    *,
    scores: ArrayLike | None = None,
    all_scores: ArrayLike | None = None,
    class_shares: ArrayLike | Mapping[Any, float] | None = None,
    confidence: float = 0.95,
) -> Estimate:
    r"""Estimate the accuracy from a few true labels and the scores of many predictions.

    This is prediction-powered inference [1]_. The mean score of all predictions is corrected by
    the difference between correctness and score where the true class is known,

    .. math:: λ \, \text{mean}_{\text{all}}(g) + \text{mean}_{\text{few}}(1[f(x) = y] - λ g)

    with λ between 0 and 1 chosen for the least variance. The estimate is unbiased whatever the
    scores are, and its interval is never wider than that of the few labels alone. It needs no
    transition matrix.

    The examples with true labels must be a random sample, of all examples or of each class, and
    the model must not have been trained on them. Examples that were picked because they are clear
    show a higher accuracy than others have.

    Parameters
    ----------
    true_labels : array of shape (n_few,)
        True classes.
    predictions : array of shape (n_few,)
        Predicted classes of the same examples.
    scores : array of shape (n_few,), optional
        A score of each of these predictions that is higher where the prediction is more likely to
        be correct, such as its probability, ``probs.max(axis=1)``.
    all_scores : array of shape (n,), optional
        The same score for examples whose true class is not known.
    class_shares : array of shape (n_classes,) or dict, optional
        The share of each class among all examples, if the examples were drawn within each class,
        such as ten of each. An array needs classes that are indices.
    confidence : float, default=0.95
        Coverage of the interval.

    Returns
    -------
    Estimate
        With ``n_true_labels`` and, as ``n_labels``, zero complementary labels.

    References
    ----------
    .. [1] A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++: Efficient prediction-powered
       inference", 2023, https://arxiv.org/abs/2311.01453

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true, sure = rng.integers(3, size=5000), rng.random(5000)
    >>> predicted = np.where(rng.random(5000) < sure, true, (true + 1) % 3)
    >>> few = np.arange(60)
    >>> print(accuracy_with_few_labels(true[few], predicted[few]))
    46.7 % ± 6.4 (95 % interval: 34.4 to 59.4 %), from 60 true labels
    >>> print(accuracy_with_few_labels(true[few], predicted[few], scores=sure[few],
    ...                                all_scores=sure))
    51.1 % ± 5.1 (95 % interval: 41.0 to 61.1 %), from 60 true labels
    """
    confidence = check_number(confidence, "confidence", above=0, below=1)
    true, predicted = np.asarray(true_labels), np.asarray(predictions)
    if true.ndim != 1 or true.shape != predicted.shape:
        raise InvalidLabels(
            "true_labels and predictions must have one class per example, shape (n_few,). Got "
            f"shapes {true.shape} and {predicted.shape}."
        )
    if len(true) < 2:
        raise InvalidLabels(f"true_labels must have at least 2 classes known. Got {len(true)}.")
    if (scores is None) != (all_scores is None):
        raise InvalidInput("scores and all_scores must be given together, or neither.")
    g = all_g = None
    if scores is not None and all_scores is not None:
        g, all_g = check_scores(scores, "scores", len(true)), check_scores(all_scores, "all_scores")
    weights, strata = class_weights(true, class_shares)
    return few_labels_estimate(
        (true == predicted).astype(np.float64), weights, strata, g, all_g, confidence=confidence
    )


def check_scores(values: ArrayLike, name: str, n: int | None = None) -> Floats:
    """Check that scores are finite, one per example."""
    array = as_real_numbers(values, f"{name} must be finite numbers", InvalidInput)
    if array.ndim != 1 or not len(array) or (n is not None and len(array) != n):
        wanted = "(n,)" if n is None else f"({n},)"
        raise InvalidInput(f"{name} must have shape {wanted}. Got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InvalidInput(f"{name} must be finite numbers.")
    return array


def class_weights(
    true: NDArray[Any], class_shares: ArrayLike | Mapping[Any, float] | None
) -> tuple[Floats, NDArray[np.int64]]:
    """Compute the weight of each example, which sum to 1, and the stratum that it was drawn in."""
    if class_shares is None:
        return np.full(len(true), 1 / len(true)), np.zeros(len(true), dtype=np.int64)
    classes, strata, counts = np.unique(true, return_inverse=True, return_counts=True)
    given = class_shares
    if not isinstance(given, Mapping):
        rule = "class_shares must be a dict, or an array for classes that are indices"
        listed = as_real_numbers(given, rule, InvalidInput)
        if listed.ndim != 1:
            raise InvalidInput(f"{rule}, shape (n_classes,). Got shape {listed.shape}.")
        given = dict(enumerate(listed))
    missing = [each for each in classes.tolist() if each not in given]
    if missing:
        raise InvalidInput(
            "class_shares must have every class, by its name in a dict or by its index in an "
            f"array. Missing: {missing[:5]}."
        )
    shares = np.array([given[each] for each in classes.tolist()], dtype=np.float64)
    if not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
        raise InvalidInput("class_shares must be non-negative numbers that do not sum to 0.")
    return (shares / shares.sum() / counts)[strata], strata


def drawn_within_classes(
    true: NDArray[np.int64], predicted: NDArray[np.int64], shares: Floats
) -> bool:
    """Tell whether examples of known class were drawn within each class, or from all examples.

    In the first case most classes have equally many, or the predictions for them do not have the
    `shares` of the classes among the predictions for all examples. A random sample has these
    shares, however wrong the predictions are; those of the true classes are uncertain.
    """
    counts = np.bincount(true, minlength=len(shares))
    if (counts[counts > 0] == counts.max()).mean() > _MOST:
        return True
    counts = np.bincount(predicted, minlength=len(shares))
    expected = np.maximum(len(true) * shares / shares.sum(), 1e-12)
    statistic = 2 * float(xlogy(counts, counts / expected).sum())
    return float(chdtrc(len(shares) - 1, statistic)) < _UNLIKE_SHARES


def few_labels_estimate(
    correct: Floats,
    weights: Floats,
    strata: NDArray[np.int64],
    scores: Floats | None = None,
    all_scores: Floats | None = None,
    *,
    confidence: float = 0.95,
    shift: float = 0.0,
    shift_error: float = 0.0,
    weights_error: float = 0.0,
) -> Estimate:
    """Estimate an accuracy from weighted examples; see `accuracy_with_few_labels`.

    `shift` is added to the estimate, with the standard error `shift_error`: the difference between
    the model of interest and the model that made the predictions. Neither the standard error nor
    the interval is larger than by the few labels alone. To both, `weights_error` is added, which
    weights that are not known exactly cause.
    """
    m = len(correct)
    value = float(weights @ correct)
    # A smoothed accuracy, so that a sample without mistakes does not have a variance of zero.
    smooth = (m * value + 1) / (m + 2)
    spread = smooth * (1 - smooth)
    alone = spread * float((weights**2).sum())
    variance = alone
    if scores is not None and all_scores is not None:
        of_correct, of_score = (_within(each, strata) for each in (correct, scores))
        squares = weights**2
        covariance = float(squares @ (of_correct * of_score))
        score_variance = float(squares @ of_score**2 + all_scores.var() / len(all_scores))
        if covariance > 0:
            power = min(covariance / score_variance, 1.0)
            gain = power * (2 * covariance - power * score_variance)
            share_left = 1 - gain / float(squares @ of_correct**2)
            ratio = share_left * (m - 1) / max(m - 3, 1)  # power was chosen on the same examples
            variance *= float(np.clip(ratio, _LEAST_RATIO, 1))
            value += power * float(all_scores.mean() - weights @ scores)
    variance = min(variance + shift_error**2, alone)
    t = float(stdtrit(m - 1, (1 + confidence) / 2))
    scale = t**2 / spread
    _, most = wilson(float(weights @ correct), scale * (alone + weights_error**2))
    center = float(np.clip(value + shift, 0, 1))
    middle, half = wilson(center, scale * (variance + weights_error**2))
    half = min(half, most)  # at the same variance, an interval is wider nearer to 50 %
    return Estimate(
        value=center,
        standard_error=float(np.sqrt(variance + weights_error**2)),
        interval=within_bounds(middle - half, middle + half),
        confidence=confidence,
        n_labels=0,
        n_true_labels=m,
    )


def estimate_improvement(
    probs: Floats, earlier: Floats, likelihoods: Floats
) -> tuple[float, float]:
    """Estimate how much more accurate a model is than an earlier one, with a standard error.

    Both predict the same examples, on which neither was trained. By its probabilities alone each
    model would appear to be the better one, the more so the more overconfident it is. Mixtures
    of both, with the probabilities of the model at several temperatures, are weighted by the
    likelihood of the labels, and by a prior for the model (Beta(4, 1) for its share in the
    mixture). The estimate is the mean over them; half of it is added to their standard deviation.
    ``likelihoods[i, k]`` is P(label of example i | Y = k).
    """
    rows = np.arange(len(probs))
    ours, theirs = probs.argmax(axis=1), earlier.argmax(axis=1)

    def evaluate(by: Floats) -> tuple[float, Floats]:
        chances = np.maximum((by * likelihoods).sum(axis=1), 1e-6)
        return float((by[rows, ours] - by[rows, theirs]).mean()), chances

    gain_of_earlier, chances_of_earlier = evaluate(earlier)
    logs = np.log(np.maximum(probs, 1e-300))
    gains: list[float] = []
    scores: list[float] = []
    for temperature in _TEMPERATURES:
        gain, chances = evaluate(softmax(logs / temperature, axis=1))
        for share in _SHARES:
            gains.append(share * gain + (1 - share) * gain_of_earlier)
            mixed = share * chances + (1 - share) * chances_of_earlier
            scores.append(np.log(mixed).sum() + 3 * np.log(share))
    weights = softmax(scores)
    mean = float(weights @ gains)
    deviation = float(np.sqrt(weights @ (np.array(gains) - mean) ** 2))
    return mean, float(np.hypot(deviation, mean / 2))


def _within(values: Floats, strata: NDArray[np.int64]) -> Floats:
    """Compute the deviations from the mean of the stratum, scaled to be unbiased when squared."""
    counts = np.bincount(strata)
    means = np.bincount(strata, weights=values) / np.maximum(counts, 1)
    return (values - means[strata]) * np.sqrt(counts / np.maximum(counts - 1, 1))[strata]
