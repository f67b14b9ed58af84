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

__all__ = ["unpack"]

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
