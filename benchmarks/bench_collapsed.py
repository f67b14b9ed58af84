"""Measure how often merged classes are found, and how often a healthy model is reported.

    python benchmarks/bench_collapsed.py

Appends one line to results/collapsed.jsonl. Predictions are right in 80 % of cases and other
classes otherwise. A merged model never predicts class 1, but class 0 instead; in a mixed one, what
is predicted as 0 or 1 is either at random. Matrices that are not uniform are drawn anew in each
run; those of "three labels" have three labels for each class. "estimated" is a healthy
model where Q is an estimate from 20 labels of each class and its samples are given, "as exact"
where they are not. "mixed, at most" is the power of the most powerful test of mixed classes that
knows which two are: no test with at most 5 % false alarms finds them more often.
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
    names = ("healthy", "rare", "merged", "mixed", "estimated", "as exact", "estimated, merged")
    found = dict.fromkeys((*names, "mixed, at most"), 0.0)
    for seed in range(FIRST_SEED, FIRST_SEED + N_RUNS):
        rng = np.random.default_rng(seed)
        Q = MATRICES[kind](n_classes, seed)
        true = rng.integers(n_classes, size=n)
        others = (true + rng.integers(1, n_classes, size=n)) % n_classes
        healthy = np.where(rng.random(n) < ACCURACY, true, others)
        labels = Q.sample(true, seed=rng)
        either = np.where(healthy < 2, rng.integers(2, size=n), healthy)
        absent = true != 1  # class 1 does not occur and is not predicted
        merged = np.where(healthy == 1, 0, healthy)
        found["mixed, at most"] += most_power(np.asarray(Q), n, rng)
        estimate, samples = estimate_from_pairs(np.asarray(Q), rng)
        cases = {
            "healthy": (healthy, labels, Q, None),
            "rare": (merged[absent], labels[absent], Q, None),
            "merged": (merged, labels, Q, None),
            "mixed": (either, labels, Q, None),
            "estimated": (healthy, labels, estimate, samples),
            "as exact": (healthy, labels, estimate, None),
            "estimated, merged": (merged, labels, estimate, samples),
        }
        for name, (predictions, given, matrix, known) in cases.items():
            probs = np.eye(n_classes)[predictions]
            findings = find_collapsed_classes(probs, given, matrix, Q_samples=known).findings
            if name in ("healthy", "rare", "estimated", "as exact"):
                found[name] += bool(findings)
            else:
                found[name] += any({"0", "1"} & {*each.classes} for each in findings)
    return {name: number / N_RUNS for name, number in found.items()}


def most_power(Q: np.ndarray, n: int, rng: np.random.Generator) -> float:
    """Compute the power of the likelihood ratio of mixed classes against the nearest others.

    In these, a fifth of what is predicted as one of the two classes is of the other one, so that
    they are not mixed, and the remaining classes have the difference.
    """
    n_classes, log_ratios = len(Q), np.zeros((2, 4000))
    for k in (0, 1):
        mixed = np.full(n_classes, (1 - ACCURACY) / (n_classes - 1))
        mixed[:2] = (ACCURACY + mixed[2]) / 2
        limit = mixed.copy()
        limit[1 - k] = 0.2
        limit[2:] += (mixed[1 - k] - 0.2) / (n_classes - 2)
        chances = np.array([limit, mixed]) @ Q
        counts = np.array([rng.multinomial(n // n_classes, each, 4000) for each in chances])
        used = chances[0] > 0
        log_ratios += counts[..., used] @ np.log(chances[1] / np.where(used, chances[0], 1))[used]
    return float((log_ratios[1] > np.quantile(log_ratios[0], 0.95)).mean())


def estimate_from_pairs(Q: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Estimate Q from 20 labels of each class, with samples from the posterior."""
    possible = ~np.eye(len(Q), dtype=bool)
    estimate, samples = np.zeros_like(Q), np.zeros((50, *Q.shape))
    for row, free in enumerate(possible):
        counts = rng.multinomial(20, Q[row, free]) + 0.5
        estimate[row, free] = counts / counts.sum()
        samples[:, row, free] = rng.dirichlet(counts, 50)
    return estimate, samples


def main() -> None:
    start = time.perf_counter()
    cases = [(k, kind, n) for k in (5, 10, 20) for kind in MATRICES for n in (500, 1_000, 3_000)]
    results = {}
    with ProcessPoolExecutor() as pool:
        for (n_classes, kind, n), shares in zip(cases, pool.map(run, cases), strict=True):
            results[f"{n_classes} classes, {kind}, {n} labels"] = shares
            print(f"{n_classes:>3} classes, {kind:<12}{n:>6} labels", shares, flush=True)
    seconds = round(time.perf_counter() - start, 1)
    write_record("collapsed", results, n_runs=N_RUNS, seconds=seconds)


if __name__ == "__main__":
    main()
