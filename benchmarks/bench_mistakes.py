"""Measure what mistakes among the labels cost, and how well their rate is estimated.

python benchmarks/bench_mistakes.py fits       # accuracy with and without `mistakes=`
python benchmarks/bench_mistakes.py rates      # coverage of the interval of the rate of mistakes

Data sets other than those of scikit-learn are read from the folder NAYSAY_DATA, or downloaded.
"""

import os
import sys
import warnings
from functools import cache
from itertools import product

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from record import write_record

SEEDS = range(100, 104)  # 0 to 9 were used for development
MATRICES = {
    "uniform": lambda n_classes, seed: TransitionMatrix.uniform(n_classes),
    "with0": lambda n_classes, seed: TransitionMatrix.with_zeros(
        n_classes, min(3, n_classes - 2), seed=seed
    ),
    "without0": lambda n_classes, seed: TransitionMatrix.without_zeros(
        n_classes, (0.75, 0.25) if n_classes == 3 else (0.6, 0.3, 0.1), seed=seed
    ),
}
N_TRAINING = 1500  # examples of each data set, at most


@cache
def load(name):
    """Load all examples of a data set, with features between 0 and 1 or so."""
    if name in ("iris", "digits"):
        return {"iris": load_iris, "digits": load_digits}[name](return_X_y=True)
    data = datasets.load(name, data_dir=os.environ.get("NAYSAY_DATA"))
    parts = [data.train] if data.test is None else [data.train, data.test]
    X = np.concatenate([part.X.reshape(len(part.X), -1) for part in parts]).astype(np.float32)
    return X, np.concatenate([part.y for part in parts])


def draw(name, setting, rate, seed):
    """Draw training and test examples, a matrix, and labels of which `rate` are mistakes."""
    X, y = load(name)
    if name == "iris":
        parts = X, X, y, y  # too few to split
    else:
        parts = train_test_split(X, y, train_size=min(N_TRAINING, len(X) // 2), random_state=seed)
    X, X_test, y, y_test = parts
    Q = MATRICES[setting](int(y.max()) + 1, seed)
    rng = np.random.default_rng(seed)
    labels = Q.sample(y, seed=rng).copy()
    wrong = rng.permutation(len(y))[: round(rate * len(y))]
    labels[wrong] = y[wrong]
    return X, y, labels, X_test, y_test, Q, rng


def compare_fits(name, setting):
    """Measure the accuracy of the exact loss and of the default, for some rates of mistakes."""
    found = {}
    for rate in (0, 0.007, 0.01, 0.03):
        accuracies = {0: [], 0.01: []}
        for seed in [*SEEDS, *range(104, 112)] if name == "iris" else SEEDS:
            X, _, labels, X_test, y_test, Q, _ = draw(name, setting, rate, seed)
            for allowed, values in accuracies.items():
                clf = ComplementaryClassifier(transition=Q, mistakes=allowed, random_state=seed)
                values.append(float(clf.fit(X, labels).score(X_test, y_test)))
        exact, default = accuracies.values()
        found[f"{rate:.1%}"] = {
            "exact": np.mean(exact),
            "default": np.mean(default),
            "least_exact": min(exact),
            "least_default": min(default),
            "difference": np.mean(default) - np.mean(exact),
            "standard_error": np.std(np.subtract(default, exact), ddof=1) / np.sqrt(len(exact)),
            "n": len(exact),
        }
        print(name, setting, rate, {k: round(float(v), 4) for k, v in found[f"{rate:.1%}"].items()})
    return found


def measure_rates(name, setting, rate):
    """Estimate the rate of mistakes from 10 anchors per class, and compare with the true one."""
    found = []
    for seed in SEEDS:
        X, y, labels, _, _, Q, rng = draw(name, setting, rate, seed)
        members = (np.flatnonzero(y == label) for label in range(Q.n_classes))
        anchors = np.concatenate([rng.choice(each, 10, replace=False) for each in members])
        others = np.setdiff1d(np.arange(len(y)), anchors)
        clf = ComplementaryClassifier(
            transition="estimate",
            allow_diagonal=True,
            classes=range(Q.n_classes),
            estimation_epochs=100,
            epochs=1,  # the classifier itself is not needed
            random_state=seed,
        )
        clf.fit(X[others], labels[others], anchors=(X[anchors], y[anchors]))
        mistakes = clf.transition_estimate_.mistakes
        (low, high), true = mistakes.interval, float((labels == y)[others].mean())
        found.append(
            {"true": true, "estimate": mistakes.value, "low": low, "high": high}
            | {
                "from_anchors": float(
                    np.asarray(clf.transition_estimate_.from_anchors).diagonal().mean()
                )
            }
        )
        print(name, setting, rate, seed, found[-1], low <= true <= high, flush=True)
    errors = [abs(each["estimate"] - each["true"]) for each in found]
    return {
        "fits": found,
        "mean_error": float(np.mean(errors)),
        "covered": sum(each["low"] <= each["true"] <= each["high"] for each in found),
        "mean_width": float(np.mean([each["high"] - each["low"] for each in found])),
    }


def main(what):
    """Measure and write a record."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if what == "fits":
        for name in ("iris", "digits", "satimage", "usps"):
            for setting in MATRICES:
                write_record("mistakes", compare_fits(name, setting), data=name, setting=setting)
    else:
        for name, setting, rate in product(
            ("satimage", "usps", "digits"), ("uniform", "with0"), (0.05, 0.1)
        ):
            facts = {"data": name, "setting": setting, "rate": rate}
            write_record("mistakes", measure_rates(name, setting, rate), n_runs=len(SEEDS), **facts)


if __name__ == "__main__":
    main(*sys.argv[1:])
