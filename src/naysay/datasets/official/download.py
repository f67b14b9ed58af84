"""Download official files into the data folder, and unpack archives of them.

A file is downloaded, unpacked and verified in a hidden folder inside the data folder, and then
renamed into place, so that an interrupted download never leaves a half-written file. The next
download removes what killed ones left, and keeps files that are already in place.

All members of an archive are checked before the first is written. If one of them is a link or a
device, or has a name that points outside the folder, nothing is unpacked.
"""

import gzip
import lzma
import os
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, NamedTuple

from naysay._base.checks import shorten
from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay._base.files import remove_leftovers, scratch_folder
from naysay.datasets.official.entry import (
    HOW_TO_GET_IT,
    MOST_BYTES,
    Download,
    Entry,
    FoundFile,
    has_file,
    read_checked,
)

_CHUNK_BYTES = 1 << 16
_MOST_UNPACKED = 1 << 30  # the largest archive, CIFAR, unpacks to 186 MB
# The exceptions that `tarfile` and `zipfile` raise for an archive that they cannot read.
_DAMAGED = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, zlib.error),
    *(EOFError, RuntimeError, ValueError),
)
_MAGIC = b"\x1f\x9d"  # of files made by `compress`
_CLEAR = 256  # code that empties the table, in block mode
_FIRST_WIDTH = 9


def download_missing(entry: Entry, folder: Path) -> None:
    """Download the missing files of a data set, also those for which a stand-in is present."""
    official = {file.path: file for file in entry.files}
    hidden = folder / "download"  # never there itself: what arrives is in hidden folders beside it
    remove_leftovers(hidden)
    for download in entry.downloads:
        if all(has_file(entry, official[path], folder) for path in download.gives):
            continue
        with ExitStack() as stack:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                staging = stack.enter_context(scratch_folder(hidden)) / "new"
                staging.mkdir()
            except OSError as error:
                raise DatasetUnavailable(
                    f"{entry.name} needs {download.gives[0]}, and its folder {folder} must be "
                    f"writable to download it. {error.strerror}.\n"
                    "Choose another folder with NAYSAY_DATA, data_dir= or --data-dir."
                ) from None
            arrived = _retrieve_from_any(entry, download, folder, staging)
            ready = _unpack(download, arrived, staging)
            for path in download.gives:
                staged = FoundFile(entry.name, official[path], ready / path)
                read_checked(staged)
            _move_into_place(download, ready, folder)


def _retrieve_from_any(entry: Entry, download: Download, folder: Path, staging: Path) -> Path:
    reasons: list[str] = []
    altered: InvalidData | None = None
    for url in download.urls:
        try:
            return _retrieve(url, download, staging)
        except InvalidData as error:
            altered = error
        except OSError as error:  # all errors of `requests`, and a full disk
            reasons.append(f"{url}: {_reason(error)}")
    if altered is not None:
        raise altered
    raise DatasetUnavailable(
        f"{entry.name} needs {download.gives[0]}, which is not in {folder} and could not be "
        f"downloaded ({'; '.join(reasons)}).\n" + HOW_TO_GET_IT.format(name=entry.name)
    )


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)  # set where the server answers with an error
    if response is not None:
        return f"the server answers {response.status_code}"
    if error.errno is not None:
        return str(error.strerror)
    kinds = {each.__name__ for each in type(error).__mro__}  # of `requests`
    if "SSLError" in kinds:
        cause = re.search(r"certificate verify failed[^()]*", str(error))
        return f"the connection cannot be secured: {cause[0] if cause else shorten(str(error))}"
    if "ProxyError" in kinds:
        return "the proxy cannot be reached"
    return "no answer in time" if "Timeout" in kinds else "no connection, or it broke"


def _retrieve(url: str, download: Download, staging: Path) -> Path:
    import pooch  # imported here because the import takes longer than reading most data sets

    from naysay._base.progress import DownloadBar
    from naysay._base.terminal import quiet

    def check(received: float, expected: float) -> None:
        """End a download of more bytes than expected, which could fill the disk."""
        if max(received - _CHUNK_BYTES, expected) > download.at_most:
            raise InvalidData(
                f"{url} must have at most {download.at_most:,} bytes. The server sends more. "
                "Nothing was kept."
            )

    responses: list[Any] = []
    file_name, known_hash = PurePosixPath(url).name, download.known_hash
    with closing(DownloadBar(file_name, check)) as bar, quiet(pooch.get_logger()):
        make_downloader: Any = pooch.HTTPDownloader  # its annotations do not allow other bars
        downloader = make_downloader(
            progressbar=bar,
            chunk_size=_CHUNK_BYTES,
            headers={"Accept-Encoding": "identity"},
            hooks={"response": [_leave_encoded, lambda response, **_: responses.append(response)]},
        )
        try:
            arrived = pooch.retrieve(
                url, known_hash, fname=file_name, path=staging, downloader=downloader
            )
        except InvalidData:
            raise
        except ValueError:  # raised by pooch if the hash is wrong
            raise InvalidData(
                f"{url} must have the published hash {known_hash}. The downloaded file has "
                "another: it is truncated, altered, or a web page. It was not kept."
            ) from None
        finally:
            for response in responses:  # pooch leaves a connection open that ends with an error
                response.close()
    return Path(arrived)


