"""The exceptions and warnings of naysay.

Each error also inherits from the built-in exception that a caller would expect.
"""


class NaysayError(Exception):
    """Base class of all errors that naysay raises deliberately."""


class InvalidTransitionMatrix(NaysayError, ValueError):
    """A matrix is not a transition matrix, or does not match the classes."""


class InvalidLabels(NaysayError, ValueError):
    """Labels are out of range, of the wrong type, or impossible under the transition matrix."""


class InvalidInput(NaysayError, ValueError):
    """Features, logits, probabilities or a parameter are invalid."""


class InvalidData(NaysayError, ValueError):
    """A file or table of data is damaged or has the wrong format."""


class NoAnchorPoints(NaysayError, ValueError):
    """A class has no anchor: no example whose true class is known."""


class NotIdentifiable(NaysayError, ValueError):
    """The labels do not determine which class is which, so that true labels are needed."""


class DatasetUnavailable(NaysayError, OSError):
    """A data set is not on disk and could not be downloaded."""


class InvalidModelFile(NaysayError, ValueError):
    """A saved model is damaged, foreign, or written by a newer version."""


class WorkerLost(NaysayError, RuntimeError):
    """The processes that did a job in a cluster were lost, each time that it was tried."""


class NaysayWarning(UserWarning):
    """The result is valid, but the user should know something about it."""
