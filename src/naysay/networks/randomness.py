"""Private generators of random numbers, so that trainings in threads do not interfere.

Torch draws from one generator of the whole process unless it is given another. Inside
`private_generator`, `Dropout` and the augmentations of naysay draw from one that belongs to the
thread; `drawing_privately` makes any code do so, but slows down every operation.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

_of_thread = threading.local()
_global_generator = threading.Lock()


def generator() -> torch.Generator | None:
    """Return the private generator of this thread; None stands for that of torch."""
    return getattr(_of_thread, "generator", None)


@contextmanager
def private_generator(chosen: torch.Generator) -> Generator[None]:
    """Draw the random numbers of this thread from a generator on the CPU."""
    before = generator()
    _of_thread.generator = chosen
    try:
        yield
    finally:
        _of_thread.generator = before


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` with random numbers, the same ones, from the private generator."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name in torch
        """Set random elements to zero during training, and scale the others."""
        chosen = None if torch.compiler.is_compiling() else generator()
        if chosen is None or not self.training or self.p in (0, 1):
            return super().forward(input)
        kept = torch.empty_like(input).bernoulli_(1 - self.p, generator=chosen)
        return input * kept.div_(1 - self.p)


class _DrawPrivately(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given: dict[str, Any] = kwargs or {}
        chosen = generator()
        is_random = torch.Tag.nondeterministic_seeded in func.tags
        if chosen is None or not is_random or given.get("generator") is not None:
            return func(*args, **given)
        accepts = [_accepts_generator(each) for each in (func, func.overloadpacket)]
        if any(accepts):
            return (func if accepts[0] else func.overloadpacket)(
                *args, **{**given, "generator": chosen}
            )
        with _global_generator:  # for the moment of this operation, the generators are exchanged
            before = torch.get_rng_state()
            try:
                torch.set_rng_state(chosen.get_state())
                drawn = func(*args, **given)
                chosen.set_state(torch.get_rng_state())
            finally:
                torch.set_rng_state(before)
            return drawn


def _accepts_generator(operation: Any) -> bool:
    if hasattr(operation, "_schema"):
        return any(argument.name == "generator" for argument in operation._schema.arguments)
    return any("generator" in name for name in operation.overloads())


def drawing_privately() -> TorchDispatchMode:
    """Make all code inside the block draw from the private generator of the thread."""
    return _DrawPrivately()


def may_draw(module: nn.Module) -> bool:
    """Check whether a module may draw random numbers in other ways than by `Dropout`."""
    return any(
        not (type(each).__module__.startswith("naysay.") or _draws_nothing(each))
        for each in module.modules()
    )


def _draws_nothing(module: nn.Module) -> bool:
    if isinstance(module, nn.RReLU | nn.MultiheadAttention):
        return False
    kind = type(module).__module__
    return kind.startswith("torch.nn.modules.") and kind.rpartition(".")[2] in _WITHOUT_DRAWS


_WITHOUT_DRAWS = {
    *("batchnorm", "container", "conv", "flatten", "linear", "normalization", "pooling"),
    *("activation", "instancenorm", "padding", "pixelshuffle", "upsampling"),
}
