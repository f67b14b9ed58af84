"""What makes a training the same training: facts by name, as JSON can hold them.

Large things are there as checksums. A checkpoint is refused when they differ.
"""

import re
import zlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from naysay.batches import Examples
from naysay.schedules import Schedule
from naysay.transition import TransitionMatrix

_ROWS = 1000  # of X that are looked at


def of_examples(examples: Examples | None) -> dict[str, Any]:
    """Return facts about the labels, and about some of the inputs: there may be very many."""
    if examples is None:
        return {"X": None, "labels": None}
    some = torch.linspace(0, len(examples) - 1, min(_ROWS, len(examples))).long()
    return {
        "X": [list(examples.X.shape), _checksum(examples.pick(examples.rows_of(some)))],
        "labels": [len(examples), _checksum(examples.labels)],
    }


def of_optimiser(optimiser: torch.optim.Optimizer) -> list[Any]:
    """Return its kind and settings; the learning rate is told by option and schedule."""
    settings = [
        {name: repr(value) for name, value in group.items() if name not in _OF_HARDWARE}
        for group in optimiser.state_dict()["param_groups"]
    ]
    return [type(optimiser).__name__, *settings]


_OF_HARDWARE = ("lr", "initial_lr", "params", "capturable", "foreach", "fused")


def of_schedule(schedule: Schedule) -> int:
    """Return a checksum of its values: a function tells what it is by what it does."""
    return zlib.crc32(np.array([schedule(part / 1000) for part in range(1001)]).tobytes())


def of_network(network: nn.Module) -> int:
    """Return a checksum of how it is built; its weights are in the checkpoint."""
    shapes = [(name, list(value.shape)) for name, value in network.state_dict().items()]
    return _text_checksum(f"{network} {shapes}")


def of_loss(loss: nn.Module) -> int:
    """Return a checksum of what it is made of and where its parameters start."""
    settings = [
        (type(part).__name__, name, of_value(value))
        for part in loss.modules()
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training"
    ]
    tensors = [*loss.named_parameters(), *loss.named_buffers()]
    return _text_checksum(f"{settings} {[(name, _checksum(value)) for name, value in tensors]}")


def of_value(value: Any) -> Any:
    """Return a setting as JSON can hold it: functions by name, arrays as checksums."""
    if isinstance(value, partial):
        return [of_value(value.func), of_value(value.args), of_value(value.keywords)]
    if isinstance(value, Mapping):
        return {str(name): of_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [of_value(each) for each in value]
    if isinstance(value, Tensor):
        return _checksum(value)
    if isinstance(value, np.ndarray):
        return zlib.crc32(value.tobytes())
    if isinstance(value, TransitionMatrix) and not value.is_uniform:
        stored = value.entries
        return of_value([stored.data, stored.indices, stored.indptr])
    return getattr(value, "__qualname__", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def _checksum(tensor: Tensor) -> int:
    values = tensor.detach().cpu().contiguous()
    return zlib.crc32(values.flatten().view(torch.uint8).numpy().tobytes())


def _text_checksum(text: str) -> int:
    return zlib.crc32(text.encode())
