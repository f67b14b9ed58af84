"""Fit and check where assumptions fail, and record figures that are stated and wrong.

    python benchmarks/study_hostile.py RECORDS --data FOLDER [--part 0/2] [--seeds 820:822]

Every fit is ``fit_own`` with all defaults, followed by ``check_file`` with up to 800 new answers,
on tables whose classes overlap, with habits that `study_coverage.py` does not have: everybody names
the same classes (popular), each class has its own habit (far), or any matrix (random). The cases:

- estimated, mistakes: Q is estimated from 4 or 8 true labels of random examples of each class, in
  the second case with 8 % mistakes and ``allow_diagonal``; sample: from a random sample of all
  examples of an unbalanced table; annotators: four people differ
- given, uniform: the right matrix is given, or rightly assumed, without any true label
- assumed, wrong: the uniform matrix is wrongly assumed, or another one is given
- unstated, depends, picked: 8 % mistakes that are not allowed for, labels that depend on the
  example beyond its class, and true labels of the clearest examples that are not said to be picked

Only the last three and "assumed" may state wrong figures by what the guide says. One line of JSON
per fit; `--summary` prints what they show.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, make_classification

from naysay import TransitionMatrix
from naysay.datasets.own import read_own
from naysay.workflows.check import check_file
from naysay.workflows.fit import fit_own
from record import run_study
from study_coverage import load as load_table

TABLES = (
    *("overlap4", "heavy6", "rings3", "noise4"),
    *("lognormal4", "digits5", "simulated", "satimage"),
)
CASES = (
    *("estimated", "mistakes", "sample", "annotators", "given", "uniform"),
    *("assumed", "wrong", "unstated", "depends", "picked"),
)
KINDS = ("random", "popular", "far")
WITHOUT_TRUE_LABELS = ("given", "uniform", "assumed", "wrong")
N_NEW = 800


def load(name: str, folder: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Load a table with its true classes, in random order."""
    n, n_classes = 6000, int(name[-1]) if name[-1].isdigit() else 0
    y = rng.integers(max(n_classes, 1), size=n)
    if name == "overlap4":
        options = {"n_informative": 6, "n_classes": 4, "n_clusters_per_class": 2, "class_sep": 0.6}
        X, y = make_classification(n, 15, **options, random_state=int(rng.integers(2**31)))
    elif name == "heavy6":  # clouds with heavy tails
        X = rng.normal(0, 1.5, (6, 8))[y] + rng.standard_t(2, (n, 8))
    elif name == "rings3":
        angle, radius = rng.uniform(0, 2 * np.pi, n), 1 + y + rng.normal(0, 0.45, n)
        X = np.c_[radius * np.cos(angle), radius * np.sin(angle), rng.normal(size=(n, 3))]
    elif name == "noise4":  # the features say nothing
        X = rng.normal(size=(n, 10))
    elif name == "lognormal4":
        X = np.exp(rng.normal(0, 0.6, (4, 6))[y] + rng.normal(size=(n, 6)))
    elif name == "digits5":
        X, digit = load_digits(return_X_y=True)
        y = np.searchsorted([1, 3, 5, 8, 9], digit)
        keep = np.isin(digit, [1, 3, 5, 8, 9])
        X, y = X[keep], y[keep]
    else:
        return load_table(name, folder, rng)
    order = rng.permutation(len(y))
    return X[order].astype(np.float32), y[order].astype(np.int64)


