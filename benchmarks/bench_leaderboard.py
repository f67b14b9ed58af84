"""All methods beside each other on one machine: accuracy, and seconds of one core.

    python benchmarks/bench_leaderboard.py [DATA_FOLDER]

6,000 images of MNIST, MLP 784-256-10, batches of 128, 12 epochs; three trials, each with its own
images, matrix and labels. Both the learning rate (of two) and the epoch are those with the least
loss of held-out complementary labels. Every method is told Q; those that cannot use it ignore it.
Seconds are processor time of one training. Appends a line per setting to results/leaderboard.jsonl.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bench_methods import SETTINGS
from naysay import ComplementaryClassifier, datasets
from naysay.methods import METHODS
from record import write_record

SEEDS = (20, 21, 22)  # nothing was developed on them
RATES = (1e-3, 3e-3)
OPTIONS: dict[str, Any] = {"epochs": 12, "batch_size": 128, "weight_decay": 1e-4}
N_IMAGES = 6_000


def make_network(input_shape: tuple[int, ...], n_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, n_classes))


def run(mnist: datasets.Dataset, setting: str, method: str, seed: int) -> dict[str, float]:
    """Return the accuracy of the learning rate that held-out complementary labels choose."""
    assert mnist.test is not None
    X, X_test = (split.X.astype("float32") / 255 for split in (mnist.train, mnist.test))
    rows = np.random.default_rng(seed).permutation(len(X))[:N_IMAGES]
    Q = SETTINGS[setting](seed)
    labels = Q.sample(mnist.train.y[rows], seed=100 + seed)
    found = []
    for rate in RATES:
        clf = ComplementaryClassifier(
            method=method, transition=Q, network=make_network, lr=rate, random_state=seed, **OPTIONS
        )
        start = time.process_time()
        clf.fit(X[rows], labels)
        seconds = time.process_time() - start
        loss = min(epoch["held_out_loss"] for epoch in clf.history_)
        accuracy = 100 * (clf.predict(X_test) == mnist.test.y).mean()
        found.append({"loss": loss, "accuracy": accuracy, "seconds": seconds, "lr": rate})
    return min(found, key=lambda each: each["loss"])


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    for setting in SETTINGS:
        results = {}
        for method in METHODS:
            trials = [run(mnist, setting, method, seed) for seed in SEEDS]
            accuracies = [each["accuracy"] for each in trials]
            results[method] = {
                "accuracy_mean": round(statistics.mean(accuracies), 2),
                "accuracy_sd": round(statistics.stdev(accuracies), 2),
                "seconds_mean": round(statistics.mean(each["seconds"] for each in trials), 2),
                "lr": [each["lr"] for each in trials],
            }
            print(setting, method, results[method], flush=True)
        options = {"seeds": SEEDS, "rates": RATES, "n_images": N_IMAGES, **OPTIONS}
        write_record("leaderboard", {setting: results}, **options)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
