"""Fit one network: one visible loop over data that lies on the device.

A loss is any callable ``loss(logits, labels)`` that gives a scalar. A loss that is a module may ask
for more, and the loop serves it without knowing which loss it is:

- its parameters are trained with the network's, without weight decay, and averaged and kept alike;
- ``n_views``, a number above 1: in training mode it gets the logits of so many views of the batch,
  shape (n_views, N, K); in evaluation mode, on held-out examples, logits (N, K);
- ``set_progress(share)`` is called before each step with the share of all steps that are done.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from naysay._errors import InvalidInput
from naysay.augmentation import Augment

__all__ = ["Options", "fit", "predict_logits", "seeded"]

Loss = Callable[[Tensor, Tensor], Tensor]
EpochRecord = dict[str, float]

_WARM_UP = 0.1  # share of all steps over which the learning rate rises
_AVERAGE_DECAY = 0.99  # of the moving average of the weights, about the last 100 steps
_PREDICT_BATCH = 4096


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to train: optimiser settings and when to stop."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    patience: int


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Make torch's randomness (weights, dropout, order) follow `seed`, and restore it after."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        yield


def fit(
    network: nn.Module,
    X: Tensor,
    labels: Tensor,
    loss: Loss,
    options: Options,
    *,
    held_out: tuple[Tensor, Tensor] | None = None,
    augment: Augment = lambda inputs: inputs,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
) -> list[EpochRecord]:
    """Train a network in place and return one record per epoch.

    AdamW with a cosine schedule after a warm-up. The weights kept are a moving average, which is
    steadier than the last step. With held-out examples they are the average at the epoch of least
    held-out loss, and training stops `patience` epochs after it. No true label is ever seen.

    Parameters
    ----------
    network : Module
        On the device of X; ends in evaluation mode with the weights kept.
    X, labels : Tensor
        Inputs, first axis examples, and complementary labels.
    loss : callable
        ``loss(logits, labels)`` gives a scalar; a module may ask for more, see above. It ends
        in evaluation mode with the parameters kept.
    held_out : pair of Tensor, optional
        Inputs and complementary labels to stop on.
    augment : callable
        ``augment(inputs)`` gives another view of a batch. Every view trained on is made by it,
        the held-out examples are left as they are. The default changes nothing.
    on_epoch : callable
        Called with each epoch's record.
    """
    module = loss if isinstance(loss, nn.Module) else _Plain(loss)
    trained = nn.ModuleList([network, module])
    groups = [
        {"params": list(network.parameters())},
        {"params": list(module.parameters()), "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(
        groups, lr=options.lr, weight_decay=options.weight_decay, fused=True
    )
    average = AveragedModel(trained, multi_avg_fn=_moving_average, use_buffers=True)
    n_views = getattr(module, "n_views", 1)
    set_progress = getattr(module, "set_progress", lambda share: None)
    n_batches = _count_batches(len(X), options.batch_size)
    history: list[EpochRecord] = []
    best = math.inf
    kept = None
    best_epoch = step = 0
    for epoch in range(options.epochs):
        start = time.perf_counter()
        trained.train()
        total = torch.zeros((), device=X.device)
        for batch in torch.randperm(len(X), device=X.device).tensor_split(n_batches):
            share = step / (options.epochs * n_batches)
            set_progress(share)
            for group in optimiser.param_groups:
                group["lr"] = _schedule(share) * options.lr
            optimiser.zero_grad()
            inputs = X[batch].float()
            logits = network(torch.cat([augment(inputs) for _ in range(n_views)]))
            if n_views > 1:
                logits = logits.unflatten(0, (n_views, len(batch)))
            batch_loss = module(logits, labels[batch])
            batch_loss.backward()
            optimiser.step()
            average.update_parameters(trained)
            total += batch_loss.detach() * len(batch)
            step += 1
        record = {"epoch": epoch + 1, "loss": total.item() / len(X)}
        _check_finite(record)
        if held_out is not None:
            average.eval()
            averaged, averaged_loss = cast("nn.ModuleList", average.module)
            logits = predict_logits(averaged, held_out[0])
            record["held_out_loss"] = averaged_loss(logits, held_out[1]).item()
            _check_finite(record)
            if record["held_out_loss"] < best:
                best, best_epoch = record["held_out_loss"], epoch
                kept = copy.deepcopy(average.module.state_dict())
        record["seconds"] = time.perf_counter() - start
        history.append(record)
        on_epoch(record)
        if held_out is not None and epoch - best_epoch >= options.patience:
            break
    trained.load_state_dict(average.module.state_dict() if kept is None else kept)
    trained.eval()
    return history


class _Plain(nn.Module):
    """A callable as a loss that asks for nothing more."""

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.loss(logits, labels)

    def __deepcopy__(self, memo: dict[int, object]) -> "_Plain":
        return _Plain(self.loss)  # it may count its calls, or hold what cannot be copied


@torch.no_grad()
def predict_logits(network: nn.Module, X: Tensor) -> Tensor:
    """Return the logits of all examples, in evaluation mode, a part at a time."""
    network.eval()
    return torch.cat([network(part.float()) for part in X.split(_PREDICT_BATCH)])


def _count_batches(n_samples: int, batch_size: int) -> int:
    """Return into how many batches of nearly equal size to split.

    No batch of one is left over, which batch norm could not take, unless it was asked for.
    """
    n_batches = math.ceil(n_samples / batch_size)
    return max(1, n_samples // 2) if n_batches > n_samples // 2 and batch_size > 1 else n_batches


def _schedule(progress: float) -> float:
    """Return the share of the learning rate: up over the warm-up, down along a cosine."""
    return min(1.0, (progress + 1e-3) / _WARM_UP) * 0.5 * (1 + math.cos(math.pi * progress))


def _moving_average(
    averaged: Sequence[Tensor], current: Sequence[Tensor], n_averaged: Tensor | int
) -> None:
    """Average with a horizon that grows up to the full one, so that the start is forgotten."""
    n = float(n_averaged)
    weight = 1 - min(_AVERAGE_DECAY, (1 + n) / (10 + n))
    for old, new in zip(averaged, current, strict=True):
        old.lerp_(new, weight) if old.is_floating_point() else old.copy_(new)


def _check_finite(record: EpochRecord) -> None:
    loss = record.get("held_out_loss", record["loss"])
    if not math.isfinite(loss):
        raise InvalidInput(
            f"Training must keep the loss finite; in epoch {record['epoch']} it became {loss}. "
            "Lower lr, or scale the inputs."
        )
