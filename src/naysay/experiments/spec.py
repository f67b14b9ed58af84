"""RunSpec: everything that decides how a run comes out, with a hash that stays the same."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput

__all__ = ["KNOWS", "RunSpec"]

#: What a method is told besides the examples and their labels.
KNOWS = ("true labels", "true Q", "estimated Q", "no Q")

_HASH_LENGTH = 16  # hex digits: among a million runs, two alike once in 10 million times


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSpec:
    """One training and its test, described by plain values.

    Two specs are equal when they mean the same run: the order of the options does not matter, and
    neither does writing 1 or 1.0.

    Parameters
    ----------
    dataset : str
        A name of `naysay.datasets.names`.
    setting : str
        How the complementary labels are drawn, a key of `naysay.experiments.data.SETTINGS`;
        ``"none"`` where no such label is used (TL).
    method : str
        A key of `naysay.methods.METHODS`.
    knows : {"true labels", "true Q", "estimated Q", "no Q"}
        What the method is told: the true labels (TL), the matrix that drew the labels (LM/T), a
        few anchors to estimate it from (LM/E), or nothing.
    recipe : str
        Whose choice of options this is: ``"paper"``, ``"best"`` or ``"quick"``.
    trial : int, default=0
        Also the seed of all randomness: matrix, labels, anchors, weights, order.
    classes : str, optional
        Some classes only, as the paper writes them: ``"1 ~ 5"``, ``"even #"``.
    n_train, n_test : int, optional
        How many examples to draw: of each class where `classes` is given, else in all. All there
        are when left out.
    anchors : int, default=0
        Examples of each class whose true class is told, to estimate Q from.
    options : mapping
        How to train, in values that JSON knows. ``grid`` maps an option to several values, of
        which one is chosen on held-out complementary labels; the trials are trained at once then,
        with an empty grid too.

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
    options: Mapping[str, Any] = field(default_factory=dict)

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
                "options must be a mapping of values that JSON knows. "
                f"Got {shorten(self.options)}: {problem}."
            ) from None
        object.__setattr__(self, "options", MappingProxyType(options))

    def as_json(self) -> dict[str, Any]:
        """Return the spec as plain values; what is left at None is left out."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["options"] = _canonical(dict(self.options))
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the spec that `as_json` wrote."""
        try:
            return cls(**values)
        except (TypeError, InvalidInput) as problem:
            raise InvalidData(f"This is no spec of a run: {problem}") from None

    @property
    def hash(self) -> str:
        """The same for the same run in every process, on every machine, in every version."""
        # what is absent does not count, so a field added later leaves old hashes as they are
        text = json.dumps(self.as_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()[:_HASH_LENGTH]

    @property
    def group(self) -> str:
        """The same for the trials of one experiment: the hash of its first trial."""
        return replace(self, trial=0).hash

    @property
    def is_grid(self) -> bool:
        """Whether it has a grid of options, be it of one setting, and is trained with others."""
        return "grid" in self.options

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunSpec) and self.as_json() == other.as_json()

    def __hash__(self) -> int:
        return int(self.hash, 16)


def _canonical(value: Any) -> Any:
    """Return the value as JSON gives it back: lists for tuples, 1 for 1.0."""
    if isinstance(value, Mapping):
        return {str(name): _canonical(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
