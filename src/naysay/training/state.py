"""What training has come to: all that a checkpoint holds."""

import glob
import json
import os
import re
import tempfile
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
from naysay.training import processes
from naysay.training.batches import Examples
from naysay.training.history import EpochRecord, History
from naysay.training.schedules import Schedule
from naysay.training.step import Averages
from naysay.transition import TransitionMatrix

_ROWS = 1000  # of X that are looked at


def fingerprint_of(
    options: Mapping[str, Any],
    network: nn.Module,
    loss: nn.Module,
    optimiser: torch.optim.Optimizer,
    examples: Examples,
    held_out: Examples | None,
    augment: Any,
) -> dict[str, Any]:
    """Return what must be the same in all processes, and to go on from a checkpoint.

    Facts by name, as JSON can hold them; large things are there as checksums.
    """
    by_hand = ("optimiser", "schedule", "capture", "compile")
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


_FORMAT = "naysay checkpoint 1"


def write_checkpoint(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the checkpoint at `path`; killed at any moment, the old or the new one is there.

    What a killed write has left beside it is removed by the next one.

    Parameters
    ----------
    tensors : dict of Tensor
    facts : dict
        Anything JSON can hold.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}-"
    for left in target.parent.glob(f"{glob.escape(prefix)}*"):
        left.unlink(missing_ok=True)
    # copies: safetensors refuses tensors that share memory or are not in the usual order
    values = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    text = json.dumps(facts)
    metadata = {"format": _FORMAT, "facts": text, "checksum": str(_content_checksum(text, values))}
    # bytes first: safetensors' own writing leaves files of other names when it is killed
    content = save(values, metadata)
    handle, scratch = tempfile.mkstemp(prefix=prefix, dir=target.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Return the tensors and facts at `path`, or None if there is no file."""
    if not Path(path).exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError("it is something else")
            names = file.keys()  # not a dict: it cannot be iterated over itself
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
    """Return one number for all of it, which damage would change."""
    total = zlib.crc32(text.encode())
    for name, tensor in sorted(tensors.items()):
        total = zlib.crc32(name.encode(), total)
        bytes_of: Any = tensor.flatten().view(torch.uint8).numpy()
        total = zlib.crc32(bytes_of, total)
    return total


class State:
    """The records so far, the best weights so far, and all that the next step starts from."""

    def __init__(
        self, objective: nn.Module, optimiser: torch.optim.Optimizer, averages: Averages
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.history = History()
        self.kept: dict[str, Tensor] | None = None

    def add(self, record: EpochRecord, averaged: dict[str, Tensor] | None) -> None:
        """Add the record of an epoch, and keep the averages evaluated in it if it is the best."""
        if self.history.add(record):
            self.kept = averaged

    def final(self) -> dict[str, Tensor]:
        """Return the weights to end with."""
        return self.averages.state() if self.kept is None else self.kept

    def write(self, path: str | Path, fingerprint: dict[str, Any]) -> None:
        """Write all of it to a checkpoint."""
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
        """Go on from a checkpoint, if there is one; it must be of the same training."""
        found = processes.from_first(lambda: read_checkpoint(path))
        if found is None:
            return
        tensors, facts = found
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
        """Put everything where it belongs; what does not fit raises an error of some kind."""
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
            is_fused = self.optimiser.defaults.get("fused")  # it trusts the shapes of its state
            if is_fused and value.ndim and value.shape != shape:
                raise ValueError(f"{key} has shape {tuple(value.shape)}, not {tuple(shape)}")
        pairs = zip(present["param_groups"], facts["groups"], strict=True)
        groups = [ours | {k: theirs[k] for k in _numbers(ours)} for ours, theirs in pairs]
        self.optimiser.load_state_dict({"state": states, "param_groups": groups})


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _part(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    start = f"{prefix}."
    own = (name for name in values if name.startswith(start))
    return {name.removeprefix(start): values[name] for name in own}


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    """Return what an optimiser counts in a group of its own; the rate is set before each step."""
    return {k: v for k, v in group.items() if type(v) in (int, float) and k != "lr"}


def _check_shapes(tensors: dict[str, Tensor], like: dict[str, Tensor]) -> None:
    if tensors.keys() != like.keys():
        raise ValueError(f"it lacks or adds {', '.join(sorted(tensors.keys() ^ like.keys())[:3])}")
    for name, tensor in tensors.items():
        if tensor.shape != like[name].shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, not {tuple(like[name].shape)}"
            )
