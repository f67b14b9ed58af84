"""Measure the error of the estimated Q by the number of anchors per class and of examples.

    python benchmarks/bench_estimation.py digits
    python benchmarks/bench_estimation.py mnist [DATA_FOLDER [N_EXAMPLES [N_TRIALS]]]
    python benchmarks/bench_estimation.py coverage
    python benchmarks/bench_estimation.py large [N_LOST]

Errors are the mean L1 distance of rows (0 to 2), of the paper's estimate ("anchors") and of the
matrix that the classifier refines it to ("refined"). Matrix, labels and anchors are drawn anew in
each trial. True labels serve for drawing, as anchors, and for scoring, nowhere else. `digits`
varies the number of anchors and of examples; `mnist` has 10 anchors per class, an MLP with 256
units and 10 epochs, and compares accuracy with that of the true matrix. `coverage` counts how often
the interval of an entry contains the true one, on simulated predictions. `large` times all of
`naysay.estimation` on a million examples of 100 classes, N_LOST of which are predicted too rarely.
Appends a line per setting to results/estimation.jsonl.
"""

import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, NaysayWarning, TransitionMatrix, datasets, estimation
from naysay.networks import MLP
from naysay.transition.matrix import PAPER_SETTINGS
from record import write_record

N_TRIALS = 3
ANCHORS = (1, 2, 5, 10, 50)
SIZES = (300,)  # besides all
OPTIONS = {"epochs": 40, "batch_size": 128, "lr": 3e-3}  # of the digits
FULL = 1347  # three quarters of the digits


def estimate(
    X: Any, y: Any, Q: TransitionMatrix, n_anchors: int, seed: int, **options: Any
) -> tuple[ComplementaryClassifier, dict[str, float]]:
    rng = np.random.default_rng(seed)
    comp_labels = Q.sample(y, seed=rng)
    anchors = np.concatenate(
        [rng.choice(np.flatnonzero(y == label), n_anchors, replace=False) for label in range(10)]
    )
    clf = ComplementaryClassifier(transition="estimate", random_state=seed, **options)
    clf.fit(X, comp_labels, anchors=(X[anchors], y[anchors]))
    assert clf.transition_estimate_ is not None
    return clf, {
        "anchors": clf.transition_estimate_.from_anchors.distance(Q),
        "refined": clf.transition_.distance(Q),
    }


def mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {
        name: round(statistics.mean(run[name] for run in runs), 4 if "acc" in name else 3)
        for name in runs[0]
    }


def digits() -> None:
    images, labels = load_digits(return_X_y=True)
    cases = [(n, FULL) for n in ANCHORS] + [(10, size) for size in SIZES]
    for setting, make_transition in PAPER_SETTINGS.items():
        results: dict[str, Any] = {}
        for n_anchors, size in cases:
            runs = []
            for seed in range(N_TRIALS):
                X, X_test, y, y_test = train_test_split(
                    images, labels, train_size=size, stratify=labels, random_state=seed
                )
                clf, run = estimate(X, y, make_transition(10, seed), n_anchors, seed, **OPTIONS)
                runs.append(run | {"accuracy": (clf.predict(X_test) == y_test).mean()})
            results[f"{n_anchors} anchors, {size} examples"] = mean(runs)
            print(setting, n_anchors, size, mean(runs), flush=True)
        write_record("estimation", {f"digits {setting}": results}, n_runs=N_TRIALS, **OPTIONS)


def mnist(folder: Path, n_examples: int, n_trials: int) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X_test = mnist.test.X.astype("float32") / 255
    options: dict[str, Any] = {
        "network": partial(MLP, widths=(256,)),
        "epochs": 10,
        "batch_size": 128,
    }
    for setting, make_transition in PAPER_SETTINGS.items():
        runs = []
        for seed in range(n_trials):
            chosen = np.random.default_rng(seed).permutation(len(mnist.train.y))[:n_examples]
            X, y = mnist.train.X[chosen].astype("float32") / 255, mnist.train.y[chosen]
            Q = make_transition(10, seed)
            clf, run = estimate(X, y, Q, 10, seed, **options)
            rng = np.random.default_rng(seed)
            with_true_Q = ComplementaryClassifier(transition=Q, random_state=seed, **options)
            with_true_Q.fit(X, Q.sample(y, seed=rng))
            run["accuracy"] = (clf.predict(X_test) == mnist.test.y).mean()
            run["accuracy_true_Q"] = (with_true_Q.predict(X_test) == mnist.test.y).mean()
            runs.append(run)
        print(setting, mean(runs), flush=True)
        size = "" if n_examples == len(mnist.train.y) else f"{n_examples} "
        write_record(
            "estimation",
            {f"mnist {size}{setting}": mean(runs)},
            n_runs=n_trials,
            n_examples=n_examples,
            anchors_per_class=10,
        )


