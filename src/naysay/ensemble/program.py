"""Fit many small networks at once, such as all trials and settings of an experiment.

Small networks spend most of their time on launching operations; here each operation computes all
networks. Every network has its own examples, labels, matrix, learning rate, weight decay and seed.
"""

import math
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd  # pyright: ignore[reportPrivateUsage]

from naysay._base.errors import InvalidInput
from naysay.ensemble.step import Losses, ManyStep, Networks
from naysay.losses.protocol import as_training_loss
from naysay.training import Options
from naysay.training.batches import Examples, batch_size_of, epoch_order
from naysay.training.early_stopping import EpochRecord, History, least_held_out_loss
from naysay.training.loop import Loss
from naysay.training.step import OPTIMISERS, Captured, CudaRecorder, average_weights

_FREE = ("lr", "weight_decay", "seed", "patience")  # options in which members may differ


@dataclass(frozen=True, kw_only=True)
class Member:
    """One network to train, with the arguments of `naysay.training.fit`."""

    network: nn.Module
    examples: Examples
    loss: Loss
    options: Options
    held_out: Examples | None = None


def _check_members(members: Sequence[Member]) -> None:
    """Check that all members can be trained together."""
    if not members:
        raise InvalidInput("members must have at least one Member. It is empty.")
    if len({id(each.network) for each in members}) < len(members):
        raise InvalidInput("Each member must have a network of its own, but two members share one.")
    first = members[0]
    kind = type(first.network).__name__
    for module in first.network.modules():
        if isinstance(module, _DropoutNd) and module.p > 0:
            raise InvalidInput(
                "Networks of fit_many must have no dropout, because its random numbers would "
                f"differ from those of a single network. {kind} has {module}; make it with "
                "dropout=0."
            )
        if isinstance(module, _NormBase):
            raise InvalidInput(
                "Networks of fit_many must have no layer that collects statistics in training. "
                f"{kind} has {type(module).__name__}; train it with training.fit."
            )
    if first.options.optimiser not in OPTIMISERS.values():
        raise InvalidInput(
            "The optimiser of fit_many must be adamw, adam or sgd of naysay.training. Got "
            f"{first.options.optimiser!r}. For another optimiser, train with training.fit."
        )
    expected = _shared_facts(first)
    for number, member in enumerate(members):
        loss = as_training_loss(member.loss)
        needs = {
            "parameters to train": any(True for _ in loss.parameters()),
            "several views": loss.n_views > 1,
            "the progress of training": loss.needs_progress,
        }
        for what, is_needed in needs.items():
            if is_needed:
                raise InvalidInput(
                    f"Losses of fit_many must need logits and labels only. {type(loss).__name__} "
                    f"of member {number} needs {what}; train it with training.fit."
                )
        for name, fact in _shared_facts(member).items():
            if fact != expected[name]:
                raise InvalidInput(
                    f"Members must have the same {name}. Member 0 has {expected[name]}, member "
                    f"{number} has {fact}. Train members that differ in separate calls."
                )
        for tensor in (member.examples.X, *member.network.parameters()):
            if tensor.device != first.examples.device:
                raise InvalidInput(
                    "Inputs, labels and networks of all members must be on one device. Labels "
                    f"of member 0 are on {first.examples.device}, member {number} has a tensor on "
                    f"{tensor.device}. Move it with .to(device)."
                )


def _shared_facts(member: Member) -> dict[str, Any]:
    """Collect everything that must be equal in all members, by name."""
    facts: dict[str, Any] = {
        "network": str(member.network),
        "shapes of weights": [tuple(each.shape) for each in member.network.parameters()],
        "presence of held-out examples": member.held_out is not None,
    }
    for kind, examples in (("", member.examples), ("held-out ", member.held_out)):
        if examples is not None:
            facts[f"number of {kind}examples"] = len(examples)
            facts[f"kind of {kind}inputs"] = (examples.X.dtype, tuple(examples.X.shape[1:]))
            facts[f"kind of {kind}labels"] = (examples.labels.dtype, examples.labels.shape[1:])
    return facts | {k: v for k, v in vars(member.options).items() if k not in _FREE}


