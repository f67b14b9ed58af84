"""What predictions say about labels, classes and annotators, without true labels.

All of it takes class probabilities of any model as a plain array, best those of examples that
the model was not trained on (cross-validated ones, for instance): a network can learn a wrong
label by heart, and then finds nothing wrong with it.
"""

from naysay.quality.annotator import Annotator, Annotators, annotators
from naysay.quality.collapsed import CollapsedClasses, Finding, find_collapsed_classes
from naysay.quality.wrong_labels import WrongLabels, find_wrong_labels

__all__ = [
    "Annotator",
    "Annotators",
    "CollapsedClasses",
    "Finding",
    "WrongLabels",
    "annotators",
    "find_collapsed_classes",
    "find_wrong_labels",
]
