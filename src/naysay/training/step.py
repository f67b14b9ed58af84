"""The steps of an epoch of training, run directly or captured in a CUDA graph and replayed."""

import inspect
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from naysay._base.errors import NaysayWarning
from naysay.losses.protocol import TrainingLoss
from naysay.networks.randomness import drawing_privately, generator, may_draw
from naysay.training.augmentation import Augments, is_built_in, of_each_view
from naysay.training.batches import Examples, batches

Work = Callable[[], None]

# calls before the capture, in which libraries choose kernels and optimisers allocate their state
_WARM_UPS = 3


class CudaRecorder:  # pragma: no cover - needs a GPU
    """Recorder of work, to replay it: of CUDA graphs, on a separate stream.

    Torch does not reuse the memory of one stream for another, so a new stream for each call would
    allocate the memory of a step anew each time. In tests another class takes its place.
    """

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)

    def run_aside(self, work: Work) -> None:
        """Run the work now, on the stream of the recorder."""
        here = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(here)
        with torch.cuda.stream(self.stream):
            work()
        here.wait_stream(self.stream)

    def capture(self, work: Work) -> Work:
        """Record the work, without doing it, and return a function that replays it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):  # frees the memory of the warm-up
            work()
        return graph.replay


@dataclass
class Captured:
    """A function without arguments that is captured after a few calls and replayed from then on.

    Whatever changes between calls must be read from tensors whose memory does not move. Work that
    cannot be captured, because it reads a value back from the device, is run directly, with a
    warning.
    """

    work: Work
    recorder: CudaRecorder
    n_calls: int = 0  # in this process: a resumed training needs a warm-up too

    def __call__(self) -> None:
        """Run the work, or replay it once it is captured."""
        self.n_calls += 1
        if self.n_calls <= _WARM_UPS:
            self.recorder.run_aside(self.work)
            return
        if self.n_calls == _WARM_UPS + 1:
            try:
                self.work = self.recorder.capture(self.work)
            except RuntimeError as error:
                warnings.warn(
                    "This network or loss cannot be captured in a CUDA graph, so training is "
                    f"slower: {str(error).splitlines()[0]}",
                    NaysayWarning,
                    stacklevel=2,
                )
        self.work()


class Tables:
    """Tensors with a row for each step of an epoch, and the number of the next step.

    Their memory is the same in all epochs, so that captured work can read it.
    """

    def __init__(self) -> None:
        self.tables: list[Tensor] = []
        self.number = torch.zeros(0)

    def fill(self, tables: Sequence[Tensor]) -> None:
        """Copy the tables of the next epoch, which must have the same shapes as before."""
        if not self.tables:
            self.tables = [table.clone(memory_format=torch.contiguous_format) for table in tables]
            self.number = torch.zeros(1, dtype=torch.int64, device=tables[0].device)
            return
        for table, new in zip(self.tables, tables, strict=True):
            table.copy_(new)
        self.number.zero_()

    def next_rows(self) -> list[Tensor]:
        """Select the row of the next step from each table, without synchronising."""
        rows = [table.index_select(0, self.number)[0] for table in self.tables]
        self.number += 1
        return rows


#: Makes an optimiser: ``make(groups, lr=…, weight_decay=…)``.
MakeOptimiser = Callable[..., torch.optim.Optimizer]

_torch: Any = torch  # operations on lists of tensors have no type stubs


class Objective(nn.Module):
    """Augmentation, network and loss in one module, from a stored batch to its loss.

    Only the network is compiled: it takes most of the time, and the others may be any Python code.
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
        # in a tuple, because otherwise its weights would be registered twice
        self.call_network = (compiler(compiled)(network),)
        self.loss = loss
        # nullcontext ignores its argument and takes less time than an autocast that is disabled
        self.precision = partial(torch.autocast, dtype=torch.bfloat16) if bfloat16 else nullcontext
        # a tuple, so that augmentations which are modules are not part of the state
        self.augments = of_each_view(augment, loss.n_views)
        # what naysay provides draws from the private generator by itself, and faster
        draws = may_draw(network) or may_draw(loss) or not all(map(is_built_in, self.augments))
        self.drawing = drawing_privately if draws else nullcontext

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of a batch."""
        inputs = inputs.float()
        with nullcontext() if generator() is None else self.drawing():
            with self.precision(inputs.device.type):
                views = [augment(inputs) for augment in self.augments]
                logits = self.call_network[0](views[0] if len(views) == 1 else torch.cat(views))
            if len(views) > 1:
                logits = logits.unflatten(0, (len(views), len(inputs)))
            return self.loss(logits.float(), labels)


def compiler(compiled: bool) -> Callable[[Any], Any]:
    """Choose a function that compiles its argument, or the identity if `compiled` is False.

    Code is compiled for each batch size: there are few, and code for all sizes is slower.
    """
    return partial(_torch.compile, dynamic=False) if compiled else lambda work: work


def average_weights(decay: float, first_step: int, n_steps: int) -> list[float]:
    """Compute the weight of the current network weights in their moving average, for each step.

    It is 1 minus the decay, where the decay grows with the number of steps up to `decay`, so that
    the average forgets the initial weights.

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
        # Gradient ascent along the current values with weight decay 1 is a moving average:
        # average -= weight * (average - value). Torch has no other fused operation on lists of
        # tensors that reads its weight from the device without synchronising.
        for average, value in zip(self.averages, self.current, strict=True):
            average.grad = value
        self.by_ascent = torch.optim.SGD(
            self.averages, lr=self.weight, weight_decay=1.0, maximize=True, fused=True
        )
        self.can_sync = device.type == "cpu"  # reading a number there costs nothing

    def begin_epoch(self, n_steps: int) -> list[float]:
        """Compute the weight of each of the next steps in the average, and count these steps."""
        self.n_steps += n_steps
        return average_weights(self.decay, self.n_steps - n_steps, n_steps)

    def update(self) -> None:
        """Move the averages towards the current weights."""
        if self.can_sync:
            _torch._foreach_lerp_(self.averages, self.current, self.weight.item())
        else:
            self.by_ascent.step()  # pyright: ignore[reportUnknownMemberType]

    def state(self) -> dict[str, Tensor]:
        """Copy the averages by name, and the integer buffers, which are not averaged."""
        averaged = dict(zip(self.names, self.averages, strict=True))
        return {name: value.clone() for name, value in (averaged | self.counters).items()}


