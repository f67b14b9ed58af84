"""Measure what the labels of anchors add to the estimate of Q where classes overlap.

    python benchmarks/bench_pairs.py [SEED ...]

The overlapping table of `study_coverage.py`, 6,000 examples, 10 true labels per class, random
matrices. The default classifier gets the true labels as `anchors=`, which have no complementary
label, or as `true_labels=`, which have one, or it is given the true matrix. Appends one line for
each seed to results/pairs.jsonl.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from naysay import ComplementaryClassifier, TransitionMatrix
from record import write_record
from study_coverage import load, make_matrix

SEEDS = range(308, 316)  # those from 300 were looked at


def run(seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    X, y = load("overlapping", Path(), rng)
    values = make_matrix("without0", 5, 0.0, rng)
    Q = TransitionMatrix(values)
    labels = Q.sample(y, seed=rng)
    train, test = slice(0, 6000), slice(6000, None)
    known = np.full(6000, -1)
    for label in range(5):
        rows = rng.permutation(np.flatnonzero(y[train] == label))[:10]
        known[rows] = label
    rows = np.flatnonzero(known >= 0)
    found = {}
    for name, options, given in [
        ("anchors", {"transition": "estimate"}, {"anchors": (X[rows], known[rows])}),
        ("pairs", {"transition": "estimate"}, {"true_labels": known}),
        ("true", {"transition": Q}, {"true_labels": known}),
    ]:
        clf = ComplementaryClassifier(classes=range(5), random_state=seed, **options)
        clf.fit(X[train], labels[train], **given)
        found[f"{name}_accuracy"] = float((clf.predict(X[test]) == y[test]).mean())
        found[f"{name}_error"] = float(np.abs(np.asarray(clf.transition_) - values).sum(1).mean())
    return found


def main(*seeds: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed in seeds or SEEDS:
        found = {name: round(value, 4) for name, value in run(seed).items()}
        print(seed, found, flush=True)
        write_record("pairs", found, n_runs=1, seed=seed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
