"""Compute the losses of many networks in as few calls as possible."""

from collections.abc import Callable, Hashable, Sequence
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
        single = [loss.per_example(given) for loss, given in zip(losses, labels, strict=True)]
        groups: dict[Hashable, list[int]] = {}
        for number, loss in enumerate(single):
            key = number if loss is None else _settings(loss, without_q=loss.takes_stack)
            groups.setdefault(key, []).append(number)
        self.parts: list[tuple[int, TrainingLoss]] = []
        self.order: list[int] = []
        for numbers in groups.values():
            same = [loss for number in numbers if (loss := single[number]) is not None]
            if not same:
                self._add(numbers, losses[numbers[0]])
                continue
            for positions, loss in _with_one_loss(same, labels[numbers[0]].device):
                self._add([numbers[position] for position in positions], loss)

    def _add(self, numbers: list[int], loss: TrainingLoss) -> None:
        self.order += numbers
        self.parts.append((len(numbers), loss))

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


def _settings(loss: TrainingLoss, *, without_q: bool) -> Hashable:
    """Collect the settings of a loss, which are equal for losses that compute the same."""
    left_out = {"training", "Q"} if without_q else {"training"}
    public = {name: value for name, value in vars(loss).items() if not name.startswith("_")}
    key = (type(loss), *((name, public[name]) for name in sorted(public.keys() - left_out)))
    try:
        hash(key)
    except TypeError:
        return (type(loss), id(loss))
    return key


def _with_one_loss(
    losses: Sequence[Any], device: torch.device
) -> list[tuple[list[int], TrainingLoss]]:
    """Group losses per example that one call can compute, each group with the loss to call."""
    by_settings: dict[Hashable, list[int]] = {}
    for number, loss in enumerate(losses):
        by_settings.setdefault(_settings(loss, without_q=False), []).append(number)
    groups = list(by_settings.values())
    if len(groups) > 1 and can_stack([loss.Q for loss in losses]):
        losses[0].Q = stack_columns([loss.Q for loss in losses], device)
        groups = [list(range(len(losses)))]
    return [(numbers, losses[numbers[0]]) for numbers in groups]
