"""Measure how often `quality.check_matrix` refutes a right matrix, and a wrong uniform one.

    python benchmarks/bench_agreement.py

Labels of K classes with random shares, predictions of which 80 % are correct, 40 sets of labels
each. Appends one line to results/agreement.jsonl.
"""

import numpy as np

from naysay import TransitionMatrix
from naysay.quality import check_matrix
from record import write_record

N_SETS = 40


def make_matrix(kind: str, n_classes: int, rng: np.random.Generator) -> TransitionMatrix:
    if kind == "uniform":
        return TransitionMatrix.uniform(n_classes)
    if kind == "with0":
        return TransitionMatrix.with_zeros(n_classes, min(3, n_classes - 2), seed=1)
    values = np.zeros((n_classes, n_classes))
    values[~np.eye(n_classes, dtype=bool)] = rng.dirichlet(
        np.full(n_classes - 1, 1.5), n_classes
    ).ravel()
    return TransitionMatrix(values)


def share_refuted(n_classes: int, kind: str, n: int, *, assumed: str, seed: int) -> float:
    rng = np.random.default_rng(seed)
    refuted = 0
    for _ in range(N_SETS):
        Q = make_matrix(kind, n_classes, rng)
        claimed = Q if assumed == "right" else TransitionMatrix.uniform(n_classes)
        true = rng.choice(n_classes, n, p=rng.dirichlet(np.full(n_classes, 3.0)))
        others = rng.integers(n_classes, size=n)
        predicted = np.where(rng.random(n) < 0.8, true, others)
        labels = Q.sample(true, seed=rng)
        refuted += check_matrix(labels, claimed, predictions=predicted, seed=rng).refuted
    return refuted / N_SETS


def main() -> None:
    results = []
    for n_classes, kinds in [(3, 3), (5, 3), (10, 3), (26, 1)]:
        for kind in ("random", "uniform", "with0")[:kinds]:
            for n in (100, 500):
                given = {"n_classes": n_classes, "kind": kind, "n": n}
                found = {"false_alarms": share_refuted(**given, assumed="right", seed=n)}
                if kind != "uniform":
                    found["power"] = share_refuted(**given, assumed="uniform", seed=n + 1)
                results.append({**given, **found})
                print(results[-1], flush=True)
    write_record("agreement", {"n_sets": N_SETS, "results": results})


if __name__ == "__main__":
    main()
