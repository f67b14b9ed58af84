"""Check the stated probability that a label is wrong against the truth, on real tables.

    python benchmarks/bench_wrong_labels.py [DATA_DIR]

Four tables, halves of at most 3,000 examples. Models are trained on the first half: five
classifiers on true labels, and networks on complementary labels. Labels of the second half, of
which 2, 5 or 10 % are wrong, are ranked by their predictions. For labels with a stated probability
of at least 0.5 and 0.9, the mean stated probability ("claimed") is compared with the share that is
wrong ("true"), over all labels and as the mean gap over settings with at least 20 such labels.
"plain" is the formula without calibration. The networks are also evaluated with half or twice the
right rate of mistakes in Q, with Q estimated with 10 anchors per class, and on the labels that they
were trained on ("own training labels"). Appends one line to results/wrong_labels.jsonl.
"""

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from naysay import ComplementaryClassifier, NaysayWarning, TransitionMatrix, datasets
from naysay.quality import find_wrong_labels
from record import write_record

DATA = ("satimage", "usps", "letter", "waveform1")
ESTIMATED = ("satimage",)
HABITS = ("uniform", "with0", "without0")
RATES = (0.02, 0.05, 0.1)
SEEDS = (10,)  # the method was developed with seed 0
Case = tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # name, probs, labels, wrong, Q


def make_habit(name: str, n_classes: int, rate: float, seed: int) -> TransitionMatrix:
    shares = (0.6, 0.3, 0.1) if n_classes > 3 else (0.7, 0.3)
    right = {
        "uniform": lambda: TransitionMatrix.uniform(n_classes),
        "with0": lambda: TransitionMatrix.with_zeros(n_classes, min(3, n_classes - 2), seed=seed),
        "without0": lambda: TransitionMatrix.without_zeros(n_classes, shares, seed=seed),
    }[name]()
    values = (1 - rate) * np.asarray(right) + rate * np.eye(n_classes)
    return TransitionMatrix(values, allow_diagonal=True)


def with_rates_times(Q: np.ndarray, factor: float) -> np.ndarray:
    rates = Q.diagonal()
    others = (Q - np.diag(rates)) / (1 - rates)[:, None]
    return others * (1 - factor * rates)[:, None] + np.diag(factor * rates)


