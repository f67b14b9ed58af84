"""Go on with a download where it was interrupted.

What has arrived of a file lies in the hidden folder ``.partial`` of the data folder, and beside it
what the server called that version of the file. The server is asked for the rest of that version.
If it has another one by now, or cannot send the rest, the file is downloaded anew.
"""

import errno
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path, PurePosixPath

import requests

from naysay._base.errors import InvalidData
from naysay._base.progress import ProgressBar

__all__ = ["ResumableDownload", "remove_parts"]

_CHUNK_BYTES = 1 << 16
_SECONDS_TO_WAIT = (10, 60)  # for a connection, and for the next bytes
_PART_OF_A_FILE = 206
_NO_SUCH_PART = 416


class ResumableDownload:
    """Download one file, going on from what arrived before; pooch calls it.

    Parameters
    ----------
    parts : Path
        The folder in which unfinished files are kept. It must be on one disk with the output.
    bar : ProgressBar
        Shows how much of the file is there.
    has_hash : bool
        Whether what arrives will be compared with a published hash. If not, only a file whose end
        and version the server states is trusted.
    """

    def __init__(self, parts: Path, bar: ProgressBar, *, has_hash: bool) -> None:
        self._parts = parts
        self._bar = bar
        self._has_hash = has_hash

    def __call__(self, url: str, output_file: str, _pooch: object = None) -> None:
        """Download `url` to `output_file`.

        Raises
        ------
        OSError
            If there is no answer, an error for an answer, or the connection breaks.
        InvalidData
            If more arrives than the server said there is; nothing of it is kept.
        """
        self._parts.mkdir(exist_ok=True)
        with _open_part(_place_of(url, self._parts), instead=Path(output_file)) as part:
            with self._ask_for_rest(url, part) as response:
                self._receive(response, part)
                self._check_end(url, response, part)
            part.move_to(output_file)

    def _ask_for_rest(self, url: str, part: "_Part") -> requests.Response:
        if part.n_bytes and (part.version or self._has_hash):
            if_same = {"If-Range": part.version} if part.version else {}
            response = _get(url, {"Range": f"bytes={part.n_bytes}-", **if_same})
            if part.goes_on_with(response):
                return response
            if response.status_code in (_PART_OF_A_FILE, _NO_SUCH_PART):
                response.close()
                response = _get(url)
        else:
            response = _get(url)
        if not response.ok:
            response.close()
            response.raise_for_status()
        part.start_anew(_version_of(response))
        return response

    def _receive(self, response: requests.Response, part: "_Part") -> None:
        size = _size_of(response)
        self._bar.begin(size, done=part.n_bytes)
        # A .gz may be labelled as encoded; it is wanted as it lies there, so nothing is decoded.
        response.raw.headers.discard("Content-Encoding")
        try:
            for chunk in response.iter_content(_CHUNK_BYTES):
                part.write(chunk)
                self._bar.update(len(chunk))
                if size is not None and part.n_bytes > size:
                    break
        except requests.RequestException:
            raise _broken_off(part, size) from None

    def _check_end(self, url: str, response: requests.Response, part: "_Part") -> None:
        size = _size_of(response)
        if size is None:
            is_chunked = response.headers.get("Transfer-Encoding", "").lower() == "chunked"
            if not is_chunked and not self._has_hash:  # chunks have an end that was checked
                part.discard()
                raise _broken("the server does not say where the file ends, it may be cut off")
        elif part.n_bytes < size:
            raise _broken_off(part, size)
        elif part.n_bytes > size:
            part.discard()
            raise InvalidData(
                f"{url} must have the {size:,} bytes that its server states. More arrived. "
                "Nothing was kept; start again."
            )


def remove_parts(parts: Path, urls: Iterable[str]) -> None:
    """Remove what has arrived from these places, except where a process is at it."""
    for path in (_place_of(url, parts) for url in urls):
        if path.exists():
            with path.open("ab", buffering=0) as file:
                if _claim(file, path):
                    part = _Part(path, file)
                    part.discard()
                    part.remove_if_empty()


