"""Train some runs of the reproduction and print their progress, for a log.

    python benchmarks/gpu_runs.py RECORDS DATA TRIAL SUITE:RECIPE:CELL [...]

A cell is named as for ``naysay reproduce --only``: ``"table3:best:LM/E, with0"``. The runner and
the records are the same; in addition, a single trial can be chosen, and seconds since the start,
epochs and held-out losses are printed.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naysay import training
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.runner import run
from naysay.experiments.suites import SUITES

START = time.perf_counter()
EVERY = 20  # epochs


def say(*words: Any) -> None:
    print(round(time.perf_counter() - START), *words, flush=True)


def spoken(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Return a training that says how far it is."""

    def fit_and_say(*given: Any, on_epoch: Callable[[Any], None], **options: Any) -> Any:
        def both(record: Any) -> None:
            on_epoch(record)
            if record["epoch"] == 1 or record["epoch"] % EVERY == 0:
                speed = f"{record['samples_per_second']:.0f} examples/s"
                say("epoch", record["epoch"], f"held out {record['held_out_loss']:.5f}", speed)

        return fit(*given, on_epoch=both, **options)

    return fit_and_say


def main(records: Path, data: Path, trial: int, wanted: list[str]) -> None:
    training.fit = spoken(training.fit)
    for each in wanted:
        suite, recipe, only = each.split(":", 2)
        specs = {
            spec: cell.name
            for cell, spec in SUITES[suite].specs(recipe, trials=trial + 1, only=only)
            if spec.trial == trial
        }
        say(each, len(specs), "runs")

        def show(record: RunRecord, names: dict[Any, str] = specs) -> None:
            found = f"{100 * record.accuracy:.2f} in {record.seconds:.0f} s"
            say(names[record.spec], record.spec.trial, found, record.q_error, record.estimates)

        done = run(specs, RecordFile(records), device="auto", data_dir=data, on_record=show)
        say(done)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
