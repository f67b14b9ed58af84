"""Where a result comes from: the machine, the versions, the commit, the time."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import torch

from naysay import __version__

__all__ = ["cpu_name", "device_name", "git_commit", "now", "used_versions"]

_HERE = Path(__file__).parent
_PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


def device_name(device: torch.device) -> str:
    """Return what a device is, in words: ``NVIDIA H200``, or the processor and its cores."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{cpu_name()}, {os.cpu_count()} cores"


def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def used_versions(packages: Sequence[str] = _PACKAGES) -> dict[str, str | None]:
    """Return the versions of naysay (of the code that runs), Python and what it computes with."""
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


def git_commit() -> str | None:
    """Return the short commit of this code, ``-dirty`` if changed since; None outside a clone."""
    try:
        _ask_git("ls-files", "--error-unmatch", Path(__file__).name)  # not some other repository
        commit = _ask_git("rev-parse", "--short", "HEAD")
        # what is written while it runs (records, pages) does not count
        changed = _ask_git("status", "--porcelain", "--", ":/src")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def _ask_git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
