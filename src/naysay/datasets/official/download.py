"""Download official files into the data folder.

A download is made, unpacked and checked in a hidden folder inside the data folder, and moved into
place by renaming. Interrupted at any moment, it leaves nothing half-written. Started again, it
keeps the files that arrived before.
"""

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay.datasets.official.archives import decompress, unpack
from naysay.datasets.official.entry import (
    HOW_TO_GET_IT,
    Download,
    Entry,
    FoundFile,
    is_there,
    read_checked,
)

__all__ = ["download_missing"]

_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 1 << 28  # of one file: the largest is 155 MB


def download_missing(entry: Entry, folder: Path) -> None:
    """Download what is missing of a data set; a stand-in does not count as being there.

    Raises
    ------
    DatasetUnavailable
        If nothing answers, or the answer is an error.
    InvalidData
        If what arrives is not what was published; nothing of it is kept.
    """
    official = {file.path: file for file in entry.files}
    for download in entry.downloads:
        if all(is_there(entry, official[path], folder) for path in download.gives):
            continue
        with _make_staging(entry, download, folder) as staging:
            arrived = _retrieve_from_any(entry, download, folder, Path(staging))
            ready = _unpack(download, arrived, Path(staging))
            for path in download.gives:
                staged = FoundFile(entry.name, official[path], ready / path)
                read_checked(staged, at_most=_MOST_BYTES)
            _move_into_place(download, ready, folder)


def _make_staging(
    entry: Entry, download: Download, folder: Path
) -> tempfile.TemporaryDirectory[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-")
    except OSError as error:
        raise DatasetUnavailable(
            f"{entry.name} needs {download.gives[0]}, and its folder {folder} must be writable to "
            f"download it. {error.strerror}.\n"
            "Choose another folder with NAYSAY_DATA, data_dir= or --data-dir."
        ) from None


def _retrieve_from_any(entry: Entry, download: Download, folder: Path, staging: Path) -> Path:
    reasons: list[str] = []
    altered: InvalidData | None = None
    for url in download.urls:
        try:
            return _retrieve(url, download.known_hash, staging)
        except InvalidData as error:
            altered = error
        except OSError as error:  # what `requests` raises, and a full disk
            reasons.append(f"{url}: {_reason(error)}")
    if altered is not None:
        raise altered
    raise DatasetUnavailable(
        f"{entry.name} needs {download.gives[0]}, which is not in {folder} and could not be "
        f"downloaded ({'; '.join(reasons)}).\n" + HOW_TO_GET_IT.format(name=entry.name)
    )


def _reason(error: OSError) -> str:
    response = getattr(error, "response", None)  # an answer, but not the file
    if response is not None:
        return f"the server answers {response.status_code}"
    return "no connection, or it broke" if error.errno is None else str(error.strerror)


def _retrieve(url: str, known_hash: str | None, staging: Path) -> Path:
    import pooch  # here: it takes longer to import than most data sets take to read

    from naysay._base.progress import ProgressBar

    file_name = PurePosixPath(url).name
    with ProgressBar(file_name, in_bytes=True) as bar, _quiet(pooch.get_logger()):
        make_downloader: Any = pooch.HTTPDownloader  # whose annotations know no bar but pooch's
        downloader = make_downloader(
            progressbar=bar,
            chunk_size=_CHUNK_BYTES,
            headers={"Accept-Encoding": "identity"},
            hooks={"response": _leave_encoded},
        )
        try:
            arrived = pooch.retrieve(
                url, known_hash, fname=file_name, path=staging, downloader=downloader
            )
        except ValueError:  # pooch's word for a wrong hash
            raise InvalidData(
                f"{url} must have the published hash {known_hash}. What arrived does not: it is "
                "truncated, altered, or a page in place of the file. Nothing was kept."
            ) from None
    return Path(arrived)


def _leave_encoded(response: Any, **_: Any) -> None:
    """Keep a ``.gz`` as it is published: some servers label it as encoded, to be unpacked."""
    response.raw.headers.discard("Content-Encoding")


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's running commentary, and leave its logger as it was."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _unpack(download: Download, arrived: Path, staging: Path) -> Path:
    """Return a folder in which what was downloaded lies as it will in the data folder."""
    ready = staging / "ready"
    if download.archive is None:
        target = ready / download.gives[0]
        target.parent.mkdir(parents=True)
        arrived.rename(target)
    elif download.folder is not None:  # the archive as a whole, laid out by its authors
        unpack(arrived, download.archive, ready)
        _refuse_incomplete(download, arrived, ready)
    else:
        unpacked = staging / "unpacked"
        unpack(arrived, download.archive, unpacked)
        for path in download.gives:
            _pick(arrived, unpacked, path, ready / path)
    return ready


def _refuse_incomplete(download: Download, archive: Path, ready: Path) -> None:
    missing = [path for path in download.gives if not (ready / path).is_file()]
    if missing:
        raise InvalidData(f"{archive.name} must hold {missing[0]}. It does not; nothing was kept.")


def _pick(archive: Path, unpacked: Path, path: str, target: Path) -> None:
    """Move the file named like `path` out of an unpacked archive, uncompressing a ``.Z``."""
    name = PurePosixPath(path).name
    target.parent.mkdir(parents=True, exist_ok=True)
    for candidate in sorted(unpacked.rglob(name)):
        candidate.rename(target)
        return
    for candidate in sorted(unpacked.rglob(f"{name}.Z")):
        try:
            target.write_bytes(decompress(candidate.read_bytes(), at_most=_MOST_BYTES))
        except ValueError as error:
            raise InvalidData(
                f"{candidate.name} in {archive.name} must be a file made by `compress`: {error}. "
                "Nothing was kept."
            ) from None
        return
    raise InvalidData(f"{archive.name} must hold {name}. It does not; nothing was kept.")


def _move_into_place(download: Download, ready: Path, folder: Path) -> None:
    if download.folder is None:
        for path in download.gives:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            os.replace(ready / path, folder / path)
        return
    try:
        os.replace(ready / download.folder, folder / download.folder)
    except OSError:  # a folder that is not empty is not replaced
        raise DatasetUnavailable(
            f"{folder / download.folder} must be whole or absent. It lacks some of "
            f"{', '.join(download.gives)}. Move it away and start again."
        ) from None
