"""Measure the bias of annotators' error rates, and the coverage of their intervals.

    python benchmarks/bench_error_rates.py [DATA_DIR]

Appends one line to results/error_rates.jsonl. In each run, annotators with true error rates of 0,
5, 30 and 100 % give 10, 30, 100 or 300 answers each, and one with 5 % gives 2,000. In the runs "of
four" there are only four annotators with 300 answers each, one with each rate.

The simulated class probabilities are certain, calibrated and right in 80 % of cases, the same with
another temperature ("too sure": ½ and ¼; "too unsure": 2), or calibrated and right in 90 %, where
all other classes are equally likely. The real ones are predictions for half of a table, at most
3,000 examples, by models that learned from the other half: four classifiers from true labels, and
a network, for 150 epochs without early stopping, and the default learner from complementary labels.
The mean confidence and the accuracy of each model are in the record.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from naysay import ComplementaryClassifier, NaysayWarning, TransitionMatrix, datasets
from naysay.observations import Observations
from naysay.quality import annotators
from record import write_record

N_RUNS, N_REAL_RUNS, FIRST_SEED, N_CLASSES = 24, 8, 84_000, 10
RATES, NUMBERS = (0.0, 0.05, 0.3, 1.0), (10, 30, 100, 300)
SHARPNESS = 2.47  # noise of 1 at this distance: 80 % of the largest probabilities are right
HABITS = ("uniform", "without0")
REAL = (
    ("pendigits", "uniform"),
    ("satimage", "without0"),
    ("letter", "without0"),
    ("waveform1", "uniform"),
)
MANY = [(rate, n) for rate in RATES for n in NUMBERS] + [(0.05, 2_000)]
FOUR = [(rate, 300) for rate in RATES]
Predict = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
Figures = dict[str, list[list[float]]]


def make_habit(name: str, n_classes: int, seed: int) -> TransitionMatrix:
    if name == "uniform":
        return TransitionMatrix.uniform(n_classes)
    shares = (0.6, 0.3, 0.1) if n_classes > 3 else (0.7, 0.3)
    return TransitionMatrix.without_zeros(n_classes, shares, seed=seed)


def predict(rng: np.random.Generator, n: int, power: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes, and compute P(Y | x) to this power where x is a noisy look at each class."""
    true = rng.integers(N_CLASSES, size=n)
    seen = rng.normal(size=(n, N_CLASSES))
    seen[np.arange(n), true] += SHARPNESS
    powers = np.exp(power * SHARPNESS * (seen - seen.max(axis=1, keepdims=True)))
    return true, powers / powers.sum(axis=1, keepdims=True)


