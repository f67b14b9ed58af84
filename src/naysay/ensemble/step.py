"""The training step of many networks of the same structure.

The weights of all networks are one matrix with a row for each network, so that clipping, the
optimiser and the moving average take a few operations, whatever the number of networks and layers.
"""

import copy
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.conv import _ConvNd  # pyright: ignore[reportPrivateUsage]

from naysay.functional.columns import can_stack, stack_columns
from naysay.losses.protocol import TrainingLoss
from naysay.training.loop import Options
from naysay.training.step import Tables, compiler
from naysay.transition.algebra import Floats


class AdamUpdate:
    """Adam or AdamW, as `like` is, with a learning rate and a weight decay for each row."""

    def __init__(self, rows: Tensor, like: torch.optim.Optimizer) -> None:
        self.betas, self.epsilon = like.defaults["betas"], like.defaults["eps"]
        self.decoupled = isinstance(like, torch.optim.AdamW)
        self.mean, self.square = torch.zeros_like(rows), torch.zeros_like(rows)

    def numbers(self, rates: Floats, decays: Floats, first_step: int) -> list[Floats]:
        """Compute step, epsilon and decay; step and epsilon include the bias correction.

        The rates, and each of the numbers, have shape (n_steps, n_rows).
        """
        step = first_step + 1 + np.arange(len(rates))[:, None]
        first, second = (1 - beta**step for beta in self.betas)
        every = np.ones_like(rates)
        decay = 1 - rates * decays if self.decoupled else decays * every
        return [-rates * np.sqrt(second) / first, self.epsilon * np.sqrt(second) * every, decay]

    def __call__(self, rows: Tensor, gradient: Tensor, numbers: Sequence[Tensor]) -> None:
        """Take one step with numbers of shape (n_rows, 1); change rows and gradient in place."""
        step, epsilon, decay = numbers
        if self.decoupled:
            rows.mul_(decay)
        else:
            gradient = gradient.addcmul_(rows, decay)
        self.mean.lerp_(gradient, 1 - self.betas[0])
        self.square.mul_(self.betas[1]).addcmul_(gradient, gradient, value=1 - self.betas[1])
        rows.addcdiv_(self.mean * step, self.square.sqrt().add_(epsilon))


class SGDUpdate:
    """Stochastic gradient descent with Nesterov momentum; see `AdamUpdate`."""

    def __init__(self, rows: Tensor, like: torch.optim.Optimizer) -> None:
        self.momentum = like.defaults["momentum"]
        self.velocity = torch.zeros_like(rows)

    def numbers(self, rates: Floats, decays: Floats, first_step: int) -> list[Floats]:
        """Compute step and decay."""
        return [-rates, decays * np.ones_like(rates)]

    def __call__(self, rows: Tensor, gradient: Tensor, numbers: Sequence[Tensor]) -> None:
        """Take one step with all rows of weights."""
        step, decay = numbers
        gradient = gradient.addcmul_(rows, decay)
        self.velocity.mul_(self.momentum).add_(gradient)
        rows.addcmul_(gradient.add_(self.velocity, alpha=self.momentum), step)


_torch: Any = torch  # operations on lists of tensors have no type stubs
_ALIGNED = 32  # weights start at multiples of this: fast kernels need an alignment of 128 bytes


