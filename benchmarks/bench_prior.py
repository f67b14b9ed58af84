"""Measure the error of class shares with and without shrinkage.

    python benchmarks/bench_prior.py

Appends one line to results/prior.jsonl: the mean of Σ |estimate - share| for equal and unequal
shares, each kind of matrix and number of labels. A new matrix is drawn in each run.
"""

import numpy as np

from naysay import TransitionMatrix
from naysay.estimation import class_prior
from record import write_record

N_RUNS, FIRST_SEED = 40, 5_000
MATRICES = {
    "uniform": lambda n_classes, seed: TransitionMatrix.uniform(n_classes),
    "without0": lambda n_classes, seed: TransitionMatrix.without_zeros(n_classes, seed=seed),
    "with0": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, 3, seed=seed),
}
SHARES = {"equal": lambda rank: np.ones(len(rank)), "zipf": lambda rank: 1 / rank}


def main() -> None:
    results = {}
    for n_classes in (10, 20):
        for name, shape in SHARES.items():
            true = shape(np.arange(1.0, n_classes + 1))
            true /= true.sum()
            for kind, make in MATRICES.items():
                for n in (500, 5_000, 50_000):
                    errors = []
                    for seed in range(FIRST_SEED, FIRST_SEED + N_RUNS):
                        rng = np.random.default_rng(seed)
                        Q = make(n_classes, seed)
                        labels = Q.sample(rng.choice(n_classes, size=n, p=true), seed=rng)
                        found = [class_prior(labels, Q, shrink=each) for each in (False, True)]
                        errors.append([np.abs(each - true).sum() for each in found])
                    plain, shrunk = np.mean(errors, axis=0).round(3).tolist()
                    case = f"{n_classes} classes, {name}, {kind}, {n} labels"
                    results[case] = {"plain": plain, "shrunk": shrunk}
                    print(f"{case:<45}{plain:>7.3f}{shrunk:>7.3f}", flush=True)
    write_record("prior", results, n_runs=N_RUNS, statistic="mean L1 error of the shares")


if __name__ == "__main__":
    main()
