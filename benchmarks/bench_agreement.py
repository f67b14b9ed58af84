"""Measure how often `quality.check_matrix` refutes a right matrix, and a wrong uniform one.

    python benchmarks/bench_agreement.py [DATA_DIR]

Labels of K classes with random shares, predictions of which 80 % are correct, 40 sets of labels
each. "tables" is the test that `naysay fit` makes of a matrix that is given or assumed: labels of
400 examples of real tables, drawn with a right matrix, and out-of-fold predictions by least squares
on the inverse of this matrix, 500 cases. Appends one line to results/agreement.jsonl.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from naysay import TransitionMatrix, datasets
from naysay.quality import check_matrix
from naysay.quality.goodness_of_fit import check_by_all_labels
from record import write_record

N_SETS = 40
N_CASES, FIRST_SEED, N_EXAMPLES, N_FOLDS = 500, 40_000, 400, 5
OWN_TABLES = {"wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
TABLES = (*OWN_TABLES, "satimage", "usps", "letter", "waveform1")


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


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    if name in OWN_TABLES:
        X, y = OWN_TABLES[name](return_X_y=True)
    else:
        data = datasets.load(name, data_dir=folder).train
        X, y = np.asarray(data.X).reshape(len(data.X), -1), np.asarray(data.y)
    X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)
    return np.c_[X, np.ones(len(X))], y.astype(np.int64)


def predict_out_of_fold(X: np.ndarray, labels: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Predict each class by ridge regression on rows of the inverse of Q."""
    targets = np.linalg.pinv(Q)[labels]
    predicted = np.empty(len(X), dtype=np.int64)
    for fold in range(N_FOLDS):
        of_fold = np.arange(len(X)) % N_FOLDS == fold
        rest = X[~of_fold]
        weights = np.linalg.solve(
            rest.T @ rest + 30 * np.eye(X.shape[1]), rest.T @ targets[~of_fold]
        )
        predicted[of_fold] = (X[of_fold] @ weights).argmax(axis=1)
    return predicted


def false_alarms_on_tables(folder: Path) -> dict[str, dict[str, float]]:
    tables = {name: load(name, folder) for name in TABLES}
    cases = []
    for seed in range(FIRST_SEED, FIRST_SEED + N_CASES):
        rng = np.random.default_rng(seed)
        X, y = tables[TABLES[seed % len(TABLES)]]
        rows = rng.permutation(len(y))[:N_EXAMPLES]
        X, y, n_classes = X[rows], y[rows], int(y.max()) + 1
        kind = ("random", "uniform", "with0")[int(rng.integers(3 if n_classes > 2 else 2))]
        Q = make_matrix(kind, n_classes, rng)
        labels = Q.sample(y, seed=rng)
        predicted = predict_out_of_fold(X, labels, np.asarray(Q))
        found = check_by_all_labels(labels, Q, predicted, seed=seed)
        right = float((predicted == y).mean())
        cases.append(("uniform" if kind == "uniform" else "given", found.refuted, right))
    results = {}
    for name in ("uniform", "given"):
        refuted = [each for kind, each, _ in cases if kind == name]
        n, k = len(refuted), sum(refuted)
        results[name] = {
            "cases": n,
            "refuted": k,
            "low": round(float(beta.ppf(0.025, k, n - k + 1)), 4) if k else 0.0,
            "high": round(float(beta.ppf(0.975, k + 1, n - k)), 4),
            "mean_accuracy": round(float(np.mean([a for kind, _, a in cases if kind == name])), 3),
        }
    return results


def main(folder: Path) -> None:
    on_tables = false_alarms_on_tables(folder)
    print(on_tables, flush=True)
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
    write_record("agreement", {"n_sets": N_SETS, "results": results, "tables": on_tables})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
