"""Write the record of a benchmark: one JSON line with the result, the machine and the versions.

from record import write_record

write_record("core", {"fit_seconds": 1.2}, n_runs=5)
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from naysay.experiments.runner import cpu_name, now, used_versions

__all__ = ["run_naysay", "run_study", "write_record"]

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
        The figures, as values that JSON can represent.
    n_runs : int, optional
        Number of runs behind each figure.
    **facts
        Further keys of the line, such as ``statistic="median"``.
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
        raise ValueError(f"facts must not have the names of other keys. Rename {taken[0]!r}.")
    line = json.dumps({**record, **facts, "results": results}, allow_nan=False)
    path = _HERE / "results" / f"{benchmark}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def run_naysay(*command: str, watch: Callable[[int], None] | None = None) -> dict[str, float]:
    """Run a command of naysay in a process of its own, and measure its time and peak memory.

    While it runs, `watch` is called five times a second with the number of the process.
    """
    start = time.perf_counter()
    process = os.posix_spawn(sys.executable, [sys.executable, "-m", "naysay", *command], os.environ)
    ended, status, usage = os.wait4(process, 0 if watch is None else os.WNOHANG)
    while watch is not None and not ended:
        watch(process)
        time.sleep(0.2)
        ended, status, usage = os.wait4(process, os.WNOHANG)
    if status:
        raise SystemExit(f"{command} failed")
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_gb": round(usage.ru_maxrss * 1024 / 1e9, 3),
    }


def run_study(
    about: str,
    fit: Callable[..., dict[str, Any]],
    jobs: Callable[[range], Sequence[tuple[Any, ...]]],
    keys: Sequence[str],
    table: Callable[[list[dict[str, Any]]], str],
    *,
    seeds: str,
) -> None:
    """Run the fits of a study that are not on record, or print what its records show.

    Parameters
    ----------
    about : str
        Docstring of the study.
    fit : callable
        ``fit(*job, folder)`` returns a record, which has the values of the job under `keys`.
    jobs : callable
        Lists the jobs for a range of seeds.
    table : callable
        Writes the records as Markdown, for ``--summary``.
    seeds : str
        Default of ``--seeds``.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--seeds", default=seeds)
    parser.add_argument("--only", help="the fits of one table")
    parser.add_argument("--summary", action="store_true")
    given = parser.parse_args()
    lines = given.records.read_text("utf-8").splitlines() if given.records.exists() else []
    records = [json.loads(line) for line in lines]
    if given.summary:
        print(table(records))
        return
    torch.set_num_threads(1)
    done = {tuple(each[key] for key in keys) for each in records}
    part, parts = map(int, given.part.split("/"))
    for job in jobs(range(*map(int, given.seeds.split(":"))))[part::parts]:
        if job in done or given.only not in (None, job[0]):
            continue
        record = {**fit(*job, given.data), "git_commit": _git_commit()}
        with given.records.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _hardware() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / 1e9, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _git_commit() -> str | None:
    """Look up the short commit, with ``-dirty`` if files have changed since."""
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
