"""Compute the losses of many networks in as few calls as possible."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from naysay.functional.columns import can_stack, stack_columns
from naysay.losses.protocol import TrainingLoss


class Losses:
    """The losses of many networks, computed in as few calls as possible.

    Losses that have a copy `per_example` are computed in one call for all networks whose losses
    have the same settings; their matrices may differ if the loss ``takes_stack``. Any other loss
    is called for each network. The attribute `order` lists the networks in the order in which
    logits and labels must be given.
    """

    def __init__(self, losses: Sequence[TrainingLoss], labels: Sequence[Tensor]) -> None:
        single: list[Any] = [
            loss.per_example(given) for loss, given in zip(losses, labels, strict=True)
        ]
        self.parts: list[tuple[int, TrainingLoss]] = []
        self.order: list[int] = []
        for numbers in _grouped(single, range(len(single)), may_stack=True):
            parts = _grouped(single, numbers)
            if len(parts) > 1 and can_stack(matrices := [single[n].Q for n in numbers]):
                single[numbers[0]].Q = stack_columns(matrices, labels[numbers[0]].device)
                parts = [numbers]
            for part in parts:
                one = single[part[0]]
                self.order += part
                self.parts.append((len(part), losses[part[0]] if one is None else one))

    def train(self, mode: bool) -> None:
        """Put all losses in training or in evaluation mode."""
        for _, loss in self.parts:
            loss.train(mode)

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of each network, shape (n_networks,)."""
        return self._call([loss for _, loss in self.parts], logits, labels)

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss by which epochs of each network are compared, shape (n_networks,)."""
        return self._call([loss.held_out for _, loss in self.parts], logits, labels)

    def _call(
        self, calls: Sequence[Callable[..., Tensor]], logits: Tensor, labels: Tensor
    ) -> Tensor:
        if len(calls) == 1:
            return _each(calls[0], logits, labels)
        sizes = [size for size, _ in self.parts]
        parts = zip(calls, logits.split(sizes), labels.split(sizes), strict=True)
        return torch.cat([_each(*part) for part in parts])


def _each(call: Callable[..., Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    values = call(logits.flatten(0, 1), labels.flatten(0, 1))
    return values.reshape(len(logits), -1).mean(1)  # of one value, or one per example


def _grouped(
    single: Sequence[TrainingLoss | None], numbers: Iterable[int], *, may_stack: bool = False
) -> list[list[int]]:
    """Group losses with equal settings, or equal but for their matrices if they can be stacked."""
    groups: dict[Hashable, list[int]] = {}
    for number in numbers:
        loss = single[number]
        key: Hashable = number
        if loss is not None:
            left_out = {"training", "Q"} if may_stack and loss.takes_stack else {"training"}
            public = {name for name in vars(loss) if not name.startswith("_")} - left_out
            key = (type(loss), *((name, vars(loss)[name]) for name in sorted(public)))
            try:
                hash(key)
            except TypeError:
                key = number
        groups.setdefault(key, []).append(number)
    return list(groups.values())
