"""Compare all methods on MNIST with one MLP: uniform labels and a strong bias, five trials each.

    python benchmarks/bench_methods.py [--jobs N] [DATA_FOLDER [METHOD ...]]

784-500-10, batch 256, 8 epochs, the same learning rate for all; the matrix and the labels are drawn
anew in each trial. Every method is given Q; those that cannot use it ignore it. The epoch that is
kept is chosen by complementary labels only. Appends a line per setting to results/methods.jsonl.
"""

import argparse
import multiprocessing
import statistics
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from torch import nn

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from naysay.methods import METHODS
from record import write_record

N_TRIALS = 5
SETTINGS = {
    "uniform": lambda seed: TransitionMatrix.uniform(10),
    "strong bias": lambda seed: TransitionMatrix.without_zeros(10, (0.75, 0.24, 0.01), seed=seed),
}
OPTIONS: dict[str, Any] = {"epochs": 8, "batch_size": 256, "lr": 3e-3, "weight_decay": 1e-4}


def make_network(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, n_classes))


def run(folder: Path, setting: str, name: str, seed: int) -> tuple[float, float]:
    """Return the accuracy in per cent of one training, and its seconds."""
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X, X_test = (split.X.astype("float32") / 255 for split in (mnist.train, mnist.test))
    Q = SETTINGS[setting](seed)
    clf = ComplementaryClassifier(
        method=name, transition=Q, network=make_network, random_state=seed, **OPTIONS
    )
    clf.fit(X, Q.sample(mnist.train.y, seed=100 + seed))
    accuracy = (clf.predict(X_test) == mnist.test.y).mean()
    return 100 * accuracy, sum(r["seconds"] for r in clf.history_)


def main(folder: Path, methods: Sequence[str], n_jobs: int) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_jobs, mp_context=context) as pool:
        waiting = {
            (setting, name, seed): pool.submit(run, folder, setting, name, seed)
            for setting in SETTINGS
            for name in methods
            for seed in range(N_TRIALS)
        }
        for setting in SETTINGS:
            found: dict[str, list[tuple[float, float]]] = defaultdict(list)
            for (where, name, _), result in waiting.items():
                if where == setting:
                    found[name].append(result.result())
            results = {name: summary(values) for name, values in found.items()}
            for name, figures in results.items():
                print(
                    f"{setting:12} {name:12} {figures['accuracy_mean']:6.2f} "
                    f"± {figures['accuracy_sd']:5.2f}  {figures['seconds_mean']:.1f} s",
                    flush=True,
                )
            write_record("methods", {setting: results}, n_runs=N_TRIALS, n_jobs=n_jobs, **OPTIONS)


def summary(values: Sequence[tuple[float, float]]) -> dict[str, float]:
    accuracies, seconds = zip(*values, strict=True)
    return {
        "accuracy_mean": round(statistics.mean(accuracies), 2),
        "accuracy_sd": round(statistics.stdev(accuracies), 2),
        "seconds_mean": round(statistics.mean(seconds), 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("folder", type=Path, nargs="?", default=None)
    parser.add_argument("methods", nargs="*")
    arguments = parser.parse_args()
    main(
        arguments.folder or datasets.data_folder(),
        arguments.methods or list(METHODS),
        arguments.jobs,
    )
