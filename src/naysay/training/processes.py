"""Communication between processes that train one network together, under ``torchrun``.

In a single process, which is the usual case, these functions do nothing.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor, distributed

from naysay._base.errors import InvalidInput, NaysayError

T = TypeVar("T")


def count() -> int:
    """Count the processes that train together."""
    is_shared = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if is_shared else 1


def rank() -> int:
    """Look up the number of this process; only process 0 reads and writes checkpoints."""
    return distributed.get_rank() if count() > 1 else 0


def mean(value: Tensor) -> float:
    """Average a value over all processes."""
    if count() > 1:
        distributed.all_reduce(value)  # pyright: ignore[reportUnknownMemberType]
        value /= count()
    return value.item()


def agree(state: dict[str, Tensor]) -> None:
    """Copy the state of process 0 to all others, which differ in the statistics of batch norm."""
    if count() > 1:
        for tensor in state.values():
            distributed.broadcast(tensor, src=0)


def from_first(read: Callable[[], T]) -> T:
    """Call `read` in process 0 and return its result, or raise its error, in every process."""
    if count() == 1:
        return read()
    outcome: list[Any] = [None]
    if rank() == 0:
        try:
            outcome = [read()]
        except NaysayError as error:
            outcome = [error]
    distributed.broadcast_object_list(outcome)
    if isinstance(outcome[0], NaysayError):
        raise outcome[0]
    return outcome[0]


def check_same(facts: dict[str, Any]) -> None:
    """Check that all processes have the same arguments; otherwise they could wait forever."""
    if count() == 1:
        return
    of_all: list[Any] = [None] * count()
    distributed.all_gather_object(of_all, facts)  # pyright: ignore[reportUnknownMemberType]
    if different := [name for name in facts if any(each[name] != facts[name] for each in of_all)]:
        raise InvalidInput(
            "Processes that train together must have the same arguments. They differ in "
            f"{', '.join(different)}. Pass the same data and the same seed (random_state) to all."
        )