class Networks:
    """Many networks of the same structure: compute their logits from weights and batches.

    A network class may define how to compute many of them: ``forward_many(state, inputs)``. Other
    networks are batched by `torch.func.vmap`. Convolutional networks are computed one by one on a
    CPU and where they do not define ``forward_many``, because one operation for the convolutions
    of many networks is slower; on a GPU each then has its own stream.
    """

    def __init__(self, networks: Sequence[nn.Module], device: torch.device) -> None:
        first = networks[0]
        self.module = copy.deepcopy(first)
        self.shapes = {name: parameter.shape for name, parameter in first.named_parameters()}
        buffers = [dict(each.named_buffers()) for each in networks]
        self.buffers = {name: torch.stack([each[name] for each in buffers]) for name in buffers[0]}
        self.forward: Callable[[dict[str, Tensor], Tensor], Tensor]
        convolves = any(isinstance(module, _ConvNd) for module in first.modules())
        # of the class itself: one that inherits forward_many may compute something else in forward
        defines_many = "forward_many" in vars(type(first))
        if defines_many and (device.type == "cuda" or not convolves):
            self.forward = self._by_itself
        else:
            self.forward = self._apart if convolves else self._batched
        self.streams: list[Any] = []
        if convolves and not defines_many and device.type == "cuda":
            self.streams = [torch.cuda.Stream(device) for _ in networks]

    def rows_of(self, networks: Sequence[nn.Module]) -> Tensor:
        """Copy the weights of all networks to a matrix, with zeros between parameters."""
        length = sum(-(-shape.numel() // _ALIGNED) * _ALIGNED for shape in self.shapes.values())
        rows = next(networks[0].parameters()).detach().new_zeros(len(networks), length)
        with torch.no_grad():
            for number, network in enumerate(networks):
                for part, parameter in zip(self.split(rows), network.parameters(), strict=True):
                    part[number].copy_(parameter)
        return rows

    def split(self, rows: Tensor) -> list[Tensor]:
        """Split rows of weights into views, one per parameter, of shape (n_networks, …)."""
        parts: list[Tensor] = []
        start = 0
        for shape in self.shapes.values():
            parts.append(rows[:, start : start + shape.numel()].view(-1, *shape))
            start += -(-shape.numel() // _ALIGNED) * _ALIGNED
        return parts

    def __call__(self, parameters: Sequence[Tensor], inputs: Tensor) -> Tensor:
        """Compute logits (n_networks, N, K) of inputs (n_networks, N, …)."""
        return self.forward(dict(zip(self.shapes, parameters, strict=True)), inputs)

    def _by_itself(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        return cast("Any", self.module).forward_many(self.buffers | parameters, inputs)

    def _batched(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        def one(weights: dict[str, Tensor], buffers: dict[str, Tensor], batch: Tensor) -> Tensor:
            return functional_call(self.module, (weights, buffers), (batch,))

        return vmap(one)(parameters, self.buffers, inputs)

    def _apart(self, parameters: dict[str, Tensor], inputs: Tensor) -> Tensor:
        state = {name: each.unbind() for name, each in (self.buffers | parameters).items()}

        def one(number: int) -> Tensor:
            state_of_one = {name: parts[number] for name, parts in state.items()}
            return functional_call(self.module, state_of_one, (inputs[number],))

        if not self.streams:
            return torch.stack([one(number) for number in range(len(inputs))])
        here = torch.cuda.current_stream()
        logits: list[Tensor] = []
        for number, stream in enumerate(self.streams):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                logits.append(one(number))
        self.join()
        return torch.stack(logits)

    def join(self) -> None:
        """Let the current stream wait for the streams of all networks."""
        for stream in self.streams:
            torch.cuda.current_stream().wait_stream(stream)


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
        of_logits, of_labels = torch.split(logits, sizes), torch.split(labels, sizes)
        parts = zip(calls, of_logits, of_labels, strict=True)
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
            settings = loss.settings()
            if may_stack and loss.takes_stack:
                settings.pop("Q", None)
            key = (type(loss), *sorted(settings.items(), key=itemgetter(0)))
            try:
                hash(key)
            except TypeError:
                key = number
        groups.setdefault(key, []).append(number)
    return list(groups.values())


@dataclass
class ManyStep:
    """One training step of all networks: forward, backward, clipping, optimiser and average.

    Networks can share a stream of batches, as the settings of one trial do; `stream_of` has the
    number of the stream of each network. Everything that changes from step to step is read from
    `tables`: the indices and labels of each stream, and the numbers of the update and the average.
    """

    networks: Networks
    losses: Losses
    rows: Tensor
    X: Tensor
    stream_of: Tensor
    options: Options

    def __post_init__(self) -> None:
        rows = self.rows
        # with the settings of the optimiser of a single network
        like = self.options.optimiser([{"params": [rows]}], lr=1.0, weight_decay=0.0)
        update = SGDUpdate if isinstance(like, torch.optim.SGD) else AdamUpdate
        self.update = update(rows, like)
        # the losses are not compiled: each matrix would need a compilation of its own
        compile_ = compiler(self.options.compile)
        self.next_batch = compile_(self._next_batch)
        self.training_logits = compile_(self.logits)
        self.take_step = compile_(self._take_step)
        self.averages = rows.clone()
        self.parameters = [part.detach().requires_grad_() for part in self.networks.split(rows)]
        self.gradient = torch.zeros_like(rows)
        self.gradients = self.networks.split(self.gradient)
        self.total = torch.zeros(len(rows), device=rows.device)  # sums of the losses of an epoch
        self.tables = Tables()

    def logits(self, parameters: Sequence[Tensor], index: Tensor) -> Tensor:
        """Compute logits (n_networks, N, K) of the examples with indices (n_networks, N)."""
        inputs = torch.unflatten(self.X.index_select(0, index.flatten()), 0, index.shape)
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.options.bfloat16):
            return self.networks(parameters, inputs.float()).float()

    def __call__(self) -> None:
        """Train on the next batch of each stream."""
        index, labels, numbers = self.next_batch()
        losses = self.losses(self.training_logits(self.parameters, index), labels)
        gradients = torch.autograd.grad(losses.sum(), self.parameters)
        self.networks.join()
        self.take_step(gradients, numbers, losses.detach())

    def _next_batch(self) -> tuple[Tensor, Tensor, Tensor]:
        index, labels, numbers = self.tables.next_rows()
        of = self.stream_of
        return index.index_select(0, of), labels.index_select(0, of), numbers

    def _take_step(self, gradients: Sequence[Tensor], numbers: Tensor, losses: Tensor) -> None:
        *of_update, of_average = numbers
        with torch.no_grad():
            _torch._foreach_copy_(self.gradients, gradients)
            if self.options.max_norm is not None:
                norms = _torch.linalg.vector_norm(self.gradient, dim=1, keepdim=True)
                self.gradient *= (self.options.max_norm / (norms + 1e-6)).clamp_max(1)
            self.update(self.rows, self.gradient, of_update)
            self.averages.lerp_(self.rows, of_average)
            self.total += losses
