"""RunSpec: all settings that determine the result of a run, with a stable hash."""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, cast

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput

#: Information that a method has besides the examples and their complementary labels.
KNOWS = ("true labels", "true Q", "estimated Q", "no Q", "anchors", "anchors and images")

_HASH_LENGTH = 16  # hex digits; a million runs have a collision with probability 3e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec:
    """Specification of one run, a training and its test, in plain values.

    Two specs are equal if they specify the same run. The order of the options does not matter, nor
    whether a number is written as 1 or 1.0.

    Parameters
    ----------
    dataset : str
        A name of `naysay.datasets.names`.
    setting : str
        Transition matrix of the complementary labels, a key of
        `naysay.experiments.tasks.SETTINGS`; a name of `naysay.experiments.tasks.FILES`, which have
        a matrix or the labels themselves; or ``"none"`` if no such labels are used (TL).
    method : str
        A key of `naysay.methods.METHODS`.
    knows : {"true labels", "true Q", "estimated Q", "no Q", "anchors", "anchors and images"}
        Information that the method has: the true labels (TL), the transition matrix of the labels
        (LM/T), some anchors to estimate it from (LM/E), or nothing. The last two have no
        complementary labels: the anchors are all examples, or the others have no label.
    recipe : {"paper", "best", "quick"}
        Name of the recipe that the options come from.
    trial : int, default=0
        Number of the trial, which is also the seed of the matrix, labels, anchors, initial weights
        and order of the examples.
    classes : str, optional
        A selection of classes in the notation of the paper: ``"1 ~ 5"``, ``"even #"``.
    n_train, n_test : int, optional
        Number of examples to draw, of each class if `classes` is given, and in total otherwise.
        The default is all examples.
    anchors : int, default=0
        Number of anchors of each class, from which Q is estimated.
    labels : int, optional
        Number of complementary labels of each example. The default is one.
    options : mapping
        Training options, as values that JSON can represent. ``grid`` maps options to several
        values each, from which one combination is chosen by the loss on held-out complementary
        labels. Trials with a grid, even an empty one, are trained at the same time.

    Examples
    --------
    >>> spec = RunSpec(dataset="mnist", setting="with0", method="forward", knows="true Q",
    ...                recipe="paper", options={"lr": 0.01, "epochs": 5})
    >>> spec.hash
    'a21b9aaf3e88d8ad'
    >>> RunSpec.from_json(spec.as_json()) == spec
    True
    """

    dataset: str
    setting: str
    method: str
    knows: str
    recipe: str
    trial: int = 0
    classes: str | None = None
    n_train: int | None = None
    n_test: int | None = None
    anchors: int = 0
    labels: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.knows not in KNOWS:
            raise InvalidInput(f"knows must be one of {', '.join(KNOWS)}. Got {self.knows!r}.")
        if isinstance(self.trial, bool) or not isinstance(self.trial, int) or self.trial < 0:
            raise InvalidInput(f"trial must be an integer of at least 0. Got {self.trial!r}.")
        try:
            options = _canonical(dict(self.options))
            json.dumps(options, allow_nan=False)
        except (TypeError, ValueError) as problem:
            raise InvalidInput(
                "options must be a mapping of values that JSON can represent. "
                f"Got {shorten(self.options)}: {problem}."
            ) from None
        object.__setattr__(self, "options", MappingProxyType(options))

    def as_json(self) -> dict[str, Any]:
        """Convert the spec to plain values, without the fields that are None."""
        values = {**vars(self), "options": _canonical(self.options)}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make a spec from the values that `as_json` returned."""
        try:
            spec = cls(**values)
            for name, kind in _KINDS.items():
                if not isinstance(getattr(spec, name), kind):
                    raise TypeError(f"{name} is {shorten(getattr(spec, name))}")
            return spec
        except (TypeError, InvalidInput, RecursionError) as problem:
            raise InvalidData(f"This is not a spec of a run: {problem}") from None

    @property
    def hash(self) -> str:
        """Hash of the run, equal in every process, on every machine and in every version."""
        # Fields that are None are not hashed, so that a new field does not change old hashes.
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:_HASH_LENGTH]

    @property
    def group(self) -> str:
        """Hash of trial 0, which all trials of an experiment share."""
        return replace(self, trial=0).hash

    @property
    def is_grid(self) -> bool:
        """Whether the options have a grid, so that the trials are trained together."""
        return "grid" in self.options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.as_json() == other.as_json()

    def __hash__(self) -> int:
        return int(self.hash, 16)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.as_json(),)  # a proxy, `options`, cannot be pickled


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("dataset", "setting", "method", "knows", "recipe"), str),
    "classes": str | None,
    **dict.fromkeys(("n_train", "n_test", "labels"), int | None),
    "anchors": int,
}


def _canonical(value: Any) -> Any:
    """Convert a value to the form that JSON returns: lists for tuples, and 1 for 1.0."""
    if isinstance(value, Mapping):
        return {str(k): _canonical(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
