"""Every loss as a pure function of logits and complementary labels.

Notation: K classes, logits f, p = softmax(f), ȳ the complementary label ("not ȳ"),
``Q[i, j] = P(ȳ = j | class i)``, q = Qᵀ p. Shapes and reductions are those of
`torch.nn.functional.cross_entropy`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._checks import named
from naysay._columns import Columns, columns_of, label_rules
from naysay._errors import InvalidInput, InvalidLabels
from naysay.transition import TransitionMatrix

__all__ = [
    "BaseLoss",
    "forward_cross_entropy",
    "forward_loss",
    "forward_squared_error",
    "pairwise_comparison",
]

#: A loss on predicted probabilities: ``base(q, labels)``, shapes (n, K) and (n,), gives (n,).
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

    Computed in log space: exact for logits of ±1000, gradients within [-1, 1]. With an invertible
    Q its minimiser is the classifier that true labels would give (Theorem 1).

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
        float16 and bfloat16 are computed, and returned, in float32.
    comp_labels : integer Tensor of shape (N,) or (N, d1, …)
        The class that each example does not belong to.
    Q : TransitionMatrix or array-like of shape (K, K)
        Make a `TransitionMatrix` once rather than passing an array, which is checked each time.
    weight : Tensor of shape (K,), optional
        Weight of each complementary label; ``"mean"`` is then the weighted mean.
    ignore_index : int, default=-100
        Label of examples to leave out.
    reduction : {"mean", "sum", "none"}, default="mean"
        The mean of no example is 0.

    Raises
    ------
    InvalidLabels
        If a label is out of range, or its column of Q is all zero. On a GPU and in compiled code,
        where looking would stall the device, this is an assertion on the device instead.

    References
    ----------
    Yu et al. 2018, equations (7), (8) and (17); appendix C for the gradient.

    Examples
    --------
    >>> logits = torch.tensor([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    >>> Q = TransitionMatrix.uniform(3)
    >>> forward_cross_entropy(logits, torch.tensor([1, 1]), Q, reduction="none")
    tensor([0.7110, 4.0360])
    """
    matrix = as_transition(Q)
    batch = _flatten(logits, comp_labels, ignore_index, matrix)
    columns = columns_of(matrix, batch.logits.dtype, batch.logits.device)
    losses = -columns.log_q_of(batch.logits, batch.labels)
    return _reduce(losses, batch, weight, reduction)


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

    Bounded by 2, so less moved by wrong labels than the cross-entropy. Parameters as for
    `forward_cross_entropy`.

    References
    ----------
    Yu et al. 2018, section 5, "Examples of Loss Functions".
    """
    return forward_loss(
        logits,
        comp_labels,
        Q,
        weight,
        base=_squared_error,
        ignore_index=ignore_index,
        reduction=reduction,
    )


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

    Parameters
    ----------
    base : callable
        ``base(q, labels)`` with probabilities q of shape (n, K) and labels of shape (n,) gives
        the losses of shape (n,). If it is proper and Q invertible, Theorem 1 holds. For the
        cross-entropy use `forward_cross_entropy`, which is exact where q underflows.

    The other parameters are those of `forward_cross_entropy`.

    References
    ----------
    Yu et al. 2018, equation (8).

    Examples
    --------
    Generalised cross-entropy, which is less sensitive to wrong labels:

    >>> def generalised(q, labels, gamma=0.7):
    ...     return (1 - q.gather(1, labels[:, None])[:, 0] ** gamma) / gamma
    >>> logits = torch.tensor([[4.0, 0.0, 0.0]])
    >>> forward_loss(logits, torch.tensor([1]), TransitionMatrix.uniform(3), base=generalised)
    tensor(0.5601)
    """
    matrix = as_transition(Q)
    batch = _flatten(logits, comp_labels, ignore_index, matrix)
    columns = columns_of(matrix, batch.logits.dtype, batch.logits.device)
    q = columns.q(batch.logits.softmax(dim=1))
    # Where q underflows to 0 the derivative of a base such as q**0.7 is infinite, and infinity
    # times the softmax's 0 is NaN. The least normal number stands in, with gradient 0.
    losses = base(q.clamp_min(torch.finfo(q.dtype).tiny), batch.labels)
    if not isinstance(losses, Tensor) or losses.shape != batch.labels.shape:
        raise InvalidInput(
            f"base must return one loss per example, shape {tuple(batch.labels.shape)}. "
            f"Got {_described(losses)}. Inside base use reduction='none'."
        )
    return _reduce(losses, batch, weight, reduction)


