"""How often merged classes are found, and how often a healthy model is reported.

    python benchmarks/bench_collapsed.py

Appends one line to results/collapsed.jsonl. Predictions are right in 80 % of cases and other
classes otherwise. A merged model never predicts class 1, but class 0 instead; in a mixed one, what
is predicted as 0 or 1 is either at random. Matrices that are not uniform are drawn anew in each
run; those of "three labels" have three labels for each class.
"""

import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from naysay import TransitionMatrix
from naysay.quality import find_collapsed_classes
from record import write_record

N_RUNS, FIRST_SEED, ACCURACY = 50, 9_000, 0.8
MATRICES = {
    "uniform": lambda n_classes, seed: TransitionMatrix.uniform(n_classes),
    "biased": lambda n_classes, seed: TransitionMatrix.without_zeros(n_classes, seed=seed),
    "three labels": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, seed=seed),
}


def run(case: tuple[int, str, int]) -> dict[str, float]:
    n_classes, kind, n = case
    found = {"healthy": 0, "rare": 0, "merged": 0, "mixed": 0}
    for seed in range(FIRST_SEED, FIRST_SEED + N_RUNS):
        rng = np.random.default_rng(seed)
        Q = MATRICES[kind](n_classes, seed)
        true = rng.integers(n_classes, size=n)
        others = (true + rng.integers(1, n_classes, size=n)) % n_classes
        healthy = np.where(rng.random(n) < ACCURACY, true, others)
        labels = Q.sample(true, seed=rng)
        either = np.where(healthy < 2, rng.integers(2, size=n), healthy)
        absent = true != 1  # class 1 does not occur and is not predicted
        cases = {
            "healthy": (healthy, labels),
            "rare": (np.where(healthy == 1, 0, healthy)[absent], labels[absent]),
            "merged": (np.where(healthy == 1, 0, healthy), labels),
            "mixed": (either, labels),
        }
        for name, (predictions, given) in cases.items():
            probs = np.eye(n_classes)[predictions]
            findings = find_collapsed_classes(probs, given, Q).findings
            if name in ("healthy", "rare"):
                found[name] += bool(findings)
            else:
                found[name] += any({"0", "1"} & {*each.classes} for each in findings)
    return {name: number / N_RUNS for name, number in found.items()}


def main() -> None:
    start = time.perf_counter()
    cases = [(k, kind, n) for k in (5, 10, 20) for kind in MATRICES for n in (500, 1_000, 3_000)]
    results = {}
    with ProcessPoolExecutor(2) as pool:
        for (n_classes, kind, n), shares in zip(cases, pool.map(run, cases), strict=True):
            results[f"{n_classes} classes, {kind}, {n} labels"] = shares
            print(f"{n_classes:>3} classes, {kind:<12}{n:>6} labels", shares, flush=True)
    seconds = round(time.perf_counter() - start, 1)
    write_record("collapsed", results, n_runs=N_RUNS, seconds=seconds)


if __name__ == "__main__":
    main()
