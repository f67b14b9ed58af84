"""A training among many, and what those trained together must share."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from torch import nn

from naysay._base.errors import InvalidInput
from naysay._updates import UPDATES
from naysay.training import Options
from naysay.training.batches import Examples
from naysay.training.loop import Loss

_OWN = ("lr", "weight_decay", "seed", "patience")  # options in which members may differ


@dataclass(frozen=True, kw_only=True)
class Member:
    """One training among many: what `naysay.training.fit` takes."""

    network: nn.Module
    examples: Examples
    loss: Loss
    options: Options
    held_out: Examples | None = None


def check_members(members: Sequence[Member]) -> None:
    """Refuse members that cannot be trained together, and those that can only be alone."""
    if not members:
        raise InvalidInput("members must be at least one Member. Got none.")
    if len({id(each.network) for each in members}) < len(members):
        raise InvalidInput("Each member must have a network of its own; one is in two members.")
    first = members[0]
    _check_network(first.network)
    if first.options.optimiser not in UPDATES:
        raise InvalidInput(
            "The optimiser of many at once must be adamw, adam or sgd of naysay.training. Got "
            f"{first.options.optimiser!r}. Train with another one alone, with training.fit."
        )
    expected = _shared_facts(first)
    for number, member in enumerate(members):
        _check_loss(member.loss, number)
        for name, fact in _shared_facts(member).items():
            if fact != expected[name]:
                raise InvalidInput(
                    f"Members must have the same {name}. Member 0 has {expected[name]}, member "
                    f"{number} has {fact}. Train those that differ in another call."
                )
        for tensor in (member.examples.X, *member.network.parameters()):
            if tensor.device != first.examples.device:
                raise InvalidInput(
                    "Inputs, labels and networks of all members must lie on one device. Labels "
                    f"of member 0 are on {first.examples.device}, member {number} has a tensor on "
                    f"{tensor.device}. Move it with .to(device)."
                )


def _shared_facts(member: Member) -> dict[str, Any]:
    """Return what all members must share, by the name of each."""
    facts: dict[str, Any] = {
        "network": str(member.network),
        "shapes of weights": [tuple(each.shape) for each in member.network.parameters()],
        "number of examples": len(member.examples),
        "presence of held-out examples": member.held_out is not None,
    }
    for kind, examples in (("", member.examples), ("held-out ", member.held_out)):
        if examples is not None:
            facts[f"number of {kind}examples"] = len(examples)
            facts[f"kind of {kind}inputs"] = (examples.X.dtype, tuple(examples.X.shape[1:]))
            facts[f"kind of {kind}labels"] = (examples.labels.dtype, examples.labels.shape[1:])
    shared = (field.name for field in fields(Options) if field.name not in _OWN)
    return facts | {name: getattr(member.options, name) for name in shared}


def _check_network(network: nn.Module) -> None:
    for module in network.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise InvalidInput(
                "Many at once must have no dropout, whose chance would differ from that of a "
                f"network alone. This {type(network).__name__} has {module}; make it with "
                "dropout=0."
            )
        if isinstance(module, nn.modules.batchnorm._NormBase):
            raise InvalidInput(
                "Many at once must have no layer that collects statistics while it trains. This "
                f"{type(network).__name__} has {type(module).__name__}; train it with training.fit."
            )


def _check_loss(loss: Loss, number: int) -> None:
    if not isinstance(loss, nn.Module):
        return
    asks = {
        "parameters to train": any(True for _ in loss.parameters()),
        "several views": getattr(loss, "n_views", 1) > 1,
        "the progress of training": hasattr(loss, "set_progress"),
    }
    for what, holds in asks.items():
        if holds:
            raise InvalidInput(
                f"Losses of many at once must ask for logits and labels only. "
                f"{type(loss).__name__} of member {number} asks for {what}; train it with "
                "training.fit."
            )
