"""Train runs and record each once, with device, versions and commit, also in several processes."""

import math
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naysay._base.cluster import Executor, InProcess, RayExecutor
from naysay._base.errors import NaysayError
from naysay._base.versions import used_versions
from naysay.classifier.trainer import find_device
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Plan
from naysay.experiments.tasks import RunData, load_run_data
from naysay.experiments.train import Outcome, train_group, train_one
from naysay.metrics.accuracy import Sample
from naysay.training.early_stopping import History, least_held_out_loss
from naysay.training.loop import single_thread

__all__ = ["RayExecutor", "RunSummary", "run"]

Group = tuple[RunSpec, ...]  # runs that are trained together

_MOST_POINTS = 30
_CURVES = ("epoch", "loss", "held_out_loss", "held_out_accuracy")  # not the times
_MOST_CLASSES = 20  # a larger matrix is not kept in the record


@dataclass
class RunSummary:
    """Numbers of runs that were trained or not, and the runs that could not be, by reason."""

    n_done: int = 0
    n_skipped: int = 0  # already recorded
    n_elsewhere: int = 0  # claimed by another process
    refused: dict[str, list[RunSpec]] = field(default_factory=dict)

    def is_failure(self, plan: Plan) -> bool:
        """Check whether nothing was trained, although the plan does not expect it."""
        refused = [spec for specs in self.refused.values() for spec in specs]
        is_unexpected = any(not plan.cells[spec][1].not_run for spec in refused)
        return not self.n_done and (is_unexpected or (bool(refused) and not self.n_skipped))

    @property
    def n_settled(self) -> int:
        """Number of runs for which this process has nothing more to do."""
        n_refused = sum(map(len, self.refused.values()))
        return self.n_done + self.n_skipped + self.n_elsewhere + n_refused

    def to_dict(self) -> dict[str, Any]:
        """Convert the numbers to plain values for JSON."""
        return {
            "done": self.n_done,
            "on_file": self.n_skipped,
            "elsewhere": self.n_elsewhere,
            "refused": {reason: len(specs) for reason, specs in self.refused.items()},
        }


def run(
    specs: Iterable[RunSpec],
    file: RecordFile,
    *,
    device: str | torch.device = "auto",
    data_dir: Path | None = None,
    executor: Executor | None = None,
    on_run: Callable[[RunSpec], None] = lambda spec: None,
    on_record: Callable[[RunRecord], None] = lambda record: None,
    on_progress: Callable[[int, int], None] = lambda settled, total: None,
) -> RunSummary:
    """Train every run that is not recorded yet, and append its record when it ends.

    A run that another process with this file is training is skipped. So is one that cannot be
    trained, for instance because its data are missing; the reason is returned. `on_run` and
    `on_record` are called when a run starts and when it ends, `on_progress` with the number of runs
    that need nothing more and that of all.

    By default the runs are trained in this process, one group after the other. A `RayExecutor`
    trains groups on the processes and machines of a Ray cluster, each of which needs naysay and
    the data. The records return to this process, which alone writes the file.
    """
    if executor is None:
        find_device(device)  # an error before anything starts
        executor = InProcess()
    data_dir = None if data_dir is None else data_dir.absolute()
    train = partial(_train, device=str(device), data_dir=data_dir)
    summary = RunSummary()
    # Trials with a grid of options are trained together. Duplicates are removed.
    groups: dict[str, list[RunSpec]] = {}
    different = dict.fromkeys(specs)
    for spec in different:
        groups.setdefault(spec.group if spec.is_grid else spec.hash, []).append(spec)
    with ExitStack() as stack:
        claims_of: dict[Group, ExitStack] = {}

        def claim() -> Iterator[Group]:
            for group in groups.values():
                claims = stack.enter_context(ExitStack())
                claimed = [spec for spec in group if claims.enter_context(file.claim(spec.hash))]
                summary.n_elsewhere += len(group) - len(claimed)
                # Read after the runs are claimed, to see those that another process has finished.
                recorded = file.hashes()
                to_do = tuple(spec for spec in claimed if spec.hash not in recorded)
                summary.n_skipped += len(claimed) - len(to_do)
                on_progress(summary.n_settled, len(different))
                if not to_do:
                    claims.close()
                    continue
                for spec in to_do:
                    on_run(spec)
                claims_of[to_do] = claims
                yield to_do

        for group, outcome in executor.map(train, claim()):
            if isinstance(outcome, NaysayError):  # other runs may still be possible
                summary.refused.setdefault(str(outcome), []).extend(group)
            else:
                for record in outcome:
                    file.append(record)
                    summary.n_done += 1
                    on_record(record)
            on_progress(summary.n_settled, len(different))
            claims_of.pop(group).close()
    return summary


def _train(group: Group, *, device: str, data_dir: Path | None) -> list[RunRecord] | NaysayError:
    """Train a group of runs, in any process; the result is an error if they cannot be trained."""
    try:
        where = find_device(device)
        datas = [load_run_data(spec, data_dir=data_dir) for spec in group]
        # a second thread does not speed up networks as small as those of quick runs
        with single_thread(wanted=where.type == "cpu" and group[0].recipe == "quick"):
            if group[0].is_grid:
                outcomes = train_group(group, datas, device=where)
            else:
                outcomes = [train_one(group[0], datas[0], device=where)]
    except NaysayError as problem:
        return problem
    facts = _facts(where)
    return [
        _record(spec, data, outcome, facts)
        for spec, data, outcome in zip(group, datas, outcomes, strict=True)
    ]


@lru_cache
def _facts(device: torch.device) -> dict[str, Any]:
    """Look up the name of the device and the versions of the code."""
    name = f"{cpu_name()}, {os.cpu_count()} cores"
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {"device": name, "versions": used_versions(), "git_commit": git_commit()}


def _record(spec: RunSpec, data: RunData, outcome: Outcome, facts: dict[str, Any]) -> RunRecord:
    estimates: dict[str, float] = {}
    least = least_held_out_loss(outcome.history)  # that of the final network
    if math.isfinite(least):
        estimates["held_out_loss"] = least
    if outcome.transition is not None and len(data.comp_labels_test):
        # An estimate above 100 % means that the estimated Q is wrong, which q_error records.
        sample = Sample(outcome.predictions, data.comp_labels_test, outcome.transition)
        accuracy, _ = sample.accuracy()
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
    """Reduce a learning curve to about 30 points, which include the best and the last one."""
    epochs = range(len(history))
    best = max(History(history).best_epoch - 1, 0)
    shown = {*epochs[:: -(-len(history) // _MOST_POINTS) or 1], best, *epochs[-1:]}
    return [
        {name: _round(value) for name, value in point.items() if name in _CURVES}
        for epoch, point in enumerate(history)
        if epoch in shown
    ]


def _round(value: float) -> float:
    return float(f"{value:.5g}")


def cpu_name() -> str:
    """Look up the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def git_commit() -> str | None:
    """Look up the short commit of this code, with ``-dirty`` if it has changed since.

    The result is None if the code is not in a git repository of its own.
    """

    def ask(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", Path(__file__).name)  # fails in another repository
        commit = ask("rev-parse", "--short", "HEAD")
        # Changes outside of src, such as new records, do not count.
        changed = ask("status", "--porcelain", "--", ":/src")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def now() -> str:
    """Format the current time in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
