"""How the learning rate changes: functions from the share of training done to a factor."""

import math
from collections.abc import Callable, Sequence

__all__ = ["Schedule", "constant", "cosine", "one_cycle", "steps"]

#: Takes the share of all steps that are done, 0 to 1, and returns by what to multiply the rate.
Schedule = Callable[[float], float]


def constant(share: float) -> float:
    """Keep the learning rate as it is.

    Examples
    --------
    >>> constant(0.7)
    1.0
    """
    return 1.0


def cosine(share: float, *, warm_up: float = 0.1) -> float:
    """Rise over the warm-up while falling along half a cosine to 0.

    Examples
    --------
    >>> [round(cosine(share), 2) for share in (0, 0.1, 0.5, 1)]
    [0.01, 0.98, 0.5, 0.0]
    """
    return min(1.0, (share + 1e-3) / warm_up) * 0.5 * (1 + math.cos(math.pi * share))


def one_cycle(share: float, *, peak: float = 0.2) -> float:
    """Rise in a straight line to the peak, then fall in a straight line to 0.

    Examples
    --------
    >>> [round(one_cycle(share), 3) for share in (0, 0.1, 0.2, 0.6, 1)]
    [0.005, 0.505, 1.0, 0.5, 0.0]
    """
    return min(1.0, (share + 1e-3) / peak, (1 - share) / (1 - peak))


def steps(at: Sequence[float], factor: float = 0.1) -> Schedule:
    """Return a schedule that multiplies the rate by `factor` at each share of training in `at`.

    Examples
    --------
    >>> halfway = steps([0.5])
    >>> halfway(0.49), halfway(0.5)
    (1.0, 0.1)
    """
    return lambda share: float(factor ** sum(share >= each for each in at))
