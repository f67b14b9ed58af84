"""Scorers for scikit-learn: ``GridSearchCV(scoring=…)`` on complementary labels."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_label_indices
from naysay._base.errors import InvalidTransitionMatrix
from naysay.metrics._accuracy import accuracy_without_labels
from naysay.metrics._likelihood import log_likelihood

__all__ = ["accuracy_scorer", "log_likelihood_scorer"]


def log_likelihood_scorer(estimator: Any, X: Any, comp_labels: ArrayLike) -> float:
    """Score a fitted classifier on complementary labels, for ``GridSearchCV(scoring=…)``.

    Works for a `ComplementaryClassifier` and for a pipeline that ends in one. Greater is better.
    """
    last = _last(estimator)
    labels = _as_indices(comp_labels, last.classes_)
    return log_likelihood(estimator.predict_log_proba(X), labels, last.transition_)


def accuracy_scorer(estimator: Any, X: Any, comp_labels: ArrayLike) -> float:
    """Score a fitted classifier by its accuracy, estimated from complementary labels.

    Used like `log_likelihood_scorer`, which varies less from sample to sample and so tells models
    apart with fewer labels; this one is in points of accuracy. Greater is better.

    Raises
    ------
    InvalidTransitionMatrix
        If the labels allow bounds only (see `accuracy_without_labels`).
    """
    last = _last(estimator)
    labels = _as_indices(comp_labels, last.classes_)
    predictions = _as_indices(estimator.predict(X), last.classes_)
    found = accuracy_without_labels(predictions, labels, last.transition_)
    if found.value is None:
        raise InvalidTransitionMatrix(
            f"The labels must tell the accuracy; with this Q they give bounds only: {found}. "
            "Score with log_likelihood_scorer."
        )
    return found.value


def _last(estimator: Any) -> Any:
    return estimator[-1] if hasattr(estimator, "__getitem__") else estimator


def _as_indices(labels: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int64]:
    return check_label_indices(np.asarray(labels).astype(str), [str(name) for name in classes])