def _place_of(url: str, parts: Path) -> Path:
    digest = hashlib.sha256(url.encode()).hexdigest()[:16]
    return parts / f"{digest}-{PurePosixPath(url).name}"


def _get(url: str, headers: dict[str, str] | None = None) -> requests.Response:
    # Bytes of an encoded file could not be counted from where the last download ended.
    headers = {"Accept-Encoding": "identity", **(headers or {})}
    return requests.get(url, headers=headers, stream=True, timeout=_SECONDS_TO_WAIT)


def _version_of(response: requests.Response) -> str:
    """Return what tells this version of a file from others, or an empty text."""
    etag = response.headers.get("ETag", "")
    if etag and not etag.startswith("W/"):  # a weak one allows for other bytes
        return etag
    return response.headers.get("Last-Modified", "")


def _size_of(response: requests.Response) -> int | None:
    """Return the size of the whole file, if the server states it."""
    if response.status_code == _PART_OF_A_FILE:
        stated = response.headers.get("Content-Range", "").rpartition("/")[2]
    else:
        stated = response.headers.get("Content-Length", "")
    return int(stated) if stated.isdecimal() else None


def _broken_off(part: "_Part", size: int | None) -> OSError:
    of = "" if size is None else f" of {size:,}"
    return _broken(
        f"the connection broke after {part.n_bytes:,}{of} bytes, start again to go on from there"
    )


def _broken(reason: str) -> OSError:
    return ConnectionAbortedError(errno.ECONNABORTED, reason)


class _Part:
    """What has arrived of one file, open for this process alone."""

    def __init__(self, path: Path, file: FileIO) -> None:
        self._path = path
        self._file = file
        self._version_path = path.with_name(f"{path.name}.version")

    @property
    def n_bytes(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    @property
    def version(self) -> str:
        try:
            return self._version_path.read_text("latin-1").strip()  # as in HTTP headers
        except FileNotFoundError:
            return ""

    def goes_on_with(self, response: requests.Response) -> bool:
        """Say whether an answer is the rest of this file; not every server heeds ``If-Range``."""
        if response.status_code != _PART_OF_A_FILE:
            return False
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        is_same = _version_of(response) in ("", self.version) or not self.version
        return is_same and start is not None and int(start[1]) == self.n_bytes

    def start_anew(self, version: str) -> None:
        self._file.truncate(0)  # first: old bytes must never lie beside a new version
        self._version_path.write_text(version, "latin-1")

    def write(self, chunk: bytes) -> None:
        while chunk:  # unbuffered, so that a killed process loses nothing, but may write in parts
            chunk = chunk[self._file.write(chunk) :]

    def move_to(self, output_file: str) -> None:
        if sys.platform == "win32":  # where an open file cannot be moved
            self._file.close()
        os.replace(self._path, output_file)
        self._version_path.unlink(missing_ok=True)

    def discard(self) -> None:
        self._file.truncate(0)

    def remove_if_empty(self) -> None:
        if self.n_bytes == 0:
            if sys.platform == "win32":
                self._file.close()
            self._path.unlink()
            self._version_path.unlink(missing_ok=True)


@contextmanager
def _open_part(path: Path, *, instead: Path) -> Iterator[_Part]:
    """Open a part; where another process has it, open `instead`, which is empty."""
    file = path.open("ab", buffering=0)
    if not _claim(file, path):
        file.close()
        path, file = instead, instead.open("ab", buffering=0)
    with file:
        part = _Part(path, file)
        try:
            yield part
        except BaseException:
            part.remove_if_empty()
            raise


def _claim(file: FileIO, path: Path) -> bool:
    """Say whether this process has the part to itself; it does until the file is closed."""
    if sys.platform == "win32":  # no such locks
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:  # another process has it, or has just finished it, or the disk has no locks
        return False
