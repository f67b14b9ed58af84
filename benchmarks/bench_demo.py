"""Run the demo with five seeds in each setting, and record the accuracy of every method.

    python benchmarks/bench_demo.py [SETTING ...]

LM/E is trained twice: by default, and by the procedure of the paper, a network that uses anchors
for the estimate of Q only. Appends one line to results/demo.jsonl; the last line
about a setting counts.
"""

import statistics
import sys
from typing import Any

import torch

from naysay.transition.matrix import PAPER_SETTINGS
from naysay.workflows.demo import SHOWN, DemoData, DemoRun
from record import write_record

SEEDS = range(5)
METHODS = [*SHOWN, "LM/E, anchors for Q only"]


def summary(runs: list[DemoRun]) -> dict[str, Any]:
    accuracies = [100 * run.accuracy for run in runs]
    errors = [run.q_error for run in runs if run.q_error is not None]
    return {
        "accuracy_mean": round(statistics.mean(accuracies), 2),
        "accuracy_sd": round(statistics.stdev(accuracies), 2),
        "accuracies": [round(accuracy, 2) for accuracy in accuracies],
        "seconds_mean": round(statistics.mean(run.seconds for run in runs), 2),
        "q_error_mean": round(statistics.mean(errors), 3) if errors else None,
    }


def main() -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for setting in sys.argv[1:] or PAPER_SETTINGS:
        several = [DemoData(setting, seed) for seed in SEEDS]
        results[setting] = {
            method: summary([data.train(method)[1] for data in several]) for method in METHODS
        }
        for name, figures in results[setting].items():
            error = figures["q_error_mean"]
            print(
                f"{setting:9} {name:26} {figures['accuracy_mean']:5.1f} "
                f"± {figures['accuracy_sd']:4.1f}  {figures['seconds_mean']:.1f} s"
                + ("" if error is None else f"  error of Q {error}")
            )
    write_record("demo", results, n_runs=len(SEEDS), threads=1)


if __name__ == "__main__":
    main()
