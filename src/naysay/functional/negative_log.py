"""-log q_ȳ, the loss of forward correction, in as few operations as it takes.

At 256 examples of 10 classes an operation takes as long as its call, so that their number is what
the loss costs; at 1000 classes it is how often the numbers are gone through.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from torch import Tensor

from naysay.functional.batch import can_sync
from naysay.functional.columns import (
    Columns,
    DenseColumns,
    SparseColumns,
    StackedColumns,
    UniformColumns,
    columns_of,
)
from naysay.transition import TransitionMatrix

#: The forms that give the products Q[k, ȳ] p_k of a whole batch as a table.
Fusable = UniformColumns | DenseColumns | StackedColumns

_REGISTER = 16  # numbers in float32 that a processor takes at once

# Below this a total of probabilities has lost digits to underflow.
_LEAST_TOTAL = {
    dtype: torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    for dtype in (torch.float32, torch.float64)
}


def negative_log_q(columns: Columns, logits: Tensor, labels: Tensor) -> Tensor:
    """Return -log q_ȳ, shape (n,).

    Where one can look at numbers without a wait, as on a CPU, it takes a short way unless that
    underflows: one softmax, and a gradient that is written down. Both ways agree to rounding.
    """
    if len(logits) and not isinstance(columns, SparseColumns) and _can_fuse(logits):
        return _fused(logits, labels, columns, False)
    return -columns.log_q_of(logits, labels)


def fused_mean_or_none(
    logits: Tensor, labels: Tensor, Q: TransitionMatrix, ignore_index: int
) -> Tensor | None:
    """Return the mean of -log q_ȳ in the most usual case, or None in any other.

    Nothing is looked at that an operation will refuse itself: a label that is out of range, be it
    wrong or one to ignore, has no place in the table. What is None must be checked in full.
    """
    if (
        isinstance(logits, Tensor)
        and isinstance(labels, Tensor)
        and logits.dtype in _LEAST_TOTAL
        and labels.dtype is torch.int64
        and logits.ndim == 2
        and logits.shape == (*labels.shape, Q.n_classes)
        and logits.shape[0]
        and logits.is_cpu
        and labels.is_cpu
        and ignore_index < 0
        and _can_fuse(logits)
    ):
        columns = columns_of(Q, logits.dtype, logits.device)
        if isinstance(columns, UniformColumns) or (
            isinstance(columns, DenseColumns) and columns.unused is None
        ):
            try:
                return _fused(logits, labels, columns, True)
            except (IndexError, RuntimeError):  # whatever it is, the careful way meets it again
                return None
    return None


def _can_fuse(logits: Tensor) -> bool:
    """Whether Python may read numbers, and no transform of `torch.func` needs the formula."""
    return can_sync(logits) and not torch._C._are_functorch_transforms_active()


class _FusedNegativeLog(torch.autograd.Function):
    """-log Σ_k Q[k, ȳ] p_k, whose gradient is p less the posterior Q[k, ȳ] p_k / q_ȳ.

    Few classes are laid out class by class: torch goes through rows that are shorter than a
    vector register number by number, which for 10 classes takes six times as long.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        labels: Tensor,
        columns: Fusable,
        mean: bool,
    ) -> Tensor:
        n, n_classes = logits.shape
        axis = 1 if n_classes >= _REGISTER else 0  # of the classes
        probs = (logits if axis else logits.t()).softmax(axis)
        joint = columns.joint(probs, labels, axis)
        total = joint.sum(axis, keepdim=True)
        is_exact = total.amin().item() > _LEAST_TOTAL[total.dtype]
        share, minus_share = _shares(n, total.dtype)
        if is_exact:
            gradient = probs.addcdiv_(joint, total, value=-1)
            gradient = gradient if axis else gradient.t()
            logs = total.log_()
            value = logs.sum().mul_(minus_share) if mean else logs.flatten().neg_()
            if columns.scale != 1:
                value += math.log(columns.scale)
        else:
            value, gradient = _in_log_space(logits.detach(), labels, columns)
            value = value.mean() if mean else value
        ctx.save_for_backward(logits)
        ctx.rest = labels, columns, share if mean else None, gradient
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        labels, columns, share, gradient = ctx.rest
        if torch.is_grad_enabled():  # second derivatives: autograd must see the formula
            (logits,) = ctx.saved_tensors
            losses = -columns.log_q_of(logits, labels)
            gradient = torch.autograd.grad(losses.sum(), logits, create_graph=True)[0]
        given = gradients[0][:, None] if share is None else gradients[0] * share
        return gradient * given, None, None, None


# Without the layer of Python in `Function.apply`, which serves transforms: there are none here.
_fused: Callable[..., Tensor] = cast("Any", super(torch.autograd.Function, _FusedNegativeLog)).apply


@lru_cache(maxsize=256)
def _shares(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return 1 / n and -1 / n as tensors: to make one of a number takes as long as to multiply."""
    with torch.inference_mode(False):  # else they could never take part in training
        share = torch.tensor(1 / n, dtype=dtype, device="cpu")
        return share, -share


def _in_log_space(logits: Tensor, labels: Tensor, columns: Fusable) -> tuple[Tensor, Tensor]:
    """Return -log q_ȳ and its gradient, in log space throughout."""
    with torch.enable_grad():
        logits.requires_grad_()
        losses = -columns.log_q_of(logits, labels)
        gradient = torch.autograd.grad(losses.sum(), logits)[0]
    return losses.detach(), gradient
