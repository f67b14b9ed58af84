"""Scores that need no true label."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp

from naysay._checks import as_real_numbers, check_label_indices, check_transition_values
from naysay._errors import InvalidInput, InvalidLabels

__all__ = ["log_likelihood", "log_likelihood_scorer"]


def log_likelihood(log_probs: ArrayLike, comp_labels: ArrayLike, Q: ArrayLike) -> float:
    r"""Mean log-likelihood of complementary labels under predicted class probabilities.

    .. math:: \mathrm{mean}_i \log \sum_k Q_{k ȳ_i} \, p_k(x_i)

    The negative of the forward loss. It is proper: on held-out examples it ranks models as true
    labels would, without any.

    Parameters
    ----------
    log_probs : array of shape (n, n_classes)
        log P(Y | x), as ``predict_log_proba`` gives them.
    comp_labels : array of shape (n,)
        Complementary labels as indices.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)

    Examples
    --------
    >>> log_probs = np.log([[0.8, 0.1, 0.1]])
    >>> Q = np.array([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    >>> round(log_likelihood(log_probs, [1], Q), 4)
    -0.7985
    """
    entries, names = check_transition_values(Q, None, allow_diagonal=True)
    rule = f"log_probs must be logarithms of probabilities, shape (n, {len(names)})"
    scores = as_real_numbers(log_probs, rule, InvalidInput)
    if scores.ndim != 2 or scores.shape[1] != len(names) or not (scores <= 1e-6).all():
        raise InvalidInput(
            f"{rule}. Got shape {scores.shape}, largest value {scores.max(initial=-np.inf):.4g}."
        )
    labels = check_label_indices(comp_labels, names, name="comp_labels")
    if labels.shape != (len(scores),) or not len(scores):
        raise InvalidLabels(
            f"comp_labels must hold one label per row of log_probs, shape ({len(scores)},), and "
            f"at least one. Got shape {labels.shape}."
        )
    return float(np.mean(logsumexp(scores, axis=1, b=_columns(entries, labels))))


def _columns(entries: csr_array, labels: NDArray[np.int64]) -> NDArray[np.float64]:
    columns = entries.T.tocsr()[labels].toarray()
    impossible = labels[~columns.any(axis=1)]
    if len(impossible):
        raise InvalidLabels(
            f"comp_labels contains class {impossible[0]}, but Q[:, {impossible[0]}] is all zero, "
            f"so that label could never occur. Re-estimate Q or drop the {len(impossible)} rows."
        )
    return columns


def log_likelihood_scorer(estimator: Any, X: Any, comp_labels: ArrayLike) -> float:
    """Score a fitted classifier on complementary labels, for ``GridSearchCV(scoring=…)``.

    Works for a `ComplementaryClassifier` and for a pipeline that ends in one. Greater is better.
    """
    last = estimator[-1] if hasattr(estimator, "__getitem__") else estimator
    labels = check_label_indices(
        np.asarray(comp_labels).astype(str), [str(name) for name in last.classes_]
    )
    return log_likelihood(estimator.predict_log_proba(X), labels, last.transition_)