def predict_alike(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes, and P(Y | x) where one class is likely, and the others are equally likely."""
    true, sure = rng.integers(N_CLASSES, size=n), rng.uniform(0.8, 1, size=n)
    others = (true + rng.integers(1, N_CLASSES, size=n)) % N_CLASSES
    predicted = np.where(rng.random(n) < sure, true, others)
    probs = np.repeat((1 - sure)[:, None] / (N_CLASSES - 1), N_CLASSES, axis=1)
    probs[np.arange(n), predicted] = sure
    return true, probs


def predict_certainly(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    true = rng.integers(N_CLASSES, size=n)
    return true, np.eye(N_CLASSES)[true]


SIMULATED: dict[str, Predict] = {
    "certain": predict_certainly,
    "80 % accurate": predict,
    "80 % accurate, too unsure": partial(predict, power=0.5),
    "80 % accurate, too sure (1/2)": partial(predict, power=2),
    "80 % accurate, too sure (1/4)": partial(predict, power=4),
    "90 % accurate, others alike": predict_alike,
}


def estimate(
    true: np.ndarray,
    probs: np.ndarray,
    example: np.ndarray,
    Q: TransitionMatrix,
    group: list[tuple[float, int]],
    rng: np.random.Generator,
    found: Figures,
) -> None:
    """Draw the answers of a group about these examples, and estimate their error rates."""
    names = [f"{n} answers, {rate}" for rate, n in group]
    rates, sizes = np.array(group).T
    is_wrong = rng.random(len(example)) < np.repeat(rates, sizes.astype(int))
    labels = np.where(is_wrong, true[example], Q.sample(true[example], seed=rng))
    answers = Observations(
        example=example,
        label=labels,
        annotator=np.repeat(names, sizes.astype(int)),
        n_examples=len(probs),
    )
    for each in annotators(answers, probs, Q):
        low, high = each.interval
        rate = float(each.name.split()[-1])
        is_inside = low - 1e-6 <= rate <= high + 1e-6
        figures = [each.error_rate, is_inside, high - low]
        found.setdefault(each.name, []).append(figures)


def summarise(found: Figures) -> dict[str, dict[str, float]]:
    results = {}
    for name, figures in found.items():
        if not name.startswith("2000"):
            mean, inside, width = np.mean(figures, axis=0).round(3).tolist()
            results[name] = {"mean": mean, "covered": inside, "width": width}
    return results


def simulate(habit: str, model: str) -> Iterator[tuple[str, Any]]:
    for kind, group in (("", MANY), (" of four", FOUR)):
        found: Figures = {}
        for seed in range(FIRST_SEED, FIRST_SEED + N_RUNS):
            rng = np.random.default_rng(seed)
            n = sum(size for _, size in group)
            true, probs = SIMULATED[model](rng, n)
            Q = make_habit(habit, N_CLASSES, seed)
            estimate(true, probs, np.arange(n), Q, group, rng, found)
        for name, figures in summarise(found).items():
            yield f"{habit}, {model}, {name}{kind}", figures


def fit_models(name: str, habit: str, folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Fit models to half of a table, and predict the other half."""
    data = datasets.load(name, data_dir=folder, download=False)
    rng = np.random.default_rng(FIRST_SEED)
    X, y = np.asarray(data.train.X), np.asarray(data.train.y)
    order = rng.permutation(len(y))
    X, y, n = X.reshape(len(X), -1)[order].astype(np.float32), y[order], min(3000, len(y) // 2)
    X = (X - X[:n].mean(axis=0)) / (X[:n].std(axis=0) + 1e-6)
    n_classes, few = len(data.classes), n // 4
    models = {
        "naive Bayes": (GaussianNB(var_smoothing=1e-3), n),
        "random forest": (RandomForestClassifier(50, random_state=0), n),
        "3 nearest neighbours": (KNeighborsClassifier(3), few),
        "multilayer perceptron": (MLPClassifier(alpha=0, max_iter=150, random_state=0), few),
    }
    for model, (clf, size) in models.items():
        clf.fit(X[:size], y[:size])
        probs = np.zeros((n, n_classes))
        probs[:, clf.classes_.astype(int)] = clf.predict_proba(X[n : 2 * n])
        yield model, y[n : 2 * n], probs
    Q = np.asarray(make_habit(habit, n_classes, FIRST_SEED))
    Q = TransitionMatrix(0.95 * Q + 0.05 * np.eye(n_classes), allow_diagonal=True)
    labels = Q.sample(y[:n], seed=rng)
    options: dict[str, dict[str, Any]] = {
        "network": {"learner": "network", "epochs": 150, "validation_fraction": 0.0},
        "default": {},
    }
    for model, chosen in options.items():
        clf = ComplementaryClassifier(
            transition=Q, classes=range(n_classes), random_state=0, **chosen
        )
        clf.fit(X[:n], labels)
        yield model, y[n : 2 * n], clf.predict_proba(X[n : 2 * n])


def evaluate_real(habit: str, name: str, folder: Path) -> Iterator[tuple[str, Any]]:
    for model, true, scores in fit_models(name, habit, folder):
        probs = scores / scores.sum(axis=1, keepdims=True)
        accuracy = round(float((probs.argmax(axis=1) == true).mean()), 3)
        confidence = round(float(probs.max(axis=1).mean()), 3)
        for kind, group in (("", MANY), (" of four", FOUR)):
            found: Figures = {}
            for seed in range(FIRST_SEED, FIRST_SEED + N_REAL_RUNS):
                rng = np.random.default_rng(seed)
                Q = make_habit(habit, probs.shape[1], seed)
                sizes = [min(size, len(true)) for _, size in group]
                about = [rng.choice(len(true), size, replace=False) for size in sizes]
                those = [(rate, size) for (rate, _), size in zip(group, sizes, strict=True)]
                estimate(true, probs, np.concatenate(about), Q, those, rng, found)
            key = f"{habit}, {name}, {model}{kind}"
            yield key, {"accuracy": accuracy, "confidence": confidence, **summarise(found)}


def run(task: tuple[str, str, str, Path]) -> dict[str, Any]:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)
    warnings.filterwarnings("ignore", module="sklearn")
    kind, habit, case, folder = task
    found = simulate(habit, case) if kind == "simulated" else evaluate_real(habit, case, folder)
    return dict(found)


def main(folder: Path) -> None:
    tasks = [("simulated", habit, model, folder) for model in SIMULATED for habit in HABITS]
    tasks += [("real", habit, name, folder) for name, habit in REAL]
    results: dict[str, Any] = {}
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(run, tasks):
            results |= found
            for case, figures in found.items():
                print(case, figures, flush=True)
    for name in [f"{n} answers, {rate}" for rate, n in MANY[:-1]]:
        for kind in ("", " of four"):
            cases = [
                found[name]
                for case, found in results.items()
                if name in found and case.endswith(" of four") == bool(kind)
            ]
            if cases:
                results[f"all real, {name}{kind}"] = {
                    figure: round(float(np.mean([case[figure] for case in cases])), 3)
                    for figure in ("mean", "covered", "width")
                }
    write_record("error_rates", results, n_runs=N_RUNS, n_real_runs=N_REAL_RUNS)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
