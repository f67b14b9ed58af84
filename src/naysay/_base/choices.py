"""The classes that each answer was chosen from."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from naysay._base.mapped import take

Listed = tuple[Any, ...] | None


class Choices(Sequence[Listed]):
    """A sequence of tuples of classes, or None where all could be chosen.

    ``lists`` has each distinct tuple once, and ``codes`` the position of that of each answer; -1
    stands for None.

    Examples
    --------
    >>> offered = Choices.of([["cat", "owl"], None, ["cat", "owl"]])
    >>> offered[0], offered.codes.tolist(), offered.lists
    (('cat', 'owl'), [0, -1, 0], (('cat', 'owl'),))
    """

    def __init__(self, codes: NDArray[np.integer[Any]], lists: Sequence[tuple[Any, ...]]) -> None:
        self.codes, self.lists = codes, tuple(lists)

    @classmethod
    def of(cls, choices: Iterable[Any]) -> Self:
        """Make a sequence of lists of classes, or None."""
        if isinstance(choices, cls):
            return choices
        place_of: dict[tuple[Any, ...], int] = {}
        codes = [
            -1
            if listed is None
            else place_of.setdefault(tuple(np.asarray(listed).tolist()), len(place_of))
            for listed in choices
        ]
        return cls(np.array(codes, dtype=np.int32), tuple(place_of))

    @property
    def shape(self) -> tuple[int]:
        """Number of answers."""
        return (len(self.codes),)

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Listed]:
        return (self._list(code) for code in self.codes.tolist())

    def __getitem__(self, answers: Any) -> Any:
        """Look up the list of an answer, or select answers as numpy does."""
        codes = self.codes[answers]
        return self._list(int(codes)) if np.ndim(codes) == 0 else Choices(codes, self.lists)

    def take(self, answers: NDArray[np.int64]) -> "Choices":
        """Select answers, in a file if these are in one."""
        return Choices(take(self.codes, answers), self.lists)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.object_]:
        table = np.full(len(self.lists) + 1, None)  # the code -1 selects the last entry
        for code, listed in enumerate(self.lists):
            table[code] = listed
        return table[self.codes]

    def _list(self, code: int) -> Listed:
        return None if code < 0 else self.lists[code]

    def tolist(self) -> list[Listed]:
        """Convert to a list."""
        return list(self)