def pairwise_comparison(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Pairwise comparison with the sigmoid loss ("PC/S"), for uniform labels.

    .. math:: \ell(f, ȳ) = \sum_{k ≠ ȳ} \sigma(f_ȳ - f_k)

    Unbiased only when every other class is equally likely to be excluded; it knows no Q.
    Parameters as for `forward_cross_entropy`.

    References
    ----------
    Ishida, Niu, Hu, Sugiyama: Learning from Complementary Labels, NeurIPS 2017, equation (10).
    """
    batch = _flatten(logits, comp_labels, ignore_index)
    excluded = batch.logits.gather(1, batch.labels[:, None])
    # the term k = ȳ is the constant σ(0)
    losses = (excluded - batch.logits).sigmoid().sum(1) - 0.5
    return _reduce(losses, batch, weight, reduction)


def _squared_error(q: Tensor, labels: Tensor) -> Tensor:
    distance = q.scatter_add(1, labels[:, None], -torch.ones_like(q[:, :1]))
    return distance.square().sum(1)


class _Batch(NamedTuple):
    """Logits (n, K), labels (n,), which of them count (None: all), and the labels' shape."""

    logits: Tensor
    labels: Tensor
    kept: Tensor | None
    shape: torch.Size


def as_transition(Q: TransitionMatrix | ArrayLike) -> TransitionMatrix:
    """Return Q as a checked matrix; an array may have a diagonal (annotators who err)."""
    if isinstance(Q, TransitionMatrix):
        return Q
    values = Q.detach().cpu().numpy() if isinstance(Q, Tensor) else Q
    return TransitionMatrix(values, allow_diagonal=True)


def _flatten(
    logits: Tensor, comp_labels: Tensor, ignore_index: int, Q: TransitionMatrix | None = None
) -> _Batch:
    """Check shapes and labels; bring (N, K, d1, …) to (n, K)."""
    if (
        not isinstance(logits, Tensor)
        or logits.ndim < 2
        or not logits.is_floating_point()
        or (Q is not None and logits.shape[1] != Q.n_classes)
    ):
        columns_wanted = "K" if Q is None else Q.n_classes
        raise InvalidInput(
            f"logits must be floating point of shape (N, {columns_wanted}) or "
            f"(N, {columns_wanted}, d1, …), one column per class. Got {_described(logits)}."
        )
    n_classes = logits.shape[1]
    expected = logits.shape[:1] + logits.shape[2:]
    if (
        not isinstance(comp_labels, Tensor)
        or comp_labels.shape != expected
        or comp_labels.dtype not in _INTEGERS
    ):
        raise InvalidLabels(
            f"comp_labels must be integers of shape {tuple(expected)}, one per row of logits. "
            f"Got {_described(comp_labels)}."
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.ndim > 2:
        logits = logits.movedim(1, -1).reshape(-1, n_classes)
    labels = comp_labels.reshape(-1).to(logits.device, torch.int64)
    check = _check_later if logits.is_cuda or torch.compiler.is_compiling() else _check_now
    columns = None if Q is None else columns_of(Q, logits.dtype, logits.device)
    labels, kept = check(labels, n_classes, ignore_index, columns, Q)
    return _Batch(logits, labels, kept, comp_labels.shape)


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"{type(value).__name__}, not a Tensor"


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _check_now(
    labels: Tensor,
    n_classes: int,
    ignore_index: int,
    columns: Columns | None,
    Q: TransitionMatrix | None,
) -> tuple[Tensor, Tensor | None]:
    """Return labels that are safe to look up, and which of them count (None: all)."""
    kept = None
    if len(labels) and (labels.amin() < 0 or ignore_index >= 0):
        kept = labels != ignore_index
    counted = labels if kept is None else labels[kept]
    outside = (counted < 0) | (counted >= n_classes)
    if outside.any():
        raise InvalidLabels(
            f"comp_labels must be integers 0..{n_classes - 1}, or ignore_index={ignore_index}. "
            f"Got {int(counted[outside][0])}, and {int(outside.sum())} of {len(labels)} labels "
            "are out of range."
        )
    if Q is not None and columns is not None and columns.unused is not None:
        impossible = columns.unused[counted]
        if impossible.any():
            label = int(counted[impossible][0])
            raise InvalidLabels(
                f"comp_labels contains class {named(label, Q.classes)}, but Q[:, {label}] is all "
                "zero, so that label could never occur. Re-estimate Q or drop the "
                f"{int((counted == label).sum())} rows."
            )
    return (labels, None) if kept is None else (labels.where(kept, _some_label(columns)), kept)


def _check_later(
    labels: Tensor,
    n_classes: int,
    ignore_index: int,
    columns: Columns | None,
    Q: TransitionMatrix | None,
) -> tuple[Tensor, Tensor]:
    """Do as `_check_now`, without a wait for the device or a break in a compiled graph."""
    kept = labels != ignore_index
    fine = ~kept | ((labels >= 0) & (labels < n_classes))
    looked_up = labels.where(kept & fine, _some_label(columns))
    if columns is not None and columns.unused is not None:
        fine = fine & ~columns.unused[looked_up]
    rules = label_rules(n_classes) if columns is None else columns.rules
    torch.ops.aten._assert_async.msg(fine.all(), rules)
    return looked_up, kept


def _some_label(columns: Columns | None) -> Tensor | int:
    """Return a label that can occur, to stand in for those that do not count."""
    return 0 if columns is None or columns.unused is None else columns.unused.int().argmin()


def _reduce(losses: Tensor, batch: _Batch, weight: Tensor | None, reduction: str) -> Tensor:
    """Weigh, leave out and reduce as `torch.nn.functional.cross_entropy` does."""
    if reduction not in ("mean", "sum", "none"):
        raise InvalidInput(f"reduction must be 'mean', 'sum' or 'none'. Got {reduction!r}.")
    n_classes = batch.logits.shape[1]
    if weight is not None:
        if not isinstance(weight, Tensor) or weight.shape != (n_classes,):
            raise InvalidInput(
                f"weight must hold one number per class, shape ({n_classes},). "
                f"Got {_described(weight)}."
            )
        weights = weight.to(losses)[batch.labels]
        losses = losses * weights
    else:
        weights = None
    if batch.kept is not None:
        losses = losses.where(batch.kept, 0)
        weights = batch.kept.to(losses) if weights is None else weights.where(batch.kept, 0)
    if reduction == "none":
        return losses.reshape(batch.shape)
    if reduction == "sum":
        return losses.sum()
    if weights is None:
        return losses.mean() if len(losses) else losses.sum()
    total = weights.sum()
    return losses.sum() / total.where(total > 0, 1)
