"""The steps of an epoch of training, run as written or captured in a CUDA graph and replayed."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from naysay._base.errors import NaysayWarning
from naysay.losses.protocol import TrainingLoss
from naysay.training.augmentation import Augments, of_each_view
from naysay.training.batches import Batch, Examples, batches

Work = Callable[[], None]

_WARM_UPS = 3  # calls before the capture: libraries choose their kernels, optimisers their state


class Recorder(Protocol):
    """What can run work aside, and record it to be replayed."""

    def run_aside(self, work: Work) -> None:
        """Work now, in the surroundings that a capture will have."""
        ...

    def capture(self, work: Work) -> Work:
        """Return what does the work again; nothing is done yet."""
        ...


class CudaRecorder:
    """CUDA graphs, on one stream of their own.

    Memory that torch has taken for one stream serves no other, so a stream for each call would
    take the memory of a step once more each.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def run_aside(self, work: Work) -> None:
        """Work on the other stream."""
        here = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            work()
        here.wait_stream(self.stream)

    def capture(self, work: Work) -> Work:
        """Return the replay of a graph, which has memory of its own."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):  # gives back what the warm-up has taken
            work()
        return graph.replay


class Captured:
    """Work without arguments, captured after a few calls and replayed from then on.

    The work must read all that changes between calls from tensors that stay where they are. Work
    that cannot be captured, because it looks at numbers on the way, is run as written, with a
    warning.
    """

    def __init__(self, work: Work, recorder: Recorder) -> None:
        self.work = work
        self.recorder = recorder
        self.n_calls = 0  # in this process: a resumed training has steps behind it, but no kernels

    def __call__(self) -> None:
        """Do the work once more, or replay it."""
        self.n_calls += 1
        if self.n_calls <= _WARM_UPS:
            self.recorder.run_aside(self.work)
            return
        if self.n_calls == _WARM_UPS + 1:
            self._capture()
        self.work()

    def _capture(self) -> None:
        try:
            self.work = self.recorder.capture(self.work)
        except RuntimeError as error:
            warnings.warn(
                "This network or loss cannot be captured in a CUDA graph, so training is slower: "
                f"{str(error).splitlines()[0]}",
                NaysayWarning,
                stacklevel=3,
            )


class Tables:
    """Tensors with a row for each step of an epoch; which is next is counted beside them.

    Their memory stays where it is from epoch to epoch, so that captured work may read it.
    """

    def __init__(self) -> None:
        self.tables: list[Tensor] = []
        self.number = torch.zeros(0)

    def fill(self, tables: Sequence[Tensor]) -> None:
        """Take the tables of another epoch, of the same shapes as those before."""
        if not self.tables:
            self.tables = [table.clone(memory_format=torch.contiguous_format) for table in tables]
            self.number = torch.zeros(1, dtype=torch.int64, device=tables[0].device)
            return
        for own, given in zip(self.tables, tables, strict=True):
            own.copy_(given)
        self.number.zero_()

    def next_rows(self) -> list[Tensor]:
        """Return the row of the next step from each table, without a look at its number."""
        rows = [table.index_select(0, self.number)[0] for table in self.tables]
        self.number += 1
        return rows


#: Makes an optimiser: ``make(groups, lr=…, weight_decay=…)``.
MakeOptimiser = Callable[..., torch.optim.Optimizer]

_torch: Any = torch  # its operations on lists of tensors have no types


class Objective(nn.Module):
    """From a batch as it is stored to its loss: augmentation, network and loss in one module.

    Only the network is compiled: it is where the time goes, and the others may be anything.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: TrainingLoss,
        augment: Augments,
        *,
        bfloat16: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        # in a tuple, or its weights would be listed twice
        self.call_network = (compiler(compiled)(network),)
        self.loss = loss
        self.uses_bfloat16 = bfloat16
        # in a tuple: no part of the state, even where one is a module
        self.augments = of_each_view(augment, loss.n_views)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        if not self.uses_bfloat16:
            return self.loss(self._logits(inputs.float()).float(), labels)
        with torch.autocast(inputs.device.type, torch.bfloat16):
            logits = self._logits(inputs.float())
        return self.loss(logits.float(), labels)

    def _logits(self, inputs: Tensor) -> Tensor:
        views = [augment(inputs) for augment in self.augments]
        if len(views) == 1:
            return self.call_network[0](views[0])
        return self.call_network[0](torch.cat(views)).unflatten(0, (len(views), len(inputs)))


