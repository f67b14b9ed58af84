"""Compare the accuracy with the estimated Q and with the true one, on a GPU.

    python benchmarks/gpu_estimation.py mnist|cifar-10|human DATA [TRIALS]

- ``mnist`` (LeNet-5) and ``cifar-10`` (ResNet-18): uniform, without0 and with0; 10 anchors per
  class, from which both learn too, so that only Q differs.
- ``human``: three labels per image of CIFAR-10 drawn with the published matrix of annotators, who
  make mistakes; everything is estimated. Wrong labels are searched for with out-of-fold
  predictions.

DATA is a folder of the official files, or for CIFAR-10 an .npz. A new Q, labels and anchors in each
trial. True labels serve for scoring only. Appends a line per setting to
results/gpu_estimation.jsonl.
"""

import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpu_cifar import RECIPE, load
from naysay import ComplementaryClassifier, TransitionMatrix, quality
from naysay.networks import LeNet5, ResNet18
from naysay.observations import Observations
from naysay.training.augmentation import compose, crop, cutout, distort, recolour
from record import write_record

SETTINGS = {
    "uniform": lambda seed: TransitionMatrix.uniform(10),
    "without0": lambda seed: TransitionMatrix.without_zeros(10, seed=seed),
    "with0": lambda seed: TransitionMatrix.with_zeros(10, seed=seed),
}
WEAK = RECIPE["augment"]
RECIPES: dict[str, dict[str, Any]] = {
    "mnist": {
        "network": LeNet5,
        "epochs": 20,
        "batch_size": 256,
        "lr": 3e-3,
        "weight_decay": 1e-4,
        "augment": crop,
    },
    "cifar-10": {**RECIPE, "epochs": 25},
    "human": {
        **RECIPE,
        "method": "weak-to-strong",
        "network": partial(ResNet18, mirrored=True),
        "epochs": 40,
        "patience": 40,
        "estimation_epochs": 30,
        "match_prior": 0.1,  # classes with nearly equal rows would be lost
        "learn_from_anchors": 64,  # labels hardly distinguish some classes
        "augment": (WEAK, compose(WEAK, distort, recolour, partial(cutout, size=16))),
    },
}
N_ANCHORS = 10


def draw_anchors(y: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(1000 + seed)
    rows = [rng.choice(np.flatnonzero(y == k), N_ANCHORS, replace=False) for k in range(10)]
    return np.concatenate(rows)


def compare(data: dict[str, np.ndarray], Q: TransitionMatrix, seed: int, recipe: dict) -> dict:
    """Train with the true and with the estimated Q."""
    X, y = data["X_train"], data["y_train"]
    labels = Q.sample(y, seed=500 + seed)
    chosen = draw_anchors(y, seed)
    found: dict[str, Any] = {}
    for name, transition in (("true_Q", Q), ("estimated_Q", "estimate")):
        start = time.perf_counter()
        clf = ComplementaryClassifier(transition=transition, random_state=seed, **recipe)
        clf.fit(X, labels, anchors=(X[chosen], y[chosen]))
        found[f"accuracy_{name}"] = 100 * (clf.predict(data["X_test"]) == data["y_test"]).mean()
        found[f"seconds_{name}"] = time.perf_counter() - start
        if clf.transition_estimate_ is not None:
            found["error_from_anchors"] = clf.transition_estimate_.from_anchors.distance(Q)
            found["error_refined"] = clf.transition_.distance(Q)
    found["gap"] = found["accuracy_true_Q"] - found["accuracy_estimated_Q"]
    return found


def human(data: dict[str, np.ndarray], Q: TransitionMatrix, seed: int, recipe: dict) -> dict:
    """Learn from three labels per image by annotators who err, with everything estimated."""
    X, y = data["X_train"], data["y_train"]
    example = np.tile(np.arange(len(y)), 3)
    labels = Q.sample(y[example], seed=500 + seed)
    chosen = draw_anchors(y, seed)
    start = time.perf_counter()
    clf = ComplementaryClassifier(
        transition="estimate",
        allow_diagonal=True,
        classes=range(10),
        random_state=seed,
        **recipe,
    )
    clf.fit(X, Observations(example=example, label=labels), anchors=(X[chosen], y[chosen]))
    right = np.asarray(clf.predict(data["X_test"])).astype(int) == data["y_test"]
    assert clf.transition_estimate_ is not None
    predicted = clf.transition_estimate_.predictions
    assert predicted is not None
    first = quality.find_wrong_labels(predicted[example], labels, clf.transition_).indices[:1000]
    return {
        "accuracy": 100 * right.mean(),
        "least_recall": 100 * min(right[data["y_test"] == k].mean() for k in range(10)),
        "error_from_anchors": clf.transition_estimate_.from_anchors.distance(Q),
        "error_refined": clf.transition_.distance(Q),
        "judges_right": 100 * (predicted.argmax(axis=1) == y).mean(),
        "share_of_wrong_labels": 100 * (labels == y[example]).mean(),
        "precision_first_1000": 100 * (labels[first] == y[example][first]).mean(),
        "held_out_loss": min(record["held_out_loss"] for record in clf.history_),
        "seconds": time.perf_counter() - start,
    }


def main(name: str, path: Path, n_trials: int) -> None:
    data = load(path, "mnist" if name == "mnist" else "cifar-10")
    settings = SETTINGS
    if name == "human":
        settings = {"human": lambda seed: TransitionMatrix.human("clcifar10")}
    for setting, make in settings.items():
        found = []
        for seed in range(n_trials):
            run = human if name == "human" else compare
            found.append(run(data, make(seed), seed, RECIPES[name]))
            print(name, setting, seed, found[-1], flush=True)
        results = {
            name: round(float(statistics.mean(each[name] for each in found)), 4)
            for name in found[0]
        }
        write_record(
            "gpu_estimation",
            {f"{name} {setting}": results},
            n_runs=n_trials,
            n_anchors=N_ANCHORS,
            epochs=RECIPES[name]["epochs"],
        )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1)
