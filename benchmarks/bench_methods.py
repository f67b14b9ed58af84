"""Every method on MNIST with one MLP: uniform labels and a strong bias, five trials each.

    python benchmarks/bench_methods.py [DATA_FOLDER [METHOD ...]]

784-500-10, batch 256, 8 epochs, the same learning rate for all; the matrix and the labels are drawn
anew in each trial. Every method is told Q; those that cannot use it ignore it. Selection (the epoch
kept) sees complementary labels only. Appends a line per setting to results/methods.jsonl.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from naysay.methods import METHODS
from naysay.networks import MLP
from record import write_record

N_TRIALS = 5
SETTINGS = {
    "uniform": lambda seed: TransitionMatrix.uniform(10),
    "strong bias": lambda seed: TransitionMatrix.without_zeros(10, (0.75, 0.24, 0.01), seed=seed),
}
OPTIONS: dict[str, Any] = {
    "network": partial(MLP, widths=(500,), dropout=0.0),
    "epochs": 8,
    "batch_size": 256,
    "lr": 1e-3,
}


def main(folder: Path, methods: Sequence[str]) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X, X_test = (split.X.astype("float32") / 255 for split in (mnist.train, mnist.test))
    results: dict[str, dict[str, Any]] = {}
    for setting, make_transition in SETTINGS.items():
        accuracies = defaultdict(list)
        seconds = defaultdict(list)
        for seed in range(N_TRIALS):
            Q = make_transition(seed)
            comp_labels = Q.sample(mnist.train.y, seed=seed)
            for name in methods:
                clf = ComplementaryClassifier(method=name, transition=Q, random_state=seed)
                clf.set_params(**OPTIONS).fit(X, comp_labels)
                accuracies[name].append(100 * clf.score(X_test, mnist.test.y))
                seconds[name].append(sum(record["seconds"] for record in clf.history_))
        results[setting] = {
            name: {
                "accuracy_mean": round(statistics.mean(values), 2),
                "accuracy_sd": round(statistics.stdev(values), 2),
                "seconds_mean": round(statistics.mean(seconds[name]), 2),
            }
            for name, values in accuracies.items()
        }
        for name, figures in results[setting].items():
            print(
                f"{setting:12} {name:12} {figures['accuracy_mean']:6.2f} "
                f"± {figures['accuracy_sd']:5.2f}  {figures['seconds_mean']:.1f} s",
                flush=True,
            )
        write_record(
            "methods",
            {setting: results[setting]},
            n_runs=N_TRIALS,
            **{name: OPTIONS[name] for name in ("epochs", "batch_size", "lr")},
        )


if __name__ == "__main__":
    main(
        Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder(),
        sys.argv[2:] or list(METHODS),
    )
