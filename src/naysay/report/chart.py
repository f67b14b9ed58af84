"""Learning curves as SVG paths: the geometry only, the drawing is in the template."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Axis", "Chart", "make_axis", "make_chart", "make_path"]

# The drawing's own units; the page scales them.
_WIDTH, _HEIGHT = 400, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 28, 40
_N_STEPS = 4  # between ticks, about


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Maps values to places on the drawing; ticks are pairs of place and text."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[tuple[float, str]]

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One run's curves; without held-out examples there is no best epoch and no second curve."""

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
    """Return the curves of one run, or None if it recorded no epoch.

    Parameters
    ----------
    history : sequence of dict
        One record per epoch: ``epoch``, ``loss`` and, if examples were held out,
        ``held_out_loss``.
    n_epochs : int
        Where the axis of epochs ends, the same for runs that are compared.
    """
    if not history:
        return None
    training = [(record["epoch"], record["loss"]) for record in history]
    held_out = [
        (record["epoch"], record["held_out_loss"])
        for record in history
        if "held_out_loss" in record
    ]
    losses = [loss for _, loss in training + held_out]
    x = make_axis(0, max(n_epochs, 1), _LEFT, _WIDTH - _RIGHT, whole=True)
    y = make_axis(min(losses), max(losses), _HEIGHT - _BOTTOM, _TOP)
    best = min(held_out, key=lambda point: point[1]) if held_out else None
    return Chart(
        x=x,
        y=y,
        training=make_path(training, x, y),
        held_out=make_path(held_out, x, y) if held_out else None,
        best_epoch=None if best is None else int(best[0]),
        best_loss=None if best is None else best[1],
        last_epoch=int(training[-1][0]),
    )


def make_axis(low: float, high: float, start: float, end: float, *, whole: bool = False) -> Axis:
    """Return an axis that covers the values, with ticks at round numbers, whole ones if asked."""
    spread = (high - low) or abs(high) or 1.0  # a flat curve still needs some height
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


def make_path(points: Sequence[tuple[float, float]], x: Axis, y: Axis) -> str:
    """Return the line through points as an SVG path."""
    return "M" + "L".join(f"{x(epoch):g},{y(loss):g}" for epoch, loss in points)
