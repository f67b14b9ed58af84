"""The demo over five seeds in each setting, with the accuracy of every method.

    python benchmarks/bench_demo.py

LM/E is trained twice: with the anchors' true classes learned from (the default), and with anchors
used for Q alone, as in the paper. Appends one line to results/demo.jsonl.
"""

import statistics
from typing import Any

import torch

from naysay.transition.matrix import PAPER_SETTINGS
from naysay.workflows.demo import DemoRun, run_demo
from record import write_record

SEEDS = range(5)


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
    for setting in PAPER_SETTINGS:
        ours = [run_demo(setting, seed=seed) for seed in SEEDS]
        paper = [run_demo(setting, seed=seed, learn_from_anchors=False) for seed in SEEDS]
        by_name = {
            run.name: summary([result.runs[position] for result in ours])
            for position, run in enumerate(ours[0].runs)
        }
        by_name["LM/E, anchors for Q only"] = summary([result.runs[-1] for result in paper])
        results[setting] = by_name
        for name, figures in by_name.items():
            print(
                f"{setting:9} {name:26} {figures['accuracy_mean']:5.1f} "
                f"± {figures['accuracy_sd']:4.1f}  {figures['seconds_mean']:.1f} s"
                + (f"  error of Q {figures['q_error_mean']}" if figures["q_error_mean"] else "")
            )
    write_record("demo", results, n_runs=len(SEEDS), threads=1)


if __name__ == "__main__":
    main()
