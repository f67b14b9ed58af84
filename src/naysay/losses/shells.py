"""Modules that store the arguments of a function of `naysay.functional` and call it."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar, Self, TypeVar

from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses.protocol import TrainingLoss
from naysay.transition import TransitionMatrix


class FunctionLoss(TrainingLoss):
    """Base class: calls `function` with the logits, the labels and all `_arguments`."""

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, ignore_index: int) -> None:
        super().__init__()
        self.ignore_index = ignore_index

    def _arguments(self) -> dict[str, Any]:
        return {"ignore_index": self.ignore_index}

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Compute the loss of logits (N, K, …) and labels (N, …)."""
        return type(self).function(logits, comp_labels, **self._arguments())

    def extra_repr(self) -> str:
        """Describe the settings for ``repr``."""
        return f"ignore_index={self.ignore_index}"


class ExampleLoss(FunctionLoss):
    """A loss that has a value for each example, which are weighted and reduced."""

    weight: Tensor | None

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(ignore_index)
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "weight": self.weight, "reduction": self.reduction}

    def per_example(self, labels: Tensor) -> Self | None:
        """Make a copy without reduction, unless the mean is weighted or ignores examples."""
        is_weighted = self.weight is not None or bool((labels == self.ignore_index).any())
        return None if is_weighted else _unreduced(self)

    def extra_repr(self) -> str:
        """Describe the settings for ``repr``."""
        return f"{super().extra_repr()}, reduction={self.reduction!r}"


_Reduced = TypeVar("_Reduced", "ExampleLoss", "LikelihoodLoss")


def _unreduced(loss: _Reduced) -> _Reduced | None:
    """Copy a loss that is a mean over examples, without the mean."""
    if loss.reduction != "mean":
        return None
    copied = copy.copy(loss)
    copied.reduction = "none"
    return copied


class TransitionLoss(ExampleLoss):
    """A loss per example that uses Q."""

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
        """Describe the settings for ``repr``."""
        return f"{self.Q!r}, {super().extra_repr()}"


class MarginLoss(ExampleLoss):
    """A loss per example that sums a binary loss over margins."""

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


class TransitionRisk(FunctionLoss):
    """A risk estimated from a batch as a whole that uses Q."""

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
        """Describe the settings for ``repr``."""
        return f"{self.Q!r}, {super().extra_repr()}"


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


class LikelihoodLoss(TrainingLoss):
    """Module form of `naysay.functional.likelihood_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:
        """Compute the loss of logits (N, K, …) and log-likelihoods of the same shape."""
        return F.likelihood_loss(logits, log_likelihood, reduction=self.reduction)

    def per_example(self, labels: Tensor) -> Self | None:
        """Make a copy without reduction."""
        return _unreduced(self)


class PairwiseComparison(ExampleLoss):
    """Module form of `naysay.functional.pairwise_comparison`."""

    function = staticmethod(F.pairwise_comparison)


class OneVersusAll(ExampleLoss):
    """Module form of `naysay.functional.one_versus_all`."""

    function = staticmethod(F.one_versus_all)


class PartialLabel(MarginLoss):
    """Module form of `naysay.functional.partial_label`."""

    function = staticmethod(F.partial_label)


class MultiLabel(MarginLoss):
    """Module form of `naysay.functional.multi_label`."""

    function = staticmethod(F.multi_label)


class OneVersusRestRisk(FunctionLoss):
    """Module form of `naysay.functional.one_versus_rest_risk`."""

    function = staticmethod(F.one_versus_rest_risk)
    prior: Tensor

    def __init__(
        self, prior: Tensor, *, binary_loss: F.BinaryLoss = F.logistic, ignore_index: int = -100
    ) -> None:
        super().__init__(ignore_index)
        self.register_buffer("prior", prior)
        self.binary_loss = binary_loss

    def _arguments(self) -> dict[str, Any]:
        return {
            **super()._arguments(),
            "prior": self.prior,
            "binary_loss": self.binary_loss,
        }


class SeveralLabelsAbsoluteError(ExampleLoss):
    """Module form of `naysay.functional.several_labels_absolute_error`."""

    function = staticmethod(F.several_labels_absolute_error)


class SeveralLabelsExponential(ExampleLoss):
    """Module form of `naysay.functional.several_labels_exponential`."""

    function = staticmethod(F.several_labels_exponential)


class SeveralLabelsLog(ExampleLoss):
    """Module form of `naysay.functional.several_labels_log`."""

    function = staticmethod(F.several_labels_log)


class SurrogateLog(ExampleLoss):
    """Module form of `naysay.functional.surrogate_log`."""

    function = staticmethod(F.surrogate_log)


class SurrogateExponential(ExampleLoss):
    """Module form of `naysay.functional.surrogate_exponential`."""

    function = staticmethod(F.surrogate_exponential)


class ReversedSoftmax(ExampleLoss):
    """Module form of `naysay.functional.reversed_softmax`."""

    function = staticmethod(F.reversed_softmax)


class WeightedReversedSoftmax(ExampleLoss):
    """Module form of `naysay.functional.weighted_reversed_softmax`."""

    function = staticmethod(F.weighted_reversed_softmax)


class OrderPreserving(ExampleLoss):
    """Module form of `naysay.functional.order_preserving`."""

    function = staticmethod(F.order_preserving)


class WeightedOrderPreserving(ExampleLoss):
    """Module form of `naysay.functional.weighted_order_preserving`."""

    function = staticmethod(F.weighted_order_preserving)


class BackwardCrossEntropy(TransitionLoss):
    """Module form of `naysay.functional.backward_cross_entropy`."""

    function = staticmethod(F.backward_cross_entropy)


class NonNegativeRisk(TransitionRisk):
    """Module form of `naysay.functional.non_negative_risk`."""

    function = staticmethod(F.non_negative_risk)


class GradientAscentRisk(TransitionRisk):
    """Module form of `naysay.functional.gradient_ascent_risk`."""

    function = staticmethod(F.gradient_ascent_risk)
