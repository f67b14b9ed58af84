"""Compare remedies for classes that are lost in training: clipping, prior matching, restarts.

    python benchmarks/bench_cures.py [DATA_FOLDER]

LeNet-5 on 6,000 examples of MNIST with labels "with0" (three labels per class), SGD with momentum,
8 epochs, batch 128, at a learning rate that is too high and at a moderate one. Examples, matrix and
labels are drawn anew for each seed. True labels of the test set serve for scoring only; a class is
lost if fewer than 5 % of its test examples are predicted correctly. Appends a line per learning
rate to results/cures.jsonl.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naysay import ComplementaryClassifier, TransitionMatrix, datasets, training
from naysay.networks import LeNet5
from record import write_record

N_EXAMPLES, N_SEEDS = 6000, 6
DEAD = 0.05  # recall below which a class counts as dead
OPTIONS: dict[str, Any] = {
    "network": LeNet5,
    "epochs": 8,
    "batch_size": 128,
    "weight_decay": 5e-4,
    "optimiser": training.sgd,
    "device": "cpu",
}
CURES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "match_prior=0.1": {"match_prior": 0.1},
    "match_prior=1": {"match_prior": 1.0},
    "max_norm=1": {"max_norm": 1.0},
    "max_norm=1, match_prior=0.1": {"max_norm": 1.0, "match_prior": 0.1},
    "restarts=2": {"restarts": 2},
}
RATES = {0.1: list(CURES), 0.02: ["nothing", "match_prior=0.1", "match_prior=1"]}


def main(folder: Path) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X, X_test = (split.X.astype("float32") / 255 for split in (mnist.train, mnist.test))
    for lr, names in RATES.items():
        results = {}
        for name in names:
            runs = []
            for seed in range(N_SEEDS):
                rng = np.random.default_rng(seed)
                chosen = rng.permutation(len(X))[:N_EXAMPLES]
                Q = TransitionMatrix.with_zeros(10, seed=seed)
                clf = ComplementaryClassifier(transition=Q, lr=lr, random_state=seed)
                clf.set_params(**OPTIONS, **CURES[name])
                clf.fit(X[chosen], Q.sample(mnist.train.y[chosen], seed=rng))
                runs.append(_recalls(clf.predict(X_test), mnist.test.y))
            results[name] = _summary(runs)
            print(lr, name, results[name], flush=True)
        write_record(
            "cures", {f"lr {lr}": results}, n_runs=N_SEEDS, n_examples=N_EXAMPLES, epochs=8
        )


def _recalls(predicted: Any, true: Any) -> tuple[float, list[float]]:
    found = [float((predicted[true == label] == label).mean()) for label in range(10)]
    return 100 * float((predicted == true).mean()), found


def _summary(runs: list[tuple[float, list[float]]]) -> dict[str, Any]:
    accuracies = [accuracy for accuracy, _ in runs]
    dead = [sum(recall < DEAD for recall in recalls) for _, recalls in runs]
    return {
        "accuracy_mean": round(statistics.mean(accuracies), 1),
        "accuracy_sd": round(statistics.stdev(accuracies), 1),
        "accuracies": [round(each, 1) for each in accuracies],
        "dead_classes": dead,
        "trainings_with_a_dead_class": sum(each > 0 for each in dead),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
