"""Versions of naysay and of the packages it computes with."""

import platform
from collections.abc import Sequence
from importlib import metadata

from naysay import __version__

__all__ = ["used_versions"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def used_versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str | None]:
    """Look up the versions of naysay, Python and some packages without importing the packages.

    The version of a package that is not installed under its name is None.
    """
    versions: dict[str, str | None] = {
        "naysay": __version__,
        "python": platform.python_version(),
    }
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions
