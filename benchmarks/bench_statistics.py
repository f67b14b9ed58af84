"""Measure time and memory of all statistics on a million examples of 100 classes.

    python benchmarks/bench_statistics.py

Appends one line to results/statistics.jsonl. Probabilities are float32, 0.4 GB; the limits are
30 seconds and 4 GB for everything together, data included. The accuracy is timed with an
invertible Q and with a singular one, which takes a linear programme.
"""

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from naysay import TransitionMatrix, metrics, quality
from naysay.observations import Observations
from record import write_record

N, N_CLASSES, N_ANNOTATORS = 1_000_000, 100, 50
LIMITS = {"seconds": 30.0, "peak_gb": 4.0}


def make_Q(rows: np.ndarray) -> TransitionMatrix:
    return TransitionMatrix(0.97 * rows + 0.03 * np.eye(N_CLASSES), allow_diagonal=True)


def make_probs(true: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    probs = np.empty((len(true), N_CLASSES), dtype=np.float32)
    for start in range(0, len(true), 50_000):
        part = slice(start, start + 50_000)
        scores = rng.standard_normal((len(true[part]), N_CLASSES), dtype=np.float32)
        scores[np.arange(len(scores)), true[part]] += 4
        np.exp(2 * scores, out=scores)
        probs[part] = scores / scores.sum(axis=1, keepdims=True)
    return probs


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    rng = np.random.default_rng(0)
    rows = np.asarray(TransitionMatrix.without_zeros(N_CLASSES))
    Q, twins = make_Q(rows), rows.copy()
    twins[1] = twins[0]  # two classes that answer alike
    singular = TransitionMatrix(twins, allow_diagonal=True)
    true = rng.integers(N_CLASSES, size=N)
    labels = Q.sample(true, seed=rng)
    other_labels = singular.sample(true, seed=rng)
    probs = make_probs(true, rng)
    predictions = probs.argmax(axis=1)
    accuracy = float((predictions == true).mean())
    names = np.array([f"annotator {i}" for i in range(N_ANNOTATORS)])
    answers = Observations(
        example=np.arange(N), label=labels, annotator=names[rng.integers(N_ANNOTATORS, size=N)]
    )
    start_gb = peak_gb()
    work: dict[str, Callable[[], Any]] = {
        "accuracy_without_labels": lambda: metrics.accuracy_without_labels(predictions, labels, Q),
        "accuracy_without_labels, singular Q": lambda: metrics.accuracy_without_labels(
            predictions, other_labels, singular
        ),
        "precision_without_labels": lambda: metrics.precision_without_labels(
            predictions, labels, Q
        ),
        "recall_without_labels": lambda: metrics.recall_without_labels(predictions, labels, Q),
        "find_wrong_labels": lambda: quality.find_wrong_labels(probs, labels, Q),
        "find_collapsed_classes": lambda: quality.find_collapsed_classes(probs, labels, Q),
        "annotators": lambda: quality.annotators(answers, probs, Q),
    }
    seconds, found = {}, {}
    for name, run in work.items():
        start = time.perf_counter()
        found[name] = run()
        seconds[name] = round(time.perf_counter() - start, 2)
        print(f"{name:<38}{seconds[name]:>7.2f} s", flush=True)
    np.log(probs, out=probs)  # of no further use
    np.minimum(probs, 0, out=probs)
    start = time.perf_counter()
    metrics.log_likelihood(probs, labels, Q)
    seconds["log_likelihood"] = round(time.perf_counter() - start, 2)
    print(f"{'log_likelihood':<38}{seconds['log_likelihood']:>7.2f} s")
    total, peak = round(sum(seconds.values()), 2), round(peak_gb(), 2)
    wrong = found["find_wrong_labels"]
    is_wrong = labels == true
    results = {
        "seconds": seconds,
        "total_seconds": total,
        "peak_gb": peak,
        "peak_gb_of_the_data": round(start_gb, 2),
        "limits": LIMITS,
        "true_accuracy": round(accuracy, 4),
        "estimated_accuracy": found["accuracy_without_labels"].to_dict(),
        "bounds_singular": list(found["accuracy_without_labels, singular Q"].interval),
        "wrong_labels": {
            "wrong": int(is_wrong.sum()),
            "precision_at_10000": round(wrong.precision_at(is_wrong, 10_000), 4),
            "recall_at_30000": round(wrong.recall_at(is_wrong, 30_000), 4),
        },
        "collapsed": [str(each) for each in found["find_collapsed_classes"].findings],
    }
    print(f"in all {total} s, peak {peak} GB; accuracy {accuracy:.1%}:")
    for name in ("accuracy_without_labels", "accuracy_without_labels, singular Q"):
        print(f"  {found[name]}")
    what = f"{N} examples, {N_CLASSES} classes, {N_ANNOTATORS} annotators, float32"
    write_record("statistics", results, n_runs=1, what=what)
    if total > LIMITS["seconds"] or peak > LIMITS["peak_gb"]:
        sys.exit("over the limit")


if __name__ == "__main__":
    main()
