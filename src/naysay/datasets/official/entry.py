"""Types that describe official data sets and their files, and functions that find and read them."""

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

HOW_TO_GET_IT = (
    "On a connected machine run: naysay data fetch {name}\n"
    "Or set NAYSAY_DATA (or data_dir=, --data-dir) to a folder that holds it."
)
MOST_BYTES = 1 << 28  # of one file; the largest, the training set of CIFAR-100, has 155 MB
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_FORMAT = 31  # zlib's code for a gzip header and trailer and the largest window


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
        """Select examples by indices, a mask, or a slice.

        Examples
        --------
        >>> split = Split(np.arange(6).reshape(3, 2), np.array([0, 1, 0]))
        >>> split.take(split.y == 0).X.tolist()
        [[0, 1], [4, 5]]
        """
        selection = chosen if isinstance(chosen, slice) else np.asarray(chosen)
        return type(self)(self.X[selection], self.y[selection])


@dataclass(frozen=True)
class SourceFile:
    r"""A file that was read, the md5 of its uncompressed content, and how it was verified.

    ``checked`` names what the content was compared with: ``"published md5"``, ``"git sha1"`` (the
    hash under which git stores it, with ``\n`` as line ends), ``"values"`` (a checksum of the
    numbers, for text files whose published copies differ in line ends and spacing), or ``"counts"``
    (the number of examples of each class).
    """

    path: Path
    md5: str
    checked: str


@dataclass(frozen=True)
class Provenance:
    """Source, licence and citation of a data set, and the files it was read from."""

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
        The numbers that papers use for the classes, counted from 1. Satimage has no class 6.
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

    @property
    def sizes(self) -> str:
        """The numbers of examples and classes, in words."""
        test = f"{len(self.test):,} test" if self.test else "no official test"
        return f"{len(self.train):,} training and {test} examples of {len(self.classes)} classes"

    def to_dict(self) -> dict[str, Any]:
        """List the sizes and the files that were read, as plain values for JSON."""
        return {
            "name": self.name,
            "n_classes": len(self.classes),
            "n_train": len(self.train),
            "n_test": len(self.test) if self.test else None,
            "notes": list(self.provenance.notes),
            "files": [
                {"path": str(file.path), "md5": file.md5, "checked": file.checked}
                for file in self.provenance.files
            ],
        }


@dataclass(frozen=True)
class OfficialFile:
    """One file as its authors publish it."""

    path: str  # in the data folder
    also: tuple[str, ...] = ()  # other paths to look at, relative to the data folder or absolute
    md5: str | None = None  # of the uncompressed content, because the gzip headers of copies differ
    git_sha1: str | None = None  # of a text file, as git stores it, where no other hash is known
    per_class: tuple[int, ...] = ()  # number of examples of each class, for tables
    values_sha256: str | None = None  # of the numbers, for tables whose copies differ in spacing
    stand_in: "OfficialFile | None" = None  # a part of this file, read if the file is missing
    note: str = ""  # what a user of this file should know; it is added to the provenance


@dataclass(frozen=True)
class Download:
    """One file or archive to download, and the files of the data folder that it provides."""

    urls: tuple[str, ...]  # mirrors of the same file
    gives: tuple[str, ...]
    known_hash: str | None = None  # without it, the files are verified when they are read
    archive: Literal["tar", "zip"] | None = None
    folder: str | None = None  # of an archive that is kept whole; of others, only `gives` is kept
    at_most: int = MOST_BYTES  # bytes that are received before the download is given up


@dataclass(frozen=True)
class FoundFile:
    """An official file of a data set that was found on this machine."""

    dataset: str
    official: OfficialFile
    path: Path

    def invalid(self, rule: str, got: str) -> InvalidData:
        """Make an error about this file: the rule it breaks, what it holds, and what to do."""
        return InvalidData(
            f"{self.path} {rule}. {got}. Delete it and run: naysay data fetch {self.dataset}"
        )


