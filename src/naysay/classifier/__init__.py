"""The scikit-learn estimators, and an objective for boosted trees."""

from naysay.classifier.boosting import BoostingObjective, forward_gradients
from naysay.classifier.estimator import ComplementaryClassifier
from naysay.classifier.wrapper import ComplementaryWrapper

__all__ = [
    "BoostingObjective",
    "ComplementaryClassifier",
    "ComplementaryWrapper",
    "forward_gradients",
]
