"""Losses as modules: one shell per function of `naysay.functional`, same stem, same order.

They hold no tensors of their own but the optional weight: the columns of Q follow the device and
precision of the logits.
"""

from numpy.typing import ArrayLike
from torch import Tensor, nn

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.transition import TransitionMatrix

__all__ = ["ForwardCrossEntropy", "ForwardLoss", "ForwardSquaredError", "PairwiseComparison"]


class _Loss(nn.Module):
    weight: Tensor | None

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}, reduction={self.reduction!r}"


class _TransitionLoss(_Loss):
    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.Q = F.as_transition(Q)

    def extra_repr(self) -> str:
        return f"{self.Q!r}, {super().extra_repr()}"


class ForwardCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.forward_cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> loss = ForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> loss(torch.tensor([[0.0, 4.0, 0.0]]), torch.tensor([1]))
    tensor(4.0360)
    """

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under labels (N, …)."""
        return F.forward_cross_entropy(
            logits,
            comp_labels,
            self.Q,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class ForwardSquaredError(_TransitionLoss):
    """Module form of `naysay.functional.forward_squared_error`."""

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under labels (N, …)."""
        return F.forward_squared_error(
            logits,
            comp_labels,
            self.Q,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class ForwardLoss(_TransitionLoss):
    """Module form of `naysay.functional.forward_loss`."""

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        base: F.BaseLoss,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.base = base

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under labels (N, …)."""
        return F.forward_loss(
            logits,
            comp_labels,
            self.Q,
            self.weight,
            base=self.base,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class PairwiseComparison(_Loss):
    """Module form of `naysay.functional.pairwise_comparison`."""

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under labels (N, …)."""
        return F.pairwise_comparison(
            logits,
            comp_labels,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )
