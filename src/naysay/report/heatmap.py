"""A transition matrix as a table of coloured cells."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from naysay.transition import TransitionMatrix

__all__ = ["Cell", "HeatMap", "make_cells", "make_heat_maps"]

# Share of full colour from which white text reads better than black in light mode, and black
# better than white in dark mode: both colours of page.css were chosen to change over here.
_TEXT_FLIPS_AT = 0.72


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One entry of Q: its value, its share of full colour, and how its text must look."""

    value: float
    heat: float
    tone: str


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """A matrix ready to be drawn; `top` is the value that gets full colour."""

    classes: tuple[str, ...]
    rows: list[list[Cell]]
    top: float


def make_heat_maps(*matrices: "TransitionMatrix") -> list[HeatMap]:
    """Return one heat map per matrix, all on one colour scale from 0 to their largest entry."""
    arrays = [np.asarray(matrix) for matrix in matrices]
    top = max(float(array.max()) for array in arrays)
    return [
        HeatMap(
            classes=matrix.classes,
            rows=[make_cells(row, top) for row in array.tolist()],
            top=top,
        )
        for matrix, array in zip(matrices, arrays, strict=True)
    ]


def make_cells(values: Sequence[float], top: float) -> list[Cell]:
    """Return a row of cells; `top` is the value that gets full colour."""
    return [_make_cell(value, top) for value in values]


def _make_cell(value: float, top: float) -> Cell:
    heat = value / top
    is_nothing = round(100 * value) == 0  # printed as 0
    tone = "nothing" if is_nothing else "strong" if heat >= _TEXT_FLIPS_AT else "weak"
    return Cell(value=value, heat=heat, tone=tone)
