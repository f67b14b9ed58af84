"""Train again where held-out labels say that a class has collapsed."""

import copy
from typing import Any

import torch
from torch import nn

from naysay._base.errors import InvalidTransitionMatrix
from naysay._targets import TrueLabelsToo, log_scores
from naysay._trainer import Trainer
from naysay.quality import find_collapsed_classes
from naysay.training import Examples, predict_logits
from naysay.training.loop import EpochRecord
from naysay.transition import TransitionMatrix


def train_sound(
    trainer: Trainer,
    loss: nn.Module,
    examples: Examples,
    held_out: Examples | None,
    Q: TransitionMatrix,
    restarts: int,
    **hooks: Any,
) -> tuple[nn.Module, list[EpochRecord]]:
    """Train, and again up to `restarts` times while a class is dead, merged or swapped.

    Kept is the network of least held-out loss, with the loss as it was trained beside it.
    """
    start = copy.deepcopy(loss.state_dict())
    network, history = trainer.train(loss, examples, held_out, "training", **hooks)
    for number in range(restarts):
        if held_out is None or not _has_collapsed(network, loss, held_out, Q):
            break
        kept = copy.deepcopy(loss.state_dict())
        loss.load_state_dict(start)
        what = f"training again {number + 1}"
        other, its_history = trainer.train(loss, examples, held_out, what, **hooks)
        if _least(its_history) < _least(history):
            network, history = other, its_history
        else:
            loss.load_state_dict(kept)
    return network, history


@torch.no_grad()
def _has_collapsed(
    network: nn.Module, loss: nn.Module, held_out: Examples, Q: TransitionMatrix
) -> bool:
    if held_out.labels.ndim > 1:
        return False  # several answers per example: only one each can be judged so
    inner = loss.loss if isinstance(loss, TrueLabelsToo) else loss
    scores = log_scores(inner, predict_logits(network, held_out).double())
    try:
        found = find_collapsed_classes(scores.exp().cpu().numpy(), held_out.labels.cpu().numpy(), Q)
    except InvalidTransitionMatrix:
        return False  # a singular Q cannot tell
    return bool(found)


def _least(history: list[EpochRecord]) -> float:
    return min(record["held_out_loss"] for record in history)
