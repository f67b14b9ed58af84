"""Training state that can be resumed: the contents of a checkpoint file."""

import json
import re
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from naysay._base.errors import InvalidModelFile
from naysay._base.files import replacing
from naysay.training import processes
from naysay.training.batches import Examples
from naysay.training.history import EpochRecord, History
from naysay.training.schedules import Schedule
from naysay.training.step import Averages
from naysay.transition import TransitionMatrix

_ROWS = 1000  # rows of X whose checksum is compared


def fingerprint_of(
    options: Mapping[str, Any],
    network: nn.Module,
    loss: nn.Module,
    optimiser: torch.optim.Optimizer,
    examples: Examples,
    held_out: Examples | None,
    augment: Any,
) -> dict[str, Any]:
    """Describe a training, by name, in values that JSON can store.

    Processes that train together must have the same fingerprint, and so must a training and the
    checkpoint from which it is resumed. Large objects are represented by checksums.
    """
    by_hand = ("optimiser", "schedule", "capture", "compile")  # described below, or irrelevant
    return {
        **{name: value for name, value in options.items() if name not in by_hand},
        "optimiser": of_optimiser(optimiser),
        "schedule": of_schedule(options["schedule"]),
        **of_examples(examples),
        **{f"held-out {name}": value for name, value in of_examples(held_out).items()},
        "network": of_network(network),
        "loss": of_loss(loss),
        "processes": processes.count(),
        "augment": of_value(augment),
    }


def of_examples(examples: Examples | None) -> dict[str, Any]:
    """Describe the labels and, because there may be very many, a sample of the inputs."""
    if examples is None:
        return {"X": None, "labels": None}
    some = torch.linspace(0, len(examples) - 1, min(_ROWS, len(examples))).long()
    return {
        "X": [list(examples.X.shape), _checksum(examples.pick(examples.rows_of(some)))],
        "labels": [len(examples), _checksum(examples.labels)],
    }


def of_optimiser(optimiser: torch.optim.Optimizer) -> list[Any]:
    """Describe the class and the settings of an optimiser, without the learning rate."""
    settings = [
        {name: repr(value) for name, value in group.items() if name not in _OF_HARDWARE}
        for group in optimiser.state_dict()["param_groups"]
    ]
    return [type(optimiser).__name__, *settings]


_OF_HARDWARE = ("lr", "initial_lr", "params", "capturable", "foreach", "fused")


def of_schedule(schedule: Schedule) -> int:
    """Compute a checksum of the values of a schedule, which may be any function."""
    return zlib.crc32(np.array([schedule(part / 1000) for part in range(1001)]).tobytes())


def of_network(network: nn.Module) -> int:
    """Compute a checksum of the structure of a network, without its weights."""
    shapes = [(name, list(value.shape)) for name, value in network.state_dict().items()]
    return _text_checksum(f"{network} {shapes}")


def of_loss(loss: nn.Module) -> int:
    """Compute a checksum of the settings, parameters and buffers of a loss."""
    settings = [
        (type(part).__name__, name, of_value(value))
        for part in loss.modules()
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training"
    ]
    tensors = [*loss.named_parameters(), *loss.named_buffers()]
    return _text_checksum(f"{settings} {[(name, _checksum(value)) for name, value in tensors]}")


def of_value(value: Any) -> Any:
    """Describe a setting in values that JSON can store: functions by name, arrays as checksums."""
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


_FORMAT = "naysay checkpoint 1"


