"""Scores that need no true labels, for the predictions of any model as plain arrays.

Examples
--------
>>> import numpy as np
>>> from naysay import TransitionMatrix, metrics
>>> Q = TransitionMatrix.uniform(4)
>>> true = np.random.default_rng(0).integers(4, size=5000)
>>> predictions = np.where(np.arange(5000) % 5 == 0, (true + 1) % 4, true)  # 80 % are correct
>>> print(metrics.accuracy_without_labels(predictions, Q.sample(true, seed=1), Q))
80.2 % ± 1.1 (95 % interval: 78.0 to 82.2 %), from 5,000 complementary labels
"""

from naysay.metrics.accuracy import (
    Estimate,
    accuracy_without_labels,
    precision_without_labels,
    recall_without_labels,
)
from naysay.metrics.few_labels import accuracy_with_few_labels
from naysay.metrics.likelihood import accuracy_scorer, log_likelihood, log_likelihood_scorer
from naysay.metrics.suggestions import accuracy_from_log

__all__ = [
    "Estimate",
    "accuracy_from_log",
    "accuracy_scorer",
    "accuracy_with_few_labels",
    "accuracy_without_labels",
    "log_likelihood",
    "log_likelihood_scorer",
    "precision_without_labels",
    "recall_without_labels",
]
