"""ComplementaryClassifier and ComplementaryWrapper: the scikit-learn estimators."""

from naysay.classifier.estimator import ComplementaryClassifier
from naysay.classifier.wrapper import ComplementaryWrapper

__all__ = ["ComplementaryClassifier", "ComplementaryWrapper"]
