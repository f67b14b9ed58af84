"""Unpack tar and zip archives without ever leaving the folder they are unpacked into.

Every member is looked at before the first is written: a name that points elsewhere, a link or a
device condemns the whole archive. Only the bytes of plain files are used, never owners or modes.
"""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Literal, NamedTuple

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData

__all__ = ["MAGIC", "decompress", "unpack"]

_MOST_BYTES = 1 << 30  # the largest archive, CIFAR, unpacks to 186 MB
# All the ways in which `tarfile` and `zipfile` say that they cannot read an archive.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, RuntimeError, ValueError),
)


class _Member(NamedTuple):
    name: str
    n_bytes: int
    kind: Literal["file", "folder", "link", "device"]
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, kind: Literal["tar", "zip"], into: Path) -> None:
    """Unpack the plain files of `archive` into the folder `into`.

    Raises
    ------
    InvalidData
        If the archive is damaged, or a member would land outside `into` or is no plain file;
        the message names archive and member. Nothing is written in the second case.
    """
    opened = _open_tar if kind == "tar" else _open_zip
    try:
        with opened(archive) as members:
            _check_members(archive, members)
            for member in members:
                if member.kind == "file":
                    _write(member, into / PurePosixPath(member.name))
    except InvalidData:
        raise
    except _DAMAGED as error:
        raise InvalidData(
            f"{archive.name} must be a whole {kind} archive. It is damaged or truncated "
            f"({type(error).__name__}: {shorten(str(error))}). Download it again."
        ) from None


def _check_members(archive: Path, members: list[_Member]) -> None:
    for member in members:
        _check_member(archive, member)
    n_bytes = sum(member.n_bytes for member in members)
    if n_bytes > _MOST_BYTES:
        raise InvalidData(
            f"{archive.name} must unpack to at most {_MOST_BYTES:,} bytes. "
            f"It would give {n_bytes:,}. Nothing was unpacked."
        )
    names = [PurePosixPath(member.name) for member in members if member.kind == "file"]
    if len(set(names)) != len(names):
        raise InvalidData(
            f"{archive.name} must hold each file once. It holds one twice. Nothing was unpacked."
        )


def _check_member(archive: Path, member: _Member) -> None:
    posix, windows = PurePosixPath(member.name), PureWindowsPath(member.name)
    escapes = (
        posix.is_absolute()
        or windows.drive
        or windows.root
        or ".." in (*posix.parts, *windows.parts)
    )
    if escapes:
        problem = f"would be written outside its folder: {shorten(member.name)}"
    elif member.kind in ("link", "device"):
        problem = f"is a {member.kind}: {shorten(member.name)}"
    else:
        return
    raise InvalidData(
        f"{archive.name} must hold plain files under its own folder. One member {problem}. "
        "Nothing was unpacked; do not use this archive."
    )


def _write(member: _Member, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # "x": never onto a file that is there already.
    with member.open() as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)


@contextmanager
def _open_tar(archive: Path) -> Iterator[list[_Member]]:
    with tarfile.open(archive, "r:*") as tar:
        yield [
            _Member(info.name, info.size, _tar_kind(info), lambda info=info: _tar_file(tar, info))
            for info in tar.getmembers()
        ]


def _tar_kind(info: tarfile.TarInfo) -> Literal["file", "folder", "link", "device"]:
    if info.isfile():
        return "file"
    if info.isdir():
        return "folder"
    return "link" if info.issym() or info.islnk() else "device"


def _tar_file(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    source = tar.extractfile(info)
    if source is None:  # only for what is no plain file, and those were refused
        raise tarfile.ReadError(f"{info.name} has no content")
    return source


@contextmanager
def _open_zip(archive: Path) -> Iterator[list[_Member]]:
    with zipfile.ZipFile(archive) as opened:
        yield [
            _Member(
                info.filename, info.file_size, _zip_kind(info), lambda info=info: opened.open(info)
            )
            for info in opened.infolist()
        ]


def _zip_kind(info: zipfile.ZipInfo) -> Literal["file", "folder", "link", "device"]:
    if info.is_dir():
        return "folder"
    mode = info.external_attr >> 16  # Unix mode; 0 where the archive was made elsewhere
    if stat.S_ISLNK(mode):
        return "link"
    return "file" if stat.S_IFMT(mode) in (0, stat.S_IFREG) else "device"


# Files made by the Unix program `compress` (`.Z`): the UCI repository still serves some.
#
# The format is LZW with codes that grow from 9 bits to 10..16. Neither Python nor the packages
# that naysay depends on can read it.

MAGIC = b"\x1f\x9d"
_CLEAR = 256  # the code that empties the table, in block mode
_FIRST_WIDTH = 9


def decompress(data: bytes, *, at_most: int) -> bytes:
    """Return the content of a `.Z` file.

    Raises
    ------
    ValueError
        If the data are not in this format, are damaged, or hold more than `at_most` bytes.

    Examples
    --------
    >>> decompress(bytes.fromhex("1f9d9061c40404"), at_most=10)
    b'abab'
    """
    if len(data) < 3 or not data.startswith(MAGIC):
        raise ValueError("it does not begin with 1f 9d")
    most_width, block_mode = data[2] & 0x1F, bool(data[2] & 0x80)
    if not _FIRST_WIDTH < most_width <= 16:
        raise ValueError(f"it has codes of {most_width} bits")
    table = [bytes([value]) for value in range(256)] + [b""] * block_mode
    pieces: list[bytes] = []
    n_bytes, previous = 0, b""
    for code in _codes(data, most_width, table, block_mode=block_mode):
        if code == _CLEAR and block_mode:
            del table[257:]
            previous = b""
            continue
        if code < len(table):
            entry = table[code]
        elif code == len(table) and previous:
            entry = previous + previous[:1]  # the code that is being defined right now
        else:
            raise ValueError(f"it is damaged: code {code} is not defined yet")
        if previous and len(table) < 1 << most_width:
            table.append(previous + entry[:1])
        previous = entry
        pieces.append(entry)
        n_bytes += len(entry)
        if n_bytes > at_most:
            raise ValueError(f"it holds more than {at_most:,} bytes")
    return b"".join(pieces)


def _codes(data: bytes, most_width: int, table: list[bytes], *, block_mode: bool) -> Iterator[int]:
    """Yield the codes, each as wide as the table, which grows meanwhile, asks for."""
    width, start, taken = _FIRST_WIDTH, 3, 0  # `taken` codes of this width since byte `start`
    while True:
        bit = taken * width
        at = start + bit // 8
        if (len(data) - at) * 8 - bit % 8 < width:
            return
        window = int.from_bytes(data[at : at + 3], "little")
        code = (window >> bit % 8) & ((1 << width) - 1)
        taken += 1
        yield code
        is_clear = block_mode and code == _CLEAR
        if is_clear or (len(table) >= 1 << width and width < most_width):
            # `compress` writes groups of 8 codes: what is left of the last group is padding.
            start += -(-taken // 8) * width
            taken = 0
            width = _FIRST_WIDTH if is_clear else width + 1
