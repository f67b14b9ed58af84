"""Learning rate schedules: functions from the share of training done to a factor of the rate."""

import math
from collections.abc import Callable, Sequence

__all__ = ["Schedule", "constant", "cosine", "one_cycle", "steps"]

#: Maps the share of all steps that are done, from 0 to 1, to the factor of the learning rate.
Schedule = Callable[[float], float]


def constant(share: float) -> float:
    """Keep the learning rate constant.

    Examples
    --------
    >>> constant(0.7)
    1.0
    """
    return 1.0


def cosine(share: float, *, warm_up: float = 0.1) -> float:
    """Decrease along half a cosine to 0, after a linear warm-up.

    Examples
    --------
    >>> [round(cosine(share), 2) for share in (0, 0.1, 0.5, 1)]
    [0.01, 0.98, 0.5, 0.0]
    """
    return min(1.0, (share + 1e-3) / warm_up) * 0.5 * (1 + math.cos(math.pi * share))


def one_cycle(share: float, *, peak: float = 0.2) -> float:
    """Increase linearly up to the share `peak` of training, then decrease linearly to 0.

    Examples
    --------
    >>> [round(one_cycle(share), 3) for share in (0, 0.1, 0.2, 0.6, 1)]
    [0.005, 0.505, 1.0, 0.5, 0.0]
    """
    return min(1.0, (share + 1e-3) / peak, (1 - share) / (1 - peak))


def steps(at: Sequence[float], factor: float = 0.1) -> Schedule:
    """Make a schedule that multiplies the rate by `factor` at each share of training in `at`.

    Examples
    --------
    >>> halfway = steps([0.5])
    >>> halfway(0.49), halfway(0.5)
    (1.0, 0.1)
    """
    return lambda share: float(factor ** sum(share >= each for each in at))
