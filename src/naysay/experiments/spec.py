"""RunSpec: all settings that determine the result of a run, with a stable hash."""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Self, TypeVar, cast, get_args, get_origin, get_type_hints

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput

T = TypeVar("T")

#: Information that a method has besides the examples and their complementary labels.
KNOWS = ("true labels", "true Q", "estimated Q", "no Q", "anchors", "anchors and images")

_HASH_LENGTH = 16  # hex digits; a million runs have a collision with probability 3e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec:
    """Specification of one run, a training and its test, in plain values.

    Two specs are equal if they specify the same run. The order of the options does not matter, nor
    whether a number is written as 1 or 1.0.

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
    """A name of `naysay.datasets.names`."""
    setting: str
    """Transition matrix of the complementary labels, a key of `naysay.experiments.tasks.SETTINGS`;
    a name of `naysay.experiments.tasks.FILES`, which have a matrix or the labels themselves; or
    ``"none"`` if no such labels are used (TL)."""
    method: str
    """A key of `naysay.methods.METHODS`."""
    knows: str
    """Information that the method has, one of `KNOWS`: the true labels (TL), the transition matrix
    (LM/T), some anchors to estimate it from (LM/E), or nothing. The last two have no complementary
    labels: the anchors are all examples, or the others have no label."""
    recipe: str
    """Name of the recipe that the options come from: paper, best or quick."""
    trial: int = 0
    """Number of the trial, which is also the seed of the matrix, labels, anchors, initial weights
    and order of the examples."""
    classes: str | None = None
    """A selection of classes in the notation of the paper: ``"1 ~ 5"``, ``"even #"``."""
    n_train: int | None = None
    """Number of training examples to draw, of each class if `classes` is given, and in total
    otherwise. The default is all."""
    n_test: int | None = None
    """Number of test examples to draw, likewise."""
    anchors: int = 0
    """Number of anchors of each class, from which Q is estimated."""
    labels: int | None = None
    """Number of complementary labels of each example. The default is one."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Training options, as values that JSON can represent. ``grid`` maps options to several values
    each, from which one combination is chosen by the loss on held-out complementary labels. Trials
    with a grid, even an empty one, are trained at the same time."""

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
            return check_types(cls(**values))
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


def check_types(made: T) -> T:
    """Check that the fields of a dataclass, made of values from a file, have the types declared."""
    for name, is_valid in _checks_of(type(made)).items():
        value = getattr(made, name)
        if not is_valid(value):
            raise TypeError(f"{name} is {shorten(value)}")
    return made


@cache
def _checks_of(kind: type) -> dict[str, Callable[[Any], bool]]:
    return {name: _check_of(each) for name, each in get_type_hints(kind).items()}


def _check_of(kind: Any) -> Callable[[Any], bool]:
    """Make a function that checks whether a value has a type, and all numbers in it are finite."""
    if kind is Any:
        return lambda value: True
    if kind is float:
        return _is_number
    if get_origin(kind) not in (list, Mapping, dict):
        return lambda value: isinstance(value, kind)
    is_valid = _check_of(get_args(kind)[-1])

    def are_valid(values: Any) -> bool:
        return all(map(is_valid, values))

    if get_origin(kind) is list:
        return lambda value: isinstance(value, list) and are_valid(value)
    return lambda value: isinstance(value, Mapping) and are_valid(value.values())


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= sys.float_info.max  # also for an integer that no float holds


def _canonical(value: Any) -> Any:
    """Convert a value to the form that JSON returns: lists for tuples, and 1 for 1.0."""
    if isinstance(value, Mapping):
        return {str(k): _canonical(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
