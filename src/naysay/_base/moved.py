"""Import modules that have moved by their old names, with a deprecation warning."""

import importlib
import sys
import warnings
from collections.abc import Mapping, Sequence
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


class _Redirection(MetaPathFinder, Loader):
    """Import the present module when its old name is imported."""

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = moved

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in self.moved else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new_name = self.moved[spec.name]
        warnings.warn(
            f"{spec.name} has moved to {new_name}. The old name will be removed in version 2.",
            DeprecationWarning,
            stacklevel=2,
        )
        module = importlib.import_module(new_name)
        spec.loader_state = module.__spec__  # saved because the import system replaces it
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            module.__spec__ = spec.loader_state


def redirect_moved_modules() -> None:
    """Make the modules of `MOVED` importable by their old names."""
    if not any(isinstance(finder, _Redirection) for finder in sys.meta_path):
        sys.meta_path.append(_Redirection(MOVED))
