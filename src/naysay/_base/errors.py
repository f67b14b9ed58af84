"""Every exception and warning that naysay raises on purpose.

NaysayError
├── InvalidTransitionMatrix (ValueError)  Q is no transition matrix, or not one of these classes
├── InvalidLabels           (ValueError)  labels out of range, of a wrong kind, impossible under Q
├── InvalidInput            (ValueError)  features, probabilities or a parameter out of range
├── InvalidData             (ValueError)  a file or table is damaged, or not of its format
├── NoAnchorPoints          (ValueError)  a class has no example whose true class is known
├── NotIdentifiable         (ValueError)  the labels leave open which class is which
├── DatasetUnavailable      (OSError)     a data set is not on disk and could not be downloaded
└── InvalidModelFile        (ValueError)  a saved model is damaged, foreign, or of a newer version

NaysayWarning (UserWarning)               the result stands, but something should be known

Each error also inherits the built-in that a caller would expect, so ordinary handlers work.
"""

__all__ = [
    "DatasetUnavailable",
    "InvalidData",
    "InvalidInput",
    "InvalidLabels",
    "InvalidModelFile",
    "InvalidTransitionMatrix",
    "NaysayError",
    "NaysayWarning",
    "NoAnchorPoints",
    "NotIdentifiable",
]


class NaysayError(Exception):
    """Root of all errors that naysay raises on purpose."""


class InvalidTransitionMatrix(NaysayError, ValueError):
    """The matrix given is not a transition matrix, or does not fit the classes."""


class InvalidLabels(NaysayError, ValueError):
    """Labels are out of range, of the wrong kind, or impossible under the matrix."""


class InvalidInput(NaysayError, ValueError):
    """Features, logits, probabilities or a parameter are not what they must be."""


class InvalidData(NaysayError, ValueError):
    """A file or table of data is damaged, or not what its format says it is."""


class NoAnchorPoints(NaysayError, ValueError):
    """A class has no anchor: no example whose true class is known."""


class NotIdentifiable(NaysayError, ValueError):
    """The labels leave open which class is which; true labels are needed."""


class DatasetUnavailable(NaysayError, OSError):
    """A data set is not on disk and could not be downloaded."""


class InvalidModelFile(NaysayError, ValueError):
    """A saved model is damaged, foreign, or written by a newer version."""


class NaysayWarning(UserWarning):
    """The result stands, but something about it should be known."""
