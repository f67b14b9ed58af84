"""Training state that can be resumed: the contents of a checkpoint file."""

import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from naysay._base.errors import InvalidModelFile
from naysay._base.files import check_ordinary, replacing
from naysay.training import processes
from naysay.training.batches import Examples
from naysay.training.early_stopping import History
from naysay.training.step import Averages
from naysay.transition import TransitionMatrix

_ROWS = 1000  # rows of X whose checksum is compared
# Described separately, or irrelevant.
_BY_HAND = ("optimiser", "schedule", "capture", "compile", "window")
_OF_HARDWARE = ("lr", "initial_lr", "params", "capturable", "foreach", "fused")


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
    groups = [
        {name: repr(value) for name, value in group.items() if name not in _OF_HARDWARE}
        for group in optimiser.state_dict()["param_groups"]
    ]
    shapes = [(name, list(value.shape)) for name, value in network.state_dict().items()]
    return {
        **{name: value for name, value in options.items() if name not in _BY_HAND},
        **({} if options.get("window") is None else {"window": options["window"]}),
        "optimiser": [type(optimiser).__name__, *groups],
        "schedule": _checksum(np.array([options["schedule"](n / 1000) for n in range(1001)])),
        **_of_examples(examples),
        **{f"held-out {name}": value for name, value in _of_examples(held_out).items()},
        "network": _checksum(f"{network} {shapes}"),
        "loss": of_loss(loss),
        "augment": _of_value(augment),
    }


def _of_examples(examples: Examples | None) -> dict[str, Any]:
    """Describe the labels and, because there may be very many, a sample of the inputs."""
    if examples is None:
        return {"X": None, "labels": None}
    some = torch.linspace(0, len(examples) - 1, min(_ROWS, len(examples))).long()
    return {
        "X": [list(examples.X.shape), _checksum(examples.pick(examples.rows_of(some)))],
        "labels": [len(examples), _checksum(examples.labels)],
    }


def of_loss(loss: nn.Module) -> int:
    """Compute a checksum of the settings, parameters and buffers of a loss."""
    settings = [
        (type(part).__name__, name, _of_value(value))
        for part in loss.modules()
        for name, value in vars(part).items()
        if not name.startswith("_") and name != "training"
    ]
    tensors = [*loss.named_parameters(), *loss.named_buffers()]
    return _checksum(f"{settings} {[(name, _checksum(value)) for name, value in tensors]}")


def _of_value(value: Any) -> Any:
    """Describe a setting in values that JSON can store: functions by name, arrays as checksums."""
    if isinstance(value, partial):
        return [_of_value(value.func), _of_value(value.args), _of_value(value.keywords)]
    if isinstance(value, Mapping):
        return {str(k): _of_value(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_of_value(each) for each in cast("Sequence[Any]", value)]
    if isinstance(value, Tensor | np.ndarray):
        return _checksum(value)
    if isinstance(value, TransitionMatrix) and not value.is_uniform:
        stored = value.entries
        return _of_value([stored.data, stored.indices, stored.indptr])
    return getattr(value, "__qualname__", re.sub(r" at 0x[0-9a-f]+", "", repr(value)))


def _checksum(value: Any, start: int = 0) -> int:
    """Compute the CRC-32 of a text, a tensor or an array, which continues that of `start`."""
    if isinstance(value, Tensor):  # without a copy, because it may be large
        value = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    else:
        value = value.encode() if isinstance(value, str) else value.tobytes()
    return zlib.crc32(value, start)


_FORMAT = "naysay checkpoint 1"


def write_checkpoint(path: str | Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the checkpoint at `path` atomically; JSON must be able to store the facts."""
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
    with replacing(target) as part:
        part.write_bytes(content)


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Read the tensors and facts of a checkpoint; return None if there is no file."""
    if not Path(path).exists():
        return None
    try:
        opened: Any = safe_open(check_ordinary(Path(path)), framework="pt")
        with opened as file:
            metadata: dict[str, str] = file.metadata() or {}
            if metadata.get("format") != _FORMAT:
                raise ValueError("it is a file of another kind")
            names = file.keys()  # the file is not a dict and cannot be iterated over
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in names}
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
    total = _checksum(text)
    for name, tensor in sorted(tensors.items()):
        total = _checksum(tensor, _checksum(name, total))
    return total


@dataclass
class State:
    """Training state that can be resumed: what the next epoch starts from, and the best weights."""

    objective: nn.Module
    optimiser: torch.optim.Optimizer
    averages: Averages
    history: History = field(default_factory=History)
    kept: dict[str, Tensor] | None = None  # averaged weights of the best epoch

    def write(self, path: str | Path, fingerprint: dict[str, Any]) -> None:
        """Write the state to a checkpoint."""
        parts = {"averages": self.averages.state(), "kept": self.kept or {}}
        parts["weights"] = self.objective.state_dict()
        tensors = {f"{part}.{name}": parts[part][name] for part in parts for name in parts[part]}
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
            changed += ["window"] * ("window" in of_file and "window" not in fingerprint)
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
        averages, kept = part_of(tensors, "averages"), part_of(tensors, "kept")
        shapes = _shapes(self.objective.state_dict())
        if _shapes(averages) != shapes or (kept and _shapes(kept) != shapes):
            raise ValueError("its weights have other names or shapes than those of the network")
        self.objective.load_state_dict(part_of(tensors, "weights"))
        for name, average in zip(self.averages.names, self.averages.averages, strict=True):
            average.copy_(averages[name])
        self.averages.n_steps = int(facts["n_steps"])
        device = self.averages.weight.device
        self.kept = {name: value.to(device) for name, value in kept.items()} or None
        self.history = History(dict(record) for record in facts["history"])
        for number, record in enumerate(self.history.records, 1):
            if record["epoch"] != number:
                raise ValueError("its records are not those of the epochs")
        present = self.optimiser.state_dict()
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        states: dict[int, dict[str, Any]] = {}
        for key, value in part_of(tensors | facts["optimiser"], "optimiser").items():
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


def part_of(values: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Select the values of a part of a file, whose names begin with that of the part."""
    start = f"{part}."
    return {name[len(start) :]: values[name] for name in values if name.startswith(start)}


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _numbers(group: dict[str, Any]) -> dict[str, Any]:
    """Select the numbers in a parameter group, without the rate, which each step sets."""
    return {k: v for k, v in group.items() if type(v) in (int, float) and k != "lr"}
