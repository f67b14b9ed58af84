"""Compare the examples needed with designed lists and with uniform labels, on MNIST.

    python benchmarks/bench_design.py [DATA_FOLDER]

The lists of `naysay.design` for 10 classes, answers drawn as the instruction says, a 784-100-10
network, five seeds; the epoch kept is chosen on held-out answers. For each accuracy that a
scheme reaches, the number of uniform labels that reach it is read off their curve (linear in
the logarithm of n). Appends a line to results/design.jsonl with those ratios beside the predicted
ones.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from naysay import ComplementaryClassifier, TransitionMatrix, datasets, design
from naysay.networks import MLP
from record import write_record

N_SEEDS = 5
N_EXAMPLES = (500, 1000, 2000, 4000, 8000, 16000)
SCHEMES = {
    "any wrong of 4": design.propose(10, 4),
    "any wrong of 2": design.propose(10, 2),
    "first wrong": design.propose(10, 4, instruction=design.FIRST_WRONG),
}
STEPS = 1500  # of training, whatever the number of examples
OPTIONS: dict[str, Any] = {
    "network": partial(MLP, widths=(100,), dropout=0.0),
    "batch_size": 128,
    "lr": 1e-3,
    "device": "cpu",
}


def main(folder: Path) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X, X_test = (split.X.astype("float32") / 255 for split in (mnist.train, mnist.test))
    curves: dict[str, list[dict[str, float]]] = {}
    for name in ("uniform", *SCHEMES):
        curves[name] = []
        for n in N_EXAMPLES:
            accuracies = [
                _accuracy(name, X, mnist.train.y, X_test, mnist.test.y, n, seed)
                for seed in range(N_SEEDS)
            ]
            point = {
                "n": n,
                "accuracy_mean": round(statistics.mean(accuracies), 2),
                "accuracy_sd": round(statistics.stdev(accuracies), 2),
            }
            curves[name].append(point)
            print(f"{name:15} {n:6} {point['accuracy_mean']} ± {point['accuracy_sd']}", flush=True)
    results: dict[str, Any] = {"uniform": {"curve": curves["uniform"]}}
    for name, scheme in SCHEMES.items():
        diagnosis = scheme.diagnose()
        results[name] = {
            "curve": curves[name],
            "examples_needed": _ratios(curves[name], curves["uniform"]),
            "predicted_at_first": round(diagnosis.examples_at_first, 3),
            "predicted_at_last": round(diagnosis.examples_at_last, 3),
            "ratio_of_bits": round(diagnosis.uniform_bits_per_label / diagnosis.bits_per_label, 3),
        }
        print(name, {key: results[name][key] for key in list(results[name])[1:]})
    write_record("design", results, n_runs=N_SEEDS, steps=STEPS)


def _accuracy(name: str, X: Any, y: Any, X_test: Any, y_test: Any, n: int, seed: int) -> float:
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]
    epochs = max(1, round(STEPS * OPTIONS["batch_size"] / n))
    clf = ComplementaryClassifier(epochs=epochs, random_state=seed).set_params(**OPTIONS)
    if name == "uniform":
        answers = TransitionMatrix.uniform(10).sample(y[chosen], seed=seed)
    else:
        answers = SCHEMES[name].sample(y[chosen], seed=seed)
        clf.set_params(transition=SCHEMES[name].matrices, classes=range(10))
    return 100 * (clf.fit(X[chosen], answers).predict(X_test) == y_test).mean()


def _ratios(curve: list[dict[str, float]], uniform: list[dict[str, float]]) -> list[dict[str, Any]]:
    """Return n over the number of uniform labels of equal accuracy, where their curve has it."""
    known = np.maximum.accumulate([point["accuracy_mean"] for point in uniform])
    logs = np.log([point["n"] for point in uniform])
    return [
        {
            "accuracy": point["accuracy_mean"],
            "ratio": round(point["n"] / np.exp(np.interp(point["accuracy_mean"], known, logs)), 3),
        }
        for point in curve
        if known[0] <= point["accuracy_mean"] <= known[-1]
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
