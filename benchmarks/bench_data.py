"""Time the loading of official data sets into torch tensors, beside a short script.

    python benchmarks/bench_data.py [DATA_FOLDER]

The baseline does what a short script would: `gzip` and `numpy.frombuffer` for MNIST, `pickle.load`
and `numpy.concatenate` for CIFAR-10, with no checksum, no header check, and any pickle trusted.
Both are timed in turn in one process; the median of each is reported, and one line is appended to
results/data.jsonl.
"""

import gzip
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from naysay import datasets
from record import write_record

N_RUNS = 7
LIMITS = {"mnist": 1.0, "cifar-10": 2.0}  # seconds: what issue 3 asks for


def load_with_naysay(name: str, folder: Path) -> list[torch.Tensor]:
    dataset = datasets.load(name, data_dir=folder, download=False)
    splits = [split for split in (dataset.train, dataset.test) if split is not None]
    return [torch.from_numpy(array) for split in splits for array in (split.X, split.y)]


def load_mnist_plainly(folder: Path) -> list[torch.Tensor]:
    tensors = []
    for part in ("train", "t10k"):
        for kind, start, shape in (("images-idx3", 16, (-1, 1, 28, 28)), ("labels-idx1", 8, (-1,))):
            with gzip.open(folder / "mnist" / f"{part}-{kind}-ubyte.gz") as file:
                values = np.frombuffer(bytearray(file.read()), np.uint8, offset=start)
            tensors.append(torch.from_numpy(values.reshape(shape)))
    return tensors


def load_cifar_plainly(folder: Path) -> list[torch.Tensor]:
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    batches = []
    for name in names:
        with (folder / "cifar-10-batches-py" / name).open("rb") as file:
            batches.append(pickle.load(file, encoding="bytes"))
    tensors = []
    for part in (batches[:-1], batches[-1:]):
        X = np.concatenate([batch[b"data"] for batch in part]).reshape(-1, 3, 32, 32)
        y = np.concatenate([batch[b"labels"] for batch in part])
        tensors += [torch.from_numpy(X), torch.from_numpy(y)]
    return tensors


def time_in_turn(*loaders: Callable[[], Any]) -> list[float]:
    """Return the median seconds of each loader, after one run of each that is not counted."""
    seconds: list[list[float]] = [[] for _ in loaders]
    for run in range(N_RUNS + 1):
        for loader, taken in zip(loaders, seconds, strict=True):
            start = time.perf_counter()
            tensors = loader()
            if run:
                taken.append(time.perf_counter() - start)
            del tensors
    return [statistics.median(taken) for taken in seconds]


def main(folder: Path) -> None:
    plain = {"mnist": load_mnist_plainly, "cifar-10": load_cifar_plainly}
    results = {}
    for name, load_plainly in plain.items():
        if not datasets.is_on_disk(name, data_dir=folder):
            print(f"{name}: not in the data folder, left out")
            continue
        ours, baseline = time_in_turn(
            lambda name=name: load_with_naysay(name, folder),
            lambda load_plainly=load_plainly: load_plainly(folder),
        )
        results[name] = {
            "seconds": round(ours, 4),
            "baseline_seconds": round(baseline, 4),
            "ratio": round(ours / baseline, 3),
            "limit_seconds": LIMITS[name],
        }
        print(
            f"{name}: {ours:.3f} s checked, {baseline:.3f} s plainly, ratio {ours / baseline:.2f}, "
            f"limit {LIMITS[name]} s"
        )
    write_record("data", results, n_runs=N_RUNS, statistic="median")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else datasets.data_folder())