def fit_many(
    members: Sequence[Member],
    *,
    on_epoch: Callable[[dict[int, EpochRecord]], None] = lambda records: None,
) -> list[list[EpochRecord]]:
    """Train all networks in place, at the same time, and return the records of each.

    Each network and its history, one record per epoch, are, to rounding, the result of
    ``training.fit(network, examples, loss, options, held_out=held_out)``. A member that stops
    early keeps its weights while the others continue. Training uses no true label.

    A member whose loss is no longer finite stops while the others continue, because a grid may
    include a learning rate that is too high. The last record of its history has the loss that is
    not finite, its weights are useless, and `best_of` does not choose it.

    Parameters
    ----------
    members : sequence of Member
        The networks must have the same structure, without dropout and batch norm. Members must
        have the same number of examples and the same options, except ``lr``, ``weight_decay``,
        ``seed`` and ``patience``. Inputs that members share are stored once. Losses of
        `naysay.losses` that are means over examples are computed for all members in one call;
        other losses are called for each member.
    on_epoch : callable
        Called after each epoch with the records of the members that were still training, by their
        number. The times in a record are those of all members together.

    Examples
    --------
    >>> from naysay.losses import SurrogateLog
    >>> from naysay.networks import MLP
    >>> from naysay.training import Options
    >>> examples = Examples(torch.randn(40, 2), torch.arange(40) % 3)
    >>> members = [
    ...     Member(
    ...         network=MLP((2,), 3, widths=(4,), dropout=0),
    ...         examples=examples,
    ...         loss=SurrogateLog(),
    ...         options=Options(epochs=2, batch_size=20, lr=lr, weight_decay=0, patience=9),
    ...     )
    ...     for lr in (0.1, 0.01, 0.001)
    ... ]
    >>> [len(history) for history in fit_many(members)]
    [2, 2, 2]
    """
    members = list(members)
    _check_members(members)
    labels = [
        torch.cat([each.labels for each in (member.examples, member.held_out) if each is not None])
        for member in members
    ]
    losses = Losses([as_training_loss(each.loss) for each in members], labels)
    numbers = losses.order  # members with the same loss stand together
    program = _Program([members[number] for number in numbers], losses)
    while program.active:
        records = program.run_epoch()
        on_epoch({numbers[place]: record for place, record in sorted(records.items())})
    program.write_back()
    histories = dict(zip(numbers, program.histories, strict=True))
    return [histories[number].records for number in range(len(members))]


def best_of(
    histories: Sequence[Sequence[EpochRecord]], groups: Sequence[Hashable]
) -> dict[Hashable, int]:
    """Choose the member with the least held-out loss in each group; return its number by group.

    The choice uses complementary labels only. The members of a group must have the same loss and
    the same held-out labels, as the settings of one trial have. Members that diverged are not
    chosen; an `InvalidInput` is raised if all members of a group did.

    Parameters
    ----------
    histories : sequence of histories
        Histories as `fit_many` returns them.
    groups : sequence
        The group of each member, for instance its trial.

    Examples
    --------
    >>> losses = [[2.3, 2.0], [2.2, 2.1], [2.3, 1.9]]
    >>> histories = [[{"held_out_loss": loss} for loss in history] for history in losses]
    >>> best_of(histories, ["trial 1", "trial 1", "trial 2"])
    {'trial 1': 0, 'trial 2': 2}
    """
    if len(histories) != len(groups):
        raise InvalidInput(
            f"groups must name the group of each of the {len(histories)} histories. "
            f"Got {len(groups)}."
        )
    best: dict[Hashable, tuple[float, int]] = {}
    for number, (history, group) in enumerate(zip(histories, groups, strict=True)):
        if not any("held_out_loss" in record for record in history):
            raise InvalidInput(
                f"Selection needs held-out labels, but history {number} has no held-out loss. "
                "Pass held_out= to every member, and train for at least one epoch."
            )
        candidate = (least_held_out_loss(history), number)
        best[group] = min(best.get(group, candidate), candidate)
    for group, (least, _) in best.items():
        if math.isinf(least):
            raise InvalidInput(
                f"Training must keep the loss finite; the loss of every member of group {group!r} "
                "became infinite or not a number. Lower lr, or scale the inputs."
            )
    return {group: number for group, (_, number) in best.items()}


