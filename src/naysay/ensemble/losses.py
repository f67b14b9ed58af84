"""The losses of many networks in as few calls as they allow."""

import copy
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from naysay.functional.columns import can_stack, stack_columns

Loss = Callable[[Tensor, Tensor], Tensor]


class Losses:
    """The losses of many networks, in as few calls as they allow.

    A loss of single examples, one that has a `reduction`, is called once for all networks whose
    losses have the same settings; matrices may differ where it ``takes_stack``. Any other is
    called for each network. `order` says in which order it takes the networks.
    """

    def __init__(self, losses: Sequence[Loss], labels: Sequence[Tensor]) -> None:
        groups: dict[Hashable, list[int]] = {}
        for number, (loss, own) in enumerate(zip(losses, labels, strict=True)):
            key = number if not _is_of_examples(loss, own) else _settings(loss, without_q=True)
            groups.setdefault(key, []).append(number)
        self.parts: list[tuple[int, Loss]] = []
        self.order: list[int] = []
        for key, numbers in groups.items():
            if isinstance(key, int):
                self._add(numbers, losses[key])
                continue
            device = labels[numbers[0]].device
            for same in _with_one_loss([losses[number] for number in numbers], device):
                self._add([numbers[position] for position in same[0]], same[1])

    def _add(self, numbers: list[int], loss: Loss) -> None:
        self.order += numbers
        self.parts.append((len(numbers), loss))

    def train(self, mode: bool) -> None:
        """Tell all losses whether they train or are evaluated."""
        for _, loss in self.parts:
            if isinstance(loss, nn.Module):
                loss.train(mode)

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each network, shape (n_networks,)."""
        if len(self.parts) == 1:
            return _call(self.parts[0][1], logits, labels)
        sizes = [size for size, _ in self.parts]
        every = zip(self.parts, logits.split(sizes), labels.split(sizes), strict=True)
        return torch.cat([_call(loss, *own) for (_, loss), *own in every])


def _call(loss: Loss, logits: Tensor, labels: Tensor) -> Tensor:
    values = loss(logits.flatten(0, 1), labels.flatten(0, 1))
    return values.reshape(len(logits), -1).mean(1)  # one number, or one per example


def _is_of_examples(loss: Loss, labels: Tensor) -> bool:
    """Whether the loss of a batch is the plain mean of what ``reduction="none"`` gives."""
    return (
        isinstance(loss, nn.Module)
        and getattr(loss, "reduction", None) == "mean"
        and not any(True for _ in loss.children())
        and not any(True for _ in loss.buffers())  # a weight of classes: the mean is weighted
        and not _has_any(labels, getattr(loss, "ignore_index", None))
    )


def _has_any(labels: Tensor, ignored: int | None) -> bool:
    return ignored is not None and bool((labels == ignored).any())


def _settings(loss: Any, *, without_q: bool) -> Hashable:
    """Return what makes two losses the same, but for the matrix where many can be stacked."""
    left_out = {"training"}
    if without_q and getattr(loss, "takes_stack", False):
        left_out.add("Q")
    public = {name: value for name, value in vars(loss).items() if not name.startswith("_")}
    key = (type(loss), *((name, public[name]) for name in sorted(public.keys() - left_out)))
    try:
        hash(key)
    except TypeError:
        return (type(loss), id(loss))
    return key


def _with_one_loss(losses: Sequence[Any], device: torch.device) -> list[tuple[list[int], Loss]]:
    """Return which of these losses can be one, and that one, for single examples."""
    by_settings: dict[Hashable, list[int]] = {}
    for number, loss in enumerate(losses):
        by_settings.setdefault(_settings(loss, without_q=False), []).append(number)
    groups = list(by_settings.values())
    stacked = None
    if len(groups) > 1 and can_stack([loss.Q for loss in losses]):
        groups = [list(range(len(losses)))]
        stacked = stack_columns([loss.Q for loss in losses], device)
    found: list[tuple[list[int], Loss]] = []
    for numbers in groups:
        loss = copy.copy(losses[numbers[0]])
        loss.reduction = "none"
        if stacked is not None:
            loss.Q = stacked
        found.append((numbers, loss))
    return found