@dataclass
class Step:
    """Forward and backward pass, clipping, optimiser and moving average, for each batch."""

    objective: nn.Module
    optimiser: torch.optim.Optimizer
    averages: Averages
    examples: Examples
    max_norm: float | None = None
    set_progress: Callable[[Any], None] = lambda share: None

    def __post_init__(self) -> None:
        self.parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.descend = _plain_step(self.optimiser)
        device = self.examples.device
        self.total = torch.zeros((), device=device)  # sum of the losses of an epoch
        self.share = torch.zeros((), device=device)  # of training done, for a CUDA graph

    def run_epoch(self, order: Tensor, rates: Sequence[float], shares: Sequence[float]) -> None:
        """Take one step for each learning rate, on equal parts of the order."""
        weights = self.averages.begin_epoch(len(rates))
        numbers = zip(rates, weights, shares, strict=True)
        every = batches(self.examples, order, len(order) // len(rates))
        for numbers_of_step, batch in zip(numbers, every, strict=True):
            self.set_numbers(*numbers_of_step)
            self.work(*batch)

    def set_numbers(self, rate: Any, weight: Any, share: Any) -> None:
        """Set learning rate, weight in the average and share of training done."""
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)  # in place, because a captured step reads it
            else:
                group["lr"] = rate
        self.averages.weight.fill_(weight)
        self.set_progress(self.share.fill_(share) if self.share.is_cuda else share)

    def work(self, inputs: Tensor, labels: Tensor) -> None:
        """Take one step on a batch."""
        for parameter in self.parameters:
            parameter.grad = None  # so that a CUDA graph writes gradients and does not add
        loss = self.objective(inputs, labels)
        loss.backward()
        if self.max_norm is not None:
            clip_grad_norm_(self.parameters, self.max_norm)
        self.descend()
        self.averages.update()
        self.total += loss.detach()


class CapturedStep(Step):
    """The same step, captured in one CUDA graph and replayed.

    The order, rates, weights and shares of an epoch are tables on the device, and the graph itself
    counts the steps. Inputs that are stored elsewhere are copied to one buffer, batch by batch.
    """

    def __init__(self, *arguments: Any, recorder: Any = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tables = Tables()
        self.batch: tuple[Tensor, Tensor] | None = None  # for inputs that are stored elsewhere
        self.replay = Captured(self.next_step, recorder or CudaRecorder(self.examples.device))

    def run_epoch(self, order: Tensor, rates: Sequence[float], shares: Sequence[float]) -> None:
        """Take one step for each learning rate, by replaying the graph."""
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
            for buffer, tensor in zip(self.batch, batch, strict=True):
                buffer.copy_(tensor)
            self.replay()

    def next_step(self) -> None:
        """Take the step that is next in the tables."""
        index, numbers = self.tables.next_rows()
        self.set_numbers(*numbers)
        self.work(*(self.examples.batch(index) if self.batch is None else self.batch))


def _plain_step(optimiser: torch.optim.Optimizer) -> Callable[[], Any]:
    """Choose the fastest step function of an optimiser.

    That of torch's own optimisers leaves out the hooks and the profiling around the step, which
    take a noticeable share of the time of small networks.
    """
    if type(optimiser) not in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        return optimiser.step
    return partial(torch.no_grad()(inspect.unwrap(type(optimiser).step)), optimiser)


def make_optimiser(
    make: MakeOptimiser, network: nn.Module, loss: nn.Module, **settings: Any
) -> torch.optim.Optimizer:
    """Make an optimiser of network and loss, without weight decay of the loss's parameters."""
    groups: list[dict[str, Any]] = [{"params": list(network.parameters())}]
    if loss_parameters := list(loss.parameters()):
        groups.append({"params": loss_parameters, "weight_decay": 0.0})
    return make(groups, **settings)


def adamw(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Make AdamW: Adam with decoupled weight decay."""
    return _make_adam(torch.optim.AdamW, groups, lr=lr, weight_decay=weight_decay)


def adam(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Make Adam, with weight decay as part of the gradient, as in the paper."""
    return _make_adam(torch.optim.Adam, groups, lr=lr, weight_decay=weight_decay)


def _make_adam(kind: MakeOptimiser, groups: Any, *, lr: Any, **settings: Any) -> Any:
    is_captured = isinstance(lr, Tensor) and lr.is_cuda
    return kind(groups, lr=lr, fused=True, capturable=is_captured, **settings)


def sgd(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Make stochastic gradient descent with a Nesterov momentum of 0.9."""
    return torch.optim.SGD(
        groups, lr=lr, weight_decay=weight_decay, momentum=0.9, nesterov=True, fused=True
    )


#: The optimisers by name; these are also the ones that `naysay.ensemble` supports.
OPTIMISERS: dict[str, MakeOptimiser] = {"adamw": adamw, "adam": adam, "sgd": sgd}
