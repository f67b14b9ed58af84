"""Measure the gain of a second thread in small steps, on idle cores and on busy ones.

    python benchmarks/bench_threads.py

Fully connected networks trained by `naysay.training.fit`, with one thread and with two, in turns.
On idle cores the least time of a step is recorded, on busy ones the median.
Appends one line to results/threads.jsonl.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable

import torch

from naysay import TransitionMatrix, training
from naysay.losses import ForwardCrossEntropy
from naysay.networks import MLP
from naysay.training import loop
from record import write_record

SIZES = ((8, 256, 64), (64, 256, 64), (64, 256, 256), (100, 500, 128), (256, 500, 256))
N_STEPS, N_ROUNDS = 20, 5


def step_microseconds(n_inputs: int, width: int, batch_size: int, n_threads: int) -> float:
    """Return the time of a step, in the mean of a short training."""
    torch.set_num_threads(n_threads)
    network = MLP((n_inputs,), 10, widths=(width,))
    inputs = torch.randn(batch_size * N_STEPS, n_inputs)
    examples = training.Examples(inputs, torch.randint(10, (len(inputs),)))
    options = training.Options(
        epochs=2, batch_size=batch_size, lr=1e-3, weight_decay=0, patience=9, seed=0
    )
    start = time.perf_counter()
    training.fit(network, examples, ForwardCrossEntropy(TransitionMatrix.uniform(10)), options)
    return (time.perf_counter() - start) / (2 * N_STEPS) * 1e6


def measure(choose: Callable[[list[float]], float]) -> dict[str, dict[str, int]]:
    results = {}
    for size in SIZES:
        taken: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(N_ROUNDS):
            for n_threads, each in taken.items():
                each.append(step_microseconds(*size, n_threads))
        weights = sum(p.numel() for p in MLP((size[0],), 10, widths=(size[1],)).parameters())
        results[f"{weights * size[2]:.1e} products"] = {
            f"{n_threads} threads": round(choose(each)) for n_threads, each in taken.items()
        }
    return results


def keep_busy() -> None:
    while True:
        sum(range(100_000))


def main() -> None:
    loop._WORTH_MORE = 0  # never choose a single thread
    results = {"at rest": measure(min)}
    others = [multiprocessing.Process(target=keep_busy, daemon=True) for _ in range(2)]
    for other in others:
        other.start()
    results["busy"] = measure(statistics.median)
    for other in others:
        other.terminate()
    for state, sizes in results.items():
        for size, figures in sizes.items():
            print(f"{state:8} {size}: {figures}")
    write_record("threads", results, n_runs=N_ROUNDS, unit="microseconds per step")


if __name__ == "__main__":
    main()
