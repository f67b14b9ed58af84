"""Find wrong labels, collapsed classes and annotator bias without true labels.

All functions take class probabilities of any model as a plain array. Use predictions for examples
that the model was not trained on, for instance out-of-fold predictions: a network can memorise a
wrong label, which then looks correct.
"""

from naysay.quality.annotator import Annotator, Annotators, annotators
from naysay.quality.collapsed import CollapsedClasses, Finding, find_collapsed_classes
from naysay.quality.goodness_of_fit import Agreement, check_matrix
from naysay.quality.suggestion_mistakes import mistakes_in_log
from naysay.quality.wrong_labels import WrongLabels, find_wrong_labels

__all__ = [
    "Agreement",
    "Annotator",
    "Annotators",
    "CollapsedClasses",
    "Finding",
    "WrongLabels",
    "annotators",
    "check_matrix",
    "find_collapsed_classes",
    "find_wrong_labels",
    "mistakes_in_log",
]
