"""Forward correction: the network predicts the class, and Q turns this into the given label.

-log q_ȳ, its loss, is computed in as few operations as possible. For 256 examples of 10 classes
each operation takes about as long as the call to it, so the number of operations decides the speed.
For 1000 classes it is the number of passes over the data.
"""

# torch does not say which types autograd and its functions return
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional.batch import Batch, can_sync, describe_tensor, flatten_with_columns, reduce
from naysay.functional.columns import (
    Columns,
    DenseColumns,
    SparseColumns,
    UniformColumns,
    columns_of,
)
from naysay.transition import TransitionMatrix, as_transition_matrix

_REGISTER = 16  # float32 numbers in a vector register

# A sum of probabilities below this has lost digits to underflow.
_LEAST_TOTAL = {
    dtype: torch.finfo(dtype).tiny / torch.finfo(dtype).eps
    for dtype in (torch.float32, torch.float64)
}

#: A loss on probabilities: ``base(q, labels)`` maps shapes (n, K) and (n,) to (n,).
BaseLoss = Callable[[Tensor, Tensor], Tensor]


def forward_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected cross-entropy, the loss of the paper ("LM").

    .. math:: \ell(f, ȳ) = -\log \sum_k Q_{k ȳ} \, \mathrm{softmax}(f)_k

    It is computed in log space, which is exact for logits of ±1000, and its gradients lie within
    [-1, 1]. If Q is invertible, its minimiser is the classifier that minimises the ordinary
    cross-entropy on true labels (Theorem 1).

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
        With float16 and bfloat16 the loss is computed and returned in float32.
    comp_labels : integer Tensor of shape (N,) or (N, d1, …)
        A class that each example does not belong to.
    Q : TransitionMatrix or array-like of shape (K, K)
        An array is checked at each call, so prefer a `TransitionMatrix`, which is checked once.
    weight : Tensor of shape (K,), optional
        Weight of each complementary label. The reduction ``"mean"`` is then a weighted mean.
    ignore_index : int, default=-100
        Examples with this label are ignored.
    reduction : {"mean", "sum", "none"}, default="mean"
        The mean over an empty batch is 0.

    Raises
    ------
    InvalidLabels
        If a label is out of range, or its column of Q is all zero. On a GPU and in compiled code
        it is an assertion on the device instead, because reading labels would stall the device.

    References
    ----------
    Yu et al. 2018, equations (5), (6) and (10); (21) in appendix C for the gradient.
    https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    >>> logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    >>> Q = TransitionMatrix.uniform(3)
    >>> forward_cross_entropy(logits, torch.tensor([1, 1]), Q, reduction="none")
    tensor([0.7110, 4.0360])
    """
    matrix = Q
    if weight is None and reduction == "mean" and not isinstance(Q, DenseColumns):
        matrix = as_transition_matrix(Q)
        mean = fused_mean_or_none(logits, comp_labels, matrix, ignore_index)
        if mean is not None:
            return mean
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, matrix)
    losses = negative_log_q(columns, batch.logits, batch.labels)
    return reduce(losses, batch, weight, reduction)


def forward_squared_error(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected squared error.

    .. math:: \ell(f, ȳ) = \sum_j (1[ȳ = j] - q_j)^2, \quad q = Q^\top \mathrm{softmax}(f)

    It is bounded by 2, so wrong labels affect it less than the cross-entropy. The parameters are
    those of `forward_cross_entropy`.

    References
    ----------
    Yu et al. 2018, equation (6), with the loss of section 5, "Examples of Loss Functions".
    https://doi.org/10.1007/978-3-030-01246-5_5
    """
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    q = _label_probs(batch, columns)
    distance = q.scatter_add(1, batch.labels[:, None], -torch.ones_like(q[:, :1]))
    return reduce(distance.square().sum(1), batch, weight, reduction)