def make_matrix(kind: str, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a transition matrix without mistakes that is not nearly singular."""
    off = ~np.eye(n_classes, dtype=bool)
    while True:
        values = off / (n_classes - 1.0)
        if kind == "random":
            values[off] = rng.dirichlet(np.ones(n_classes - 1), n_classes).ravel()
        elif kind == "popular":
            values = off * rng.dirichlet(np.full(n_classes, 1.5))
        elif kind == "far":
            values[off] = rng.dirichlet(np.full(n_classes - 1, 0.3), n_classes).ravel()
        values /= values.sum(axis=1, keepdims=True)
        if np.linalg.cond(values) < 15 + n_classes:
            return values


def fit(name: str, case: str, seed: int, folder: Path) -> dict[str, Any]:
    """Make one table, fit and check, and compare what is stated with the truth."""
    rng = np.random.default_rng([seed, TABLES.index(name), CASES.index(case)])
    X, y = load(name, folder, rng)
    n_classes = int(y.max()) + 1
    if case == "sample":
        shares = rng.permutation(1 / np.arange(1, n_classes + 1) ** 1.2)
        keep = rng.random(len(y)) < (shares / shares.max())[y]
        X, y = X[keep], y[keep]
    n = min(int(rng.integers(300, 1300)), int(0.6 * len(y)))
    kind = "uniform" if case == "uniform" else str(rng.choice(KINDS))
    mistakes = 0.08 if case in ("mistakes", "unstated") else 0.0
    habits = [
        TransitionMatrix(
            (1 - mistakes) * make_matrix(kind, n_classes, rng) + mistakes * np.eye(n_classes),
            allow_diagonal=True,
        )
        for _ in range({"annotators": 4, "depends": 2}.get(case, 1))
    ]
    whose = rng.integers(len(habits), size=len(y))
    if case == "depends":
        whose = (X[:, 0] > np.median(X[:, 0])).astype(int)
    labels = np.choose(whose, [habit.sample(y, seed=rng) for habit in habits])
    names = np.array([f"c{k:02}" for k in range(n_classes)])
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame["not"] = names[labels]
    if case == "annotators":
        frame["who"] = np.array(list("abcd"))[whose]
    per_class = int(rng.choice([4, 8]))
    anchors = choose_anchors(case, X[:n], y[:n], per_class, n_classes, rng)
    training = frame[:n].assign(**{"is": ""})
    training.loc[anchors, "is"] = names[y[anchors]]
    reading = {"label": "not", "annotator": "who" if case == "annotators" else None}
    transition = {"given": habits[0], "uniform": "uniform", "assumed": "uniform"}.get(case)
    if case == "wrong":
        transition = TransitionMatrix(make_matrix("random", n_classes, rng))
    if isinstance(transition, TransitionMatrix):
        transition = TransitionMatrix(np.asarray(transition), names.tolist(), allow_diagonal=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = read_own(training, true_label="is", classes=names.tolist(), **reading)
        clf, report = fit_own(
            own, transition=transition, allow_diagonal=case == "mistakes", seed=seed
        )
        new = slice(n, n + N_NEW)
        found = check_file(clf, frame[new], **reading)
    predicted = clf.predict_proba(X[n:]).argmax(axis=1)
    right = predicted == y[n:]
    precision = [
        each.interval[0] <= right[predicted == k].mean() <= each.interval[1]
        for k, each in enumerate(report.precision)
        if each.unknown is None and (predicted == k).sum() > 30
    ]
    wrong = found.wrong_labels
    listed = np.zeros(0, int) if wrong is None else np.flatnonzero(wrong.probabilities >= 0.5)
    is_stated = wrong is not None and wrong.unknown is None and found.matrix_fits
    return {
        "table": name,
        "case": case,
        "seed": seed,
        "n": n,
        "classes": n_classes,
        "kind": kind,
        "true_labels": len(anchors),
        "true_accuracy": float(right.mean()),
        "stated": report.accuracy.value,
        "interval": list(report.accuracy.interval),
        "unknown": report.accuracy.unknown,
        "check": found.accuracy.value,
        "check_interval": list(found.accuracy.interval),
        "check_unknown": found.accuracy.unknown,
        "precision_shown": len(precision),
        "precision_covered": int(sum(precision)),
        "listed": len(listed) if is_stated else 0,
        "listed_stated": float(wrong.probabilities[listed].sum()) if is_stated else 0.0,
        "listed_wrong": int((labels == y)[new][wrong.indices[listed]].sum()) if is_stated else 0,
        "collapsed": found.collapsed is not None and bool(found.collapsed),
    }


def choose_anchors(
    case: str,
    X: np.ndarray,
    y: np.ndarray,
    per_class: int,
    n_classes: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose the examples whose true class is known."""
    if case in WITHOUT_TRUE_LABELS:
        return np.zeros(0, dtype=int)
    if case == "sample":
        return rng.permutation(len(y))[: per_class * n_classes]
    chosen = []
    for label in range(n_classes):
        rows = rng.permutation(np.flatnonzero(y == label))
        if case == "picked":  # the nearest to the mean of the class
            rows = rows[np.argsort(np.square(X[rows] - X[rows].mean(axis=0)).sum(axis=1))]
        chosen.append(rows[:per_class])
    return np.concatenate(chosen)


def table(records: list[dict[str, Any]]) -> str:
    """Write what the records show as a Markdown table."""
    frame = pd.DataFrame(records)
    lines = [
        "| | fits | unknown | covered | off by 10 points | median width | `check`: unknown | "
        "covered | off by 10 points | precisions covered | listed as wrong: stated, wrong |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        group = frame[frame["case"] == case]
        if len(group):
            figures = []
            for prefix in ("", "check_"):
                shown = group[group[f"{prefix}unknown"].isna()]
                low, high = (shown[f"{prefix}interval"].str[i] for i in (0, 1))
                true = shown["true_accuracy"]
                off = np.maximum(low - true, true - high)
                figures += [1 - len(shown) / len(group), (off <= 0).mean(), (off > 0.1).mean()]
                if not prefix:
                    figures.append((high - low).median())
            total = group.sum(numeric_only=True)
            lines.append(
                f"| {case} | {len(group)} | {' | '.join(f'{each:.0%}' for each in figures)} "
                f"| {total['precision_covered']:.0f} of {total['precision_shown']:.0f} "
                f"| {total['listed']:.0f}: {total['listed_stated']:.0f}, "
                f"{total['listed_wrong']:.0f} |"
            )
    return "\n".join(lines)


def jobs(seeds: range) -> list[tuple[str, str, int]]:
    return [(name, case, seed) for seed in seeds for name in TABLES for case in CASES]


if __name__ == "__main__":
    keys = ("table", "case", "seed")
    run_study(__doc__, fit, jobs, keys, table, seeds="820:822")
