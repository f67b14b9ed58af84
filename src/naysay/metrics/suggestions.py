"""Accuracy and precision from a log of suggestions that were accepted or rejected."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from naysay._base.answers import CHOSEN, YES, read_accepted
from naysay._base.checks import check_number
from naysay._base.errors import InvalidInput
from naysay.metrics.accuracy import Estimate, wilson
from naysay.transition.algebra import Floats


def accuracy_from_log(
    predictions: ArrayLike,
    suggested: ArrayLike,
    accepted: ArrayLike,
    *,
    n_classes: int | None = None,
    examples: ArrayLike | None = None,
    mistakes: float = 0.0,
    confidence: float = 0.95,
) -> Estimate:
    r"""Estimate the accuracy of predicted classes from yes or no to suggested classes.

    Where the suggestion is the prediction f(x), the answer shows whether the prediction is right.
    Where another class s was suggested and accepted, the prediction is wrong. Where another class
    was suggested and rejected, it may be either: whether suggestions were right does not
    show whether predictions that differ from them are. So there are only bounds,

    .. math:: P(s = f, \text{yes}) \;\le\; P(f(X) = Y) \;\le\;
              1 - P(s = f, \text{no}) - P(s \ne f, \text{yes})

    and ``interval`` holds them with sampling error included, while ``value`` is None. They hold
    for any suggester that does not know the hidden class. Suggest the predictions themselves, and
    they become an estimate: ``value`` is then the share of accepted ones. The same holds for
    examples for which all classes but the prediction were suggested, so always with two classes.

    With a rate ε of mistakes, each answer counts as :math:`(1[\text{yes}] - ε) / (1 - 2ε)`, which
    is on average 1 if the suggestion is right and 0 if it is not.

    Use examples that the model was not trained on.

    Parameters
    ----------
    predictions : array of shape (m,)
        The predicted class of the example of each suggestion.
    suggested : array of shape (m,)
        The class that was suggested, in the same form.
    accepted : array of shape (m,)
        Whether it was accepted: booleans, 1 and 0, or text such as yes and no. Suggestions without
        an answer are left out.
    n_classes : int, optional
        Number of classes, to recognise examples for which all other classes were suggested.
    examples : array of shape (m,), optional
        The number or name of the example of each suggestion, if some have several.
    mistakes : float, default=0
        Rate of mistaken answers, at least 0 and below 0.5.
    confidence : float, default=0.95
        Coverage of the interval.

    Examples
    --------
    >>> print(accuracy_from_log(["cat"] * 100, ["cat"] * 100, ["yes"] * 92 + ["no"] * 8))
    92.0 % ± 2.7 (95 % interval: 85.0 to 95.9 %), from 100 answers to suggestions
    >>> suggested = ["cat"] * 90 + ["dog"] * 10
    >>> print(accuracy_from_log(["cat"] * 100, suggested, ["yes"] * 85 + ["no"] * 15))
    76.7 to 97.8 % (95 % bounds), from 100 answers to suggestions
    """
    lower, upper, n_answers = correctness_bounds(
        predictions, suggested, accepted, n_classes, examples, mistakes
    )[:3]
    return estimate_from_bounds(lower, upper, n_answers, mistakes, confidence)


def correctness_bounds(
    predictions: ArrayLike,
    suggested: ArrayLike,
    accepted: ArrayLike,
    n_classes: int | None,
    examples: ArrayLike | None,
    mistakes: float,
) -> tuple[Floats, Floats, int, NDArray[np.int64]]:
    """Bound, for each example, whether its prediction is right; see `accuracy_from_log`.

    The expectation of the first value is at most 1 if the prediction is right and 0 if not, that of
    the second is at least this, and both are equal where the log determines it. The third value is
    the number of answers, and the fourth the place of the first answer about each example.
    """
    predicted, said = np.asarray(predictions), read_accepted(accepted)
    classes, who = np.asarray(suggested), np.asarray(examples if examples is not None else [])
    who = np.arange(len(said)) if examples is None else who
    for name, array in (("predictions", predicted), ("suggested", classes), ("examples", who)):
        if array.shape != said.shape:
            raise InvalidInput(
                f"{name} must have one entry per suggestion, shape {said.shape}. Got shape "
                f"{array.shape}."
            )
    if mistakes:
        check_number(mistakes, "mistakes", above=0, below=0.5)
    answered = np.flatnonzero(said != CHOSEN)
    predicted, classes, said = predicted[answered], classes[answered], said[answered]
    _, first, example = np.unique(who[answered], return_index=True, return_inverse=True)
    is_right = ((said == YES) - mistakes) / (1 - 2 * mistakes)  # of the suggestion, on average
    codes = np.unique(np.concatenate([classes, predicted]), return_inverse=True)[1]
    pair, of_pair = np.unique(
        np.stack([example, codes[: len(classes)]]), axis=1, return_inverse=True
    )
    by_pair = np.bincount(of_pair, is_right) / np.bincount(of_pair)  # mean of repeated questions
    is_same = pair[1] == codes[len(classes) :][first][pair[0]]
    n = len(first)
    others = np.bincount(pair[0][~is_same], by_pair[~is_same], n)
    upper: Floats = 1 - others.astype(np.float64)  # integers if nothing was counted
    lower = np.zeros(n)
    if n_classes is not None:
        all_asked = np.bincount(pair[0][~is_same], minlength=n) >= n_classes - 1
        lower[all_asked] = upper[all_asked]
    lower[pair[0][is_same]] = upper[pair[0][is_same]] = by_pair[is_same]
    return lower, upper, len(answered), answered[first]


def estimate_from_bounds(
    lower: Floats, upper: Floats, n_answers: int, mistakes: float, confidence: float = 0.95
) -> Estimate:
    """Make an estimate of the mean, or bounds of it, from bounds of each example.

    The interval is Wilson's, for a mean of values within the range that one answer allows.
    """
    check_number(confidence, "confidence", above=0, below=1)
    z = float(ndtri((1 + confidence) / 2))
    given: dict[str, Any] = {"confidence": confidence, "n_labels": 0, "n_answers": n_answers}
    nothing: dict[str, Any] = {"value": None, "standard_error": None, "interval": (0.0, 1.0)}
    if not len(lower):
        return Estimate(**nothing, **given)
    low, high = _interval(lower, mistakes, z)[0], _interval(upper, mistakes, z)[1]
    if low > 1 or high < 0:
        reason = (
            f"fewer answers are mistakes than the rate of {mistakes:.1%} that was given: give a "
            "lower one"
        )
        return Estimate(**nothing, **given, unknown=reason)
    interval = (min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))
    if (lower != upper).any():
        return Estimate(value=None, standard_error=None, interval=interval, **given)
    error = float(np.sqrt(lower.var() / max(len(lower) - 1, 1)))
    return Estimate(value=float(lower.mean()), standard_error=error, interval=interval, **given)


def _interval(values: Floats, mistakes: float, z: float) -> tuple[float, float]:
    """Compute Wilson's interval of the mean, for values scaled to 0..1."""
    least = min(float(values.min()), -mistakes / (1 - 2 * mistakes))
    most = max(float(values.max()), (1 - mistakes) / (1 - 2 * mistakes))
    middle, half = wilson((float(values.mean()) - least) / (most - least), z**2 / len(values))
    return least + (most - least) * (middle - half), least + (most - least) * (middle + half)
