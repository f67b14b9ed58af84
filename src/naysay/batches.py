"""Examples where they lie, and the batches of an epoch, in an order that follows a seed.

The inputs may lie on the device, in host memory or in a memory-mapped file: batches are picked by
index, and only a batch travels. Nothing is copied to shuffle, to hold out or to repeat.
"""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = ["Batch", "Examples", "batch_size_of", "batches", "derive_seed", "epoch_order"]

Batch = tuple[Tensor, Tensor]  # inputs and labels, on the device


@dataclass(frozen=True)
class Examples:
    """Label i belongs to input ``X[rows[i]]``, or to ``X[i]`` where there are no rows.

    ``labels`` lie on the device to train on, ``X`` and ``rows`` wherever X is.
    """

    X: Tensor
    labels: Tensor
    rows: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        """Where to train."""
        return self.labels.device

    def rows_of(self, index: Tensor) -> Tensor:
        """Return where the inputs of these labels are."""
        index = index.to(self.X.device)
        return index if self.rows is None else self.rows[index]

    def inputs(self, part_size: int = 4096) -> Iterator[Tensor]:
        """Yield the inputs of all labels in order, a part at a time, on the device."""
        for part in torch.arange(len(self)).split(part_size):
            yield self.X[self.rows_of(part)].to(self.device)


def batch_size_of(n: int, largest: int, n_processes: int = 1) -> tuple[int, int]:
    """Return how many batches an epoch has and the size of each: all alike, at most `largest`.

    A few examples come twice in an epoch, fewer than there are batches, so that every batch has
    the same shape, which a captured step needs, and none is a single example, which batch norm
    cannot take. Sizes are a multiple of the number of processes, which share each batch.

    Examples
    --------
    >>> batch_size_of(65, 64)
    (2, 33)
    """
    n_batches = math.ceil(n / largest)
    if largest > 1:
        n_batches = max(1, min(n_batches, n // 2))
    return n_batches, math.ceil(n / n_batches / n_processes) * n_processes


def derive_seed(*numbers: int) -> int:
    """Return a seed that depends on all the numbers and is far from those of other numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def epoch_order(n: int, total: int, seed: int, epoch: int) -> Tensor:
    """Return which examples an epoch visits in which order: all n, then some of them again.

    A function of seed and epoch alone, so training can be resumed at any epoch, repeated on any
    device and run for many models at once.

    Examples
    --------
    >>> epoch_order(3, 4, seed=0, epoch=0).bincount().max().item()
    2
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, epoch))
    order = torch.randperm(n, generator=generator)
    return order.repeat(math.ceil(total / n))[:total]


def batches(examples: Examples, order: Tensor, size: int) -> Iterator[Batch]:
    """Yield the batches of an epoch on the device; the next is fetched ahead if it must travel."""
    labels = examples.labels[order.to(examples.device)].split(size)
    rows = examples.rows_of(order).split(size)
    X, device = examples.X, examples.device
    if X.device == device:
        for part, part_labels in zip(rows, labels, strict=True):
            yield X.index_select(0, part), part_labels
        return

    def fetch(part: Tensor) -> Tensor:
        return X.index_select(0, part).pin_memory().to(device, non_blocking=True)

    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(fetch, rows[0])
        for number, part_labels in enumerate(labels):
            inputs = ahead.result()
            if number + 1 < len(rows):
                ahead = reader.submit(fetch, rows[number + 1])
            yield inputs, part_labels
