"""Compare the default classifier with true labels alone, and what it states with the truth.

    python benchmarks/study_default.py RECORDS --data FOLDER [--part 0/12] [--seeds 300:308]
    python benchmarks/study_default.py RECORDS --summary

Every fit has all defaults. With 10 true labels per class the matrix is estimated, and the accuracy
on test examples is compared with that of an SVM, a multi-layer perceptron and random trees, which
learn from the same true labels and from nothing else. Without true labels the matrix is known. One
line of JSON per fit; fits that are on record are not repeated. Seeds below 300 were used while the
learner was developed.

``--others`` fits five other tables, from 2 to 26 classes, with labels that are uniform or
concentrate on one or two classes (skewed). Its seeds 900 to 912 were used for development. With
``--summary``, four models are compared: their mean accuracies and, in brackets, how
many fits are more than 1 point below the best of the other three.
"""

import platform
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from naysay import ComplementaryClassifier, TransitionMatrix, __version__, datasets
from naysay.transition.matrix import PAPER_SETTINGS
from record import run_study

TABLES = ("digits", "usps", "pendigits", "satimage")
SETTINGS = ("uniform", "without0", "with0", "skewed")
OTHERS = ("wine", "breast cancer", "letter", "waveform1", "drive")
PROVIDED = {
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
}
N_EXAMPLES = 1500
ANCHORS = 10


