"""A figure with its error bar."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Estimate"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A probability estimated from complementary labels; ``print`` it to read it.

    ``value`` is not forced into 0..1: clipping would bias it. Where labels of this kind allow
    bounds only, ``value`` and ``standard_error`` are None and ``interval`` holds the bounds.
    """

    value: float | None
    """The estimate; None where only bounds exist."""
    standard_error: float | None
    """Its standard error; None where only bounds exist."""
    interval: tuple[float, float]
    """The interval, within 0..1, that contains the truth with the chosen confidence."""
    confidence: float
    """How often such intervals contain the truth."""
    n_labels: int
    """Number of complementary labels it comes from."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "interval": list(self.interval)}

    def __str__(self) -> str:
        low, high = (f"{100 * end:.1f}" for end in self.interval)
        given = f"from {self.n_labels:,} complementary labels"
        if self.value is None or self.standard_error is None:
            return f"{low} to {high} % ({self.confidence * 100:g} % bounds), {given}"
        return (
            f"{100 * self.value:.1f} % ± {100 * self.standard_error:.1f} "
            f"({self.confidence * 100:g} % interval: {low} to {high} %), {given}"
        )
