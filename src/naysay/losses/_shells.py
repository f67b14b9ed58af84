"""What the modules share: how each keeps the arguments of its function."""

from collections.abc import Callable
from typing import Any, ClassVar

from numpy.typing import ArrayLike
from torch import Tensor, nn

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.transition import TransitionMatrix


class AbstractLoss(nn.Module):
    """A loss whose `function` is called with the logits, the labels and all `_arguments`."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, ignore_index: int) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def _arguments(self) -> dict[str, Any]:
        return {"ignore_index": self.ignore_index}

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under labels (N, …)."""
        return type(self).function(logits, comp_labels, **self._arguments())

    def extra_repr(self) -> str:
        return f"ignore_index={self.ignore_index}"


class Loss(AbstractLoss):
    """A loss of single examples: weighed and reduced."""

    weight: Tensor | None

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(ignore_index)
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "weight": self.weight, "reduction": self.reduction}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, reduction={self.reduction!r}"


class TransitionLoss(Loss):
    """A loss of single examples that knows Q.

    ``takes_stack`` says that it reads the columns of Q and nothing else, so that examples may
    have several matrices: Q may be a `naysay._stack.TransitionStack`.
    """

    takes_stack: ClassVar[bool] = False

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

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "Q": self.Q}

    def extra_repr(self) -> str:
        return f"{self.Q!r}, {super().extra_repr()}"


class BinaryLoss(Loss):
    """A loss of single examples made of losses on margins."""

    def __init__(
        self,
        *,
        binary_loss: F.BinaryLoss = F.logistic,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.binary_loss = binary_loss

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "binary_loss": self.binary_loss}


class TransitionRisk(AbstractLoss):
    """A risk of a whole batch that knows Q."""

    prior: Tensor | None

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        prior: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(ignore_index)
        self.Q = F.as_transition(Q)
        self.register_buffer("prior", prior)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "Q": self.Q, "prior": self.prior}

    def extra_repr(self) -> str:
        return f"{self.Q!r}, {super().extra_repr()}"
