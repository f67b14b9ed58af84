"""Modules of forward correction."""

from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import TransitionLoss
from naysay.transition import TransitionMatrix


class ForwardCrossEntropy(TransitionLoss):
    """Module form of `naysay.functional.forward_cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> loss = ForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> loss(torch.tensor([[0.0, 4.0, 0.0]]), torch.tensor([1]))
    tensor(4.0360)
    """

    function = staticmethod(F.forward_cross_entropy)
    takes_stack = True


class ForwardSquaredError(TransitionLoss):
    """Module form of `naysay.functional.forward_squared_error`."""

    function = staticmethod(F.forward_squared_error)
    takes_stack = True


class ForwardAbsoluteError(TransitionLoss):
    """Module form of `naysay.functional.forward_absolute_error`."""

    function = staticmethod(F.forward_absolute_error)
    takes_stack = True


class ForwardGeneralisedCrossEntropy(TransitionLoss):
    """Module form of `naysay.functional.forward_generalised_cross_entropy`."""

    function = staticmethod(F.forward_generalised_cross_entropy)
    takes_stack = True

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        gamma: float = 0.7,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.gamma = gamma

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "gamma": self.gamma}


class ForwardLoss(TransitionLoss):
    """Module form of `naysay.functional.forward_loss`."""

    function = staticmethod(F.forward_loss)
    takes_stack = True

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

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "base": self.base}
