"""Learn from labels drawn with a matrix of people: LeNet-5 on CIFAR-10, three labels per image.

    python benchmarks/bench_human.py [DATA_FOLDER]

The labels are drawn with the published matrix of the annotators of CLCIFAR-10, who make mistakes
and treat some classes nearly alike. With the true matrix and with one estimated from 10 anchors per
class, with and without prior matching; one trial each. LeNet-5 is far too small for these images:
the question is whether classes are lost, and how much accuracy estimating costs. True labels serve
for scoring only. Appends to results/human.jsonl.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_cifar import load
from gpu_estimation import draw_anchors
from naysay import ComplementaryClassifier, TransitionMatrix, datasets, quality
from naysay.networks import LeNet5
from naysay.observations import Observations
from naysay.training.augmentation import compose, crop, flip
from record import write_record

OPTIONS: dict[str, Any] = {
    "network": LeNet5,
    "epochs": 15,
    "patience": 15,
    "estimation_epochs": 5,  # of all answers
    "batch_size": 256,
    "lr": 3e-3,
    "weight_decay": 1e-2,
    "max_norm": 1.0,
    "augment": compose(partial(crop, padding=4), flip),
    "allow_diagonal": True,
    "device": "cpu",
    "random_state": 0,
}
SEED = 0


def main(folder: Path) -> None:
    data = load(folder)
    X, y = data["X_train"], data["y_train"]
    Q = TransitionMatrix.human("clcifar10")
    example = np.tile(np.arange(len(y)), 3)
    answers = Observations(example=example, label=Q.sample(y[example], seed=500 + SEED))
    chosen = draw_anchors(y, SEED)
    results = {}
    for name, transition in (("true Q", Q), ("estimated Q", "estimate")):
        for strength in (0.0, 0.1):
            start = time.perf_counter()
            clf = ComplementaryClassifier(
                transition=transition, classes=range(10), match_prior=strength, **OPTIONS
            )
            clf.fit(X, answers, anchors=(X[chosen], y[chosen]))
            predicted = np.asarray(clf.predict(data["X_test"])).astype(int)
            right = predicted == data["y_test"]
            found: dict[str, Any] = {
                "accuracy": round(100 * float(right.mean()), 2),
                "recalls": [
                    round(100 * float(right[data["y_test"] == k].mean()), 1) for k in range(10)
                ],
            }
            if (
                clf.transition_estimate_ is not None
                and clf.transition_estimate_.predictions is not None
            ):
                wrong = quality.find_wrong_labels(
                    clf.transition_estimate_.predictions[example], answers.label, clf.transition_
                ).indices[:1000]
                found |= {
                    "error_from_anchors": round(
                        clf.transition_estimate_.from_anchors.distance(Q), 4
                    ),
                    "error_refined": round(clf.transition_.distance(Q), 4),
                    "judges_right": round(
                        100 * (clf.transition_estimate_.predictions.argmax(axis=1) == y).mean(), 2
                    ),
                    "precision_first_1000": round(
                        100 * (answers.label[wrong] == y[example][wrong]).mean(), 1
                    ),
                }
            found["seconds"] = round(time.perf_counter() - start, 1)
            results[f"{name}, match_prior={strength:g}"] = found
            print(name, strength, found, flush=True)
    write_record("human", results, n_runs=1, n_labels=3, n_anchors=10)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
