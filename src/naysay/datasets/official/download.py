"""Download official files into the data folder.

A file is downloaded, unpacked and verified in a hidden folder inside the data folder, and then
renamed into place, so that an interrupted download never leaves a half-written file. The next
download removes what killed ones left, and keeps files that are already in place.
"""

import logging
import os
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from naysay._base.checks import shorten
from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay._base.files import remove_leftovers, scratch_folder
from naysay.datasets.official.archives import decompress, unpack
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

    from naysay._base.terminal import ProgressBar

    class CappedBar(ProgressBar):
        """Ends a download of more bytes than expected, which could fill the disk."""

        n_received = 0

        def update(self, done: float) -> None:
            self.n_received += done
            if max(self.n_received - _CHUNK_BYTES, self.total or 0) > download.at_most:
                raise InvalidData(
                    f"{url} must have at most {download.at_most:,} bytes. The server sends more. "
                    "Nothing was kept."
                )
            super().update(done)

        def reset(self) -> None:
            self.n_received = 0
            super().reset()

    responses: list[Any] = []
    file_name, known_hash = PurePosixPath(url).name, download.known_hash
    with CappedBar(file_name, in_bytes=True) as bar, _quiet(pooch.get_logger()):
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


@contextmanager
def _quiet(logger: logging.Logger) -> Generator[None]:
    """Hide pooch's messages about its progress, and restore its logger afterwards."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _unpack(download: Download, arrived: Path, staging: Path) -> Path:
    """Arrange the downloaded files in a folder with the layout of the data folder."""
    ready = staging / "ready"
    if download.archive is None:
        target = ready / download.gives[0]
        target.parent.mkdir(parents=True)
        arrived.rename(target)
    elif download.folder is not None:  # the whole archive is kept, with the authors' layout
        unpack(arrived, download.archive, ready)
        for path in download.gives:
            if not (ready / path).is_file():
                raise InvalidData(
                    f"{arrived.name} must contain {path}. It does not. Nothing was kept."
                )
    else:
        unpacked = staging / "unpacked"
        unpack(arrived, download.archive, unpacked)
        for path in download.gives:
            _pick(arrived, unpacked, path, ready / path)
    return ready


def _pick(archive: Path, unpacked: Path, path: str, target: Path) -> None:
    """Move the file named like `path` out of an unpacked archive, decompressing a ``.Z``."""
    name = PurePosixPath(path).name
    target.parent.mkdir(parents=True, exist_ok=True)
    for candidate in sorted(unpacked.rglob(name)):
        candidate.rename(target)
        return
    for candidate in sorted(unpacked.rglob(f"{name}.Z")):
        try:
            target.write_bytes(decompress(candidate.read_bytes(), at_most=MOST_BYTES))
        except ValueError as error:
            raise InvalidData(
                f"{candidate.name} in {archive.name} must be a file made by `compress`: {error}. "
                "Nothing was kept."
            ) from None
        return
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
