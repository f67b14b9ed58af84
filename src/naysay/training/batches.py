"""Examples where they lie, and the batches of an epoch, in an order that follows a seed.

The inputs may lie on the device, in host memory or in a memory-mapped file: batches are picked by
index, and only a batch travels. Nothing is copied to shuffle, to hold out or to repeat.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Batch",
    "Examples",
    "batch_size_of",
    "batches",
    "derive_seed",
    "epoch_order",
    "fetch_ahead",
]

Batch = tuple[Tensor, Tensor]  # inputs and labels, on the device


@dataclass(frozen=True)
class Examples:
    """Label i belongs to input ``X[rows[i]]``, or to ``X[i]`` where there are no rows.

    ``labels`` lie on the device to train on, ``X`` and ``rows`` wherever X is. Rows beyond X are
    those of ``more``, inputs that came from elsewhere.
    """

    X: Tensor
    labels: Tensor
    rows: Tensor | None = None
    more: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        """Where to train."""
        return self.labels.device

    @property
    def on_device(self) -> bool:
        """Whether the inputs lie where to train, and need not travel."""
        return self.X.device == self.device

    def rows_of(self, index: Tensor) -> Tensor:
        """Return where the inputs of these labels are."""
        index = index.to(self.X.device)
        return index if self.rows is None else self.rows[index]

    def pick(self, rows: Tensor) -> Tensor:
        """Return the inputs in these rows, copied, where X is."""
        if self.more is None:
            return self.X.index_select(0, rows)
        beyond = rows - len(self.X)  # no choice that a GPU would have to wait for
        inputs = self.X.index_select(0, rows.clamp(max=len(self.X) - 1))
        others = self.more.index_select(0, beyond.clamp(min=0))
        return torch.where((beyond >= 0).reshape(-1, *[1] * (inputs.ndim - 1)), others, inputs)

    def batch(self, index: Tensor) -> Batch:
        """Return the inputs, where X is, and the labels of these examples."""
        return self.pick(self.rows_of(index)), self.labels[index]

    def inputs(self, most: int = 4096, numbers: int = 2**21) -> Iterator[Tensor]:
        """Yield the inputs of all labels in order, on the device, a part at a time.

        At most so many examples, and at most so many numbers: of large inputs, a few.
        """
        at_once = max(1, min(most, numbers // max(1, self.X[:1].numel())))
        for part in torch.arange(len(self)).split(at_once):
            yield self.pick(self.rows_of(part)).to(self.device)


def batch_size_of(n: int, largest: int, n_processes: int = 1) -> tuple[int, int]:
    """Return how many batches an epoch has and the size of each: all alike, at most `largest`.

    A few examples come twice in an epoch, fewer than there are batches, so that every batch has
    the same shape, which a captured step needs, and none is a single example, which batch norm
    cannot take. Processes share each batch: its size is rounded up to a multiple of their number.

    Examples
    --------
    >>> batch_size_of(65, 64)
    (2, 33)
    """
    n_batches = math.ceil(n / largest)
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

    def send(part: Tensor) -> Tensor:
        return examples.pick(part).pin_memory().to(examples.device, non_blocking=True)

    inputs = map(examples.pick, rows) if examples.on_device else fetch_ahead(send, rows)
    yield from zip(inputs, labels, strict=True)


def fetch_ahead(fetch: Callable[[Tensor], Tensor], parts: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield what is fetched for each part; the next is being fetched while one is used."""
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(fetch, parts[0])
        for part in parts[1:]:
            fetched, ahead = ahead.result(), reader.submit(fetch, part)
            yield fetched
        yield ahead.result()
