"""Locate, download, verify and read official data sets in their published formats."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from naysay._base.checks import shorten
from naysay._base.errors import DatasetUnavailable, InvalidData, InvalidInput
from naysay.datasets.official.download import download_missing
from naysay.datasets.official.entry import Dataset, Entry, Provenance, data_folder, locate
from naysay.datasets.official.registry import REGISTRY

__all__ = [
    "DatasetInfo",
    "Verification",
    "describe",
    "fetch",
    "is_on_disk",
    "load",
    "names",
    "verify",
]


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a data set that needs no reading of its files.

    `n_test` is None where there is no official split. `is_partial` is true if only a part of the
    data is on disk, which is then what `load` returns.
    """

    name: str
    n_classes: int
    n_train: int
    n_test: int | None
    on_disk: bool
    is_partial: bool
    source: str
    licence: str
    citation: str


@dataclass(frozen=True)
class Verification:
    """Whether the files of a data set on disk are those that its authors published.

    `detail` says what was read and compared, or what is wrong.
    """

    name: str
    status: Literal["ok", "missing", "damaged"]
    detail: str
    dataset: Dataset | None = None  # if it is neither missing nor damaged

    def to_dict(self) -> dict[str, Any]:
        """List the facts as plain values for JSON."""
        found = {} if self.dataset is None else self.dataset.to_dict()
        return {"name": self.name, "status": self.status, "detail": self.detail, **found}


def names() -> tuple[str, ...]:
    """List the names of the official data sets.

    Examples
    --------
    >>> names()[:3]
    ('mnist', 'fashion-mnist', 'usps')
    """
    return tuple(REGISTRY)


def _find_entry(name: str) -> Entry:
    if name not in REGISTRY:
        raise InvalidInput(f"Unknown data set {shorten(name)}. Known: {', '.join(REGISTRY)}.")
    return REGISTRY[name]


def load(name: str, *, data_dir: str | Path | None = None, download: bool = True) -> Dataset:
    """Load an official data set and verify it against what its authors published.

    Parameters
    ----------
    name : str
        One of `names()`.
    data_dir : path, optional
        The data folder. The default is the environment variable ``NAYSAY_DATA`` or, if it is not
        set, the user's cache folder.
    download : bool, default=True
        Whether to download missing files from where the authors publish them.

    Returns
    -------
    Dataset
        Images are uint8 (n_samples, channels, height, width), those of USPS float32 in [-1, 1];
        tables are float64 (n_samples, n_features); labels are int64, 0..n_classes-1.
        ``test`` is None for waveform1, waveform2, drive and letter, which have no official split.

    Raises
    ------
    DatasetUnavailable
        If a file is missing and `download` is false or the download fails.
    InvalidData
        If a file is truncated, altered or in a wrong format; the message names it.
    """
    entry, folder = _find_entry(name), data_folder(data_dir)
    try:
        files = locate(entry, folder)
    except DatasetUnavailable:
        if not download:
            raise
        download_missing(entry, folder)
        files = locate(entry, folder)
    contents = entry.reader(entry, files)
    return Dataset(
        name=name,
        train=contents.train,
        test=contents.test,
        classes=contents.classes,
        class_numbers=entry.numbers or tuple(range(1, entry.n_classes + 1)),
        provenance=Provenance(
            source=entry.source,
            licence=entry.licence,
            citation=entry.citation,
            files=contents.files,
            notes=tuple(file.official.note for file in files if file.official.note),
        ),
    )


def fetch(name: str, *, data_dir: str | Path | None = None) -> Dataset:
    """Download the missing files of a data set, then load and verify it.

    Unlike `load`, this also downloads the whole file where only a part of it is on disk (drive).
    """
    download_missing(_find_entry(name), data_folder(data_dir))
    return load(name, data_dir=data_dir, download=False)


def verify(name: str, *, data_dir: str | Path | None = None) -> Verification:
    """Read a data set on disk, and compare it with what its authors published.

    Nothing is downloaded, and a missing or damaged data set is not an error.
    """
    try:
        dataset = load(name, data_dir=data_dir, download=False)
    except DatasetUnavailable as error:
        return Verification(name, "missing", str(error))
    except InvalidData as error:
        return Verification(name, "damaged", str(error))
    checks = sorted({file.checked for file in dataset.provenance.files})
    detail = f"{dataset.sizes}; checked: {', '.join(checks)}."
    return Verification(name, "ok", " ".join((detail, *dataset.provenance.notes)), dataset)


def is_on_disk(name: str, *, data_dir: str | Path | None = None) -> bool:
    """Check whether the files of a data set, or a part that replaces them, are on disk."""
    return describe(name, data_dir=data_dir).on_disk


def describe(name: str, *, data_dir: str | Path | None = None) -> DatasetInfo:
    """Describe a data set without reading it.

    Examples
    --------
    >>> describe("letter").n_classes
    26
    """
    entry = _find_entry(name)
    try:
        files = locate(entry, data_folder(data_dir))
    except DatasetUnavailable:
        files = ()
    return DatasetInfo(
        name=name,
        n_classes=entry.n_classes,
        n_train=entry.n_train,
        n_test=entry.n_test,
        on_disk=bool(files),
        is_partial=any(file.official not in entry.files for file in files),
        source=entry.source,
        licence=entry.licence,
        citation=entry.citation,
    )