def _leave_encoded(response: Any, **_: Any) -> None:
    """Keep requests from decompressing a ``.gz`` file that a server declares as encoded."""
    response.raw.headers.discard("Content-Encoding")


def _unpack(download: Download, arrived: Path, staging: Path) -> Path:
    """Arrange the downloaded files in a folder with the layout of the data folder."""
    ready = staging / "ready"
    if download.archive is None:
        target = ready / download.gives[0]
        target.parent.mkdir(parents=True)
        arrived.rename(target)
        return ready
    # of some archives everything is kept, with the authors' layout
    unpacked = staging / "unpacked" if download.folder is None else ready
    unpack(arrived, download.archive, unpacked)
    for path in download.gives:
        if download.folder is None:
            _pick(arrived, unpacked, path, ready / path)
        elif not (ready / path).is_file():
            raise InvalidData(f"{arrived.name} must contain {path}. It does not. Nothing was kept.")
    return ready


def _pick(archive: Path, unpacked: Path, path: str, target: Path) -> None:
    """Move the file named like `path` out of an unpacked archive, decompressing a ``.Z``."""
    name = PurePosixPath(path).name
    target.parent.mkdir(parents=True, exist_ok=True)
    plain, packed = (sorted(unpacked.rglob(each)) for each in (name, f"{name}.Z"))
    if plain:
        plain[0].rename(target)
    elif packed:
        try:
            target.write_bytes(decompress(packed[0].read_bytes(), at_most=MOST_BYTES))
        except ValueError as error:
            raise InvalidData(
                f"{packed[0].name} in {archive.name} must be a file made by `compress`: {error}. "
                "Nothing was kept."
            ) from None
    else:
        raise InvalidData(f"{archive.name} must contain {name}. It does not. Nothing was kept.")


def _move_into_place(download: Download, ready: Path, folder: Path) -> None:
    if download.folder is None:
        for path in download.gives:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(ready / path, folder / path)
        return
    try:
        os.replace(ready / download.folder, folder / download.folder)
    except OSError:  # a folder can only be renamed onto an empty one
        raise DatasetUnavailable(
            f"{folder / download.folder} must be complete or absent. It lacks some of "
            f"{', '.join(download.gives)}. Move it away and run the command again."
        ) from None


class _Member(NamedTuple):
    name: str
    n_bytes: int
    is_file: bool
    is_folder: bool  # what is neither is a link or a device


def unpack(archive: Path, kind: Literal["tar", "zip"], into: Path) -> None:
    """Unpack the plain files of `archive` into the folder `into`, or nothing if one is unsafe."""
    try:
        if kind == "tar":
            with tarfile.open(archive) as tar:
                _check_members(archive, map(_of_tar, tar))
                tar.extractall(into, filter="data")
        else:
            with zipfile.ZipFile(archive) as opened:
                _check_members(archive, map(_of_zip, opened.infolist()))
                opened.extractall(into)
    except InvalidData:
        raise
    except _DAMAGED as error:
        raise InvalidData(
            f"{archive.name} must be a whole {kind} archive. It is damaged or truncated "
            f"({type(error).__name__}: {shorten(str(error))}). Download it again."
        ) from None


def _of_tar(info: tarfile.TarInfo) -> _Member:
    return _Member(info.name, info.size, info.isfile(), info.isdir())


def _of_zip(info: zipfile.ZipInfo) -> _Member:
    kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if written on a system other than Unix
    return _Member(info.filename, info.file_size, kind in (0, stat.S_IFREG), info.is_dir())


def _check_members(archive: Path, members: Iterable[_Member]) -> None:
    sizes: dict[PurePosixPath, int] = {}
    for name, n_bytes, is_file, is_folder in members:
        # This is stricter than the data filter of `tarfile`, which removes a leading slash and
        # allows links inside the folder.
        posix, windows = PurePosixPath(name), PureWindowsPath(name)
        is_rooted = posix.is_absolute() or windows.drive or windows.root
        is_outside = is_rooted or ".." in (*posix.parts, *windows.parts)
        if is_outside or not (is_file or is_folder):
            problem = "would be written outside its folder" if is_outside else "is a link or device"
            raise InvalidData(
                f"{archive.name} must contain plain files under its own folder. One member "
                f"{problem}: {shorten(name)}. Nothing was unpacked; do not use this archive."
            )
        if is_folder:  # it may be listed more than once
            continue
        if posix in sizes:
            raise InvalidData(
                f"{archive.name} must contain each file once. It has {shorten(name)} twice. "
                "Nothing was unpacked."
            )
        sizes[posix] = n_bytes
    if (n_bytes := sum(sizes.values())) > _MOST_UNPACKED:
        raise InvalidData(
            f"{archive.name} must unpack to at most {_MOST_UNPACKED:,} bytes. "
            f"It would unpack to {n_bytes:,}. Nothing was unpacked."
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
