"""Modules that store the arguments of a function of `naysay.functional` and call it."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses.protocol import TrainingLoss
from naysay.transition import TransitionMatrix, as_transition_matrix


class FunctionLoss(TrainingLoss):
    """Base class: calls a function with logits, labels and its attributes of the other names.

    The function is a keyword of the class, ``class Name(FunctionLoss, function=...)``.
    """

    function: ClassVar[Callable[..., Tensor]]
    _passed: ClassVar[tuple[str, ...]]  # what the function takes besides logits and labels

    def __init_subclass__(cls, function: Callable[..., Tensor] | None = None) -> None:
        if function is not None:
            cls.function = staticmethod(function)
            cls._passed = tuple(inspect.signature(function).parameters)[2:]

    def _arguments(self, kind: "type[FunctionLoss]") -> dict[str, Any]:
        """Collect the arguments of the function of a kind of loss from the attributes."""
        return {name: getattr(self, name) for name in kind._passed}

    def extra_repr(self) -> str:
        """Describe the settings for ``repr``."""
        settings = self.settings()
        named = [name for name in ("ignore_index", "reduction") if name in settings]
        shown = [repr(settings["Q"])] if "Q" in settings else []
        return ", ".join([*shown, *(f"{name}={settings[name]!r}" for name in named)])

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Compute the loss of logits (N, K, …) and labels (N, …)."""
        return type(self).function(logits, comp_labels, **self._arguments(type(self)))


class ReducedLoss(FunctionLoss):
    """A loss with a value for each example, which are reduced."""

    reduction: str

    def per_example(self, labels: Tensor) -> Self | None:
        """Make a copy without reduction, if this loss is a mean over examples."""
        if self.reduction != "mean":
            return None
        copied = copy.copy(self)
        copied.reduction = "none"
        return copied


class ExampleLoss(ReducedLoss):
    """A loss on integer labels, with a value for each example, which are weighted and reduced."""

    weight: Tensor | None

    def __init__(
        self, *, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def per_example(self, labels: Tensor) -> Self | None:
        """Make a copy without reduction, unless the mean is weighted or ignores examples."""
        is_weighted = self.weight is not None or bool((labels == self.ignore_index).any())
        return None if is_weighted else super().per_example(labels)


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
        self.Q = as_transition_matrix(Q)


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


class Risk(FunctionLoss):
    """A risk estimated from a batch as a whole."""

    prior: Tensor | None

    def __init__(self, prior: Tensor | None, ignore_index: int) -> None:
        super().__init__()
        self.register_buffer("prior", prior)
        self.ignore_index = ignore_index


class TransitionRisk(Risk):
    """A risk of a batch that uses Q."""

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        prior: Tensor | None = None,
        ignore_index: int = -100,
    ) -> None:
        super().__init__(prior, ignore_index)
        self.Q = as_transition_matrix(Q)


class ForwardCrossEntropy(TransitionLoss, function=F.forward_cross_entropy):
    """Module form of `naysay.functional.forward_cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> loss = ForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> loss(torch.tensor([[0.0, 4.0, 0.0]]), torch.tensor([1]))
    tensor(4.0360)
    """

    takes_stack = True


class ForwardSquaredError(TransitionLoss, function=F.forward_squared_error):
    """Module form of `naysay.functional.forward_squared_error`."""

    takes_stack = True


class ForwardAbsoluteError(TransitionLoss, function=F.forward_absolute_error):
    """Module form of `naysay.functional.forward_absolute_error`."""

    takes_stack = True


class ForwardGeneralisedCrossEntropy(TransitionLoss, function=F.forward_generalised_cross_entropy):
    """Module form of `naysay.functional.forward_generalised_cross_entropy`."""

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


class ForwardLoss(TransitionLoss, function=F.forward_loss):
    """Module form of `naysay.functional.forward_loss`."""

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


class LikelihoodLoss(ReducedLoss, function=F.likelihood_loss):
    """Module form of `naysay.functional.likelihood_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:  # pyright: ignore
        """Compute the loss of logits (N, K, …) and log-likelihoods of the same shape."""
        return super().forward(logits, log_likelihood)


class PairwiseComparison(ExampleLoss, function=F.pairwise_comparison):
    """Module form of `naysay.functional.pairwise_comparison`."""


class OneVersusAll(ExampleLoss, function=F.one_versus_all):
    """Module form of `naysay.functional.one_versus_all`."""


class PartialLabel(MarginLoss, function=F.partial_label):
    """Module form of `naysay.functional.partial_label`."""


class MultiLabel(MarginLoss, function=F.multi_label):
    """Module form of `naysay.functional.multi_label`."""


class OneVersusRestRisk(Risk, function=F.one_versus_rest_risk):
    """Module form of `naysay.functional.one_versus_rest_risk`."""

    def __init__(
        self, prior: Tensor, *, binary_loss: F.BinaryLoss = F.logistic, ignore_index: int = -100
    ) -> None:
        super().__init__(prior, ignore_index)
        self.binary_loss = binary_loss


class SeveralLabelsAbsoluteError(ExampleLoss, function=F.several_labels_absolute_error):
    """Module form of `naysay.functional.several_labels_absolute_error`."""


class SeveralLabelsExponential(ExampleLoss, function=F.several_labels_exponential):
    """Module form of `naysay.functional.several_labels_exponential`."""


class SeveralLabelsLog(ExampleLoss, function=F.several_labels_log):
    """Module form of `naysay.functional.several_labels_log`."""


class SurrogateLog(ExampleLoss, function=F.surrogate_log):
    """Module form of `naysay.functional.surrogate_log`."""


class SurrogateExponential(ExampleLoss, function=F.surrogate_exponential):
    """Module form of `naysay.functional.surrogate_exponential`."""


class ReversedSoftmax(ExampleLoss, function=F.reversed_softmax):
    """Module form of `naysay.functional.reversed_softmax`."""


class WeightedReversedSoftmax(ExampleLoss, function=F.weighted_reversed_softmax):
    """Module form of `naysay.functional.weighted_reversed_softmax`."""


class OrderPreserving(ExampleLoss, function=F.order_preserving):
    """Module form of `naysay.functional.order_preserving`."""


class WeightedOrderPreserving(ExampleLoss, function=F.weighted_order_preserving):
    """Module form of `naysay.functional.weighted_order_preserving`."""


class BackwardCrossEntropy(TransitionLoss, function=F.backward_cross_entropy):
    """Module form of `naysay.functional.backward_cross_entropy`."""


class NonNegativeRisk(TransitionRisk, function=F.non_negative_risk):
    """Module form of `naysay.functional.non_negative_risk`."""


class GradientAscentRisk(TransitionRisk, function=F.gradient_ascent_risk):
    """Module form of `naysay.functional.gradient_ascent_risk`."""