def compiler(compiled: bool) -> Callable[[Any], Any]:
    """Return what compiles work, or gives it back as it is.

    Work is compiled anew for each size of batch, of which there are few: code for any size is
    slower.
    """
    return partial(torch.compile, dynamic=False) if compiled else lambda work: work


def average_weights(decay: float, first_step: int, n_steps: int) -> list[float]:
    """Return how much the weights count in their moving average after each of these steps.

    The horizon of the average grows with the number of steps, up to that of `decay`, so that the
    start is forgotten.

    Examples
    --------
    >>> [round(weight, 3) for weight in average_weights(0.99, 0, 3)]
    [0.9, 0.818, 0.75]
    """
    steps = range(first_step, first_step + n_steps)
    return [1 - min(decay, (1 + step) / (10 + step)) for step in steps]


class Averages:
    """Moving averages of all weights and buffers; see `average_weights`."""

    def __init__(self, module: nn.Module, decay: float, device: torch.device) -> None:
        state = module.state_dict()
        self.decay = decay
        self.n_steps = 0
        self.names = [name for name, value in state.items() if value.is_floating_point()]
        self.current = [state[name] for name in self.names]
        self.averages = [value.clone() for value in self.current]
        self.counters = {k: v for k, v in state.items() if not v.is_floating_point()}
        self.weight = torch.zeros((), device=device)
        self.by_descent = _AverageByDescent(self.averages, self.current, self.weight)
        self.can_sync = device.type == "cpu"  # at the weight

    def begin_epoch(self, n_steps: int) -> list[float]:
        """Return how much the weights count after each of the coming steps."""
        self.n_steps += n_steps
        return average_weights(self.decay, self.n_steps - n_steps, n_steps)

    def update(self) -> None:
        """Take in the present weights."""
        if self.can_sync:
            _torch._foreach_lerp_(self.averages, self.current, self.weight.item())
        else:
            self.by_descent.step()

    def state(self) -> dict[str, Tensor]:
        """Return copies of the averages by name; counters are as they are."""
        averaged = dict(zip(self.names, self.averages, strict=True))
        return {name: value.clone() for name, value in (averaged | self.counters).items()}


class _AverageByDescent(torch.optim.SGD):
    """A moving average whose weight lies on the device, in one pass over all numbers.

    Descent with decay 1 that ascends along the present values is such an average:
    ``average -= weight * (average - value)``. No other operation on lists reads a number there.
    """

    def __init__(self, averages: list[Tensor], values: list[Tensor], weight: Tensor) -> None:
        for average, value in zip(averages, values, strict=True):
            average.grad = value
        super().__init__(averages, lr=weight, weight_decay=1.0, maximize=True, fused=True)


