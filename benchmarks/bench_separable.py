"""Compare the estimated Q with that of an earlier version where classes are separable.

    python benchmarks/bench_separable.py --data FOLDER [--seeds 0:3]
    PYTHONPATH=EARLIER/src python benchmarks/bench_separable.py --data FOLDER

Digits, USPS and MNIST, at most 1,500 examples, with 10 true labels per class and all defaults. Both
versions get the same examples, labels and anchors. Appends a line per table and setting to
results/separable.jsonl, with the commit of the version that was measured; without ``PYTHONPATH``,
it is that of this checkout.
"""

import argparse
import statistics
import subprocess
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import naysay
from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from record import write_record

N_EXAMPLES = 1500
N_TEST = 5000
ANCHORS = 10
SETTINGS = {
    "uniform": lambda seed: TransitionMatrix.uniform(10),
    "without0": lambda seed: TransitionMatrix.without_zeros(10, seed=seed),
    "with0": lambda seed: TransitionMatrix.with_zeros(10, seed=seed),
}


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load a table with its true classes."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        train = datasets.load(name, data_dir=folder).train
        X, y = np.asarray(train.X).reshape(len(train.X), -1), train.y
    return X.astype(np.float32), y.astype(np.int64)


def run(X: np.ndarray, y: np.ndarray, setting: str, seed: int) -> dict[str, float]:
    """Fit one draw of examples, matrix, labels and anchors."""
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=min(N_EXAMPLES, int(0.75 * len(y))), stratify=y, random_state=seed
    )
    rng = np.random.default_rng([seed, len(setting)])
    Q = SETTINGS[setting](seed)
    labels = Q.sample(y, seed=rng)
    anchors = np.concatenate(
        [rng.choice(np.flatnonzero(y == label), ANCHORS, replace=False) for label in range(10)]
    )
    clf = ComplementaryClassifier(transition="estimate", random_state=seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, labels, anchors=(X[anchors], y[anchors]))
    return {
        "row_error": float(np.abs(np.asarray(clf.transition_) - np.asarray(Q)).sum(axis=1).mean()),
        "accuracy": float((clf.predict(X_test[:N_TEST]) == y_test[:N_TEST]).mean()),
        "seconds": round(time.perf_counter() - start, 1),
    }


def measured_commit() -> str:
    """Look up the commit of the version of naysay that is imported."""
    folder = Path(naysay.__file__).parent
    command = ("git", "-C", str(folder), "rev-parse", "--short", "HEAD")
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", default="0:3")
    given = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(*map(int, given.seeds.split(":")))
    for name in ("digits", "usps", "mnist"):
        X, y = load(name, given.data)
        for setting in SETTINGS:
            runs = [run(X, y, setting, seed) for seed in seeds]
            results: dict[str, Any] = {
                "table": name,
                "setting": setting,
                **{key: round(statistics.mean(r[key] for r in runs), 4) for key in runs[0]},
                "runs": runs,
            }
            write_record("separable", results, n_runs=len(runs), measured_commit=measured_commit())
            print(name, setting, {key: results[key] for key in runs[0]})


if __name__ == "__main__":
    main()
