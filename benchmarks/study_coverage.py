"""Fit real tables as a new user would, and record whether the stated figures hold.

    python benchmarks/study_coverage.py RECORDS --data FOLDER [--part 0/2] [--seeds 200:212]

Every fit is ``fit_own`` with all defaults on a table with complementary labels of every example and
true labels of 5 or 10 random examples of each class. The settings vary at random: which table,
balanced or not, how labels were chosen (uniform, without0, with0), how many are mistakes. One line
of JSON per fit; fits that are on record are not repeated, and `--summary` prints what they show.
Trials with seeds below 200 were used while the estimates were developed.

``--others`` fits other tables, on which nothing was developed: a different simulated table for
each seed, of 3 to 8 classes that overlap little or much, and tables that scikit-learn provides.
Labels are then also chosen with matrices that concentrate on one or two classes (skewed).
"""

import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits, make_classification

from naysay import TransitionMatrix, __version__, datasets
from naysay.datasets.own import read_own
from naysay.metrics import accuracy_with_few_labels
from naysay.workflows.fit import fit_own
from record import run_study

TABLES = ("usps", "satimage", "letter", "pendigits", "waveform1", "overlapping")
OTHERS = ("simulated", "mixture", "digits", "waveform2")
HABITS = ("uniform", "without0", "with0", "skewed")
N_EXAMPLES = 1500
N_SIMULATED = 9000


