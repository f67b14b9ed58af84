"""Make a network as sure as it has reason to be."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from naysay._base.checks import (
    as_real_numbers,
    check_class_names,
    check_label_indices,
    check_n_classes,
)
from naysay._base.errors import InvalidInput, InvalidLabels

_RANGE = (0.1, 10.0)
_MOST_ROWS = 50_000  # evenly spread: they tell one number to a hundredth


def calibrate(log_probs: ArrayLike, labels: ArrayLike) -> float:
    r"""Return the temperature at which predictions fit held-out labels best.

    .. math:: \hat T = \arg\max_T \sum_i \log \mathrm{softmax}(\log p(x_i) / T)_{l_i}

    Above 1 the model was too sure. The labels are what the model predicts: complementary labels
    for a network of P(Ȳ | x), true ones for P(Y | x). Divide the logits, or the log-probabilities,
    by the temperature and apply a softmax. It stays at 1 unless that gains more likelihood than
    chance would (Schwarz' criterion). Of very many examples 50,000 are used, evenly spread.

    Parameters
    ----------
    log_probs : array of shape (n, n_classes)
        Log-probabilities or logits of examples that were not trained on.
    labels : array of shape (n,)
        As indices.

    Returns
    -------
    float
        Between 0.1 and 10.

    References
    ----------
    Guo et al. 2017: On Calibration of Modern Neural Networks.

    Examples
    --------
    >>> too_sure = np.log([[0.99, 0.01]] * 100)  # right three times of four
    >>> round(calibrate(too_sure, [0, 0, 0, 1] * 25), 1)
    4.2
    """
    rule = "log_probs must be logarithms of probabilities, or logits, shape (n, n_classes)"
    scores = as_real_numbers(log_probs, rule, InvalidInput)
    # the largest of a row is NaN if there is one, and -inf if nothing is possible
    if scores.ndim != 2 or not np.isfinite(scores.max(axis=1, initial=-np.inf)).all():
        raise InvalidInput(
            f"{rule}, none of them NaN or +inf, and a finite one in every row. "
            f"Got shape {scores.shape}."
        )
    names = check_class_names(None, check_n_classes(scores.shape[1]))
    indices = check_label_indices(labels, names, name="labels")
    if indices.shape != (len(scores),) or not len(scores):
        raise InvalidLabels(
            f"labels must hold one label per row of log_probs, shape ({len(scores)},), and at "
            f"least one. Got shape {indices.shape}."
        )
    some = slice(None, None, -(-len(scores) // _MOST_ROWS))
    scores, indices = scores[some], indices[some]
    # relative to the greatest, and no less than the logarithm of the smallest float
    scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -700.0)
    chosen = scores[np.arange(len(scores)), indices]

    def loss(log_temperature: float) -> float:
        inverse = np.exp(-log_temperature)
        return float((logsumexp(scores * inverse, axis=1) - chosen * inverse).sum())

    found = minimize_scalar(loss, bounds=np.log(_RANGE), method="bounded", options={"xatol": 1e-3})
    gain = loss(0.0) - found.fun
    return float(np.exp(found.x)) if gain > max(1.0, 0.5 * np.log(len(scores))) else 1.0
