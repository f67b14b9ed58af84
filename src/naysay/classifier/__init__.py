"""ComplementaryClassifier: the scikit-learn estimator."""

from naysay.classifier.estimator import ComplementaryClassifier

__all__ = ["ComplementaryClassifier"]