def load(name: str, folder: Path, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Load a table with its true classes, in random order."""
    if name == "overlapping":  # 5 classes of 3 clusters each; networks reach 50 to 60 %
        X, y = make_classification(
            9000,
            20,
            n_informative=8,
            n_redundant=4,
            n_classes=5,
            n_clusters_per_class=3,
            class_sep=0.8,
            random_state=5,
        )
    elif name == "simulated":
        n_classes, n_clusters = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        n_informative = int(rng.integers(6, 13))
        X, y = make_classification(
            N_SIMULATED,
            n_informative + int(rng.integers(0, 20)),
            n_informative=n_informative,
            n_redundant=0,
            n_classes=n_classes,
            n_clusters_per_class=n_clusters,
            class_sep=rng.uniform(0.4, 1.6),
            random_state=int(rng.integers(2**31)),
        )
    elif name == "mixture":  # each class is a Gaussian cloud with a shape of its own
        n_classes, n_features = int(rng.integers(3, 9)), int(rng.integers(4, 17))
        y = rng.integers(n_classes, size=N_SIMULATED)
        centres = rng.normal(0, rng.uniform(0.5, 1.5), (n_classes, n_features))
        shapes = rng.normal(0, 1, (n_classes, n_features, n_features)) / np.sqrt(n_features)
        noise = rng.standard_t(5, (N_SIMULATED, n_features))
        X = centres[y] + np.einsum("nij,nj->ni", shapes[y], noise)
    elif name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        data = datasets.load(name, data_dir=folder)
        parts = [each for each in (data.train, data.test) if each is not None]
        X = np.concatenate([np.asarray(each.X).reshape(len(each.X), -1) for each in parts])
        y = np.concatenate([each.y for each in parts])
    order = rng.permutation(len(y))
    return X[order].astype(np.float32), y[order].astype(np.int64)


def make_matrix(kind: str, n_classes: int, mistakes: float, rng: np.random.Generator) -> np.ndarray:
    """Draw a transition matrix that is not nearly singular."""
    off = ~np.eye(n_classes, dtype=bool)
    while True:
        values = np.zeros((n_classes, n_classes))
        if kind == "uniform":
            values[off] = 1 / (n_classes - 1)
        elif kind == "without0":
            values[off] = rng.dirichlet(np.full(n_classes - 1, 1.5), n_classes).ravel()
        elif kind == "skewed":
            values[off] = rng.dirichlet(np.full(n_classes - 1, 0.4), n_classes).ravel()
        else:
            n_possible = min(3, n_classes - 2)
            for row in range(n_classes):
                others = rng.permutation(np.flatnonzero(off[row]))[:n_possible]
                values[row, others] = rng.dirichlet(np.full(n_possible, 4.0))
        values = (1 - mistakes) * values + mistakes * np.eye(n_classes)
        is_random = kind in ("without0", "skewed")
        most = 15 + n_classes if is_random or n_classes <= 10 else 1e4
        if values.any(axis=0).all() and np.linalg.cond(values) < most:
            return values


def fit(name: str, kind: str, seed: int, folder: Path) -> dict:
    """Make one table, fit it, and compare what is stated with the truth."""
    rng = np.random.default_rng([seed, (TABLES + OTHERS).index(name), HABITS.index(kind)])
    mistakes = float(rng.choice([0.0, 0.03]))
    n_anchors = int(rng.choice([5, 10]))
    is_balanced = bool(rng.integers(2))
    X, y = load(name, folder, rng)
    n_classes = int(y.max()) + 1
    if not is_balanced:
        shares = rng.permutation(1 / np.arange(1, n_classes + 1) ** 0.7)
        chosen = rng.random(len(y)) < (shares / shares.max())[y]
        X, y = X[chosen], y[chosen]
    n = min(N_EXAMPLES, int(0.7 * len(y)))
    values = make_matrix(kind, n_classes, mistakes, rng)
    labels = TransitionMatrix(values, allow_diagonal=True).sample(y, seed=rng)
    frame = pd.DataFrame(X[:n], columns=[f"x{i}" for i in range(X.shape[1])])
    frame["not"] = [f"c{k:02}" for k in labels[:n]]
    known = np.full(n, "", dtype=object)
    for label in range(n_classes):
        for row in rng.permutation(np.flatnonzero(y[:n] == label))[:n_anchors]:
            known[row] = f"c{label:02}"
    frame["is"] = known
    classes = [f"c{k:02}" for k in range(n_classes)]
    own = read_own(frame, label="not", true_label="is", classes=classes)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf, report = fit_own(
            own, transition=None, allow_diagonal=mistakes > 0, seed=seed, epochs=100
        )
    seconds = time.perf_counter() - start
    predicted = clf.predict_proba(X[n:]).argmax(axis=1)
    accuracy = float((predicted == y[n:]).mean())
    known_Q = clf.transition_estimate_.uncertainty
    free = np.ones_like(values, dtype=bool) if mistakes else ~np.eye(n_classes, dtype=bool)
    inside = (known_Q.lower - 1e-3 <= values) & (values <= known_Q.upper + 1e-3)
    precision = [
        (each.interval[0] <= (y[n:][predicted == k] == k).mean() <= each.interval[1])
        for k, each in enumerate(report.precision)
        if each.unknown is None and (predicted == k).sum() > 30
    ]
    anchors_alone = _width_of_anchors_alone(
        clf.transition_estimate_.at_anchors,
        y[:n][known != ""],
        np.bincount(y[:n], minlength=n_classes) / n,
    )
    return {
        "table": name,
        "habit": kind,
        "seed": seed,
        "mistakes": mistakes,
        "anchors_per_class": n_anchors,
        "balanced": is_balanced,
        "n": n,
        "classes": n_classes,
        "true_accuracy": accuracy,
        "stated": report.accuracy.value,
        "interval": list(report.accuracy.interval),
        "unknown": report.accuracy.unknown,
        "without_labels": report.accuracy_without_labels.value,
        "interval_without_labels": list(report.accuracy_without_labels.interval),
        "refuted": report.agreement.refuted,
        "width_of_anchors_alone": anchors_alone,
        "entries_covered": float(inside[free].mean()),
        "row_error_first": float(
            np.abs(np.asarray(clf.transition_estimate_.from_anchors) - values).sum(axis=1).mean()
        ),
        "row_error": float(np.abs(np.asarray(clf.transition_) - values).sum(axis=1).mean()),
        "precision_shown": len(precision),
        "precision_covered": int(sum(precision)),
        "seconds": round(seconds, 1),
        "machine": platform.machine(),
        "versions": {"naysay": __version__, "torch": torch.__version__, "numpy": np.__version__},
    }


def _width_of_anchors_alone(at_anchors: np.ndarray, true: np.ndarray, shares: np.ndarray) -> float:
    """Compute the width of the interval by the true labels alone, with known shares of classes."""
    seen = ~np.isnan(at_anchors[:, 0])
    found = accuracy_with_few_labels(
        true[seen], at_anchors[seen].argmax(axis=1), class_shares=shares
    )
    return found.interval[1] - found.interval[0]


def table(records: list[dict]) -> str:
    """Write what the records show as a Markdown table, in all and by setting."""
    frame = pd.DataFrame(records)
    low, high = (frame["interval"].str[i] for i in (0, 1))
    frame["inside"] = (low <= frame["true_accuracy"]) & (frame["true_accuracy"] <= high)
    frame["width"] = 100 * (high - low)
    frame["error"] = 100 * (frame["stated"] - frame["true_accuracy"])
    groups = [("all fits", frame)]
    for by, text in [
        ("table", "{}"),
        ("habit", "{}"),
        ("balanced", "balanced: {}"),
        ("mistakes", "mistakes: {:.0%}"),
        ("anchors_per_class", "{} true labels per class"),
    ]:
        groups += [(text.format(value), group) for value, group in frame.groupby(by)]
    lines = [
        "| | fits | unknown | accuracy covered | bias, points | median width, points "
        "| entries of Q covered | error of a row of Q |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, group in groups:
        shown = group[group["unknown"].isna()]
        lines.append(
            f"| {name} | {len(group)} | {group['unknown'].notna().mean():.1%} "
            f"| {shown['inside'].mean():.1%} | {shown['error'].mean():+.1f} "
            f"| {shown['width'].median():.1f} | {group['entries_covered'].mean():.1%} "
            f"| {group['row_error'].mean():.2f} |"
        )
    ratio = frame["width"] / 100 / frame["width_of_anchors_alone"]
    ratio = ratio[frame["anchors_per_class"] == 10]
    total, covered = frame["precision_shown"].sum(), frame["precision_covered"].sum()
    lines += [
        "",
        f"Of the precisions of single classes, {total:,} were shown, and their intervals covered "
        f"{covered / total:.1%} of them. {frame['refuted'].sum()} of {len(frame)} estimated "
        "matrices were called refuted by the held-out labels. With 10 true labels per class, the "
        f"median interval was {ratio.median():.2f} times as wide as that of the true labels alone "
        f"with known shares of the classes; {(ratio > 1).mean():.0%} were wider, and "
        f"{(ratio > 1.1).mean():.0%} by more than a tenth. A fit took "
        f"{frame['seconds'].median():.0f} s on one of two busy cores.",
    ]
    return "\n".join(lines)


def jobs(seeds: range) -> list[tuple[str, str, int]]:
    return [(name, kind, seed) for seed in seeds for name in TABLES for kind in HABITS[:3]]


def other_jobs(seeds: range) -> list[tuple[str, str, int]]:
    return [(name, kind, seed) for seed in seeds for name in OTHERS for kind in HABITS]


if __name__ == "__main__":
    others = "--others" in sys.argv
    if others:
        sys.argv.remove("--others")
    wanted = other_jobs if others else jobs
    run_study(__doc__, fit, wanted, ("table", "habit", "seed"), table, seeds="200:212")
