"""Compare learning from a whole log of suggestions and from its rejections alone.

    python benchmarks/bench_logs.py                # all
    python benchmarks/bench_logs.py "model, 2%"    # some

1,400 digits with one suggestion each, seeds that were not tuned on, accuracy on the other digits.
The suggestions are those of a model trained on 50 other digits, of a rule (a tree trained on them,
with a random class for 3 of 10 digits), or random, some classes four times as often as others. Up
to 5 % of the answers are mistakes, and the classifier is given this rate. "rejections" are the
rejected suggestions alone as complementary labels, with Q in proportion to the suggestions. The
bounds of the accuracy are checked on logs about 100 random test digits, with the predictions of the
classifier. Appends a line for each suggester and rate to results/logs.jsonl.
"""

import statistics
import sys
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from naysay import ComplementaryClassifier, NaysayWarning, TransitionMatrix, metrics
from naysay.observations import from_log
from record import write_record

SEEDS = range(510, 518)  # 400 to 407 and 500 to 507 were looked at in development
RATES = (0.0, 0.02, 0.05)
SUGGESTERS = ("model", "rule", "random")
N_LOGGED, N_KNOWN, N_DRAWN = 1400, 50, 50
POPULARITY = np.geomspace(1, 4, 10) / np.geomspace(1, 4, 10).sum()


def suggest(kind: str, X: Any, known: Any, y: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """Suggest a class for every digit; the classes of the `known` ones may be used."""
    random = rng.choice(10, size=len(X), p=POPULARITY)
    if kind == "random":
        return random
    if kind == "model":
        return LogisticRegression(max_iter=1000).fit(X[known] / 16, y[known]).predict(X / 16)
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X[known], y[known])
    return np.where(rng.random(len(X)) < 0.3, random, tree.predict(X))


def covered(
    predicted: Any, suggested: Any, y: Any, rate: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Return how often the bounds from 100 answers hold, and their mean width."""
    truth = float((predicted == y).mean())
    hits, widths = [], []
    for _ in range(N_DRAWN):
        at = rng.choice(len(y), size=100)
        said = (suggested[at] == y[at]) ^ (rng.random(100) < rate)
        found = metrics.accuracy_from_log(
            predicted[at], suggested[at], said, n_classes=10, mistakes=rate
        )
        low, high = found.interval
        hits.append(low <= truth <= high)
        widths.append(high - low)
    return statistics.mean(hits), statistics.mean(widths)


def rejections_alone(X: Any, suggested: Any, said: Any, seed: int) -> ComplementaryClassifier:
    shares = np.bincount(suggested, minlength=10) + 1.0
    Q = np.where(np.eye(10, dtype=bool), 0, shares)
    clf = ComplementaryClassifier(
        transition=TransitionMatrix(Q / Q.sum(axis=1, keepdims=True)), random_state=seed
    )
    return clf.fit(X[~said], suggested[~said])


def run(kind: str, rate: float, seed: int) -> dict[str, float]:
    """Fit one log, and return accuracies and the coverage of the bounds."""
    X, y = (np.asarray(part) for part in load_digits(return_X_y=True))
    rng = np.random.default_rng(seed)
    logged, known, test = np.split(rng.permutation(len(X)), [N_LOGGED, N_LOGGED + N_KNOWN])
    suggested = suggest(kind, X, known, y, rng)
    said = (suggested[logged] == y[logged]) ^ (rng.random(N_LOGGED) < rate)
    log = from_log(suggested[logged], said, mistakes=rate)
    clf = ComplementaryClassifier(classes=range(10), random_state=seed).fit(X[logged], log)
    predicted = clf.predict(X[test])
    coverage, width = covered(predicted, suggested[test], y[test], rate, rng)
    own_coverage, own_width = covered(predicted, predicted, y[test], rate, rng)
    found = {
        "suggester": float((suggested[logged] == y[logged]).mean()),
        "accuracy": float((predicted == y[test]).mean()),
        "coverage": coverage,
        "width": width,
        "own_coverage": own_coverage,
        "own_width": own_width,
    }
    if not rate:
        other = rejections_alone(X[logged], suggested[logged], said, seed)
        found["rejections"] = float((other.predict(X[test]) == y[test]).mean())
    return found


def main(*names: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)
    logs = {f"{kind}, {rate:.0%}": (kind, rate) for kind in SUGGESTERS for rate in RATES}
    for name in names or logs:
        runs = [run(*logs[name], seed) for seed in SEEDS]
        figures: dict[str, Any] = {
            each: round(100 * statistics.mean(found[each] for found in runs), 1) for each in runs[0]
        }
        figures["least"] = round(100 * min(each["accuracy"] for each in runs), 1)
        figures["each"] = [round(100 * each["accuracy"], 1) for each in runs]
        print(name, figures, flush=True)
        write_record(
            "logs", {name: figures}, n_runs=len(SEEDS), statistic="mean", seeds=list(SEEDS)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
