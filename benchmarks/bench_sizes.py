"""Fit tables of very different sizes with all defaults, from the command line.

    python benchmarks/bench_sizes.py [--only TEXT] [--seed 700]

Tables from 60 to 1,000,000 rows, 4 to 3,000 features and 2 to 200 classes. Each is written to a CSV
file and fitted by ``naysay fit``. The accuracy on test examples is compared with that of logistic
regression on true labels of all training examples and, where ten examples per class have true
labels, with that of a support vector machine trained on these alone. Appends one JSON line to
``results/sizes.jsonl``.
"""

import argparse
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from naysay import ComplementaryClassifier
from naysay.transition.matrix import PAPER_SETTINGS
from record import run_naysay, write_record

N_TEST = 2000
N_TRUE = 10  # of each class


class Size(NamedTuple):
    """A table: `setting` draws the labels, and true labels are there where Q is estimated."""

    title: str
    n: int
    n_features: int
    n_classes: int
    setting: str
    estimates: bool = False
    shares: float = 0.0  # exponent of Zipf shares; 0 is balanced


SIZES = (
    Size("iris", 60, 4, 3, "uniform"),
    Size("digits", 1500, 64, 10, "uniform"),
    Size("digits, Q estimated", 1500, 64, 10, "without0", estimates=True),
    Size("2 classes", 400, 10, 2, "uniform"),
    Size("imbalanced", 3000, 20, 8, "without0", estimates=True, shares=1.0),
    Size("3,000 features", 2000, 3000, 10, "uniform"),
    Size("3,000 features, Q estimated", 2000, 3000, 10, "without0", estimates=True),
    Size("200 classes, Q estimated", 10_000, 50, 200, "with0", estimates=True),
    Size("100,000 rows, Q estimated", 100_000, 20, 10, "without0", estimates=True),
    Size("1,000,000 rows", 1_000_000, 20, 10, "uniform"),
)


def draw(size: Size, seed: int) -> tuple[np.ndarray, ...]:
    """Draw training and test examples with true classes."""
    if size.title.startswith(("iris", "digits")):
        X, y = (load_iris if size.n_classes == 3 else load_digits)(return_X_y=True)
    else:
        n_informative = min(size.n_features, 30 if size.n_classes > 20 else 10)
        shares = np.arange(1, size.n_classes + 1) ** -size.shares
        X, y = make_classification(
            size.n + N_TEST,
            size.n_features,
            n_informative=n_informative,
            n_redundant=0,
            n_classes=size.n_classes,
            n_clusters_per_class=1,
            weights=shares / shares.sum(),
            class_sep=3.0 if size.n_classes > 20 else 1.5,
            random_state=seed,
        )
    return train_test_split(
        X.astype(np.float32), y, train_size=size.n, stratify=y, random_state=seed
    )


def measure(size: Size, seed: int, folder: Path) -> dict[str, float]:
    """Write a table, fit it from the command line, and compare accuracies."""
    X, X_test, y, y_test = draw(size, seed)
    rng = np.random.default_rng(seed)
    Q = PAPER_SETTINGS[size.setting](size.n_classes, seed)
    names = np.array([f"c{label:03}" for label in range(size.n_classes)])
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame["not"] = names[Q.sample(y, seed=rng)]
    options = ["--classes", ",".join(names), "--seed", str(seed), "--out", f"{folder}/model"]
    found: dict[str, float] = {}
    learner = make_pipeline(StandardScaler(), SVC(C=10))
    if size.estimates:
        order = rng.permutation(len(y))
        known = np.concatenate(
            [order[y[order] == label][:N_TRUE] for label in range(size.n_classes)]
        )
        frame["is"] = ""
        frame.loc[known, "is"] = names[y[known]]
        options += ["--true-label", "is"]
        found["svm_on_true_labels_given"] = learner.fit(X[known], y[known]).score(X_test, y_test)
    else:
        options += ["--transition", "uniform"]
    rows = rng.permutation(len(y))[:20_000]
    ceiling = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    found["logistic_regression_on_all_true_labels"] = ceiling.fit(X[rows], y[rows]).score(
        X_test, y_test
    )
    frame.to_csv(folder / "table.csv", index=False)
    taken = run_naysay("fit", f"{folder}/table.csv", "--label", "not", *options)
    clf = ComplementaryClassifier.load(folder / "model")
    accuracy = float((np.asarray(clf.predict(X_test)) == names[y_test]).mean())
    return {"accuracy": accuracy, **{key: round(each, 4) for key, each in found.items()}, **taken}


def main() -> None:
    """Measure all sizes, or those whose title has a text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=700)
    given = parser.parse_args()
    results = {}
    for size in SIZES:
        if given.only in size.title:
            with tempfile.TemporaryDirectory() as folder:
                results[size.title] = measure(size, given.seed, Path(folder))
            print(size.title, results[size.title], flush=True)
    sizes = {each.title: [each.n, each.n_features, each.n_classes] for each in SIZES}
    facts = {"sizes": {title: sizes[title] for title in results}, "seed": given.seed}
    write_record("sizes", results, n_runs=1, statistic="single", **facts)


if __name__ == "__main__":
    main()
