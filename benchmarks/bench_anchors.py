"""Measure the accuracy of the anchors alone: training on the true labels of LM/E only.

    python benchmarks/bench_anchors.py

10 anchors per class of MNIST and nothing else, 5 trials, with the anchors, network and augmentation
of the recipe `best` of Table 2. Each network takes as many steps as with all examples, and none is
held out. Appends one line to results/anchors.jsonl. For the digits see bench_demo.py.
"""

import math
import statistics
from typing import Any

import numpy as np
import torch

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.experiments.suites import SUITES
from naysay.experiments.tasks import load_run_data
from naysay.experiments.train import classifier_arguments
from record import write_record

TRIALS = range(5)
IDENTITY = TransitionMatrix(np.eye(10), allow_diagonal=True)


def train_on_anchors(X: Any, y: Any, *, steps: int, trial: int, **options: Any) -> Any:
    """Train on true labels for a number of steps."""
    epochs = math.ceil(steps / math.ceil(len(X) / options["batch_size"]))
    options |= {"epochs": epochs, "patience": epochs, "validation_fraction": 0}
    clf = ComplementaryClassifier(transition=IDENTITY, random_state=trial).set_params(**options)
    return clf.fit(X, y)


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, list[float]] = {"mnist": []}
    for _, spec in SUITES["table2"].specs("best", trials=len(TRIALS), only="LM/E, uniform"):
        data = load_run_data(spec)
        options = classifier_arguments(spec, len(data.X))
        steps = options["epochs"] * math.ceil(0.9 * len(data.X) / options["batch_size"])
        chosen = data.anchors
        clf = train_on_anchors(
            data.X[chosen], data.y[chosen], steps=steps, trial=spec.trial, **options
        )
        found["mnist"].append(float((clf.predict(data.X_test) == data.y_test).mean()))
    results = {
        name: {
            "accuracy_mean": round(100 * statistics.mean(several), 2),
            "accuracy_sd": round(100 * statistics.stdev(several), 2),
            "accuracies": [round(100 * each, 2) for each in several],
        }
        for name, several in found.items()
    }
    print(results)
    write_record("anchors", results, n_runs=len(TRIALS), threads=1)


if __name__ == "__main__":
    main()
