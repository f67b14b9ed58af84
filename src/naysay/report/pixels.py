"""A small grey image as SVG: squares of equal darkness share one path."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

__all__ = ["make_pixel_paths"]

_N_TONES = 16


def make_pixel_paths(image: NDArray[np.float64]) -> list[tuple[float, str]]:
    """Return pairs of opacity and path; the largest value is opaque, 0 is not drawn.

    Examples
    --------
    >>> make_pixel_paths(np.array([[0.0, 16.0], [8.0, 16.0]]))
    [(0.5, 'M0 1h1v1h-1z'), (1.0, 'M1 0h1v1h-1zM1 1h1v1h-1z')]
    """
    darkest = float(image.max())
    if darkest <= 0:
        return []
    tones = np.rint(image / darkest * _N_TONES).astype(int)
    squares: defaultdict[int, str] = defaultdict(str)
    for row, column in np.argwhere(tones > 0).tolist():
        squares[int(tones[row, column])] += f"M{column} {row}h1v1h-1z"
    return [(tone / _N_TONES, path) for tone, path in sorted(squares.items())]
