"""What training has come to: all that a checkpoint holds."""

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from naysay import _processes
from naysay._base.errors import InvalidModelFile
from naysay._step import Averages
from naysay.checkpoints import read_checkpoint, write_checkpoint

EpochRecord = dict[str, float]


class State:
    """The records so far, the best weights so far, and all that the next step starts from."""

    def __init__(
        self, objective: nn.Module, optimiser: torch.optim.Optimizer, averages: Averages
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.history: list[EpochRecord] = []
        self.kept: dict[str, Tensor] | None = None

    def add(self, record: EpochRecord, averaged: dict[str, Tensor] | None) -> None:
        """Take in the record of an epoch, and the averages if they were held against labels."""
        if averaged is not None and record["held_out_loss"] < self._best()[0]:
            self.kept = averaged
        self.history.append(record)

    def is_over(self, n_epochs: int, patience: int) -> bool:
        """Whether all epochs are done, or none of the last ones was better."""
        waited = len(self.history) - self._best()[1]
        return len(self.history) >= n_epochs or (self.kept is not None and waited >= patience)

    def _best(self) -> tuple[float, int]:
        """Return the least held-out loss and the number of its epoch, the first of equals."""
        losses = [(each.get("held_out_loss", math.inf), each["epoch"]) for each in self.history]
        best, epoch = min(losses, default=(math.inf, 0))
        return best, int(epoch)

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
            "history": self.history,
            "n_steps": self.averages.n_steps,
            "optimiser": numbers,
            "groups": [_numbers(group) for group in of_optimiser["param_groups"]],
        }
        write_checkpoint(path, tensors, facts)

    def read(self, path: str | Path, fingerprint: dict[str, Any]) -> None:
        """Go on from a checkpoint, if there is one; it must be of the same training."""
        found = _processes.from_first(lambda: read_checkpoint(path))
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
        self.history = [dict(record) for record in facts["history"]]
        self._best()  # every record has its epoch
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
