"""Measure the accuracy of wrapped classifiers on digits with the true matrix.

python benchmarks/bench_wrapper.py                      # all classifiers
python benchmarks/bench_wrapper.py "extra trees"        # one of them
"""

import sys
import time
import warnings
from functools import partial

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from naysay import BoostingObjective, ComplementaryWrapper, TransitionMatrix
from record import write_record

SEEDS = range(100, 108)  # 0 and 1 were used for development
N_TRAINING = 1400
MATRICES = {
    "uniform": lambda seed: TransitionMatrix.uniform(10),
    "without0": lambda seed: TransitionMatrix.without_zeros(10, seed=seed),
    "with0": lambda seed: TransitionMatrix.with_zeros(10, seed=seed),
}
WRAPPED = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(C=0.1)),
    "SVM": lambda: CalibratedClassifierCV(SVC(), ensemble=False, cv=3),
    "nearest neighbours": lambda: KNeighborsClassifier(50),  # takes no weights: 5 copies each
    "extra trees": lambda: ExtraTreesClassifier(200),
    "gradient boosting": lambda: HistGradientBoostingClassifier(max_iter=30),
}


def fit_wrapped(make, Q, seed, X, labels, X_test):
    """Predict with a wrapped classifier."""
    clf = ComplementaryWrapper(make(), transition=Q, random_state=seed).fit(X, labels)
    return clf.predict(X_test), len(clf.history_)


def fit_objective(Q, seed, X, labels, X_test):
    """Predict with LightGBM and the forward loss, stopped early by a fifth of the labels."""
    import lightgbm

    mixed = TransitionMatrix(0.99 * np.asarray(Q) + 0.01 * np.eye(10), allow_diagonal=True)
    objective = BoostingObjective(mixed)
    cut = len(X) * 4 // 5
    train = lightgbm.Dataset(X[:cut], labels[:cut])
    booster = lightgbm.train(
        {"objective": objective, "num_class": 10, "learning_rate": 0.05, "num_leaves": 8}
        | {"bagging_fraction": 0.7, "bagging_freq": 1, "feature_fraction": 0.3, "lambda_l2": 1.0}
        | {"extra_trees": True}
        | {"seed": seed, "verbose": -1, "num_threads": 1},
        train,
        num_boost_round=600,
        valid_sets=[lightgbm.Dataset(X[cut:], labels[cut:], reference=train)],
        feval=lambda scores, data: ("loss", objective.loss(scores, data.get_label()), False),
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    return booster.predict(X_test).argmax(axis=1), booster.best_iteration


def measure(name, setting, fit):
    """Measure the accuracy on test examples, for each seed."""
    accuracies, seconds, rounds = [], [], []
    for seed in SEEDS:
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X, y, train_size=N_TRAINING, random_state=seed)
        Q = MATRICES[setting](seed)
        began = time.perf_counter()
        predicted, n_rounds = fit(Q, seed, X, Q.sample(y, seed=seed), X_test)
        seconds.append(time.perf_counter() - began)
        accuracies.append(float((predicted == y_test).mean()))
        rounds.append(n_rounds)
        print(name, setting, seed, f"{accuracies[-1]:.3f} {seconds[-1]:.0f} s", flush=True)
    return {
        "accuracy": float(np.mean(accuracies)),
        "standard_deviation": float(np.std(accuracies, ddof=1)),
        "accuracies": accuracies,
        "median_seconds": float(np.median(seconds)),
        "rounds": rounds,
    }


def main(*names):
    """Measure and write a record for each classifier and matrix."""
    warnings.simplefilter("ignore")
    fits = {name: partial(fit_wrapped, make) for name, make in WRAPPED.items()}
    fits["LightGBM with BoostingObjective"] = fit_objective
    for name in names or fits:
        for setting in MATRICES:
            write_record(
                "wrapper",
                measure(name, setting, fits[name]),
                classifier=name,
                setting=setting,
                data="digits",
                n_runs=len(SEEDS),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