def write_checkpoint(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the checkpoint at `path`, atomically.

    If the process is killed at any moment, the old or the new checkpoint is complete. A temporary
    file that a killed process has left is removed by the next call.

    Parameters
    ----------
    path : path
        The checkpoint file; its folder is created if necessary.
    tensors : dict of Tensor
        Tensors by name.
    facts : dict
        Everything else, in values that JSON can store.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # copies, because safetensors refuses tensors that share memory or are not contiguous
    values = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    text = json.dumps(facts)
    metadata = {"format": _FORMAT, "facts": text, "checksum": str(_content_checksum(text, values))}
    # not save_file, which leaves temporary files with names of its own when it is killed
    content = save(values, metadata)
    with replacing(target, durable=True) as part:
        part.write_bytes(content)


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the tensors and facts of a checkpoint; return None if there is no file."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError("it is a file of another kind")
            names = file.keys()  # the file is not a dict and cannot be iterated over
            tensors = {name: file.get_tensor(name) for name in names}
        if metadata["checksum"] != str(_content_checksum(metadata["facts"], tensors)):
            raise ValueError("it is damaged")
        return tensors, json.loads(metadata["facts"])
    except (OSError, SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InvalidModelFile(
            f"{path} must be a checkpoint of this version of naysay: {error}. Remove it to start "
            "training anew, or name another file."
        ) from None


def _content_checksum(text: str, tensors: dict[str, Tensor]) -> int:
    """Compute a checksum of the whole content, to detect damage."""
    total = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(name.encode(), total)
        bytes_of: Any = tensor.flatten().view(torch.uint8).numpy()
        total = zlib.crc32(bytes_of, total)
    return total


class State:
    """Training state that can be resumed.

    It has the records and the best weights so far, and everything that the next step starts from.
    """

    def __init__(
        self, objective: nn.Module, optimiser: torch.optim.Optimizer, averages: Averages
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.history = History()
        self.kept: dict[str, Tensor] | None = None

    def add(self, record: EpochRecord, averaged: dict[str, Tensor] | None) -> None:
        """Add the record of an epoch, and keep its averaged weights if it is the best so far."""
        if self.history.add(record):
            self.kept = averaged

    def final(self) -> dict[str, Tensor]:
        """Return the weights to end with: those of the best epoch, or the averaged ones."""
        return self.averages.state() if self.kept is None else self.kept

    def write(self, path: str | Path, fingerprint: dict[str, Any]) -> None:
        """Write the state to a checkpoint."""
        tensors = _named("weights", self.objective.state_dict())
        tensors |= _named("averages", self.averages.state())
        tensors |= _named("kept", self.kept or {})
        numbers: dict[str, Any] = {}
        of_optimiser = self.optimiser.state_dict()
        for index, state in of_optimiser["state"].items():
            for name, value in state.items():
                holder = tensors if isinstance(value, Tensor) else numbers
                holder[f"optimiser.{index}.{name}"] = value
        facts = {
            "fingerprint": fingerprint,
            "history": self.history.records,
            "n_steps": self.averages.n_steps,
            "optimiser": numbers,
            "groups": [_numbers(group) for group in of_optimiser["param_groups"]],
        }
        write_checkpoint(path, tensors, facts)

    def read(self, path: str | Path, fingerprint: dict[str, Any]) -> None:
        """Restore the state from a checkpoint if it exists; it must be of the same training."""
        checkpoint = processes.from_first(lambda: read_checkpoint(path))
        if checkpoint is None:
            return
        tensors, facts = checkpoint
        try:
            of_file = facts["fingerprint"]
            changed = [name for name in fingerprint if of_file[name] != fingerprint[name]]
            if not changed:
                self._restore(tensors, facts)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise InvalidModelFile(
                f"{path} must be a checkpoint of this version of naysay, undamaged: "
                f"{str(error).splitlines()[0]}. Remove it to start training anew."
            ) from None
        if changed:
            raise InvalidModelFile(
                f"{path} must be a checkpoint of this very training; {', '.join(changed)} changed "
                "since. Remove it to start anew, or name another file."
            )

    def _restore(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Copy the contents of a checkpoint; contents that do not fit raise some error."""
        device = self.averages.weight.device
        weights = self.objective.state_dict()
        averages, kept = (_part(name, tensors) for name in ("averages", "kept"))
        for part in (averages, kept):
            if part or part is averages:
                _check_shapes(part, weights)
        self.objective.load_state_dict(_part("weights", tensors))
        for name, average in zip(self.averages.names, self.averages.averages, strict=True):
            average.copy_(averages[name])
        self.averages.n_steps = int(facts["n_steps"])
        self.kept = {name: value.to(device) for name, value in kept.items()} or None
        self.history = History(dict(record) for record in facts["history"])
        if [each["epoch"] for each in self.history.records] != [
            *range(1, 1 + len(self.history.records))
        ]:
            raise ValueError("its records are not those of the epochs")
        self._restore_optimiser(_part("optimiser", tensors), facts)

    def _restore_optimiser(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        present = self.optimiser.state_dict()
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        states: dict[int, dict[str, Any]] = {}
        for key, value in (tensors | _part("optimiser", facts["optimiser"])).items():
            index, name = key.split(".", 1)
            states.setdefault(int(index), {})[name] = value
            shape = parameters[int(index)].shape
            # a fused optimiser does not check the shapes of its state
            is_fused = self.optimiser.defaults.get("fused")
            if is_fused and value.ndim and value.shape != shape:
                raise ValueError(f"{key} has shape {tuple(value.shape)}, not {tuple(shape)}")
        pairs = zip(present["param_groups"], facts["groups"], strict=True)
        groups = [ours | {k: theirs[k] for k in _numbers(ours)} for ours, theirs in pairs]
        self.optimiser.load_state_dict({"state": states, "param_groups": groups})


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _part(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    start = f"{prefix}."
    return {
        name.removeprefix(start): value for name, value in values.items() if name.startswith(start)
    }


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    """Select the numbers in a parameter group, without the rate, which each step sets."""
    return {k: v for k, v in group.items() if type(v) in (int, float) and k != "lr"}


def _check_shapes(tensors: dict[str, Tensor], like: dict[str, Tensor]) -> None:
    if tensors.keys() != like.keys():
        raise ValueError(f"it lacks or adds {', '.join(sorted(tensors.keys() ^ like.keys())[:3])}")
    for name, tensor in tensors.items():
        if tensor.shape != like[name].shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, not {tuple(like[name].shape)}"
            )