def halves(name: str, rng: np.random.Generator, folder: Path) -> tuple[Any, ...]:
    data = datasets.load(name, data_dir=folder, download=False)
    X, y = np.asarray(data.train.X), np.asarray(data.train.y)
    order = rng.permutation(len(y))
    X, y, n = X.reshape(len(X), -1)[order].astype(np.float32), y[order], min(3000, len(y) // 2)
    X = (X - X[:n].mean(axis=0)) / (X[:n].std(axis=0) + 1e-6)
    return X[:n], y[:n], X[n : 2 * n], y[n : 2 * n], len(data.classes)


def cases(name: str, seed: int, folder: Path) -> Iterator[Case]:
    rng = np.random.default_rng(1000 + seed)
    X, y, X_new, y_new, n_classes = halves(name, rng, folder)
    few = len(y) // 4
    models = {
        "naive Bayes": (GaussianNB(var_smoothing=1e-3), len(y)),
        "random forest": (RandomForestClassifier(50, random_state=seed), len(y)),
        "logistic regression": (LogisticRegression(max_iter=200), few),
        "3 nearest neighbours": (KNeighborsClassifier(3), few),
        "multilayer perceptron": (
            MLPClassifier(alpha=0, max_iter=150, random_state=seed),
            few,
        ),
    }
    options: dict[str, Any] = {"random_state": seed, "classes": range(n_classes)}
    predicted = {}
    for model, (clf, n) in models.items():
        clf.fit(X[:n], y[:n])
        predicted[model] = np.zeros((len(X_new), n_classes))
        predicted[model][:, clf.classes_] = clf.predict_proba(X_new)
    for habit in HABITS:
        for rate in RATES:
            Q = make_habit(habit, n_classes, rate, seed)
            values = np.asarray(Q)
            said, labels = Q.sample(y, seed=rng), Q.sample(y_new, seed=rng)
            net = ComplementaryClassifier(transition=Q, **options).fit(X, said)
            by_net = net.predict_proba(X_new)
            for model, probs in {**predicted, "network": by_net}.items():
                yield model, probs, labels, labels == y_new, values
            for factor in (0.5, 2):
                other = with_rates_times(values, factor)
                yield f"rates times {factor}", by_net, labels, labels == y_new, other
            yield "own training labels", net.predict_proba(X), said, said == y, values
            if rate == 0.05 and name in ESTIMATED and seed == SEEDS[0]:
                anchors = np.concatenate([np.flatnonzero(y == k)[:10] for k in range(n_classes)])
                clf = ComplementaryClassifier(
                    transition="estimate", allow_diagonal=True, **options
                ).fit(X, said, anchors=(X[anchors], y[anchors]))
                estimate = np.asarray(clf.transition_)
                if estimate.diagonal().any():
                    probs = clf.predict_proba(X_new)
                    yield "Q estimated", probs, labels, labels == y_new, estimate


def plain(probs: np.ndarray, labels: np.ndarray, Q: np.ndarray) -> np.ndarray:
    joint = probs[np.arange(len(labels)), labels] * Q.diagonal()[labels]
    likely = (probs * Q.T[labels]).sum(axis=1)
    return np.divide(joint, likely, out=np.zeros(len(labels)), where=likely > 0)


def evaluate(stated: np.ndarray, is_wrong: np.ndarray) -> list[float]:
    """Compute precisions at half the number of wrong labels and at that number, and sums."""
    ranked, n = is_wrong[np.argsort(-stated, kind="stable")], int(is_wrong.sum())
    figures = [ranked[: max(n // 2, 1)].mean(), ranked[:n].mean(), stated.sum(), n]
    for least in (0.5, 0.9):
        flagged = stated >= least
        figures += [flagged.sum(), stated[flagged].sum(), is_wrong[flagged].sum()]
    return figures


def summarise(runs: list[list[float]]) -> dict[str, Any]:
    all_runs = np.array(runs)
    sums = all_runs.sum(axis=0)
    found: dict[str, Any] = {
        "precision_of_first_half": round(100 * all_runs[:, 0].mean(), 1),
        "precision_of_first": round(100 * all_runs[:, 1].mean(), 1),
        "expected_to_true": round(sums[2] / sums[3], 2),
    }
    for least, (n, stated, true) in {"0.5": (4, 5, 6), "0.9": (7, 8, 9)}.items():
        many = all_runs[all_runs[:, n] >= 20]
        gaps = (many[:, stated] - many[:, true]) / many[:, n]
        found[least] = {
            "labels": int(sums[n]),
            "claimed": round(100 * sums[stated] / max(sums[n], 1), 1),
            "true": round(100 * sums[true] / max(sums[n], 1), 1),
            "mean_gap": round(100 * np.abs(gaps).mean(), 1) if len(gaps) else None,
            "most_overclaimed": round(100 * gaps.max(), 1) if len(gaps) else None,
        }
    return found


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)
    warnings.filterwarnings("ignore", module="sklearn")
    runs: dict[str, dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    covered: dict[str, list[bool]] = defaultdict(list)
    for seed in SEEDS:
        for name in DATA:
            for group, probs, labels, is_wrong, Q in cases(name, seed, folder):
                normalised = probs / probs.sum(axis=1, keepdims=True)
                matrix = TransitionMatrix(Q, allow_diagonal=True)
                found = find_wrong_labels(normalised, labels, matrix)
                low, high = found.n_expected_interval
                covered[group].append(bool(low <= is_wrong.sum() <= high))
                runs[group]["plain"].append(evaluate(plain(normalised, labels, Q), is_wrong))
                runs[group]["calibrated"].append(evaluate(1 - found.weights, is_wrong))
            print(seed, name, flush=True)
    special = ("own training labels", "Q estimated", "rates times 0.5", "rates times 2")
    models = [group for group in runs if group not in special]
    for kind in ("plain", "calibrated"):
        runs["all models"][kind] = list(chain(*(runs[group][kind] for group in models)))
    covered["all models"] = list(chain(*(covered[group] for group in models)))
    results = {
        group: {
            "settings": len(covered[group]),
            "interval_covers": round(100 * float(np.mean(covered[group])), 1),
            **{kind: summarise(found) for kind, found in kinds.items()},
        }
        for group, kinds in runs.items()
    }
    for group, found in results.items():
        print(group, found, flush=True)
    write_record("wrong_labels", results, n_runs=len(SEEDS), data=DATA, habits=HABITS, rates=RATES)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
