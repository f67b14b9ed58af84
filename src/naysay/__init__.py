"""naysay: learn a classifier from labels that say what something is not.

Names load when first used, so that ``import naysay`` stays fast and does not import torch.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from naysay._base.errors import (
    DatasetUnavailable,
    InvalidData,
    InvalidInput,
    InvalidLabels,
    InvalidModelFile,
    InvalidTransitionMatrix,
    NaysayError,
    NaysayWarning,
    NoAnchorPoints,
    NotIdentifiable,
    WorkerLost,
)
from naysay._base.versions import MOVED, MovedModules

__version__ = "0.1.0"

__all__ = [
    "BoostingObjective",
    "ComplementaryClassifier",
    "ComplementaryWrapper",
    "DatasetUnavailable",
    "InvalidData",
    "InvalidInput",
    "InvalidLabels",
    "InvalidModelFile",
    "InvalidTransitionMatrix",
    "NaysayError",
    "NaysayWarning",
    "NoAnchorPoints",
    "NotIdentifiable",
    "TransitionMatrix",
    "WorkerLost",
    "__version__",
    "datasets",
    "design",
    "ensemble",
    "estimation",
    "functional",
    "losses",
    "methods",
    "metrics",
    "networks",
    "observations",
    "quality",
    "training",
]

_HOME_OF = {
    "BoostingObjective": "naysay.classifier",
    "ComplementaryClassifier": "naysay.classifier",
    "ComplementaryWrapper": "naysay.classifier",
    "TransitionMatrix": "naysay.transition",
}
sys.meta_path.append(MovedModules())

if TYPE_CHECKING:
    from naysay import (
        datasets,
        design,
        ensemble,
        estimation,
        functional,
        losses,
        methods,
        metrics,
        networks,
        observations,
        quality,
        training,
    )
    from naysay.classifier import (
        BoostingObjective,
        ComplementaryClassifier,
        ComplementaryWrapper,
    )
    from naysay.transition import TransitionMatrix


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(importlib.import_module(_HOME_OF[name]), name)
    elif name in __all__ or f"naysay.{name}" in MOVED:
        value = importlib.import_module(f"naysay.{name}")
    else:
        raise AttributeError(f"module 'naysay' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
