"""Answers to suggestions: the codes of yes and no, and how they are written."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidLabels

CHOSEN, NO, YES = -1, 0, 1  # the annotator chose the class to exclude, or said no or yes to it
_WORDS = {
    **dict.fromkeys(("yes", "y", "true", "t", "1", "1.0", "accepted", "accept"), YES),
    **dict.fromkeys(("no", "n", "false", "f", "0", "0.0", "rejected", "reject"), NO),
    **dict.fromkeys(("", "nan", "none", "<na>", "nat"), CHOSEN),  # no answer
}


def read_accepted(values: ArrayLike, *, name: str = "accepted") -> NDArray[np.int8]:
    """Read answers to suggestions: 1 for yes, 0 for no, and -1 where there is none.

    Yes and no may be booleans, 1 and 0, or text in capitals or not: yes/no, y/n, true/false, t/f,
    accepted/rejected and accept/reject.

    Examples
    --------
    >>> read_accepted(["yes", "Rejected", None, "1"]).tolist()
    [1, 0, -1, 1]
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidLabels(f"{name} must have shape (m,). Got shape {array.shape}.")
    found, codes = np.unique(array.astype(str), return_inverse=True)
    words = {each: each.strip().lower() for each in found.tolist()}
    unknown = [each for each, word in words.items() if word not in _WORDS]
    if unknown:
        raise InvalidLabels(
            f"{name} must contain yes or no, true or false, 1 or 0, or accepted or rejected, and "
            f"may be empty. Got also {shorten(unknown)}."
        )
    return np.array([_WORDS[word] for word in words.values()], dtype=np.int8)[codes]


def check_has_acceptances(accepted: NDArray[np.int8], source: str) -> None:
    """Refuse a log of rejections only, because a model of them would learn the opposite."""
    if not (accepted == YES).any():
        n_rejected = int((accepted == NO).sum())
        raise InvalidLabels(
            f"{source} must have accepted suggestions too; none of its {n_rejected:,} answers is "
            "yes. Rejections alone are selected by their outcome, and a model of them learns the "
            "opposite of what they say: log acceptances too."
        )
