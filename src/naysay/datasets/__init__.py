"""Official data sets in their published formats, and the user's own data.

>>> from naysay import datasets
>>> "mnist" in datasets.names()
True
"""

from naysay.datasets._dataset import Dataset, Provenance, SourceFile, Split
from naysay.datasets._official import fetch, is_on_disk, load, names

# The user's own data: re-exports of `own` and `summary` go here.

__all__ = [
    "Dataset",
    "Provenance",
    "SourceFile",
    "Split",
    "fetch",
    "is_on_disk",
    "load",
    "names",
]
