"""What every benchmark writes down: one JSON line with the result, the machine and the versions.

from record import write_record

write_record("core", {"fit_seconds": 1.2}, n_runs=5)
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import torch

from naysay.experiments.runner import cpu_name, now, used_versions

__all__ = ["write_record"]

_HERE = Path(__file__).parent
_PACKAGES = ("numpy", "torch", "scikit-learn", "pandas", "pyarrow")


def write_record(
    benchmark: str, results: dict[str, Any], *, n_runs: int | None = None, **facts: Any
) -> None:
    """Append one line to ``benchmarks/results/<benchmark>.jsonl``.

    Parameters
    ----------
    benchmark : str
        Its name, which is also the name of the file.
    results : dict
        What was measured, in words and numbers that JSON knows.
    n_runs : int, optional
        How many runs each number comes from.
    **facts
        What else a reader must know, such as ``statistic="median"``; further keys of the line.
    """
    record = {
        "benchmark": benchmark,
        "time": now(),
        "hardware": _hardware(),
        "versions": used_versions(_PACKAGES),
        "git_commit": _git_commit(),
        "load_average": round(os.getloadavg()[0], 2),
        "n_runs": n_runs,
    }
    taken = sorted(facts.keys() & {*record, "results"})
    if taken:
        raise ValueError(f"facts must have names of their own. {taken[0]!r} is taken; rename it.")
    line = json.dumps({**record, **facts, "results": results}, allow_nan=False)
    path = _HERE / "results" / f"{benchmark}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _hardware() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _git_commit() -> str | None:
    """Return the short commit, with ``-dirty`` where the files that ran are not those of it."""
    try:
        commit = _ask_git("rev-parse", "--short", "HEAD")
        # Results do not count: the first of two benchmarks must not make the second one dirty.
        changed = _ask_git("status", "--porcelain", "--", ":/", ":(top,exclude)benchmarks/results")
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository
        return None
    return f"{commit}-dirty" if changed else commit


def _ask_git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=True)
    return done.stdout.strip()
