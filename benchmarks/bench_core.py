"""Measure speed and memory of the core, each with a baseline in the same run.

    python benchmarks/bench_core.py

Appends one line to results/core.jsonl: label sampling against a loop of `numpy.random.choice`,
the forward loss against torch's cross-entropy, the import, and the memory of 100,000 classes.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from naysay import TransitionMatrix
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from record import write_record

N_RUNS = 5
N_TURNS = 600  # of a call that takes microseconds; a tenth of a longer one

MEMORY = """
import resource, sys, torch
from naysay import TransitionMatrix, functional
Q = eval(sys.argv[1], {"TransitionMatrix": TransitionMatrix})
logits = torch.randn(256, Q.n_classes, requires_grad=True)
labels = torch.randint(0, Q.n_classes, (256,))
functional.forward_cross_entropy(logits, labels, Q).backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
"""


def seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """Return the median time of one call, over a few runs of several calls, after one warm-up."""
    work()
    taken = []
    for _ in range(N_RUNS):
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        taken.append((time.perf_counter() - start) / repeats)
    return statistics.median(taken)


def times_in_turn(*works: Callable[[], Any], n_turns: int, repeats: int) -> list[list[float]]:
    """Return the times of one call of each, from the shortest, over runs that take turns.

    Those of short calls are shorter than the time for which a system lets a program run, so that on
    a machine that others use too most of them are not interrupted.
    """
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(1 + n_turns):
        for work, own in zip(works, taken, strict=True):
            start = time.perf_counter()
            for _ in range(repeats):
                work()
            own.append((time.perf_counter() - start) / repeats)
    return [sorted(own[1:]) for own in taken]  # the first is the warm-up


def sampling() -> dict[str, float]:
    Q = TransitionMatrix.without_zeros(10)
    labels = np.random.default_rng(0).integers(10, size=10_000_000)
    values, rng = np.asarray(Q), np.random.default_rng(0)
    loop = seconds(lambda: [rng.choice(10, p=values[label]) for label in labels[:10_000]])
    ours = seconds(lambda: Q.sample(labels, seed=1))
    return {
        "seconds_10_million": round(ours, 3),
        "labels_per_second": round(1e7 / ours),
        "times_faster_than_choice_loop": round(loop * 1000 / ours, 1),
    }


def loss(n: int, n_classes: int, Q: TransitionMatrix) -> dict[str, float]:
    logits = torch.randn(n, n_classes, requires_grad=True)
    labels = torch.randint(0, n_classes, (n,))
    is_short = n * n_classes < 10_000
    n_turns = N_TURNS if is_short else N_TURNS // 10
    plain, ours = times_in_turn(
        lambda: torch.nn.functional.cross_entropy(logits, labels).backward(),
        lambda: F.forward_cross_entropy(logits, labels, Q).backward(),
        n_turns=n_turns,
        repeats=3 if is_short else 5,
    )
    return {
        "microseconds": round(statistics.median(ours) * 1e6, 1),
        "cross_entropy_microseconds": round(statistics.median(plain) * 1e6, 1),
        "ratio": round(statistics.median(ours) / statistics.median(plain), 2),
        # of the fastest tenth: what others do on the machine only ever adds
        "ratio_undisturbed": round(ours[n_turns // 10] / plain[n_turns // 10], 2),
    }


def memory(expression: str) -> float:
    command = [sys.executable, "-c", MEMORY, expression]
    return round(float(subprocess.run(command, capture_output=True, check=True).stdout), 2)


def import_seconds() -> float:
    def fresh(code: str) -> float:
        return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return round(fresh("import naysay") - fresh("pass"), 3)


def main() -> None:
    results: dict[str, Any] = {"sampling": sampling(), "import_seconds": import_seconds()}
    for n, n_classes in ((256, 10), (1024, 1000)):
        for name, Q in (
            ("uniform", TransitionMatrix.uniform(n_classes)),
            ("dense", TransitionMatrix.without_zeros(n_classes)),
        ):
            work = f"forward_cross_entropy {name} ({n}, {n_classes})"
            results[work] = loss(n, n_classes, Q)
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # threads wait for one another, and others' work delays that
            results[f"{work}, one thread"] = loss(n, n_classes, Q)
            torch.set_num_threads(threads)
    results["peak_gb_100000_classes"] = {
        "uniform": memory("TransitionMatrix.uniform(100_000)"),
        "5 labels per row": memory("TransitionMatrix.with_zeros(100_000, 5)"),
    }
    for name, figures in results.items():
        print(f"{name}: {figures}")
    write_record(
        "core", results, n_runs=N_RUNS, turns_of_losses=N_TURNS, threads=torch.get_num_threads()
    )


if __name__ == "__main__":
    main()