class _Program:
    """The state of training all members, in the order of `Losses`."""

    def __init__(self, members: Sequence[Member], losses: Losses) -> None:
        self.members = members
        self.losses = losses
        self.options = members[0].options
        self.device = members[0].examples.device
        self.n = len(members[0].examples)
        self.n_batches, self.size = batch_size_of(self.n, self.options.batch_size)

        held_out = [each.held_out for each in members if each.held_out is not None]
        X, index = _pool([each.examples for each in members] + held_out)
        numbers: dict[Hashable, int] = {}  # members with equal data and seed share batches
        stream_of: list[int] = []
        self.streams: list[tuple[Tensor, Tensor, int]] = []
        for member, rows_of_member in zip(members, index, strict=False):
            examples, seed = member.examples, member.options.seed
            key = (*map(id, vars(examples).values()), seed)
            if numbers.setdefault(key, len(self.streams)) == len(self.streams):
                self.streams.append((rows_of_member, examples.labels, seed))
            stream_of.append(numbers[key])
        self.held_out: tuple[Tensor, Tensor] | None = None
        if held_out:
            labels = torch.stack([each.labels for each in held_out])
            self.held_out = torch.stack(index[len(members) :]), labels

        networks = [each.network for each in members]
        self.networks = Networks(networks, self.device)
        rows = self.networks.rows_of(networks)
        streams = torch.tensor(stream_of, device=self.device)
        self.step = ManyStep(self.networks, losses, rows, X, streams, self.options)
        self.run_step: Callable[[], None] = self.step
        if self.device.type == "cuda" and self.options.capture:
            self.run_step = Captured(self.step, CudaRecorder(self.device))

        self.rates = np.array([each.options.lr for each in members], dtype=np.float64)
        self.decays = np.array([each.options.weight_decay for each in members], dtype=np.float64)
        self.histories = [History() for _ in members]
        self.kept = rows.clone()
        self.epoch = 0
        self.active: list[int] = list(range(len(members))) if self.options.epochs else []
        if self.active:
            self.coming = self._tables()

    def run_epoch(self) -> dict[int, EpochRecord]:
        """Train for one epoch; return the records of the members that are still training."""
        start = time.perf_counter()
        self._train(True)
        self.step.tables.fill(self.coming)
        for _ in range(self.n_batches):
            self.run_step()
        self.epoch += 1
        if self.epoch < self.options.epochs:
            self.coming = self._tables()  # prepared while a GPU is still computing
        losses: list[float] = cast("Any", self.step.total / self.n_batches).tolist()
        self.step.total.zero_()
        speed = self.n_batches * self.size / (time.perf_counter() - start)
        records: dict[int, EpochRecord] = {
            number: {"epoch": self.epoch, "loss": losses[number], "samples_per_second": speed}
            for number in self.active
        }
        if self.held_out is not None:
            held_out_losses = self._evaluate(*self.held_out)
            for number, record in records.items():
                record["held_out_loss"] = held_out_losses[number]
        seconds = time.perf_counter() - start
        improved: list[int] = []
        self.active = []
        for number, record in records.items():
            history = self.histories[number]
            if history.add(record | {"seconds": seconds}):
                improved.append(number)
            if not history.is_over(self.options.epochs, self.members[number].options.patience):
                self.active.append(number)
        self.kept[improved] = self.step.averages[improved]
        return {number: self.histories[number].records[-1] for number in records}

    def _tables(self) -> tuple[Tensor, Tensor, Tensor]:
        """Prepare the indices, labels and numbers of an epoch; the first axis is the step."""
        total = self.n_batches * self.size
        seeds = list({seed: None for _, _, seed in self.streams})
        orders = torch.stack([epoch_order(self.n, total, seed, self.epoch) for seed in seeds])
        order_of = dict(zip(seeds, orders.to(self.device), strict=True))
        ordered = [(rows[order_of[seed]], y[order_of[seed]]) for rows, y, seed in self.streams]
        index, labels = (
            torch.unflatten(torch.stack(each), 1, (self.n_batches, self.size)).transpose(0, 1)
            for each in zip(*ordered, strict=True)
        )
        done = self.epoch * self.n_batches
        share = (self.epoch + np.arange(self.n_batches) / self.n_batches) / self.options.epochs
        factors = np.array([self.options.schedule(each) for each in share.tolist()])
        numbers = self.step.update.numbers(factors[:, None] * self.rates, self.decays, done)
        weight = np.array(average_weights(self.options.average, done, self.n_batches))
        numbers.append(np.broadcast_to(weight[:, None], numbers[0].shape))
        return index, labels, torch.as_tensor(np.stack(numbers, 1)[..., None]).to(self.step.rows)

    @torch.no_grad()
    def _evaluate(self, index: Tensor, labels: Tensor) -> list[float]:
        """Compute the held-out loss of the averaged weights of each member."""
        self._train(False)
        averaged = self.networks.split(self.step.averages)
        # few examples at once, because the activations of images need much memory
        size = min(max(1, 2**18 // len(index)), 4096)
        parts = torch.split(index, size, dim=1)
        logits = torch.cat([self.step.logits(averaged, part) for part in parts], 1)
        return cast("Any", self.losses.held_out(logits, labels)).tolist()

    def _train(self, mode: bool) -> None:
        self.networks.module.train(mode)
        self.losses.train(mode)

    def write_back(self) -> None:
        """Copy the final weights to each network."""
        kept = self.networks.split(self.step.averages if self.held_out is None else self.kept)
        for number, member in enumerate(self.members):
            with torch.no_grad():
                for parameter, rows in zip(member.network.parameters(), kept, strict=True):
                    parameter.copy_(rows[number])
            member.network.eval()
            if isinstance(member.loss, nn.Module):
                member.loss.eval()


def _pool(examples: Sequence[Examples]) -> tuple[Tensor, list[Tensor]]:
    """Concatenate all distinct input tensors, and find the rows of each member in the result."""
    distinct: dict[Hashable, tuple[int, Tensor]] = {}
    n = 0
    places: list[Tensor] = []
    for each in examples:
        X = each.X if each.more is None else torch.cat([each.X, each.more])
        key = (X.data_ptr(), X.shape, X.stride())
        if key not in distinct:
            distinct[key] = (n, X)
            n += len(X)
        places.append(each.rows_of(torch.arange(len(each))) + distinct[key][0])
    tensors = [X for _, X in distinct.values()]
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors), places
