"""Log-likelihood of complementary labels under the predictions of a model; scorers."""

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import as_real_numbers, check_label_indices, row_slices
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay.metrics.accuracy import accuracy_without_labels
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels


def log_likelihood(
    log_probs: ArrayLike, comp_labels: ArrayLike, Q: TransitionMatrix | ArrayLike
) -> float:
    r"""Compute the mean log-likelihood of complementary labels under class probabilities.

    .. math:: \mathrm{mean}_i \log \sum_k Q_{k ȳ_i} \, p_k(x_i)

    This is the negative of the forward loss. It is a proper score: on held-out examples it ranks
    models as true labels would, without needing any.

    Parameters
    ----------
    log_probs : array of shape (n, n_classes)
        log P(Y | x), as ``predict_log_proba`` gives them.
    comp_labels : array of shape (n,)
        Complementary labels as indices, or as names where Q has names.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)

    Examples
    --------
    >>> log_probs = np.log([[0.8, 0.1, 0.1]])
    >>> Q = np.array([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    >>> round(log_likelihood(log_probs, [1], Q), 4)
    -0.7985
    """
    matrix = as_transition_matrix(Q)
    rule = f"log_probs must be logarithms of probabilities, shape (n, {matrix.n_classes})"
    # an array is converted in parts below, because a float64 copy of all rows may be large
    scores = cast("NDArray[Any]", log_probs)
    if not isinstance(log_probs, np.ndarray):
        scores = as_real_numbers(log_probs, rule, InvalidInput)
    if scores.ndim != 2 or scores.shape[1] != matrix.n_classes:
        raise InvalidInput(f"{rule}. Got shape {scores.shape}.")
    labels = check_comp_labels(comp_labels, matrix, len(scores), of="row of log_probs")
    columns = np.asarray(matrix).T
    total = 0.0
    for rows in row_slices(*scores.shape):
        part = as_real_numbers(scores[rows], rule, InvalidInput)
        if not (part <= 1e-6).all():
            raise InvalidInput(f"{rule}. Got the largest value {part.max():.4g}.")
        total += float(np.sum(_log_shares(part, columns[labels[rows]])))
    return total / len(scores)


def _log_shares(scores: Floats, weights: Floats) -> Floats:
    """Compute log Σ_k weights_k exp(scores_k) of each row."""
    possible = np.where(weights > 0, scores, -np.inf)
    top = np.nan_to_num(possible.max(axis=1), neginf=0.0)
    possible -= top[:, None]
    with np.errstate(divide="ignore"):
        return np.log(np.einsum("ik,ik->i", np.exp(possible, out=possible), weights)) + top


def log_likelihood_scorer(estimator: Any, X: Any, comp_labels: ArrayLike) -> float:
    """Score a fitted classifier on complementary labels, for ``GridSearchCV(scoring=…)``.

    The estimator is a `ComplementaryClassifier` or a pipeline that ends in one. Greater is better.
    """
    last = _final_step(estimator)
    labels = _as_indices(comp_labels, last.classes_)
    return log_likelihood(estimator.predict_log_proba(X), labels, last.transition_)


def accuracy_scorer(estimator: Any, X: Any, comp_labels: ArrayLike) -> float:
    """Score a fitted classifier by its accuracy, estimated from complementary labels.

    It is used like `log_likelihood_scorer`, which has a smaller variance and therefore ranks
    models with fewer labels; this score is an accuracy. Greater is better. The labels must
    identify more than bounds (see `accuracy_without_labels`).
    """
    last = _final_step(estimator)
    labels = _as_indices(comp_labels, last.classes_)
    predictions = _as_indices(estimator.predict(X), last.classes_)
    found = accuracy_without_labels(predictions, labels, last.transition_)
    if found.value is None:
        raise InvalidTransitionMatrix(
            f"The labels must identify the accuracy; with this Q they give bounds only: {found}. "
            "Score with log_likelihood_scorer."
        )
    return found.value


def _final_step(estimator: Any) -> Any:
    return estimator[-1] if hasattr(estimator, "__getitem__") else estimator


def _as_indices(labels: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int64]:
    return check_label_indices(np.asarray(labels).astype(str), [str(name) for name in classes])
