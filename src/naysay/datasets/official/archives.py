"""Unpack tar and zip archives, and refuse those that could write outside their folder.

All members are checked before the first is written. If one of them is a link or a device, or has a
name that points outside the folder, nothing is unpacked.
"""

import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal, NamedTuple

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData

_MOST_BYTES = 1 << 30  # the largest archive, CIFAR, unpacks to 186 MB
# The exceptions that `tarfile` and `zipfile` raise for an archive that they cannot read.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, RuntimeError, ValueError),
)
_MAGIC = b"\x1f\x9d"  # of files made by `compress`
_CLEAR = 256  # code that empties the table, in block mode
_FIRST_WIDTH = 9


class _Member(NamedTuple):
    name: str
    n_bytes: int
    kind: Literal["file", "folder", "link", "device"]


def unpack(archive: Path, kind: Literal["tar", "zip"], into: Path) -> None:
    """Unpack the plain files of `archive` into the folder `into`, or nothing if one is unsafe."""
    try:
        if kind == "tar":
            with tarfile.open(archive) as tar:
                _check_members(archive, [_of_tar(info) for info in tar.getmembers()])
                tar.extractall(into, filter="data")
        else:
            with zipfile.ZipFile(archive) as opened:
                _check_members(archive, [_of_zip(info) for info in opened.infolist()])
                opened.extractall(into)
    except InvalidData:
        raise
    except _DAMAGED as error:
        raise InvalidData(
            f"{archive.name} must be a whole {kind} archive. It is damaged or truncated "
            f"({type(error).__name__}: {shorten(str(error))}). Download it again."
        ) from None


def _of_tar(info: tarfile.TarInfo) -> _Member:
    if info.isdir():
        return _Member(info.name, 0, "folder")
    is_link = info.issym() or info.islnk()
    return _Member(
        info.name, info.size, "file" if info.isfile() else "link" if is_link else "device"
    )


def _of_zip(info: zipfile.ZipInfo) -> _Member:
    if info.is_dir():
        return _Member(info.filename, 0, "folder")
    mode = info.external_attr >> 16  # the Unix mode, or 0 if written on another system
    is_file = stat.S_IFMT(mode) in (0, stat.S_IFREG)
    kind = "file" if is_file else "link" if stat.S_ISLNK(mode) else "device"
    return _Member(info.filename, info.file_size, kind)


def _check_members(archive: Path, members: Sequence[_Member]) -> None:
    for member in members:
        # This is stricter than the data filter of `tarfile`, which removes a leading slash and
        # allows links inside the folder.
        posix, windows = PurePosixPath(member.name), PureWindowsPath(member.name)
        problem = f"is a {member.kind}" if member.kind in ("link", "device") else ""
        is_rooted = posix.is_absolute() or windows.drive or windows.root
        if is_rooted or ".." in (*posix.parts, *windows.parts):
            problem = "would be written outside its folder"
        if problem:
            raise InvalidData(
                f"{archive.name} must contain plain files under its own folder. One member "
                f"{problem}: {shorten(member.name)}. Nothing was unpacked; do not use this archive."
            )
    n_bytes = sum(member.n_bytes for member in members)
    if n_bytes > _MOST_BYTES:
        raise InvalidData(
            f"{archive.name} must unpack to at most {_MOST_BYTES:,} bytes. "
            f"It would unpack to {n_bytes:,}. Nothing was unpacked."
        )
    names = [PurePosixPath(member.name) for member in members if member.kind == "file"]
    if len(set(names)) != len(names):
        raise InvalidData(
            f"{archive.name} must contain each file once. It has one twice. Nothing was unpacked."
        )


def decompress(data: bytes, *, at_most: int) -> bytes:
    """Decompress a file made by the Unix program `compress` (``.Z``).

    The UCI repository still publishes such files, and no library that naysay depends on reads
    them. The format is LZW, with codes of 9 bits at first and of up to 16 bits as the table grows.
    Data that are damaged or hold more than `at_most` bytes raise a ValueError.

    Examples
    --------
    >>> decompress(bytes.fromhex("1f9d9061c40404"), at_most=10)
    b'abab'
    """
    if len(data) < 3 or not data.startswith(_MAGIC):
        raise ValueError("it does not begin with 1f 9d")
    most_width, block_mode = data[2] & 0x1F, bool(data[2] & 0x80)
    if not _FIRST_WIDTH < most_width <= 16:
        raise ValueError(f"it has codes of {most_width} bits")
    table = [bytes([value]) for value in range(256)] + [b""] * block_mode
    pieces: list[bytes] = []
    n_bytes, previous = 0, b""
    width, start, n_codes = _FIRST_WIDTH, 3, 0  # codes of this width read since byte `start`
    while 8 * start + (n_codes + 1) * width <= 8 * len(data):
        offset, shift = divmod(n_codes * width, 8)
        window = int.from_bytes(data[start + offset : start + offset + 3], "little")
        code = window >> shift & (1 << width) - 1
        n_codes += 1
        is_clear = block_mode and code == _CLEAR
        if is_clear:
            del table[257:]
            previous = b""
        else:
            if code < len(table):
                entry = table[code]
            elif code == len(table) and previous:
                entry = previous + previous[:1]  # the code that this step defines
            else:
                raise ValueError(f"it is damaged: code {code} is not defined yet")
            if previous and len(table) < 1 << most_width:
                table.append(previous + entry[:1])
            previous = entry
            pieces.append(entry)
            n_bytes += len(entry)
            if n_bytes > at_most:
                raise ValueError(f"it holds more than {at_most:,} bytes")
        if is_clear or (len(table) >= 1 << width and width < most_width):
            # `compress` writes codes in groups of 8 and pads the last group before a change.
            start += -(-n_codes // 8) * width
            width, n_codes = _FIRST_WIDTH if is_clear else width + 1, 0
    return b"".join(pieces)
