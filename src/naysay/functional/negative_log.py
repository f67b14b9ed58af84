"""-log q_ȳ, the loss of forward correction, in as few operations as possible.

For 256 examples of 10 classes each operation takes about as long as the call to it, so the number
of operations decides the speed. For 1000 classes it is the number of passes over the data.
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

#: The forms of columns that offer `joint`.
Fusable = UniformColumns | DenseColumns | StackedColumns

_REGISTER = 16  # float32 numbers in a vector register

# A sum of probabilities below this has lost digits to underflow.
_LEAST_TOTAL = {
    dtype: torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    for dtype in (torch.float32, torch.float64)
}


def negative_log_q(columns: Columns, logits: Tensor, labels: Tensor) -> Tensor:
    """Compute -log q_ȳ, shape (n,).

    Where Python can read values without waiting for a device, one softmax gives the loss and its
    gradient, unless it underflows. Elsewhere the loss is computed in log space. The two agree up to
    rounding.
    """
    if len(logits) and not isinstance(columns, SparseColumns) and _can_fuse(logits):
        return _fused(logits, labels, columns, False)
    return -columns.log_q_of(logits, labels)


def fused_mean_or_none(
    logits: Tensor, labels: Tensor, Q: TransitionMatrix, ignore_index: int
) -> Tensor | None:
    """Compute the mean of -log q_ȳ in the most common case, and give None in any other.

    Labels are not checked beforehand: looking one up that is out of range, because it is wrong or
    to be ignored, raises an error. After None the caller checks everything.
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
            except (IndexError, RuntimeError):  # the caller's full check reports what is wrong
                return None
    return None


def _can_fuse(logits: Tensor) -> bool:
    """Check that Python may read values and that no `torch.func` transform is active."""
    return can_sync(logits) and not torch._C._are_functorch_transforms_active()


class _FusedNegativeLog(torch.autograd.Function):
    """-log Σ_k Q[k, ȳ] p_k, whose gradient is p minus the posterior Q[k, ȳ] p_k / q_ȳ.

    A few classes are laid out class by class, because torch processes rows that are shorter than a
    vector register one number at a time, which is six times slower for 10 classes.
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
        axis = 1 if n_classes >= _REGISTER else 0  # the axis of the classes
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
        if torch.is_grad_enabled():  # for second derivatives autograd needs the formula
            (logits,) = ctx.saved_tensors
            losses = -columns.log_q_of(logits, labels)
            gradient = torch.autograd.grad(losses.sum(), logits, create_graph=True)[0]
        given = gradients[0][:, None] if share is None else gradients[0] * share
        return gradient * given, None, None, None


# This skips the Python layer of `Function.apply`, which only serves `torch.func` transforms.
_fused: Callable[..., Tensor] = cast("Any", super(torch.autograd.Function, _FusedNegativeLog)).apply


@lru_cache(maxsize=256)
def _shares(n: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Keep 1 / n and -1 / n as tensors: creating one takes as long as the multiplication."""
    with torch.inference_mode(False):  # inference tensors cannot be trained with
        share = torch.tensor(1 / n, dtype=dtype, device="cpu")
        return share, -share


def _in_log_space(logits: Tensor, labels: Tensor, columns: Fusable) -> tuple[Tensor, Tensor]:
    """Compute -log q_ȳ and its gradient in log space throughout."""
    with torch.enable_grad():
        logits.requires_grad_()
        losses = -columns.log_q_of(logits, labels)
        gradient = torch.autograd.grad(losses.sum(), logits)[0]
    return losses.detach(), gradient