def forward_absolute_error(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected absolute error.

    .. math:: \ell(f, ȳ) = \sum_j |1[ȳ = j] - q_j| = 2 (1 - q_ȳ), \quad
              q = Q^\top \mathrm{softmax}(f)

    It is bounded by 2 and robust to wrong labels, but training with it is slow. It is not a proper
    loss, so Theorem 1 does not apply. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Yu et al. 2018, equation (6), for the correction: https://doi.org/10.1007/978-3-030-01246-5_5.
    Ghosh et al. 2017 for the absolute error: https://doi.org/10.48550/arXiv.1712.09482
    """
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    losses = negative_log_q(columns, batch.logits, batch.labels)
    return reduce(-2 * torch.expm1(-losses), batch, weight, reduction)


def forward_generalised_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    gamma: float = 0.7,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected generalised cross-entropy.

    .. math:: \ell(f, ȳ) = (1 - q_ȳ^{\gamma}) / \gamma, \quad q = Q^\top \mathrm{softmax}(f)

    It lies between the cross-entropy (gamma → 0) and half the absolute error (gamma = 1). It is not
    a proper loss, so Theorem 1 does not apply. Other parameters are those of
    `forward_cross_entropy`.

    Parameters
    ----------
    gamma : float, default=0.7
        A number above 0 and at most 1. The default is that of the source.

    References
    ----------
    Yu et al. 2018, equation (6), for the correction: https://doi.org/10.1007/978-3-030-01246-5_5.
    Zhang & Sabuncu 2018 for the loss: https://doi.org/10.48550/arXiv.1805.07836
    """
    if not 0 < gamma <= 1:
        raise InvalidInput(f"gamma must be above 0 and at most 1. Got {gamma!r}.")
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    losses = negative_log_q(columns, batch.logits, batch.labels)
    return reduce(-torch.expm1(-gamma * losses) / gamma, batch, weight, reduction)


def forward_loss(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    base: BaseLoss,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward correction of any loss.

    .. math:: \ell(f, ȳ) = \mathrm{base}(Q^\top \mathrm{softmax}(f), ȳ)

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    base : callable
        ``base(q, labels)`` takes probabilities q of shape (n, K) and labels of shape (n,) and
        returns losses of shape (n,). If it is proper and Q is invertible, Theorem 1 applies. For
        the cross-entropy use `forward_cross_entropy`, which is exact where q underflows.

    References
    ----------
    Yu et al. 2018, equation (6). https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    Generalised cross-entropy, which is less sensitive to wrong labels:

    >>> def generalised(q, labels, gamma=0.7):
    ...     return (1 - q.gather(1, labels[:, None])[:, 0] ** gamma) / gamma
    >>> logits = torch.tensor([[4.0, 0.0, 0.0]])
    >>> forward_loss(logits, torch.tensor([1]), TransitionMatrix.uniform(3), base=generalised)
    tensor(0.5601)
    """
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    losses = base(_label_probs(batch, columns), batch.labels)
    if not isinstance(losses, Tensor) or losses.shape != batch.labels.shape:
        raise InvalidInput(
            f"base must return one loss per example, shape {tuple(batch.labels.shape)}. "
            f"Got {describe_tensor(losses)}. Inside base use reduction='none'."
        )
    return reduce(losses, batch, weight, reduction)


def _label_probs(batch: Batch, columns: Columns) -> Tensor:
    """Compute q, shape (n, K), above 0.

    Where q underflows to 0 the derivative of a base such as q**0.7 is infinite, and infinity times
    the zero gradient of the softmax is NaN. The smallest normal number avoids this.
    """
    q = columns.q(batch.logits.softmax(1))
    return q.clamp_min(torch.finfo(q.dtype).tiny)


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
    """Compute the mean of -log q_ȳ in the most common case, and return None in any other.

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
    # torch has no public name for this
    is_transformed = torch._C._are_functorch_transforms_active  # pyright: ignore[reportPrivateUsage]
    return can_sync(logits) and not is_transformed()


class _FusedNegativeLog(torch.autograd.Function):
    """-log Σ_k Q[k, ȳ] p_k, whose gradient is p minus the posterior Q[k, ȳ] p_k / q_ȳ.

    A few classes are laid out class by class, because torch processes rows that are shorter than a
    vector register one number at a time, which is six times slower for 10 classes.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, columns: UniformColumns | DenseColumns, mean: bool
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
            if isinstance(columns, UniformColumns):
                value += math.log(columns.n_others)
        else:
            with torch.enable_grad():
                constant = logits.detach().requires_grad_()
                value = -columns.log_q_of(constant, labels)
                gradient = torch.autograd.grad(value.sum(), constant)[0]
            value = value.detach().mean() if mean else value.detach()
        ctx.save_for_backward(logits)
        ctx.rest = labels, columns, share if mean else None, gradient
        return value

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        labels, columns, share, gradient = ctx.rest
        if torch.is_grad_enabled():  # for second derivatives autograd needs the formula
            (logits,) = ctx.saved_tensors
            losses = -columns.log_q_of(logits, labels)
            second: Tensor = torch.autograd.grad(losses.sum(), logits, create_graph=True)[0]
            gradient = second
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
