"""Official data sets in their published formats, and the user's own data.

>>> from naysay import datasets
>>> "mnist" in datasets.names()
True
"""

from naysay.datasets._cache import data_folder
from naysay.datasets._dataset import Dataset, Provenance, SourceFile, Split
from naysay.datasets._official import DatasetInfo, describe, fetch, is_on_disk, load, names

# The user's own data: re-exports of `own` and `summary` go here.

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Provenance",
    "SourceFile",
    "Split",
    "data_folder",
    "describe",
    "fetch",
    "is_on_disk",
    "load",
    "names",
]