def load(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Load a table with its true classes."""
    if name in PROVIDED:
        X, y = PROVIDED[name](return_X_y=True)
    else:
        data = datasets.load(name, data_dir=folder)
        parts = [each for each in (data.train, data.test) if each is not None]
        X = np.concatenate([np.asarray(each.X).reshape(len(each.X), -1) for each in parts])
        y = np.concatenate([each.y for each in parts])
    return X.astype(np.float32), y.astype(np.int64)


def draw_matrix(setting: str, n_classes: int, seed: int) -> TransitionMatrix:
    """Draw the matrix of the labels."""
    if setting != "skewed":
        return PAPER_SETTINGS[setting](n_classes, seed)
    off = ~np.eye(n_classes, dtype=bool)
    values = np.zeros((n_classes, n_classes))
    shares = np.random.default_rng(seed).dirichlet(np.full(n_classes - 1, 0.4), n_classes)
    values[off] = (0.98 * shares + 0.02 / (n_classes - 1)).ravel()
    return TransitionMatrix(values)


def anchors_alone(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> dict:
    """Compute the test accuracy of classifiers that learn from true labels alone."""
    scale = float(X.std()) or 1.0
    models = {
        "svm": make_pipeline(StandardScaler(), SVC(C=10)),
        "mlp": make_pipeline(StandardScaler(), MLPClassifier(max_iter=500, random_state=0)),
        "trees": ExtraTreesClassifier(300, random_state=0),
    }
    found = {name: float(model.fit(X, y).score(X_test, y_test)) for name, model in models.items()}
    common = SVC(C=10).fit(X / scale, y)  # one scale for all features, as pixels have
    found["svm"] = max(found["svm"], float(common.score(X_test / scale, y_test)))
    return found


def fit(
    name: str,
    setting: str,
    seed: int,
    balanced: bool,
    n_anchors: int,
    folder: Path,
    learner: str = "auto",
) -> dict:
    """Draw labels for one table, fit it, and compare what is stated with the truth."""
    rng = np.random.default_rng([seed, len(name), SETTINGS.index(setting), balanced, n_anchors])
    X, y = load(name, folder)
    n_classes = int(y.max()) + 1
    if not balanced:
        shares = rng.permutation(1 / np.arange(1, n_classes + 1) ** 0.7)
        chosen = rng.random(len(y)) < (shares / shares.max())[y]
        X, y = X[chosen], y[chosen]
    n = 60 if name == "iris" else min(N_EXAMPLES, int(0.75 * len(y)))
    X, X_test, y, y_test = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
    Q = draw_matrix(setting, n_classes, seed)
    comp_labels = Q.sample(y, seed=rng)
    known = np.full(n, -1)
    for label in range(n_classes):
        members = rng.permutation(np.flatnonzero(y == label))[:n_anchors]
        known[members] = label
    start = time.perf_counter()
    clf = ComplementaryClassifier(
        transition="estimate" if n_anchors else Q,
        classes=list(range(n_classes)),
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, comp_labels, true_labels=known if n_anchors else None)
        seconds = time.perf_counter() - start
        few = known >= 0
        alone = anchors_alone(X[few], y[few], X_test, y_test) if n_anchors else {}
    values = np.asarray(Q)
    record = {
        "table": name,
        "setting": setting,
        "seed": seed,
        "balanced": balanced,
        "anchors_per_class": n_anchors,
        "learner": clf.learner,
        "n": n,
        "classes": n_classes,
        "accuracy": float((clf.predict(X_test) == y_test).mean()),
        "anchors_alone": alone,
        "candidates": list(clf.candidates_),
        "seconds": round(seconds, 1),
        "machine": platform.machine(),
        "versions": {
            "naysay": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }
    if n_anchors:
        known_Q, stated, off = (
            clf.transition_estimate_.uncertainty,
            clf.accuracy_,
            ~np.eye(n_classes, dtype=bool),
        )
        inside = (known_Q.lower - 1e-3 <= values) & (values <= known_Q.upper + 1e-3)
        record |= {
            "stated": None if stated is None else stated.value,
            "interval": None if stated is None else list(stated.interval),
            "entries_covered": float(inside[off].mean()),
            "row_error": float(np.abs(np.asarray(clf.transition_) - values).sum(axis=1).mean()),
        }
    return record


def work(seeds: range) -> list[tuple[str, str, int, bool, int]]:
    """List the fits: with true labels on four tables, and with a known matrix."""
    jobs = [
        (name, setting, seed, balanced, ANCHORS)
        for seed in seeds
        for name in TABLES
        for setting in SETTINGS[:3]
        for balanced in (True, False)
    ]
    known = [(name, setting) for name in ("digits", "usps") for setting in SETTINGS[:3]]
    known += [("iris", "uniform")]
    return jobs + [(name, setting, seed, True, 0) for seed in seeds for name, setting in known]


def other_work(seeds: range) -> list[tuple[str, str, int, bool, int]]:
    """List the fits of `--others`."""
    return [
        (name, setting, seed, balanced, ANCHORS)
        for seed in seeds
        for name in OTHERS
        for setting in ("uniform", "skewed")
        for balanced in (True, False)
    ]


def table(records: list[dict]) -> str:
    """Write what the records show as Markdown tables."""
    frame = pd.DataFrame(records)
    lines = [
        "| table | setting | balanced | anchors | fits | accuracy ± sd | best of anchors alone |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    alone = [max(each.values(), default=np.nan) for each in frame["anchors_alone"]]
    frame["alone"], frame["behind"] = alone, np.array(alone) - frame["accuracy"]
    for keys, group in frame.groupby(["table", "setting", "balanced", "anchors_per_class"]):
        best = group["alone"].mean()
        lines.append(
            f"| {' | '.join(map(str, keys))} | {len(group)} "
            f"| {100 * group['accuracy'].mean():.1f} ± {100 * group['accuracy'].std():.1f} "
            f"| {'' if np.isnan(best) else f'{100 * best:.1f}'} |"
        )
    few = frame[frame["anchors_per_class"] > 0]
    if len(few):
        low, high = (few["interval"].str[i] for i in (0, 1))
        inside = (low <= few["accuracy"]) & (few["accuracy"] <= high)
        lines += [
            "",
            f"More than 1 point below the best of anchors alone: {(few['behind'] > 0.01).sum()} of "
            f"{len(few)} fits (largest distance {100 * few['behind'].max():.1f} points).",
            f"Accuracy covered in {inside.mean():.1%}, bias "
            f"{100 * (few['stated'] - few['accuracy']).mean():+.1f} points, median width "
            f"{100 * (high - low).median():.1f} points; entries of Q covered "
            f"{few['entries_covered'].mean():.1%}. Median of {frame['seconds'].median():.0f} s.",
        ]
    return "\n".join(lines)


def table_of_others(records: list[dict]) -> str:
    """Compare the default with each model of true labels alone, by table, as Markdown."""
    lines = ["| table | fits | default | SVM | MLP | trees |", "|---" * 6 + "|"]
    for name, group in pd.DataFrame(records).groupby("table"):
        found = pd.DataFrame([*group["anchors_alone"]]).to_numpy()
        found = np.column_stack([group["accuracy"], found])
        others = [np.delete(found, column, axis=1).max(axis=1) for column in range(4)]
        behind = (np.transpose(others) - found > 0.01).sum(axis=0)
        means = 100 * found.mean(axis=0)
        cells = [f"{mean:.1f} ({n})" for mean, n in zip(means, behind, strict=True)]
        lines.append(f"| {name} | {len(group)} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    keys = ("table", "setting", "seed", "balanced", "anchors_per_class")
    others = "--others" in sys.argv
    if others:
        sys.argv.remove("--others")
    parts = (other_work, table_of_others) if others else (work, table)
    run_study(__doc__, fit, parts[0], keys, parts[1], seeds="300:308")
