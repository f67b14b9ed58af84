"""Data for the pictures of a page: curves, heat maps (their colours are in page.css) and images."""

import base64
import io
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from naysay.transition import TransitionMatrix

# Sizes and margins of drawings in SVG units, which the page scales.
_WIDTH, _HEIGHT = 400, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 28, 40
_LARGE_WIDTH, _LARGE_HEIGHT = 640, 340
_LARGE_LEFT, _LARGE_RIGHT, _LARGE_TOP, _LARGE_BOTTOM = 44, 86, 24, 44
_LABEL_GAP = 14  # least distance between the names of lines
_N_STEPS = 4  # approximate number of intervals between ticks
# Share of full colour from which white text is more readable than black in light mode, and black
# than white in dark mode. The colours in page.css are chosen so that both change at this share.
_TEXT_FLIPS_AT = 0.72
_N_TONES = 16  # opacities in a picture that is made of squares
_LARGEST = 96  # pixels on the longer side of a thumbnail


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis that maps values to positions; ticks are pairs of a position and a text."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[tuple[float, str]]

    def __call__(self, value: float) -> float:
        """Compute the position of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def _make_axis(low: float, high: float, start: float, end: float, *, whole: bool = False) -> Axis:
    """Make an axis from `low` to `high` or beyond, with ticks at round (or whole) numbers."""
    spread = (high - low) or abs(high) or 1.0  # a constant curve needs an axis, too
    exponent = math.floor(math.log10(spread / _N_STEPS))
    digit = next(
        digit
        for digit in (1, 2, 2.5, 5, 10)
        if _N_STEPS * digit * 10.0**exponent >= spread
        and not (whole and digit * 10.0**exponent % 1)
    )
    step = digit * 10.0**exponent
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    n_decimals = max(0, (digit == 2.5) - exponent - (digit == 10))
    axis = Axis(low=first * step, high=last * step, start=start, end=end, ticks=[])
    axis.ticks.extend(
        (axis(index * step), f"{index * step:.{n_decimals}f}") for index in range(first, last + 1)
    )
    return axis


def _make_path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Draw the line through points as an SVG path."""
    return "M" + "L".join(f"{x(epoch):g},{y(loss):g}" for epoch, loss in points)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Loss curves of one run; without held-out examples there is no held-out curve."""

    x: Axis
    y: Axis
    training: str
    held_out: str | None
    best_epoch: int | None
    best_loss: float | None
    last_epoch: int
    width: int = _WIDTH
    height: int = _HEIGHT


def make_chart(history: Sequence[Mapping[str, float]], *, n_epochs: int) -> Chart | None:
    """Draw the loss curves of one run; the result is None if it recorded no epoch.

    The axis ends at `n_epochs`, so that runs that are compared have the same axis.
    """
    if not history:
        return None
    training = [(point["epoch"], point["loss"]) for point in history]
    held_out = [(p["epoch"], p["held_out_loss"]) for p in history if "held_out_loss" in p]
    losses = [loss for _, loss in training + held_out]
    x = _make_axis(0, max(n_epochs, 1), _LEFT, _WIDTH - _RIGHT, whole=True)
    y = _make_axis(min(losses), max(losses), _HEIGHT - _BOTTOM, _TOP)
    best = min(held_out, key=lambda point: point[1]) if held_out else None
    return Chart(
        x=x,
        y=y,
        training=_make_path(training, x, y),
        held_out=_make_path(held_out, x, y) if held_out else None,
        best_epoch=None if best is None else int(best[0]),
        best_loss=None if best is None else best[1],
        last_epoch=int(training[-1][0]),
    )


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mean over trials and its standard deviation, in percent; None with one trial."""

    n_examples: int
    mean: float
    sd: float | None
    n_trials: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """The points of one setting, the path through them, and the height of its name."""

    name: str
    points: list[Point]
    path: str
    label_at: float


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """Accuracy against the number of training examples, one line per setting."""

    x: Axis
    y: Axis
    lines: list[Line]
    width: int = _LARGE_WIDTH
    height: int = _LARGE_HEIGHT


def make_convergence(points: Mapping[str, Sequence[Point]]) -> Convergence | None:
    """Draw lines by name, or return None if there is no point."""
    drawn = {
        name: sorted(each, key=lambda point: point.n_examples)
        for name, each in points.items()
        if each
    }
    every = [point for each in drawn.values() for point in each]
    if not every:
        return None
    x = _make_axis(
        0, max(p.n_examples for p in every), _LARGE_LEFT, _LARGE_WIDTH - _LARGE_RIGHT, whole=True
    )
    low = min(p.mean - (p.sd or 0) for p in every)
    high = max(p.mean + (p.sd or 0) for p in every)
    y = _make_axis(low, high, _LARGE_HEIGHT - _LARGE_BOTTOM, _LARGE_TOP)
    lines: list[Line] = []
    taken: list[float] = []
    for name, each in drawn.items():
        at = y(each[-1].mean)
        while any(abs(at - other) < _LABEL_GAP for other in taken):
            at += _LABEL_GAP
        taken.append(at)
        path = _make_path([(p.n_examples, p.mean) for p in each], x, y)
        lines.append(Line(name=name, points=each, path=path, label_at=at))
    return Convergence(x=x, y=y, lines=lines)


@dataclass(frozen=True, kw_only=True)
class HeatMapCell:
    """An entry of a matrix: its value, its share of full colour, and the style of its text."""

    value: float
    heat: float
    tone: str


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """The cells of a transition matrix; `top` is the value with full colour."""

    classes: tuple[str, ...]
    rows: list[list[HeatMapCell]]
    top: float


def make_heat_maps(*matrices: "TransitionMatrix") -> list[HeatMap]:
    """Draw one heat map per matrix, on one colour scale from 0 to their largest entry."""
    arrays = [np.asarray(matrix) for matrix in matrices]
    top = max(float(array.max()) for array in arrays)
    rows = ([make_heat_map_cells(row, top) for row in array.tolist()] for array in arrays)
    return [
        HeatMap(classes=matrix.classes, rows=each, top=top)
        for matrix, each in zip(matrices, rows, strict=True)
    ]


def make_heat_map_cells(values: Sequence[float], top: float) -> list[HeatMapCell]:
    """Draw a row of cells; `top` is the value with full colour."""
    cells: list[HeatMapCell] = []
    for value in values:
        heat = value / top
        is_nothing = round(100 * value) == 0  # the page prints it as 0
        tone = "nothing" if is_nothing else "strong" if heat >= _TEXT_FLIPS_AT else "weak"
        cells.append(HeatMapCell(value=value, heat=heat, tone=tone))
    return cells


def make_pixel_paths(image: NDArray[np.float64]) -> list[tuple[float, str]]:
    """Draw an image as pairs of opacity and SVG path; the largest value is opaque.

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


def make_thumbnail(image: NDArray[np.uint8]) -> str:
    """Encode an image of shape (channels, height, width) as a small PNG in a ``data:`` URL.

    Examples
    --------
    >>> make_thumbnail(np.zeros((1, 8, 8), np.uint8))[:22]
    'data:image/png;base64,'
    """
    pixels = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.thumbnail((_LARGEST, _LARGEST))
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode("ascii")