class Step:
    """Forward, backward, clipping, optimiser and average, for every batch of an epoch."""

    def __init__(
        self,
        objective: nn.Module,
        optimiser: torch.optim.Optimizer,
        averages: Averages,
        examples: Examples,
        *,
        max_norm: float | None = None,
        set_progress: Callable[[Any], None] = lambda share: None,
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.examples = examples
        self.max_norm = max_norm
        self.set_progress = set_progress
        self.parameters = [p for group in optimiser.param_groups for p in group["params"]]
        self.descend = _plain_step(optimiser)
        self.total = torch.zeros((), device=examples.device)  # of the losses, until it is taken
        self.share = torch.zeros((), device=examples.device)  # of training, where a graph reads it

    def run_epoch(self, order: Tensor, rates: Sequence[float], shares: Sequence[float]) -> None:
        """Take a step for each rate and share of training done, on equal parts of the order."""
        weights = self.averages.begin_epoch(len(rates))
        numbers = zip(rates, weights, shares, strict=True)
        every = batches(self.examples, order, len(order) // len(rates))
        for own, batch in zip(numbers, every, strict=True):
            self.set_numbers(*own)
            self.work(*batch)

    def set_numbers(self, rate: Any, weight: Any, share: Any) -> None:
        """Set learning rate, weight in the average and share of training, numbers or tensors."""
        set_rate(self.optimiser, rate)
        self.averages.weight.fill_(weight)
        self.set_progress(self.share.fill_(share) if self.share.is_cuda else share)

    def work(self, inputs: Tensor, labels: Tensor) -> None:
        """Do what a step does on the device."""
        for parameter in self.parameters:
            parameter.grad = None  # a graph of this then writes gradients, and adds none
        loss = self.objective(inputs, labels)
        loss.backward()
        if self.max_norm is not None:
            clip_grad_norm_(self.parameters, self.max_norm)
        self.descend()
        self.averages.update()
        self.total += loss.detach()

    def take_total(self) -> Tensor:
        """Return the sum of the losses since it was last taken."""
        total = self.total.clone()
        self.total.zero_()
        return total


class CapturedStep(Step):
    """The same, captured in one CUDA graph, so that a step is nothing but its replay.

    Order, rates, weights and shares of an epoch lie on the device, and so does the number of the
    step, which counts itself. Inputs that lie elsewhere are copied to one place, batch by batch.
    """

    def __init__(self, *arguments: Any, recorder: Recorder | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tables = Tables()
        self.batch: Batch | None = None  # that has travelled
        self.replay = Captured(self.next_step, recorder or CudaRecorder(self.examples.device))

    def run_epoch(self, order: Tensor, rates: Sequence[float], shares: Sequence[float]) -> None:
        """Do the same, from tables."""
        n_steps = len(rates)
        numbers = torch.tensor([rates, self.averages.begin_epoch(n_steps), shares]).T
        parts = order.reshape(n_steps, -1)
        self.tables.fill([each.to(self.examples.device) for each in (parts, numbers)])
        if self.examples.on_device:
            for _ in range(n_steps):
                self.replay()
            return
        for batch in batches(self.examples, order, parts.shape[1]):
            if self.batch is None:
                self.batch = batch[0].clone(), batch[1].clone()
            for own, given in zip(self.batch, batch, strict=True):
                own.copy_(given)
            self.replay()

    def next_step(self) -> None:
        """Do the next step of the tables."""
        index, numbers = self.tables.next_rows()
        self.set_numbers(*numbers)
        self.work(*(self.examples.batch(index) if self.batch is None else self.batch))


def _plain_step(optimiser: torch.optim.Optimizer) -> Callable[[], Any]:
    """Return an optimiser's step.

    That of torch's own is called without the hooks and records around it, which small networks
    feel.
    """
    if type(optimiser) not in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        return optimiser.step
    return partial(torch.no_grad()(inspect.unwrap(type(optimiser).step)), optimiser)


def make_optimiser(
    make: MakeOptimiser, network: nn.Module, loss: nn.Module, **settings: Any
) -> torch.optim.Optimizer:
    """Return an optimiser of network and loss; the loss's parameters do not decay."""
    groups: list[dict[str, Any]] = [{"params": list(network.parameters())}]
    if own := list(loss.parameters()):
        groups.append({"params": own, "weight_decay": 0.0})
    return make(groups, **settings)


def adamw(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay."""
    settings = {"lr": lr, "weight_decay": weight_decay, "capturable": _is_captured(lr)}
    return torch.optim.AdamW(groups, fused=True, **settings)


def adam(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Adam whose weight decay is part of the gradient, as in the paper."""
    settings = {"lr": lr, "weight_decay": weight_decay, "capturable": _is_captured(lr)}
    return torch.optim.Adam(groups, fused=True, **settings)


def sgd(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Stochastic gradient descent with Nesterov momentum of 0.9."""
    return torch.optim.SGD(
        groups, lr=lr, weight_decay=weight_decay, momentum=0.9, nesterov=True, fused=True
    )


def _is_captured(lr: Any) -> bool:
    return isinstance(lr, Tensor) and lr.is_cuda


#: The optimisers by name, which many networks at once can be trained with, too.
OPTIMISERS: dict[str, MakeOptimiser] = {"adamw": adamw, "adam": adam, "sgd": sgd}


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; as a tensor, where a captured step reads it, in place."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
