"""Compare a matrix for each annotator with a common one, where annotators differ or are alike.

    python benchmarks/bench_annotators.py

Digits, one answer each, 5 anchors per class, 3 seeds; accuracy with one estimated matrix for all
answers and with one for each annotator. Appends one line to results/annotators.jsonl.
"""

import statistics
import warnings
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

from naysay import ComplementaryClassifier, NaysayWarning, TransitionMatrix
from naysay.observations import Observations
from record import write_record

SEEDS = range(3)
N_ANNOTATORS = 5
OPTIONS: dict[str, Any] = {"epochs": 20, "batch_size": 128, "lr": 5e-3, "classes": range(10)}


def run(seed: int, *, differ: bool) -> tuple[float, float, int]:
    """Return both accuracies, and how many annotators got a matrix."""
    X, y = (np.asarray(part) for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(seed)
    who = rng.integers(N_ANNOTATORS, size=len(y))
    said = np.empty_like(y)
    for each in range(N_ANNOTATORS):
        Q = TransitionMatrix.with_zeros(10, seed=100 * seed + each * differ)
        said[who == each] = Q.sample(y[who == each], seed=rng)
    anchors = np.concatenate([np.flatnonzero(y == label)[:5] for label in range(10)])
    others = np.setdiff1d(np.arange(len(y)), anchors)
    answers = Observations(example=np.arange(len(y)), label=said, annotator=who)
    fitted = [
        ComplementaryClassifier(transition="estimate", random_state=seed, **OPTIONS).fit(
            X, labels, anchors=(X[anchors], y[anchors])
        )
        for labels in (said, answers)
    ]
    together, apart = (float((clf.predict(X[others]) == y[others]).mean()) for clf in fitted)
    return together, apart, len(fitted[1].transitions_)


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)
    results: dict[str, Any] = {}
    for differ in (True, False):
        runs = [run(seed, differ=differ) for seed in SEEDS]
        figures = {
            "one_matrix": round(100 * statistics.mean(each[0] for each in runs), 1),
            "each_annotator": round(100 * statistics.mean(each[1] for each in runs), 1),
            "matrices": [each[2] for each in runs],
        }
        results["habits differ" if differ else "one habit"] = figures
        print(figures, flush=True)
    write_record(
        "annotators", results, n_runs=len(SEEDS), statistic="mean", annotators=N_ANNOTATORS
    )


if __name__ == "__main__":
    main()
