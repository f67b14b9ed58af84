"""Compare the default learner with a network on tables larger than its sample.

    python benchmarks/bench_large.py --data FOLDER [--seeds 500:503] [--only 0 6]

One line of JSON per fit, in ``results/large.jsonl``: the accuracy on test examples, and the seconds
of one core. The matrix is known, or estimated from 10 true labels per class. Seeds below 500 were
used while this was developed.
"""

import argparse
import resource
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from naysay import ComplementaryClassifier, datasets
from naysay.transition.matrix import PAPER_SETTINGS
from record import write_record

JOBS = [
    ("pendigits", setting, n_anchors)
    for setting in ("uniform", "without0", "with0")
    for n_anchors in (0, 10)
] + [("mnist", "uniform", 0)]
N_MNIST = 12_000


def load(name: str, folder: Path, seed: int) -> tuple[np.ndarray, ...]:
    """Load training and test examples as flat tables, of MNIST a sample."""
    data = datasets.load(name, data_dir=folder)
    rng = np.random.default_rng(seed)
    found = []
    for part, most in ((data.train, N_MNIST), (data.test, 10_000)):
        rows = rng.permutation(len(part.y))[:most]
        X = np.asarray(part.X)[rows].reshape(len(rows), -1).astype(np.float32)
        found += [X, np.asarray(part.y)[rows].astype(np.int64)]
    return tuple(found)


def fit(name: str, setting: str, n_anchors: int, seed: int, learner: str, folder: Path) -> dict:
    """Draw labels, fit, and measure the accuracy."""
    X, y, X_test, y_test = load(name, folder, seed)
    rng = np.random.default_rng([seed, n_anchors])
    Q = PAPER_SETTINGS[setting](10, seed)
    known = np.full(len(y), -1)
    for label in range(10):
        known[rng.permutation(np.flatnonzero(y == label))[:n_anchors]] = label
    clf = ComplementaryClassifier(
        transition="estimate" if n_anchors else Q,
        classes=list(range(10)),
        learner=learner,
        device="cpu",
        random_state=seed,
    )
    comp_labels, start = Q.sample(y, seed=rng), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, comp_labels, true_labels=known if n_anchors else None)
    seconds = time.process_time() - start
    stated = clf.accuracy_
    return {
        "table": name,
        "n": len(X),
        "setting": setting,
        "anchors_per_class": n_anchors,
        "seed": seed,
        "learner": learner,
        "accuracy": float((clf.predict(X_test) == y_test).mean()),
        "stated": None if stated is None else [stated.value, *stated.interval],
        "cpu_seconds": round(seconds, 1),
        "memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "weights": {each["name"]: round(each["weight"], 3) for each in clf.candidates_},
    }


def main() -> None:
    """Run all fits and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", default="500:503")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the fits, from 0")
    parser.add_argument("--dry", action="store_true", help="print, and record nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(*map(int, given.seeds.split(":"))):
        for number, job in enumerate(JOBS):
            for learner in ("auto", "network"):
                if given.only is None or number in given.only:
                    found = fit(*job, seed, learner, given.data)
                    print(found, flush=True)
                    if not given.dry:
                        write_record("large", found, n_runs=1)


if __name__ == "__main__":
    main()
