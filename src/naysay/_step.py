"""One step of training, run as written or captured in a CUDA graph and replayed."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from naysay._errors import NaysayWarning
from naysay.augmentation import Augment

#: Makes an optimiser: ``make(groups, lr=…, weight_decay=…)``.
MakeOptimiser = Callable[..., torch.optim.Optimizer]

_torch: Any = torch  # its operations on lists of tensors have no types
_WARM_UPS = 3  # steps before the capture: libraries choose their kernels, the optimiser its state


class Objective(nn.Module):
    """From a batch as it is stored to its loss: augmentation, network and loss in one module.

    Only the network is compiled: it is where the time goes, and the others may be anything.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: nn.Module,
        augment: Augment,
        *,
        bfloat16: bool = False,
        compiled: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        # in a tuple, or its weights would be listed twice
        self.call_network = (torch.compile(network) if compiled else network,)
        self.loss = loss
        self.augment = partial(augment)  # no part of the state, even where it is a module
        self.uses_bfloat16 = bfloat16
        self.n_views: int = getattr(loss, "n_views", 1)

    def forward(self, inputs: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=self.uses_bfloat16):
            inputs = inputs.float()
            if self.n_views == 1:
                logits = self.call_network[0](self.augment(inputs))
            else:
                views = torch.cat([self.augment(inputs) for _ in range(self.n_views)])
                logits = self.call_network[0](views).unflatten(0, (self.n_views, len(inputs)))
        return self.loss(logits.float(), labels)


class Averages:
    """Moving averages of all weights and buffers.

    Their horizon grows with the number of steps up to the full one, so that the start is forgotten.
    """

    def __init__(self, module: nn.Module, decay: float, device: torch.device) -> None:
        state = module.state_dict()
        self.decay = decay
        self.n_steps = 0
        self.names = [name for name, value in state.items() if value.is_floating_point()]
        self.current = [state[name] for name in self.names]
        self.averages = [value.clone() for value in self.current]
        self.counters = {k: v for k, v in state.items() if not v.is_floating_point()}
        self.weight = torch.zeros((), device=device)

    def begin_step(self) -> None:
        """Set how much the coming weights count, where a captured step reads it."""
        self.weight.fill_(1 - min(self.decay, (1 + self.n_steps) / (10 + self.n_steps)))
        self.n_steps += 1

    def update(self) -> None:
        """Take in the present weights."""
        if self.weight.is_cuda:
            differences = _torch._foreach_sub(self.current, self.averages)
            _torch._foreach_mul_(differences, self.weight)
            _torch._foreach_add_(self.averages, differences)
        else:  # in one pass
            _torch._foreach_lerp_(self.averages, self.current, self.weight.item())

    def state(self) -> dict[str, Tensor]:
        """Return copies of the averages by name; counters are as they are."""
        averaged = dict(zip(self.names, self.averages, strict=True))
        return {name: value.clone() for name, value in (averaged | self.counters).items()}


class Step:
    """Forward, backward, clipping, optimiser and average, once per call."""

    def __init__(
        self,
        objective: nn.Module,
        optimiser: torch.optim.Optimizer,
        averages: Averages,
        max_norm: float | None,
        device: torch.device,
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.averages = averages
        self.max_norm = max_norm
        self.parameters = [p for group in optimiser.param_groups for p in group["params"]]
        self.total = torch.zeros((), device=device)  # of the losses, until it is taken

    def __call__(self, inputs: Tensor, labels: Tensor) -> None:
        self.averages.begin_step()
        self.optimiser.zero_grad()
        self.work(inputs, labels)

    def work(self, inputs: Tensor, labels: Tensor) -> None:
        """Do what a step does on the device."""
        loss = self.objective(inputs, labels)
        loss.backward()
        if self.max_norm is not None:
            clip_grad_norm_(self.parameters, self.max_norm)
        self.optimiser.step()
        self.averages.update()
        self.total += loss.detach()

    def take_total(self) -> Tensor:
        """Return the sum of the losses since it was last taken."""
        total = self.total.clone()
        self.total.zero_()
        return total


class CapturedStep(Step):
    """The same, captured in one CUDA graph after a few steps and replayed from then on.

    Batches must all have one shape. A network or loss that cannot be captured, because it looks at
    numbers on the way, is run as written, with a warning.
    """

    graph: torch.cuda.CUDAGraph | None = None
    cannot = False  # be captured
    n_warm_ups = 0  # in this process: a resumed training has steps behind it, but no kernels yet
    inputs: Tensor
    labels: Tensor

    def __call__(self, inputs: Tensor, labels: Tensor) -> None:
        if self.n_warm_ups < _WARM_UPS:
            self.n_warm_ups += 1
            self._warm_up(inputs, labels)
            return
        if self.graph is None and not self.cannot:
            try:
                self.graph = self._capture(inputs, labels)
            except RuntimeError as error:
                warnings.warn(
                    "This network or loss cannot be captured in a CUDA graph, so training is "
                    f"slower: {str(error).splitlines()[0]}",
                    NaysayWarning,
                    stacklevel=2,
                )
                self.cannot = True
        if self.graph is None:
            super().__call__(inputs, labels)
            return
        self.averages.begin_step()
        self.inputs.copy_(inputs)
        self.labels.copy_(labels)
        self.graph.replay()

    def _warm_up(self, inputs: Tensor, labels: Tensor) -> None:
        """Do a step on another stream, as a capture will."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            super().__call__(inputs, labels)
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self, inputs: Tensor, labels: Tensor) -> torch.cuda.CUDAGraph:
        self.inputs, self.labels = inputs.clone(), labels.clone()
        self.optimiser.zero_grad()  # so that the backward pass writes gradients, not adds
        torch.cuda.empty_cache()  # of the steps before: the graph has memory of its own
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.work(self.inputs, self.labels)
        return graph


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
    return torch.optim.AdamW(
        groups,
        lr=lr,
        weight_decay=weight_decay,
        fused=True,
        capturable=isinstance(lr, Tensor) and lr.is_cuda,
    )


def adam(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Adam whose weight decay is part of the gradient, as in the paper."""
    return torch.optim.Adam(
        groups,
        lr=lr,
        weight_decay=weight_decay,
        fused=True,
        capturable=isinstance(lr, Tensor) and lr.is_cuda,
    )


def sgd(groups: Any, *, lr: Any, weight_decay: float) -> torch.optim.Optimizer:
    """Stochastic gradient descent with Nesterov momentum of 0.9."""
    return torch.optim.SGD(
        groups, lr=lr, weight_decay=weight_decay, momentum=0.9, nesterov=True, fused=True
    )


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; as a tensor, where a captured step reads it, in place."""
    for group in optimiser.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
