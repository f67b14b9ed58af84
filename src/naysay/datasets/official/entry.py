"""The columns of the registry: what is known about a data set before any of it is read."""

import hashlib
import os
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

import numpy as np
import platformdirs
from numpy.typing import NDArray

from naysay._base.errors import DatasetUnavailable, InvalidData

__all__ = [
    "HOW_TO_GET_IT",
    "Contents",
    "Dataset",
    "Download",
    "Entry",
    "FoundFile",
    "OfficialFile",
    "Provenance",
    "Reader",
    "SourceFile",
    "Split",
    "data_folder",
    "is_there",
    "locate",
    "user_folder",
]


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
class Contents:
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


Reader = Callable[[Entry, Sequence[FoundFile]], Contents]


HOW_TO_GET_IT = (
    "On a connected machine run: naysay data fetch {name}\n"
    "Or set NAYSAY_DATA (or data_dir=, --data-dir) to a folder that holds it."
)


def user_folder() -> Path:
    """Return naysay's own folder for data of this user."""
    return platformdirs.user_cache_path("naysay", appauthor=False)


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return the data folder: `data_dir`, else ``NAYSAY_DATA``, else the user's own."""
    chosen = data_dir or os.environ.get("NAYSAY_DATA")
    return Path(chosen).expanduser() if chosen else user_folder()


def locate(entry: Entry, folder: Path) -> tuple[FoundFile, ...]:
    """Return the files of a data set.

    Raises
    ------
    DatasetUnavailable
        If a file is missing; the message says which, where it was looked for, how to get it.
    """
    found = tuple(_find(entry, official, folder) for official in entry.files)
    missing = [file for file, at in zip(entry.files, found, strict=True) if at is None]
    if missing:
        raise DatasetUnavailable(_describe_missing(entry, missing, folder))
    return tuple(file for file in found if file is not None)


def _find(entry: Entry, official: OfficialFile, folder: Path) -> FoundFile | None:
    for place in (official.path, *official.also):
        if (folder / place).is_file():
            return FoundFile(entry.name, official, folder / place)
    return _find(entry, official.stand_in, folder) if official.stand_in else None


def _describe_missing(entry: Entry, missing: list[OfficialFile], folder: Path) -> str:
    more = f" and {len(missing) - 1} more of its files" if len(missing) > 1 else ""
    elsewhere = [place for place in missing[0].also if PurePosixPath(place).is_absolute()]
    also = f" (nor at {elsewhere[0]})" if elsewhere else ""
    return (
        f"{entry.name} needs {missing[0].path}{more}, not found in {folder}{also}.\n"
        + HOW_TO_GET_IT.format(name=entry.name)
    )


def is_there(entry: Entry, official: OfficialFile, folder: Path) -> bool:
    """Say whether a file is in the data folder; a stand-in does not count."""
    found = _find(entry, official, folder)
    return found is not None and found.official is official


_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's name for: gzip header and trailer, largest window


def md5_of(content: bytes) -> str:
    """Return the md5 of `content`; it guards against damage, not against an adversary."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read_content(file: FoundFile, *, at_most: int) -> bytes:
    """Return a file's content, unzipped if it is gzipped, whatever its name says.

    More than `at_most` bytes are refused, so that a small file cannot fill the memory.
    """
    raw = file.path.read_bytes()
    content = _gunzip(file, raw, at_most) if raw.startswith(_GZIP_MAGIC) else raw
    if not content:
        raise file.is_wrong("must hold data", "It is empty")
    if len(content) > at_most:
        raise file.is_wrong(f"must hold at most {at_most:,} bytes", "It holds more")
    return content


def read_checked(file: FoundFile, *, at_most: int) -> tuple[bytes, SourceFile]:
    """Return a file's content and its record, after comparing it with the published md5."""
    content = read_content(file, at_most=at_most)
    found, published = md5_of(content), file.official.md5
    if published is not None and found != published:
        raise file.is_wrong(
            f"must have the published md5 {published}",
            f"The md5 of its content is {found}, so it is damaged or altered",
        )
    return content, SourceFile(file.path, found, "published md5" if published else "counts")


def _gunzip(file: FoundFile, raw: bytes, at_most: int) -> bytes:
    # One call on the whole buffer: several times faster than reading through `gzip.open`.
    inflater = zlib.decompressobj(_GZIP_FORMAT)
    try:
        content = inflater.decompress(raw, at_most + 1)
    except zlib.error as error:
        raise file.is_wrong("must be a whole gzip file", f"It is damaged ({error})") from None
    if not inflater.eof and len(content) <= at_most:
        raise file.is_wrong("must be a whole gzip file", "It ends too early: it is truncated")
    if inflater.unused_data:
        raise file.is_wrong(
            "must be one gzip file", f"{len(inflater.unused_data):,} bytes follow its end"
        )
    return content
