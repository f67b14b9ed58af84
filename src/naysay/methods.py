"""METHODS: every way to learn from complementary labels, by name.

The only place where a string selects behaviour. A new method is one loss in
`naysay.functional` and one entry here.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from naysay._errors import InvalidInput
from naysay.losses import ForwardCrossEntropy, PairwiseComparison
from naysay.transition import TransitionMatrix

__all__ = ["METHODS", "Method", "find_method"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: what it needs, where it comes from, and its loss for a given Q."""

    name: str
    summary: str
    source: str
    uses_transition: bool
    make_loss: Callable[[TransitionMatrix], nn.Module]


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="forward",
            summary="Predicts the label given through Q; right for any habit of the annotators.",
            source="Yu et al. 2018",
            uses_transition=True,
            make_loss=ForwardCrossEntropy,
        ),
        Method(
            name="pc",
            summary="Compares each class with the excluded one; for labels without any habit.",
            source="Ishida et al. 2017",
            uses_transition=False,
            make_loss=lambda Q: PairwiseComparison(),
        ),
    )
}


def find_method(method: str | Method) -> Method:
    """Return the method of that name; a `Method` is returned as it is."""
    if isinstance(method, Method):
        return method
    if method in METHODS:
        return METHODS[method]
    close = difflib.get_close_matches(str(method), METHODS, n=1, cutoff=0.4)
    raise InvalidInput(
        f"Unknown method {method!r}. Known: {', '.join(METHODS)}."
        + (f" Did you mean {close[0]!r}?" if close else "")
    )
