"""Time many small networks trained as one program, and one after another.

    python benchmarks/bench_ensemble.py [--data-dir FOLDER] [--threads 2]
    python benchmarks/bench_ensemble.py --device cuda [--data-dir FOLDER] [--share 0.1]

On a CPU: 300 trainings of a 16-3-10 network (20 trials x 15 settings, a matrix for each trial,
batches of 100, held-out labels), two epochs of them. On a GPU: the same for 5,000
steps, and LeNet-5 for 60,000 steps of batch 128 in 5 trials, in bfloat16 and compiled in a first
training of one epoch, which is not counted; `--share` does a part of the steps.
A few trainings alone are timed in the same run, in turn, for two epochs each. Data are pendigits
and MNIST from the folder, or else random of their shapes. Appends one line to
results/ensemble.jsonl.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from naysay import TransitionMatrix, datasets
from naysay.ensemble import Member, best_of, fit_many
from naysay.losses import ForwardCrossEntropy
from naysay.networks import MLP, LeNet5
from naysay.training import Examples, Options, adam, fit, seeded
from record import write_record

N_RUNS = 5
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
DECAYS = (1e-5, 1e-4, 1e-3)


def find_data(name: str, folder: Path | None, shape: tuple[int, ...], n: int) -> tuple[Any, Any]:
    """Return n inputs and true classes, from which complementary labels are drawn."""
    if folder is not None:
        train = datasets.load(name, data_dir=folder, download=False).train
        return train.X[:n], train.y[:n]
    rng = np.random.default_rng(0)
    true = rng.integers(10, size=n)
    centres = rng.normal(size=(10, *shape))
    return (centres[true] + rng.normal(size=(n, *shape))).astype(np.float32), true


def make_members(
    make_network: Callable[[], nn.Module],
    X: Tensor,
    true: Any,
    *,
    n_trials: int,
    settings: list[tuple[float, float]],
    n_held_out: int,
    **options: Any,
) -> Iterator[Member]:
    """Yield trials x settings; a trial has its own matrix, labels, split and seed."""
    for trial in range(n_trials):
        Q = TransitionMatrix.without_zeros(10, seed=trial)
        labels = torch.from_numpy(np.asarray(Q.sample(true, seed=trial))).to(X.device)
        rows = torch.from_numpy(np.random.default_rng(trial).permutation(len(labels))).to(X.device)
        parts = rows[n_held_out:], rows[:n_held_out]
        examples, held_out = (Examples(X, labels[part], part) for part in parts)
        for lr, weight_decay in settings:
            with seeded(trial, X.device):
                network = make_network()
            network.standardise(X[:5000])
            yield Member(
                network=network.to(X.device),
                examples=examples,
                loss=ForwardCrossEntropy(Q),
                options=Options(
                    lr=lr,
                    weight_decay=weight_decay,
                    patience=10**6,
                    seed=trial,
                    optimiser=adam,
                    **options,
                ),
                held_out=held_out,
            )


def fit_alone(member: Member) -> list[dict[str, float]]:
    return fit(
        member.network, member.examples, member.loss, member.options, held_out=member.held_out
    )


def time_both(
    make: Callable[[int], list[Member]], epochs: int, epochs_alone: int, device: str, n_runs: int
) -> dict[str, Any]:
    """Time all at once and a few alone, in turn; the ratio is of the shortest epochs of each."""
    together, epochs_together, epochs_of_one = [], [], []
    members: list[Member] = []
    histories: list[list[dict[str, float]]] = []
    for _ in range(n_runs):
        for member in make(epochs_alone)[:3]:
            epochs_of_one += [record["seconds"] for record in fit_alone(member)]
        members = make(epochs)
        start = time.perf_counter()
        histories = fit_many(members)
        if device == "cuda":
            torch.cuda.synchronize()
        together.append(time.perf_counter() - start)
        epochs_together += [record["seconds"] for record in histories[0]]
    chosen = best_of(histories, [member.options.seed for member in members])
    n_steps = -(-len(members[0].examples) // members[0].options.batch_size)
    one, every = min(epochs_of_one), min(epochs_together)
    return {
        "n_trainings": len(members),
        "n_runs": n_runs,
        "steps": n_steps * epochs,
        "seconds": round(min(together), 3),
        "microseconds_per_step_of_all": round(every / n_steps * 1e6, 1),
        "microseconds_per_step_of_one_alone": round(one / n_steps * 1e6, 1),
        "times_faster_than_one_after_another": round(one * len(members) / every, 1),
        "settings_chosen": len(set(chosen.values())),
    }


def mlp_row(device: str, folder: Path | None, share: float) -> dict[str, Any]:
    X, true = find_data("pendigits", folder, (16,), 6600)
    inputs = torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)).to(device)
    grid = [(lr, decay) for lr in RATES for decay in DECAYS]

    def make(epochs: int) -> list[Member]:
        return list(
            make_members(
                partial(MLP, (16,), 10, widths=(3,), dropout=0),
                inputs,
                true,
                n_trials=20,
                settings=grid,
                n_held_out=600,
                epochs=epochs,
                batch_size=100,
            )
        )

    epochs = 2 if device == "cpu" else max(1, round(84 * share))  # 60 steps each
    return time_both(make, epochs, 2, device, N_RUNS)


def lenet_row(device: str, folder: Path | None, share: float) -> dict[str, Any]:
    X, true = find_data("mnist", folder, (1, 28, 28), 60_000)
    inputs = torch.from_numpy(np.ascontiguousarray(X)).to(device)

    def make(epochs: int) -> list[Member]:
        return list(
            make_members(
                partial(LeNet5, (1, 28, 28), 10),
                inputs,
                true,
                n_trials=5,
                settings=[(1e-3, 1e-4)],
                n_held_out=6000,
                epochs=epochs,
                batch_size=128,
                bfloat16=device == "cuda",
                compile=device == "cuda",
            )
        )

    start = time.perf_counter()
    fit_many(make(1))
    first = time.perf_counter() - start
    times = time_both(make, max(1, round(143 * share)), 2, device, 1)  # 422 steps each
    return {**times, "seconds_of_first_epoch_with_compilation": round(first, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--share", type=float, default=1.0, help="of the steps, on a GPU")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    arguments = (given.device, given.data_dir, given.share)
    results = {"300 networks 16-3-10": mlp_row(*arguments)}
    if given.device == "cuda":
        results["5 LeNet-5"] = lenet_row(*arguments)
    for name, figures in results.items():
        print(f"{name}: {figures}")
    write_record(
        "ensemble",
        results,
        statistic="min",
        device=given.device,
        data="random of the same shape" if given.data_dir is None else "pendigits and MNIST",
        share_of_steps=given.share,
        threads=torch.get_num_threads(),
    )


if __name__ == "__main__":
    main()
