"""Estimate the transition matrix from a few true labels."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from naysay._base.checks import (
    as_real_numbers,
    check_anchor_counts,
    check_class_names,
    check_count,
    check_n_classes,
    check_one_label_each,
    check_probabilities,
)
from naysay._base.errors import InvalidInput, NaysayWarning
from naysay.transition import TransitionMatrix

_FEW_ANCHORS = 5  # per class, the smallest number in the paper
_TEMPERATURES = (0.1, 10.0)
_MAX_ROWS = 50_000  # evenly spaced: enough to estimate one number to 1 %


def from_anchors(
    comp_probs: ArrayLike,
    anchor_labels: ArrayLike,
    n_classes: int,
    *,
    classes: Sequence[str] | None = None,
    allow_diagonal: bool = False,
    warn: bool = True,
) -> TransitionMatrix:
    r"""Estimate Q from predictions at anchors, examples whose true class is known.

    .. math:: \hat Q_{y \cdot} = \mathrm{mean}_{x \in S_y} \hat P(Ȳ = \cdot \mid x)

    An anchor x of class y has P(Y = y | x) = 1, so P(Ȳ | x) is row y of Q.

    Parameters
    ----------
    comp_probs : array of shape (n_anchors, n_classes)
        P(Ȳ | x) at the anchors, from any model trained on the complementary labels.
    anchor_labels : array of shape (n_anchors,)
        True classes of the anchors, as indices or names; 5 or 10 per class are usual.
    n_classes : int
    classes : sequence of str, optional
    allow_diagonal : bool, default=False
        Keep the diagonal, for annotators who make mistakes. By default it is set to zero and each
        row is divided by its sum.
    warn : bool, default=True
        Warn if a class has fewer than 5 anchors.

    References
    ----------
    Yu et al. 2018, section 7, equation (15). https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    >>> Q = from_anchors([[0, 0.9, 0.1], [0.4, 0, 0.6], [1, 0, 0]] * 5, [0, 1, 2] * 5, 3)
    >>> np.asarray(Q)
    array([[0. , 0.9, 0.1],
           [0.4, 0. , 0.6],
           [1. , 0. , 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    names = check_class_names(classes, n_classes)
    probs = check_probabilities(comp_probs, n_classes=n_classes, name="comp_probs")
    probs = probs.astype(np.float64, copy=False)
    labels = check_one_label_each(
        anchor_labels,
        names,
        len(probs),
        name="anchor_labels",
        of="row of comp_probs",
        allow_empty=True,  # check_anchor_counts gives a better message
    )
    counts = np.bincount(labels, minlength=n_classes)
    check_anchor_counts(counts, names)
    rows = np.stack([probs[labels == label].mean(axis=0) for label in range(n_classes)])
    if not allow_diagonal:
        np.fill_diagonal(rows, 0)
    totals = rows.sum(axis=1, keepdims=True)
    if (totals == 0).any():
        name = names[int(np.argmin(totals))]
        raise InvalidInput(
            f"comp_probs must leave class {name!r} some other label; at its anchors all "
            "probability is on the class itself. For annotators who make mistakes pass "
            "allow_diagonal=True."
        )
    if warn and (few := describe_few_anchors(probs, labels, names)) is not None:
        warnings.warn(few, NaysayWarning, stacklevel=2)
    return TransitionMatrix(rows / totals, names, allow_diagonal=allow_diagonal)


def choose_anchors(
    comp_probs: ArrayLike, labels: ArrayLike, n_per_class: int = 10
) -> NDArray[np.int64]:
    r"""Choose the most typical examples of each class as anchors.

    `from_anchors` assumes P(Y = y | x) = 1 at an anchor of class y, so that no complementary label
    names y. The best anchors therefore have the smallest predicted P(Ȳ = y | x).

    Parameters
    ----------
    comp_probs : array of shape (n, n_classes)
        P(Ȳ | x) of the examples, from a model trained on complementary labels.
    labels : array of shape (n,)
        Their true classes, as indices.
    n_per_class : int, default=10
        Number of anchors per class; all examples of a class that has fewer.

    Returns
    -------
    int array
        Row numbers of comp_probs, sorted by class.

    Examples
    --------
    >>> choose_anchors([[0.1, 0.9], [0.4, 0.6], [0.8, 0.2]], [0, 0, 1], 1).tolist()
    [0, 2]
    """
    probs = check_probabilities(comp_probs, name="comp_probs")
    n_classes = check_n_classes(probs.shape[1])
    names = check_class_names(None, n_classes)
    true = check_one_label_each(
        labels, names, len(probs), name="labels", of="row of comp_probs", allow_empty=True
    )
    n_per_class = check_count(n_per_class, "n_per_class")
    order = np.argsort(probs[np.arange(len(probs)), true], kind="stable")
    return np.concatenate([order[true[order] == k][:n_per_class] for k in range(n_classes)])


def describe_few_anchors(
    probs: NDArray[np.floating], labels: NDArray[np.int64], names: Sequence[str]
) -> str | None:
    """Describe how far off a row may be when its anchors are few; None when they are not."""
    counts = np.bincount(labels, minlength=len(names))
    fewest = int(counts.argmin())
    n = int(counts[fewest])
    if n >= _FEW_ANCHORS:
        return None
    if n > 1:
        standard_error = probs[labels == fewest].std(axis=0, ddof=1).max() / np.sqrt(n)
        uncertainty = f"its row has an error of up to ±{1.96 * standard_error:.2g} (95 %)"
    else:
        uncertainty = "the error of its row cannot be estimated"
    return (
        f"Q was estimated from {n} anchor{'s' if n > 1 else ''} for class {names[fewest]!r}; "
        f"{uncertainty}. More true labels help most here ({_FEW_ANCHORS} to 10 per class are "
        "usual)."
    )


def calibrate(log_probs: ArrayLike, labels: ArrayLike) -> float:
    r"""Fit the temperature that calibrates predictions on held-out labels.

    .. math:: \hat T = \arg\max_T \sum_i \log \mathrm{softmax}(\log p(x_i) / T)_{l_i}

    A temperature above 1 means that the model is overconfident. The labels must be of the kind
    that the model predicts: complementary labels for a model of P(Ȳ | x), true labels for P(Y | x).
    To calibrate, divide the logits or log-probabilities by the temperature and apply a softmax. The
    result is 1 unless the Bayesian information criterion supports another temperature between 0.1
    and 10. At most 50,000 examples are used, evenly spaced.

    Parameters
    ----------
    log_probs : array of shape (n, n_classes)
        Log-probabilities or logits of examples that the model was not trained on.
    labels : array of shape (n,)
        As indices.

    References
    ----------
    Guo et al. 2017: On Calibration of Modern Neural Networks.

    Examples
    --------
    >>> overconfident = np.log([[0.99, 0.01]] * 100)  # 75 % are correct
    >>> round(calibrate(overconfident, [0, 0, 0, 1] * 25), 1)
    4.2
    """
    rule = "log_probs must be logarithms of probabilities, or logits, shape (n, n_classes)"
    scores = as_real_numbers(log_probs, rule, InvalidInput)
    # the maximum of a row is NaN if the row has a NaN, and -inf if all entries are -inf
    if scores.ndim != 2 or not np.isfinite(scores.max(axis=1, initial=-np.inf)).all():
        raise InvalidInput(
            f"{rule}, none of them NaN or +inf, and a finite one in every row. "
            f"Got shape {scores.shape}."
        )
    names = check_class_names(None, check_n_classes(scores.shape[1]))
    indices = check_one_label_each(labels, names, len(scores), name="labels", of="row of log_probs")
    some = slice(None, None, -(-len(scores) // _MAX_ROWS))
    scores, indices = scores[some], indices[some]
    # relative to the largest, and not below the logarithm of the smallest float
    scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -700.0)
    chosen = scores[np.arange(len(scores)), indices]

    def loss(log_temperature: float) -> float:
        inverse = np.exp(-log_temperature)
        return float((logsumexp(scores * inverse, axis=1) - chosen * inverse).sum())

    found = minimize_scalar(
        loss, bounds=np.log(_TEMPERATURES), method="bounded", options={"xatol": 1e-3}
    )
    gain = loss(0.0) - found.fun
    return float(np.exp(found.x)) if gain > max(1.0, 0.5 * np.log(len(scores))) else 1.0