@dataclass(frozen=True)
class Contents:
    """Splits, classes and verified files that a reader returns."""

    train: Split
    test: Split | None
    files: tuple[SourceFile, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """A data set in the registry. `classes` is empty where the files hold the class names."""

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
    numbers: tuple[int, ...] = ()  # of the classes in papers, if the authors skip one


Reader = Callable[[Entry, Sequence[FoundFile]], Contents]


def user_folder() -> Path:
    """Locate naysay's cache folder of the current user."""
    return platformdirs.user_cache_path("naysay", appauthor=False)


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Choose the data folder: `data_dir`, else ``NAYSAY_DATA``, else the user's cache folder."""
    chosen = data_dir or os.environ.get("NAYSAY_DATA")
    return Path(chosen).expanduser() if chosen else user_folder()


def locate(entry: Entry, folder: Path) -> tuple[FoundFile, ...]:
    """Find the files of a data set in the data folder, or raise `DatasetUnavailable`."""
    found = [_find(entry, official, folder) for official in entry.files]
    missing = [file for file, place in zip(entry.files, found, strict=True) if place is None]
    if missing:
        more = f" and {len(missing) - 1} more of its files" if len(missing) > 1 else ""
        elsewhere = [place for place in missing[0].also if PurePosixPath(place).is_absolute()]
        also = f" (nor at {elsewhere[0]})" if elsewhere else ""
        raise DatasetUnavailable(
            f"{entry.name} needs {missing[0].path}{more}, not found in {folder}{also}.\n"
            + HOW_TO_GET_IT.format(name=entry.name)
        )
    return tuple(file for file in found if file is not None)


def _find(entry: Entry, official: OfficialFile, folder: Path) -> FoundFile | None:
    for place in (official.path, *official.also):
        if (folder / place).is_file():
            return FoundFile(entry.name, official, folder / place)
    return _find(entry, official.stand_in, folder) if official.stand_in else None


def has_file(entry: Entry, official: OfficialFile, folder: Path) -> bool:
    """Check whether a file itself, and not only its stand-in, is in the data folder."""
    found = _find(entry, official, folder)
    return found is not None and found.official is official


def md5_of(content: bytes) -> str:
    """Compute the md5 of `content`, which detects damage but not deliberate forgery."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def git_sha1_of(content: bytes) -> str:
    r"""Compute the hash under which git stores a text file; ``\r\n`` is converted to ``\n``.

    Examples
    --------
    >>> git_sha1_of(b"hello\r\n")  # printf 'hello\n' | git hash-object --stdin
    'ce013625030ba8dba906f756967f9e9ca394464a'
    """
    content = content.replace(b"\r\n", b"\n")
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _gunzip(file: FoundFile, raw: bytes, at_most: int) -> bytes:
    # One call on the whole buffer is several times faster than reading through `gzip.open`.
    inflater = zlib.decompressobj(_GZIP_FORMAT)
    try:
        content = inflater.decompress(raw, at_most + 1)
    except zlib.error as error:
        raise file.invalid("must be a whole gzip file", f"It is damaged ({error})") from None
    if not inflater.eof and len(content) <= at_most:
        raise file.invalid("must be a whole gzip file", "It ends too early: it is truncated")
    if inflater.unused_data:
        raise file.invalid(
            "must be one gzip file", f"{len(inflater.unused_data):,} bytes follow its end"
        )
    return content


def read_checked(file: FoundFile, *, at_most: int = MOST_BYTES) -> tuple[bytes, SourceFile]:
    """Read a file of at most `at_most` bytes, compare it with its published hash, and describe it.

    It is decompressed if it is gzipped. Some files have no published hash.
    """
    raw = file.path.read_bytes()
    content = _gunzip(file, raw, at_most) if raw.startswith(_GZIP_MAGIC) else raw
    if not content:
        raise file.invalid("must contain data", "It is empty")
    if len(content) > at_most:
        raise file.invalid(f"must contain at most {at_most:,} bytes", "It has more")
    md5, official = md5_of(content), file.official
    checked, published, found = "counts", None, None
    if official.md5 is not None:
        checked, published, found = "published md5", official.md5, md5
    elif official.git_sha1 is not None:
        checked, published, found = "git sha1", official.git_sha1, git_sha1_of(content)
    if found != published:
        raise file.invalid(
            f"must have the {checked} {published}",
            f"The {checked.split()[-1]} of its content is {found}, so it is damaged or altered",
        )
    return content, SourceFile(file.path, md5, checked)


def read_text(file: FoundFile, *, encoding: str) -> tuple[str, SourceFile]:
    """Read and check a text file, and describe it."""
    content, record = read_checked(file)
    try:
        return content.decode(encoding), record
    except UnicodeDecodeError as error:
        raise file.invalid(
            f"must be text in {encoding}",
            f"Byte {error.start:,} is 0x{content[error.start]:02x}",
        ) from None
