"""The matrices of the paper's experiments, by name: how complementary labels are drawn."""

from collections.abc import Callable

import numpy as np

from naysay._base.errors import InvalidInput
from naysay.transition import TransitionMatrix

__all__ = ["MANUAL_WITH0", "NON_INVERTIBLE", "SETTINGS", "make_transition"]

#: The matrix that the paper prints in its discussion, four digits each. Its rank is 9.
NON_INVERTIBLE = (
    (0, 0.3042, 0, 0, 0.5197, 0, 0, 0.1762, 0, 0),
    (0, 0, 0, 0.6141, 0, 0.0478, 0, 0.3381, 0, 0),
    (0, 0, 0, 0, 0, 0.0213, 0, 0.7834, 0.1953, 0),
    (0, 0.4489, 0, 0, 0.1034, 0, 0, 0.4477, 0, 0),
    (0, 0.2596, 0, 0, 0, 0.3836, 0, 0, 0.3568, 0),
    (0, 0.4416, 0, 0.5412, 0, 0, 0, 0, 0.0172, 0),
    (0, 0.3049, 0, 0, 0, 0.5828, 0, 0.1123, 0, 0),
    (0, 0.1499, 0, 0, 0, 0.3134, 0, 0, 0, 0.5367),
    (0.1061, 0.4718, 0, 0, 0, 0, 0, 0.4220, 0, 0),
    (0, 0.4261, 0.0579, 0, 0, 0, 0.5160, 0, 0, 0),
)

#: For each digit the three labels of our own design, given with 0.5, 0.3 and 0.2. The paper's
#: matrix is a picture; two facts of it are in the text and hold here: a 0 is called "not 1", "not
#: 5" or "not 7", and only a 1 is ever called "not 6".
MANUAL_WITH0 = (
    (1, 5, 7),
    (0, 6, 8),
    (4, 9, 1),
    (1, 0, 4),
    (2, 3, 8),
    (9, 7, 0),
    (7, 1, 9),
    (8, 2, 5),
    (3, 5, 7),
    (2, 0, 3),
)
_MANUAL_SHARES = (0.5, 0.3, 0.2)


def _printed() -> TransitionMatrix:
    values = np.array(NON_INVERTIBLE)
    return TransitionMatrix(values / values.sum(axis=1, keepdims=True))


def _manual_with_zeros() -> TransitionMatrix:
    values = np.zeros((10, 10))
    for digit, labels in enumerate(MANUAL_WITH0):
        values[digit, labels] = _MANUAL_SHARES
    return TransitionMatrix(values)


def _manual_without_zeros() -> TransitionMatrix:
    """Return the matrix where the next three digits share 0.6, three more 0.3, the last 0.1."""
    row = np.concatenate([[0.0], np.repeat([0.6, 0.3, 0.1], 3) / 3])
    return TransitionMatrix(np.stack([np.roll(row, digit) for digit in range(10)]))


#: A matrix for a number of classes and a seed; the last three are one matrix of 10 classes each.
SETTINGS: dict[str, Callable[[int, int], TransitionMatrix]] = {
    "uniform": lambda n_classes, seed: TransitionMatrix.uniform(n_classes),
    "without0": lambda n_classes, seed: TransitionMatrix.without_zeros(n_classes, seed=seed),
    "with0": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, seed=seed),
    "with0-5": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, 5, seed=seed),
    "non-invertible": lambda n_classes, seed: _printed(),
    "manual-without0": lambda n_classes, seed: _manual_without_zeros(),
    "manual-with0": lambda n_classes, seed: _manual_with_zeros(),
}


def make_transition(setting: str, n_classes: int, *, seed: int) -> TransitionMatrix:
    """Return the matrix of a setting.

    Examples
    --------
    >>> make_transition("non-invertible", 10, seed=0).diagnose().identifiable
    False
    """
    if setting not in SETTINGS:
        raise InvalidInput(f"setting must be one of {', '.join(SETTINGS)}. Got {setting!r}.")
    matrix = SETTINGS[setting](n_classes, seed)
    if matrix.n_classes != n_classes:
        raise InvalidInput(
            f"setting {setting!r} is for {matrix.n_classes} classes. The task has {n_classes}."
        )
    return matrix
