"""The rate of mistaken answers in a log of suggestions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.answers import YES
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.estimation import MistakeRate
from naysay.observations import Observations

_RATES = np.linspace(0, 0.5, 2001)[1:]
_LEVEL = 0.95


def mistakes_in_log(observations: Observations, true_labels: ArrayLike) -> MistakeRate | None:
    r"""Estimate how often answers to suggestions are mistaken.

    A mistake is a yes to a wrong class, or a no to the true one.

    An answer about an example of known class is right or wrong. Two answers to the same question,
    about an example whose class is not known, differ with probability :math:`2 ε (1 - ε)`, if the
    two were given independently of each other. The rate is the median of the posterior, with a
    prior Beta(½, ½), and the interval contains 95 % of it.

    Parameters
    ----------
    observations : Observations
        With labels as indices; those that are not answers to suggestions are left out.
    true_labels : array of shape (n_examples,)
        The true class of each example as an index, -1 where it is unknown.

    Returns
    -------
    MistakeRate or None
        None if no class is known and no question was asked twice.

    Examples
    --------
    >>> from naysay.observations import from_log
    >>> log = from_log([0, 1, 1, 0], [1, 0, 1, 1], example=[0, 0, 1, 1])
    >>> print(mistakes_in_log(log, [0, 1]))
    rate of mistakes 23.1 % (95 % interval 2.5 to 48.0 %)
    """
    known = np.asarray(true_labels)
    if known.shape != (observations.n_examples,):
        raise InvalidInput(
            f"true_labels must have shape ({observations.n_examples},), with -1 where the class is "
            f"unknown. Got shape {known.shape}."
        )
    for name, classes in (
        ("The labels of observations", observations.label),
        ("true_labels", known),
    ):
        if classes.size and classes.dtype.kind not in "iu":
            raise InvalidLabels(f"{name} must be classes by index. Got {classes.dtype}.")
    if observations.accepted is None:
        return None
    log = observations.select(observations.is_yes_no)
    said, true = np.asarray(log.accepted) == YES, known[log.example]
    wrong = ((log.label == true) != said)[true >= 0]
    n_equal, n_different = _repeated(log, said, true < 0)
    if not len(wrong) and not n_equal + n_different:
        return None
    logs = np.log(_RATES), np.log1p(-_RATES)
    differ = 2 * _RATES * (1 - _RATES)
    posterior = (wrong.sum() - 0.5) * logs[0] + ((~wrong).sum() - 0.5) * logs[1]
    posterior += n_different * np.log(differ) + n_equal * np.log1p(-differ)
    weights = np.exp(posterior - posterior.max())
    shares = np.cumsum(weights) / weights.sum()
    low, middle, high = np.interp([(1 - _LEVEL) / 2, 0.5, (1 + _LEVEL) / 2], shares, _RATES)
    none_wrong = not wrong.any() and not n_different
    return MistakeRate(
        value=0.0 if none_wrong else float(middle),
        interval=(0.0 if none_wrong else float(low), float(high)),
        level=_LEVEL,
    )


def _repeated(
    log: Observations, said: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> tuple[int, int]:
    """Count questions whose first two answers are equal, and those where they differ."""
    order: Any = np.lexsort((log.label, log.example))
    order = order[chosen[order]]
    example, label, said = log.example[order], log.label[order], said[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (example[1:] != example[:-1]) | (label[1:] != label[:-1])
    first = np.flatnonzero(is_new)
    first = first[np.diff(np.append(first, len(order))) > 1]
    equal = said[first] == said[first + 1]
    return int(equal.sum()), int((~equal).sum())