def coverage(n_simulated: int = 30, n: int = 3000, strength: float = 100.0) -> None:
    """Refine a first matrix on simulated predictions, and count what the intervals hold.

    Rows of the first matrix are drawn around the true ones, like shares of `strength` answers.
    """
    off_diagonal = ~np.eye(10, dtype=bool)
    for setting, make_transition in PAPER_SETTINGS.items():
        hits, contains, widths, errors, n_kept = [], [], [], [], 0
        for seed in range(n_simulated):
            rng = np.random.default_rng(seed)
            Q = np.asarray(make_transition(10, seed))
            first = np.stack([rng.dirichlet(strength * row + 1e-9) for row in Q])
            np.fill_diagonal(first, 0)
            first /= first.sum(axis=1, keepdims=True)
            scores = 2 * rng.normal(size=(n, 10))
            probs = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
            y = (probs.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)  # as sure as they say
            labels = TransitionMatrix(Q).sample(y, seed=rng)
            found = np.asarray(estimation.refine(probs, labels, first, seed=seed))
            known = estimation.uncertainty(probs, labels, found, seed=seed)
            inside = (known.lower <= Q) & (known.upper >= Q)
            hits.append(inside[off_diagonal].mean())
            contains.append(((known.lower <= found) & (found <= known.upper)).mean())
            widths.append((known.upper - known.lower)[off_diagonal].mean())
            errors.append([np.abs(each - Q).sum(axis=1).mean() for each in (first, found)])
            n_kept += bool((found == first).all())
        results = {
            "coverage": round(statistics.mean(hits), 4),
            "holds_the_estimate": statistics.mean(contains),
            "mean_width": round(statistics.mean(widths), 4),
            "error_of_the_first": round(statistics.mean(error[0] for error in errors), 3),
            "error_of_the_estimate": round(statistics.mean(error[1] for error in errors), 3),
            "first_matrix_kept": n_kept,
        }
        print(setting, results, flush=True)
        key = f"coverage {setting}, first from {strength:g}"
        write_record("estimation", {key: results}, n_runs=n_simulated, n=n)


def coverage_of_networks(n_trials: int = 10) -> None:
    """Measure the coverage of the intervals with miscalibrated predictions of networks."""
    images, labels = load_digits(return_X_y=True)
    off_diagonal = ~np.eye(10, dtype=bool)
    for setting, make_transition in PAPER_SETTINGS.items():
        hits, errors = [], []
        for seed in range(n_trials):
            Q = make_transition(10, seed)
            X, _, y, _ = train_test_split(images, labels, random_state=seed, stratify=labels)
            clf, error = estimate(X, y, Q, 10, seed, **OPTIONS)
            assert clf.transition_estimate_ is not None
            known = clf.transition_estimate_.uncertainty
            assert known is not None
            inside = (known.lower <= np.asarray(Q)) & (np.asarray(Q) <= known.upper)
            hits.append(inside[off_diagonal].mean())
            errors.append(error["refined"])
        results = {
            "coverage": round(statistics.mean(hits), 4),
            "error_of_the_estimate": round(statistics.mean(errors), 3),
        }
        print(setting, results, flush=True)
        write_record(
            "estimation", {f"coverage of networks, digits {setting}": results}, n_runs=n_trials
        )


def large(n: int = 1_000_000, n_classes: int = 100, n_lost: int = 0) -> None:
    """Time everything; with classes that the probabilities have lost, what then takes longer."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    probs = rng.random((n, n_classes), dtype=np.float32)
    probs[np.arange(n), y] += 20
    probs[:, :n_lost] /= 20
    probs /= probs.sum(axis=1, keepdims=True)
    Q = TransitionMatrix.with_zeros(n_classes, 10, seed=0)
    comp_labels = Q.sample(y)
    first = 0.7 * np.asarray(Q) + 0.3 * np.asarray(TransitionMatrix.uniform(n_classes))
    work: dict[str, Callable[[], Any]] = {
        "refine": lambda: estimation.refine(probs, comp_labels, first),
        "uncertainty": lambda: estimation.uncertainty(probs, comp_labels, Q),
        "class_prior": lambda: estimation.class_prior(comp_labels, Q),
        "from_anchors": lambda: estimation.from_anchors(probs, y, n_classes, allow_diagonal=True),
        "choose_anchors": lambda: estimation.choose_anchors(probs, y),
        "calibrate": lambda: estimation.calibrate(np.log(probs + 1e-12), y),
        "from_structure": lambda: estimation.from_structure(_uniform_labels(probs)),
    }
    if n_lost:
        work = {name: work[name] for name in ("refine", "uncertainty")}
    seconds, cpu_seconds, found = {}, {}, {}
    for name, run in work.items():
        start, start_cpu = time.perf_counter(), time.process_time()
        found[name] = run()
        seconds[name] = round(time.perf_counter() - start, 2)
        cpu_seconds[name] = round(time.process_time() - start_cpu, 2)
        print(f"{name:<16}{seconds[name]:>7.2f} s {cpu_seconds[name]:>7.2f} s  {peak_gb():.2f} GB")
    results = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "total_seconds": round(sum(seconds.values()), 2),
        "total_cpu_seconds": round(sum(cpu_seconds.values()), 2),
        "peak_gb": peak_gb(),
        "error_before": round(float(np.abs(first - np.asarray(Q)).sum(axis=1).mean()), 3),
        "error_after": round(found["refine"].distance(Q), 3),
    }
    print(results)
    case = f"{n} x {n_classes}"
    name = f"with {n_lost} classes lost, {case}" if n_lost else f"all {case}"
    write_record("estimation", {name: results}, n_runs=1, threads=1)


def _uniform_labels(probs: Any) -> Any:
    """Turn P(Y | x) into P(Ȳ | x) of uniform labels, in place: the last use of them."""
    np.subtract(1, probs, out=probs)
    probs /= probs.shape[1] - 1
    return probs


def peak_gb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", NaysayWarning)  # few anchors are the subject here
    if sys.argv[1:2] == ["mnist"]:
        given = sys.argv[2:]
        mnist(
            Path(given[0]) if given else datasets.data_folder(),
            int(given[1]) if len(given) > 1 else 60_000,
            int(given[2]) if len(given) > 2 else N_TRIALS,
        )
    elif sys.argv[1:2] == ["large"]:
        large(n_lost=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    elif sys.argv[1:2] == ["coverage"]:
        for strength in (20.0, 100.0):
            coverage(strength=strength)
        coverage_of_networks()
    else:
        digits()
