"""Compare two views with one: uniform labels, images shifted at random, three trials each.

    python benchmarks/bench_views.py [DATA_FOLDER]

5,000 images of MNIST with LeNet-5: ``forward`` is trained as many epochs and twice as many, which
takes as long as two views do. Then scikit-learn's digits with the default MLP, with and without
dropout. Every method is given Q. The epoch kept is that of least loss on held-out complementary
labels; true labels serve for scoring only. Five minutes of one core. Appends a line for each part
to results/views.jsonl.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import ComplementaryClassifier, TransitionMatrix, datasets
from naysay.networks import MLP, LeNet5
from naysay.training.augmentation import crop
from record import write_record

N_TRIALS = 3
UNIFORM = TransitionMatrix.uniform(10)


def compare(data: tuple[Any, ...], runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of each run, whose options are those of the classifier."""
    X, y, X_test, y_test = data
    results: dict[str, Any] = {}
    for name, options in runs.items():
        accuracies, losses, seconds = [], [], []
        for trial in range(N_TRIALS):
            patience = options["epochs"]
            clf = ComplementaryClassifier(
                transition=UNIFORM, patience=patience, random_state=trial, **options
            )
            clf.fit(X, UNIFORM.sample(y, seed=100 + trial))
            accuracies.append(round(100 * (clf.predict(X_test) == y_test).mean(), 2))
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
    return results


def compare_on_mnist(folder: Path | None) -> None:
    mnist = datasets.load("mnist", data_dir=folder, download=False)
    assert mnist.test is not None
    facts: dict[str, Any] = {"n_train": 5_000, "batch_size": 64, "lr": 2e-3, "weight_decay": 1e-2}
    options = {name: facts[name] for name in ("batch_size", "lr", "weight_decay")}
    options |= {"network": LeNet5, "augment": partial(crop, padding=2)}
    some = slice(facts["n_train"])
    results = compare(
        (mnist.train.X[some], mnist.train.y[some], mnist.test.X, mnist.test.y),
        {
            "forward": {"method": "forward", "epochs": 20, **options},
            "forward, twice the epochs": {"method": "forward", "epochs": 40, **options},
            "two-views": {"method": "two-views", "epochs": 20, **options},
        },
    )
    write_record("views", results, n_runs=N_TRIALS, setting="uniform", data="MNIST", **facts)


def compare_on_digits() -> None:
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X.reshape(-1, 1, 8, 8), y, random_state=0)
    facts = {"epochs": 60, "lr": 3e-3}
    results = compare(
        (X, y, X_test, y_test),
        {
            f"{method}, dropout {dropout:g}": {
                "method": method,
                "network": partial(MLP, dropout=dropout),
                "augment": partial(crop, padding=1),
                **facts,
            }
            for method in ("forward", "two-views")
            for dropout in (0.5, 0.0)
        },
    )
    write_record("views", results, n_runs=N_TRIALS, setting="uniform", data="digits", **facts)


if __name__ == "__main__":
    compare_on_mnist(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    compare_on_digits()
