"""Versions of naysay and its dependencies, and the modules that moved between versions."""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Documented modules of version 0.1 and their present names.
MOVED = {
    "naysay.augmentation": "naysay.training.augmentation",
    "naysay.datasets.anchors": "naysay.datasets.own.read",
    "naysay.datasets.summary": "naysay.datasets.own.summary",
    "naysay.datasets.tasks": "naysay.experiments.tasks",
    "naysay.inspection": "naysay.quality.inspection",
    "naysay.matrix_folder": "naysay.transition.folder",
    "naysay.references": "naysay.methods.references",
    "naysay.schedules": "naysay.training.schedules",
    "naysay.suites": "naysay.experiments.suites",
}


class MovedModules(MetaPathFinder, Loader):
    """Import the present module, with a deprecation warning, when its old name is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new_name = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} has moved to {new_name}. The old name will be removed in version "
            "2.",
            DeprecationWarning,
            stacklevel=2,
        )
        sys.modules[module.__name__] = importlib.import_module(new_name)


def used_versions(
    packages: Sequence[str] = ("numpy", "scipy", "scikit-learn", "torch"),
) -> dict[str, str | None]:
    """Look up the versions of naysay, Python and packages, which are None if not installed."""
    import platform  # here, because every import of naysay loads this module
    from importlib import metadata

    from naysay import __version__

    versions: dict[str, str | None] = {"naysay": __version__, "python": platform.python_version()}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
