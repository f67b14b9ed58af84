"""Checked probabilities without a second full array."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import as_real_numbers, check_probabilities, row_slices
from naysay._base.errors import InvalidInput

__all__ = ["as_probabilities"]


def as_probabilities(probs: ArrayLike, n_classes: int) -> NDArray[Any]:
    """Return probabilities of shape (n, n_classes), float32 as float32, checked part by part."""
    given = np.asarray(probs) if hasattr(probs, "__array__") else probs
    is_float = isinstance(given, np.ndarray) and given.dtype in (np.float32, np.float64)
    array = given if is_float else as_real_numbers(given, "probs must be an array", InvalidInput)
    assert isinstance(array, np.ndarray)
    if array.ndim != 2:
        check_probabilities(array, n_classes=n_classes, name="probs")  # says what is wrong
    for rows in row_slices(*array.shape):
        check_probabilities(array[rows], n_classes=n_classes, name="probs", first_row=rows.start)
    return array
