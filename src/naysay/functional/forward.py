"""Forward correction: the network predicts the class, and Q turns this into the given label."""

from collections.abc import Callable

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional.batch import as_transition, describe, flatten_with_columns, reduce
from naysay.functional.columns import StackedColumns
from naysay.functional.negative_log import fused_mean_or_none, negative_log_q
from naysay.transition import TransitionMatrix

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
    if weight is None and reduction == "mean" and not isinstance(Q, StackedColumns):
        Q = as_transition(Q)
        mean = fused_mean_or_none(logits, comp_labels, Q, ignore_index)
        if mean is not None:
            return mean
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
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
    return forward_loss(
        logits,
        comp_labels,
        Q,
        weight,
        base=_squared_error,
        ignore_index=ignore_index,
        reduction=reduction,
    )


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
    a proper loss, so Theorem 1 does not apply.

    Parameters not listed are those of `forward_cross_entropy`.

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
    q = columns.q(batch.logits.softmax(dim=1))
    # Where q underflows to 0 the derivative of a base such as q**0.7 is infinite, and infinity
    # times the zero gradient of the softmax is NaN. The smallest normal number avoids this.
    losses = base(q.clamp_min(torch.finfo(q.dtype).tiny), batch.labels)
    if not isinstance(losses, Tensor) or losses.shape != batch.labels.shape:
        raise InvalidInput(
            f"base must return one loss per example, shape {tuple(batch.labels.shape)}. "
            f"Got {describe(losses)}. Inside base use reduction='none'."
        )
    return reduce(losses, batch, weight, reduction)


def _squared_error(q: Tensor, labels: Tensor) -> Tensor:
    distance = q.scatter_add(1, labels[:, None], -torch.ones_like(q[:, :1]))
    return distance.square().sum(1)
