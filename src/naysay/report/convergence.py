"""Accuracy against the number of examples, as SVG geometry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from naysay.report.chart import Axis, make_axis, make_path

__all__ = ["Convergence", "Line", "Point", "make_convergence"]

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 86, 24, 44
_LABEL_GAP = 14  # between the names at the right end


@dataclass(frozen=True, kw_only=True)
class Point:
    """A mean over trials with its standard deviation (None with one trial), in percent."""

    n_examples: int
    mean: float
    sd: float | None
    n_trials: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """One setting's points and the path through them; `label_at` is where its name stands."""

    name: str
    points: list[Point]
    path: str
    label_at: float


@dataclass(frozen=True, kw_only=True)
class Convergence:
    """The whole drawing."""

    x: Axis
    y: Axis
    lines: list[Line]
    width: int = _WIDTH
    height: int = _HEIGHT


def make_convergence(points: Mapping[str, Sequence[Point]]) -> Convergence | None:
    """Return the drawing of some lines by name, or None if no line has a point."""
    drawn = {name: sorted(each, key=lambda p: p.n_examples) for name, each in points.items()}
    drawn = {name: each for name, each in drawn.items() if each}
    every = [point for each in drawn.values() for point in each]
    if not every:
        return None
    x = make_axis(0, max(p.n_examples for p in every), _LEFT, _WIDTH - _RIGHT, whole=True)
    low = min(p.mean - (p.sd or 0) for p in every)
    high = max(p.mean + (p.sd or 0) for p in every)
    y = make_axis(low, high, _HEIGHT - _BOTTOM, _TOP)
    lines: list[Line] = []
    taken: list[float] = []
    for name, each in drawn.items():
        at = y(each[-1].mean)
        while any(abs(at - other) < _LABEL_GAP for other in taken):
            at += _LABEL_GAP
        taken.append(at)
        path = make_path([(p.n_examples, p.mean) for p in each], x, y)
        lines.append(Line(name=name, points=each, path=path, label_at=at))
    return Convergence(x=x, y=y, lines=lines)
