"""The columns of the registry: what is known about a data set before any of it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from naysay._base.errors import InvalidData
from naysay.datasets._dataset import SourceFile, Split

__all__ = ["Download", "Entry", "FoundFile", "OfficialFile", "Reader", "Reading"]


@dataclass(frozen=True)
class OfficialFile:
    """One file as its authors publish it.

    Parameters
    ----------
    path : str
        Where it lies in the data folder.
    also : tuple of str
        Other places where it may lie; an absolute path is taken as it is.
    md5 : str, optional
        Published md5 of the content, uncompressed (the gzip wrappers of copies differ).
    per_class : tuple of int
        Examples of each class, for tables.
    values_sha256 : str, optional
        Checksum of the numbers, for tables that exist with different spacing and line ends.
    stand_in : OfficialFile, optional
        A part of this file that is read when the file itself is not there.
    note : str
        What a user of this file should know; it ends up in the provenance.
    """

    path: str
    also: tuple[str, ...] = ()
    md5: str | None = None
    per_class: tuple[int, ...] = ()
    values_sha256: str | None = None
    stand_in: "OfficialFile | None" = None
    note: str = ""


@dataclass(frozen=True)
class Download:
    """One thing to download, and the files of the data folder that come from it.

    `known_hash` is None where no hash is published: what comes out is checked when it is read.
    `folder` names the top folder of an archive that is kept whole; of other archives only the
    files named in `gives` are kept.
    """

    urls: tuple[str, ...]
    gives: tuple[str, ...]
    known_hash: str | None = None
    archive: Literal["tar", "zip"] | None = None
    folder: str | None = None


@dataclass(frozen=True)
class FoundFile:
    """An official file of a data set that was found on this machine."""

    dataset: str
    official: OfficialFile
    path: Path

    def is_wrong(self, rule: str, got: str) -> InvalidData:
        """Return the error to raise about this file: what must hold, what is there, what to do."""
        return InvalidData(
            f"{self.path} {rule}. {got}. Delete it and run: naysay data fetch {self.dataset}"
        )


@dataclass(frozen=True)
class Reading:
    """What a reader returns."""

    train: Split
    test: Split | None
    files: tuple[SourceFile, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A row of the registry. `classes` is empty where the files themselves name the classes."""

    name: str
    n_classes: int
    n_train: int
    n_test: int | None
    files: tuple[OfficialFile, ...]
    downloads: tuple[Download, ...]
    reader: "Reader"
    source: str
    licence: str
    citation: str
    classes: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def class_numbers(self) -> tuple[int, ...]:
        """The numbers by which papers call the classes: 1, 2, … unless the authors skip one."""
        return self.numbers or tuple(range(1, self.n_classes + 1))


Reader = Callable[[Entry, Sequence[FoundFile]], Reading]
