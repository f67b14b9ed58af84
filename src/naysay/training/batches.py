"""Training examples, and the batches of an epoch in an order that a seed determines.

The inputs may be stored on the device, in host memory or in a memory-mapped file. Batches are
selected by index and only a batch is copied to the device; shuffling, holding out and repeating
examples copy nothing.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from naysay._base.mapped import new_array, trim_pages

T = TypeVar("T")
R = TypeVar("R")

_BLOCKS = 64  # of a window
_AT_ONCE = 256  # batches whose rows are looked up together


@dataclass(frozen=True)
class Examples:
    """Inputs and their labels: label i belongs to ``X[rows[i]]``, or to ``X[i]`` without rows.

    ``labels`` must be on the device that trains; ``X``, ``rows`` and ``more`` may be on another
    one. Rows from ``len(X)`` on refer to ``more``, further inputs that are stored elsewhere.
    """

    X: Tensor
    labels: Tensor
    rows: Tensor | None = None
    more: Tensor | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        """Device that trains."""
        return self.labels.device

    @property
    def on_device(self) -> bool:
        """Whether the inputs are on the device that trains, so that batches need no copy."""
        return self.X.device == self.device

    def rows_of(self, index: Tensor) -> Tensor:
        """Look up the rows of the inputs of these examples."""
        index = index.to(self.X.device)
        return index if self.rows is None else self.rows[index]

    def pick(self, rows: Tensor) -> Tensor:
        """Copy the inputs in these rows, on the device of X."""
        trim_pages()
        if self.more is None:
            return self.X.index_select(0, rows)
        beyond = rows - len(self.X)  # both are read, because a choice would synchronise a GPU
        inputs = self.X.index_select(0, rows.clamp(max=len(self.X) - 1))
        others = self.more.index_select(0, beyond.clamp(min=0))
        return torch.where((beyond >= 0).reshape(-1, *[1] * (inputs.ndim - 1)), others, inputs)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Copy the inputs, on the device of X, and the labels of these examples."""
        return self.pick(self.rows_of(index)), self.labels[index]

    def inputs(self, most: int = 4096, numbers: int = 2**21) -> Iterator[Tensor]:
        """Yield the inputs of all examples in order, on the device, in parts.

        A part has at most `most` examples and at most `numbers` values, or one example.
        """
        at_once = max(1, min(most, numbers // max(1, self.X[:1].numel())))
        for start in range(0, max(1, len(self)), at_once):
            part = torch.arange(start, min(start + at_once, len(self)))
            yield self.pick(self.rows_of(part)).to(self.device)


def batch_size_of(n: int, largest: int, n_processes: int = 1) -> tuple[int, int]:
    """Compute the number of batches of an epoch and their common size, at most `largest`.

    All batches have the same size, because a captured step needs one shape and batch norm cannot
    train on a last batch of a single example. To fill them, a few examples, fewer than there are
    batches, are visited twice in an epoch. Processes share each batch, so its size is rounded up
    to a multiple of their number.

    Examples
    --------
    >>> batch_size_of(65, 64)
    (2, 33)
    """
    n_batches = math.ceil(n / largest)
    return n_batches, math.ceil(n / n_batches / n_processes) * n_processes


def derive_seed(*numbers: int) -> int:
    """Derive a seed from several numbers, so that different numbers give unrelated seeds."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))


def epoch_order(n: int, total: int, seed: int, epoch: int, window: int | None = None) -> Tensor:
    """Draw the order in which an epoch visits the examples: all n, then some of them again.

    With a `window`, blocks of consecutive examples are put in random order, and only the examples
    of a window, which has 64 blocks, are mixed: so few parts of a large file are used at a time.

    The order depends on seed and epoch alone, so that training can be resumed at any epoch,
    repeated on any device and run for many models at once.
    """
    generator = torch.Generator().manual_seed(derive_seed(seed, epoch))
    if window is None or window >= n:
        parts = iter([torch.randperm(n, generator=generator)])
    else:
        parts = _windows(n, window, generator)
    # as large as the data may be: in a file if it has more rows than are mixed at a time
    most_bytes = np.inf if window is None else 8 * window
    order = torch.as_tensor(new_array((total,), np.int64, most_bytes=most_bytes))
    done = 0
    for part in parts:
        order[done : done + len(part)] = part[: max(0, total - done)]
        done += len(part)
    for start in range(n, total, n):  # some again
        order[start : start + n] = order[: min(n, total - start)]
    return order


def _windows(n: int, window: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Draw the order of the examples of each window."""
    size = max(1, window // _BLOCKS)
    order = torch.randperm(math.ceil(n / size), generator=generator)
    for blocks in torch.split(order, _BLOCKS):
        inside = (blocks[:, None] * size + torch.arange(size)).flatten()
        inside = inside[inside < n]
        yield inside[torch.randperm(len(inside), generator=generator)]


def batches(examples: Examples, order: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the batches of an epoch, inputs and labels, on the device.

    If the inputs are stored elsewhere, the next batch is copied while the current one is used.
    """

    def send(part: Tensor) -> Tensor:
        return examples.pick(part).pin_memory().to(examples.device, non_blocking=True)

    for part in torch.split(order, size * _AT_ONCE):
        labels = torch.split(examples.labels[part.to(examples.device)], size)
        rows = torch.split(examples.rows_of(part), size)
        inputs = map(examples.pick, rows) if examples.on_device else fetch_ahead(send, rows)
        yield from zip(inputs, labels, strict=True)


def fetch_ahead(
    fetch: Callable[[T], R], parts: Iterable[T], prepare: Callable[[], object] | None = None
) -> Iterator[R]:
    """Yield the result of `fetch` for each part, computing the next one in a second thread.

    The thread calls `prepare` when it starts.
    """
    with ThreadPoolExecutor(1, initializer=prepare) as reader:
        ahead: list[Future[R]] = []
        for part in parts:
            ahead.append(reader.submit(fetch, part))
            if len(ahead) > 1:
                yield ahead.pop(0).result()
        yield from (each.result() for each in ahead)
