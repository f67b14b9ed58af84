"""Measure the bias of annotators' error rates, and the coverage of their intervals.

    python benchmarks/bench_error_rates.py [DATA_DIR] [weak]

Appends one line to results/error_rates.jsonl, or for weak models to results/error_rates_weak.jsonl.
In each run, annotators with true error rates of 0,
5, 30 and 100 % give 10, 30, 100 or 300 answers each, and one with 5 % gives 2,000. In the runs "of
four" there are only four annotators with 300 answers each, one with each rate.

The simulated class probabilities are certain, calibrated and right in 80 % of cases, the same with
another temperature ("too sure": ½ and ¼; "too unsure": 2), or calibrated and right in 90 %, where
all other classes are equally likely. The real ones are predictions for half of a table, at most
3,000 examples, by models that learned from the other half: four classifiers from true labels, and
a network, for 150 epochs without early stopping, and the default learner from complementary labels.
The mean confidence and the accuracy of each model are in the record.

Weak models are networks trained for 150 epochs on few complementary labels, and naive Bayes and
nearest neighbours that learned from four examples of each class. Of two annotators without others,
one errs in 60 and one in 80 % of cases. The method was developed with weak models of the seeds 1
and 2, and with answers drawn from the seeds 0 and 1.

`mean` is that of the rates that are stated, and `known` is their share: those with an interval over
more than half of 0 to 1 are unknown. `covered` is the share of all intervals that contain the rate,
and `covered_known` that of the intervals of known rates.
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
TWO_BAD = [(0.6, 300), (0.8, 300)]
WEAK = (
    ("pendigits", "uniform", 1_000),
    ("pendigits", "uniform", 2_000),
    ("satimage", "uniform", 400),
    ("letter", "uniform", 3_000),
    ("letter", "without0", 3_000),
    ("usps", "uniform", 1_500),
    ("usps", "without0", 1_500),
    ("waveform1", "uniform", 100),
)
WEAK_SEEDS, N_WEAK_RUNS = (91_000, 91_001), 2
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
        is_known = each.error_rate is not None
        figures = [each.error_rate if is_known else np.nan, is_inside, high - low, is_known]
        found.setdefault(each.name, []).append(figures)


def summarise(found: Figures) -> dict[str, dict[str, float | None]]:
    results = {}
    for name, figures in found.items():
        if not name.startswith("2000"):
            rates, inside, widths, known = np.array(figures, dtype=float).T
            every = {
                "mean": rates[known == 1],
                "covered": inside,
                "covered_known": inside[known == 1],
                "width": widths,
                "known": known,
            }
            results[name] = {
                key: round(float(values.mean()), 3) if len(values) else None
                for key, values in every.items()
            }
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


def read(
    name: str, n: int, rng: np.random.Generator, folder: Path
) -> tuple[np.ndarray, np.ndarray, int]:
    """Read a table in random order, scaled by its first n examples."""
    data = datasets.load(name, data_dir=folder, download=False)
    X, y = np.asarray(data.train.X), np.asarray(data.train.y)
    order = rng.permutation(len(y))
    X = X.reshape(len(X), -1)[order].astype(np.float32)
    n = min(n, len(y) // 2)
    return (X - X[:n].mean(axis=0)) / (X[:n].std(axis=0) + 1e-6), y[order], len(data.classes)


def fit_models(name: str, habit: str, folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Fit models to half of a table, and predict the other half."""
    rng = np.random.default_rng(FIRST_SEED)
    X, y, n_classes = read(name, 3000, rng, folder)
    n = min(3000, len(y) // 2)
    few = n // 4
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


def fit_weak_models(
    name: str, habit: str, n: int, seed: int, folder: Path
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Fit models to few examples of a table, and predict others."""
    rng = np.random.default_rng(seed)
    X, y, n_classes = read(name, n, rng, folder)
    new, few = slice(n, n + 3000), 4 * n_classes
    for model, clf in {
        "naive Bayes": GaussianNB(var_smoothing=1e-3),
        "3 nearest neighbours": KNeighborsClassifier(3),
    }.items():
        clf.fit(X[:few], y[:few])
        probs = np.zeros((len(y[new]), n_classes))
        probs[:, clf.classes_.astype(int)] = clf.predict_proba(X[new])
        yield model, y[new], probs
    Q = np.asarray(make_habit(habit, n_classes, seed))
    Q = TransitionMatrix(0.95 * Q + 0.05 * np.eye(n_classes), allow_diagonal=True)
    clf = ComplementaryClassifier(
        transition=Q,
        classes=range(n_classes),
        random_state=seed,
        learner="network",
        epochs=150,
        validation_fraction=0.0,
    )
    clf.fit(X[:n], Q.sample(y[:n], seed=rng))
    yield "network", y[new], clf.predict_proba(X[new])


def evaluate_weak(
    name: str, habit: str, n: int, seed: int, folder: Path
) -> Iterator[tuple[str, tuple[float, float, Figures]]]:
    for model, true, scores in fit_weak_models(name, habit, n, seed, folder):
        probs = scores / scores.sum(axis=1, keepdims=True)
        accuracy = round(float((probs.argmax(axis=1) == true).mean()), 3)
        confidence = round(float(probs.max(axis=1).mean()), 3)
        for kind, group in (("", MANY), (" of four", FOUR), (" of two", TWO_BAD)):
            found: Figures = {}
            for run in range(seed, seed + N_WEAK_RUNS):
                rng = np.random.default_rng([run, seed])
                sizes = [min(size, len(true)) for _, size in group]
                about = [rng.choice(len(true), size, replace=False) for size in sizes]
                Q = make_habit(habit, probs.shape[1], run)
                estimate(true, probs, np.concatenate(about), Q, group, rng, found)
            found = {f"{each}{kind}": figures for each, figures in found.items()}
            key = f"{name}, {n}, {habit}, {model}, seed {seed}{kind}"
            print(key, accuracy, summarise(found), flush=True)
            yield key, (accuracy, confidence, found)


def study_weak(folder: Path) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    bands: dict[str, Figures] = {"all": {}}
    for seed in WEAK_SEEDS:
        for name, habit, n in WEAK:
            for key, (accuracy, confidence, found) in evaluate_weak(name, habit, n, seed, folder):
                results[key] = {"accuracy": accuracy, "confidence": confidence, **summarise(found)}
                band = next(each for each in (40, 55, 70, 100) if accuracy * 100 <= each)
                for each, figures in found.items():
                    for place in ("all", f"accuracy up to {band} %"):
                        bands.setdefault(place, {}).setdefault(each, []).extend(figures)
    for place, found in bands.items():
        results[place] = summarise(found)
        print(place, results[place], flush=True)
    write_record("error_rates_weak", results, n_runs=N_WEAK_RUNS, seeds=list(WEAK_SEEDS))


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
                    figure: round(float(np.mean(values)), 3)
                    for figure in ("mean", "covered", "covered_known", "width", "known")
                    if (values := [case[figure] for case in cases if case[figure] is not None])
                }
    write_record("error_rates", results, n_runs=N_RUNS, n_real_runs=N_REAL_RUNS)


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "weak"]
    study = study_weak if "weak" in sys.argv[1:] else main
    study(Path(given[0]) if given else datasets.data_folder())
