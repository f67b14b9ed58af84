"""What a data set is once it is read: arrays, class names, and where they came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset", "Provenance", "SourceFile", "Split"]


@dataclass(frozen=True, eq=False)
class Split:
    """Examples and their true classes.

    Parameters
    ----------
    X : array of shape (n_samples, …)
        Images (n_samples, channels, height, width), or rows of a table (n_samples, n_features).
    y : int64 array of shape (n_samples,)
        True classes, 0..n_classes-1.
    """

    X: NDArray[Any]
    y: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        return f"Split({len(self)} examples, X {self.X.dtype} of shape {self.X.shape})"

    def take(self, chosen: NDArray[Any] | Sequence[int] | slice) -> Self:
        """Return the chosen examples: indices, a mask, or a slice.

        Examples
        --------
        >>> split = Split(np.arange(6).reshape(3, 2), np.array([0, 1, 0]))
        >>> split.take(split.y == 0).X.tolist()
        [[0, 1], [4, 5]]
        """
        at = chosen if isinstance(chosen, slice) else np.asarray(chosen)
        return type(self)(self.X[at], self.y[at])


@dataclass(frozen=True)
class SourceFile:
    """A file that was read, the md5 of its content (uncompressed), and what that was held against.

    ``checked`` is ``"published md5"``, ``"values"`` (a checksum of the numbers, for text files
    whose published copies differ in line ends and spacing), or ``"counts"`` (examples per class).
    """

    path: Path
    md5: str
    checked: str


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from, on what terms, and the files that were read."""

    source: str
    licence: str
    citation: str
    files: tuple[SourceFile, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"Source:   {self.source}",
            f"Licence:  {self.licence}",
            f"Citation: {self.citation}",
            *(f"File:     {file.path} (md5 {file.md5}; {file.checked})" for file in self.files),
            *(f"Note:     {note}" for note in self.notes),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Dataset:
    """An official data set in memory.

    Parameters
    ----------
    name : str
    train : Split
    test : Split or None
        None where the authors publish no test split.
    classes : tuple of str
        Class names; ``classes[y]`` names class ``y``.
    class_numbers : tuple of int
        The numbers by which papers call the classes, counted from 1. Satimage has no class 6.
    provenance : Provenance
    """

    name: str
    train: Split
    test: Split | None
    classes: tuple[str, ...]
    class_numbers: tuple[int, ...]
    provenance: Provenance

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.classes)} classes, train={self.train!r}, "
            f"test={self.test!r})"
        )
