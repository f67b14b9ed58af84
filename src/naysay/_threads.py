"""How many threads of a processor a step is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

# Products in a step, weights times examples, from which a second thread pays: below 1e7 it hardly
# changed the time, at 3e7 it saved a fifth (benchmarks/results/threads.jsonl).
_WORTH_MORE = 1e7


@contextmanager
def as_many_as_pay(network: nn.Module, batch_size: int) -> Iterator[None]:
    """Compute with one thread where steps are small, and with as many as before afterwards.

    Threads wait for one another in every operation. Where others keep the cores busy that took 2 to
    68 times as long as one thread alone, and small steps gain next to nothing from a second one.
    """
    n_threads = torch.get_num_threads()
    weights = list(network.parameters())
    # a convolution uses each weight many times
    is_small = all(weight.ndim <= 2 for weight in weights)
    is_small &= batch_size * sum(weight.numel() for weight in weights) < _WORTH_MORE
    try:
        if is_small:
            torch.set_num_threads(1)
        yield
    finally:
        torch.set_num_threads(n_threads)
