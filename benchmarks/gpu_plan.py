"""List the runs on CIFAR and Tiny ImageNet that are not on record, as lines for `gpu_queue.py`.

    python benchmarks/gpu_plan.py [--data-dir FOLDER] > JOBS

The most important runs come first, so that a session on a rented machine may end at any time. Each
line begins with the seconds that the run needs beside another one, so that the queue does not start
runs that it cannot finish; they are rough, from runs on one H200.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from naysay.experiments.records import RecordFile
from naysay.experiments.spec import RunSpec
from naysay.experiments.suites import SUITES

RECORDS = Path(__file__).parent / "results" / "reproduction.jsonl"
#: Suite, cells and number of trials, in the order in which they are wanted.
WANTED = (
    ("table3", "*", 3),
    ("real-labels", "LM/E + anchors, 1 label", 1),
    ("real-labels", "anchors", 1),
    ("real-labels", "LM/T", 1),
    ("habits", "LM/E, CIFAR-10,", 1),
    ("table4", "Tiny ImageNet", 1),
    ("table4", "CIFAR-100", 2),
    ("habits", "*", 1),
    ("anchors", "*", 1),
    ("methods", "*", 1),
    ("figure-convergence", "*", 1),
)
RECIPE = "best"
_SIZES = {"cifar-10": 1.0, "cifar-100": 2.0, "tiny-imagenet": 8.0}  # of an epoch, roughly
_PER_EPOCH = {"weak-to-strong": 2.0, "two-views": 2.0, "pocr": 3.0}  # seconds beside another run
_ESTIMATION = 150.0  # seconds that the networks which estimate Q take on CIFAR-10
_START = 40.0  # seconds to load and to compile


def seconds(spec: RunSpec) -> float:
    """Estimate the seconds of a run beside another one, from its epochs."""
    each = _PER_EPOCH.get(spec.method, 1.0) * _SIZES[spec.dataset]
    share = 0.15 if spec.knows == "anchors" else 1.0  # of the examples
    needed = _START + share * each * spec.options["epochs"]
    if spec.knows == "estimated Q":
        needed += _ESTIMATION * _SIZES[spec.dataset]
    return needed


def missing() -> Iterator[tuple[str, RunSpec]]:
    """Yield what `gpu_runs.py` calls each run that is not on record, and its spec."""
    done = {record.spec.hash for record in RecordFile(RECORDS).read()}
    for name, only, trials in WANTED:
        for cell, spec in SUITES[name].specs(RECIPE, trials=trials, only=only):
            if spec.hash not in done:
                done.add(spec.hash)
                yield f"{name}:{RECIPE}:{cell.name}", spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", default="data")
    parser.add_argument("--records", default="records.jsonl", help="on the other machine")
    given = parser.parse_args()
    for name, spec in missing():
        command = f"python3 benchmarks/gpu_runs.py {given.records} {given.data_dir} {spec.trial}"
        print(f'{seconds(spec):.0f}: {command} "{name}"')


if __name__ == "__main__":
    main()
