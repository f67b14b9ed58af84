"""Official data sets in their published formats, and readers for the user's data.

Examples
--------
>>> from naysay import datasets
>>> "mnist" in datasets.names()
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from naysay.datasets.official import (
    DatasetInfo,
    Verification,
    describe,
    fetch,
    is_on_disk,
    load,
    names,
    verify,
)
from naysay.datasets.official.entry import Dataset, Provenance, SourceFile, Split, data_folder

if TYPE_CHECKING:
    from naysay.datasets.own import OwnData, read_features, read_own
    from naysay.datasets.own.summary import summarise

__all__ = [
    "Dataset",
    "DatasetInfo",
    "OwnData",
    "Provenance",
    "SourceFile",
    "Split",
    "Verification",
    "data_folder",
    "describe",
    "fetch",
    "is_on_disk",
    "load",
    "names",
    "read_features",
    "read_own",
    "summarise",
    "verify",
]

# These names are loaded on first use, because the readers need pyarrow and official data do not.
_HOME_OF = {
    "OwnData": "naysay.datasets.own",
    "read_features": "naysay.datasets.own",
    "read_own": "naysay.datasets.own",
    "summarise": "naysay.datasets.own.summary",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'naysay.datasets' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME_OF[name]), name)
