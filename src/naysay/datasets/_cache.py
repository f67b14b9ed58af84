"""The data folder: which one it is, and which official files lie in it."""

import os
from pathlib import Path, PurePosixPath

import platformdirs

from naysay._base.errors import DatasetUnavailable
from naysay.datasets._entry import Entry, FoundFile, OfficialFile

__all__ = ["HOW_TO_GET_IT", "data_folder", "is_there", "locate", "user_folder"]

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
