"""Two views against one: 5,000 images of MNIST, uniform labels, LeNet-5, three trials.

    python benchmarks/bench_views.py [DATA_FOLDER]

Every method is told Q and sees images moved by up to 2 pixels; ``forward`` is trained as many
epochs and twice as many, which takes as long as two views do. The epoch kept is that of least loss
on held-out complementary labels; true labels score at the end. Three to five minutes of one core. Appends
to results/views.jsonl.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from naysay.augmentation import crop
from naysay.networks import LeNet5
from record import write_record

N_TRIALS = 3
N_TRAIN = 5_000
OPTIONS: dict[str, Any] = {"batch_size": 64, "lr": 2e-3, "weight_decay": 1e-2}
RUNS = {
    "forward": ("forward", 20),
    "forward, twice the epochs": ("forward", 40),
    "two-views": ("two-views", 20),
}


def main(folder: Path | None) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    X, y = mnist.train.X[:N_TRAIN], mnist.train.y[:N_TRAIN]
    Q = TransitionMatrix.uniform(10)
    results: dict[str, Any] = {}
    for name, (method, epochs) in RUNS.items():
        accuracies, losses, seconds = [], [], []
        for trial in range(N_TRIALS):
            clf = ComplementaryClassifier(
                method=method,
                transition=Q,
                network=LeNet5,
                augment=partial(crop, padding=2),
                epochs=epochs,
                patience=epochs,
                random_state=trial,
                **OPTIONS,
            )
            clf.fit(X, Q.sample(y, seed=100 + trial))
            accuracies.append(round(100 * clf.score(mnist.test.X, mnist.test.y), 2))
            losses.append(min(record["held_out_loss"] for record in clf.history_))
            seconds.append(sum(record["seconds"] for record in clf.history_))
            print(f"{name:26} {trial} {accuracies[-1]:6.2f} {seconds[-1]:.0f} s", flush=True)
        results[name] = {
            "accuracies": accuracies,
            "accuracy_mean": round(statistics.mean(accuracies), 2),
            "accuracy_sd": round(statistics.stdev(accuracies), 2),
            "held_out_loss_mean": round(statistics.mean(losses), 4),
            "seconds_mean": round(statistics.mean(seconds), 1),
        }
        print(name, results[name], flush=True)
    write_record("views", results, n_runs=N_TRIALS, n_train=N_TRAIN, setting="uniform", **OPTIONS)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
