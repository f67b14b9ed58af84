"""Load, fetch and name the official data sets."""

from pathlib import Path

from naysay._errors import DatasetUnavailable
from naysay.datasets._cache import data_folder, locate
from naysay.datasets._dataset import Dataset, Provenance
from naysay.datasets._download import download_missing
from naysay.datasets._registry import REGISTRY, find_entry

__all__ = ["fetch", "is_on_disk", "load", "names"]


def names() -> tuple[str, ...]:
    """Return the names of the official data sets.

    Examples
    --------
    >>> names()[:3]
    ('mnist', 'fashion-mnist', 'usps')
    """
    return tuple(REGISTRY)


def load(name: str, *, data_dir: str | Path | None = None, download: bool = True) -> Dataset:
    """Load an official data set, checked against what its authors published.

    Parameters
    ----------
    name : str
        One of `names()`.
    data_dir : path, optional
        The data folder; the environment variable ``NAYSAY_DATA`` or, without it, the user's own
        cache folder when left out.
    download : bool, default=True
        Whether to download what is missing, from where the authors publish it.

    Returns
    -------
    Dataset
        Images are uint8 (n_samples, channels, height, width), those of USPS float32 in [-1, 1];
        tables are float64 (n_samples, n_features); labels are int64, 0..n_classes-1.
        ``test`` is None for waveform1, waveform2, drive and letter, which have no official split.

    Raises
    ------
    DatasetUnavailable
        If a file is missing and was not or could not be downloaded.
    InvalidData
        If a file is truncated, altered or in a wrong format; the message names it.
    InvalidInput
        If there is no data set of that name.
    """
    entry, folder = find_entry(name), data_folder(data_dir)
    try:
        files = locate(entry, folder)
    except DatasetUnavailable:
        if not download:
            raise
        download_missing(entry, folder)
        files = locate(entry, folder)
    reading = entry.reader(entry, files)
    provenance = Provenance(
        source=entry.source,
        licence=entry.licence,
        citation=entry.citation,
        files=reading.files,
        notes=tuple(file.official.note for file in files if file.official.note),
    )
    return Dataset(
        name, reading.train, reading.test, reading.classes, entry.class_numbers, provenance
    )


def fetch(name: str, *, data_dir: str | Path | None = None) -> Dataset:
    """Download what is missing of a data set, and return it, read and checked.

    Unlike `load`, this also gets the whole file where only a part of it is there (drive).
    """
    download_missing(find_entry(name), data_folder(data_dir))
    return load(name, data_dir=data_dir, download=False)


def is_on_disk(name: str, *, data_dir: str | Path | None = None) -> bool:
    """Say whether the files of a data set are there; they are not read."""
    try:
        locate(find_entry(name), data_folder(data_dir))
    except DatasetUnavailable:
        return False
    return True
