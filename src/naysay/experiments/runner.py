"""Do runs and write them down, each once, whoever else works on the same file."""

import os
import platform
import subprocess
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naysay import metrics
from naysay._base.errors import NaysayError, NaysayWarning
from naysay._base.versions import used_versions
from naysay.classifier.trainer import find_device
from naysay.experiments.data import RunData, load_run_data
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.spec import RunSpec
from naysay.experiments.train import Outcome, train_group, train_one

__all__ = ["Progress", "cpu_name", "device_name", "git_commit", "now", "run", "used_versions"]

_MOST_POINTS = 30
_CURVES = ("epoch", "loss", "held_out_loss", "held_out_accuracy")  # what depends on no clock
_MOST_CLASSES = 20  # of a matrix that is kept to be drawn


@dataclass
class Progress:
    """What became of the runs asked for."""

    n_done: int = 0
    n_skipped: int = 0  # on file already
    n_elsewhere: int = 0  # another process is at them
    refused: dict[str, list[RunSpec]] = field(default_factory=dict)  # by the reason


def run(
    specs: Iterable[RunSpec],
    file: RecordFile,
    *,
    device: str | torch.device = "auto",
    data_dir: Path | None = None,
    on_run: Callable[[RunSpec], None] = lambda spec: None,
    on_record: Callable[[RunRecord], None] = lambda record: None,
) -> Progress:
    """Do every run that is not on file, and append a record as each ends.

    A run that cannot be done, because its data are missing for instance, is left out, and the
    reason kept; the others go on.

    Parameters
    ----------
    specs : iterable of RunSpec
    file : RecordFile
        Other processes may work on it too: a run that one of them is at is left to it.
    device : str or torch.device, default="auto"
        ``"auto"`` is a GPU where there is one.
    data_dir : Path, optional
        The data folder; see `naysay.datasets.load`.
    on_run, on_record : callable
        Called with the spec of each run when it starts, and its record when it ends.
    """
    where = find_device(device)
    facts = {
        "device": device_name(where),
        "versions": used_versions(),
        "git_commit": git_commit(),
    }
    progress = Progress()
    for group in _groups(specs):
        with ExitStack() as claims:
            mine = [spec for spec in group if claims.enter_context(file.claim(spec.hash))]
            progress.n_elsewhere += len(group) - len(mine)
            there = file.hashes()  # read after the claim: what another has finished is seen
            todo = [spec for spec in mine if spec.hash not in there]
            progress.n_skipped += len(mine) - len(todo)
            if not todo:
                continue
            for spec in todo:
                on_run(spec)
            try:
                datas = [load_run_data(spec, data_dir=data_dir) for spec in todo]
                outcomes = _train(todo, datas, where)
            except NaysayError as problem:  # this run cannot be done; the others can
                progress.refused.setdefault(str(problem), []).extend(todo)
                continue
            for spec, data, outcome in zip(todo, datas, outcomes, strict=True):
                record = make_record(spec, data, outcome, facts)
                file.append(record)
                progress.n_done += 1
                on_record(record)
    return progress


def _groups(specs: Iterable[RunSpec]) -> list[list[RunSpec]]:
    """Return the runs to do together: trials with a grid, every other run on its own."""
    groups: dict[str, list[RunSpec]] = {}
    for spec in dict.fromkeys(specs):  # each once, in the order given
        groups.setdefault(spec.group if spec.is_grid else spec.hash, []).append(spec)
    return list(groups.values())


def _train(
    specs: Sequence[RunSpec], datas: Sequence[RunData], device: torch.device
) -> list[Outcome]:
    if specs[0].is_grid:
        return train_group(specs, datas, device=device)
    return [train_one(spec, data, device=device) for spec, data in zip(specs, datas, strict=True)]


def make_record(spec: RunSpec, data: RunData, outcome: Outcome, facts: dict[str, Any]) -> RunRecord:
    """Return what is written down of a run."""
    estimates: dict[str, float] = {}
    if outcome.held_out_loss is not None:
        estimates["held_out_loss"] = outcome.held_out_loss
    if outcome.transition is not None:
        with warnings.catch_warnings():
            # beyond 100 %: the estimated Q is off, and that is on record as q_error
            warnings.simplefilter("ignore", NaysayWarning)
            accuracy = metrics.accuracy_without_labels(
                outcome.predictions, data.comp_labels_test, outcome.transition
            )
        if accuracy.value is not None and accuracy.standard_error is not None:
            estimates["accuracy"] = accuracy.value
            estimates["accuracy_standard_error"] = accuracy.standard_error
    q_error: dict[str, float] = {}
    matrices: dict[str, list[list[float]]] = {}
    if outcome.matrices and data.Q is not None:
        q_error = {name: _round(Q.distance(data.Q)) for name, Q in outcome.matrices.items()}
        if data.n_classes <= _MOST_CLASSES:
            matrices = {
                name: np.asarray(Q).round(4).tolist()
                for name, Q in {"true": data.Q, **outcome.matrices}.items()
            }
    return RunRecord(
        spec=spec,
        accuracy=outcome.accuracy,
        seconds=round(outcome.seconds, 3),
        estimates={name: _round(value) for name, value in estimates.items()},
        q_error=q_error,
        chosen=dict(outcome.chosen),
        matrices=matrices,
        history=_thin(outcome.history),
        time=now(),
        **facts,
    )


def _thin(history: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """Return a learning curve with so many points that it can be drawn; the best one stays."""
    step = -(-len(history) // _MOST_POINTS) or 1
    best = min(range(len(history)), key=lambda at: history[at].get("held_out_loss", 0), default=0)
    kept = [
        point
        for at, point in enumerate(history)
        if at % step == 0 or at in (best, len(history) - 1)
    ]
    return [
        {name: _round(value) for name, value in point.items() if name in _CURVES} for point in kept
    ]


def _round(value: float) -> float:
    return float(f"{value:.5g}")


# What a result was computed with, and when.


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
    here = Path(__file__).parent
    done = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
