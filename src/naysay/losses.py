"""Losses as modules: one shell per function of `naysay.functional`, same stem, same order.

They hold no tensors of their own but the optional weight or prior, and the matrix where it is
trained: the columns of Q follow the device and precision of the logits.

A loss whose logits are not those of the classes says how to read them: ``log_scores(logits)``
gives scores of the classes, shape (N, K), in place of the logarithm of the softmax. What else a
loss may ask of training is said in `naysay.training`.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._checks import check_count, check_number
from naysay._columns import columns_of
from naysay._errors import InvalidInput
from naysay.transition import TransitionMatrix

__all__ = [
    "BackwardCrossEntropy",
    "ComplementaryCrossEntropy",
    "ForwardAbsoluteError",
    "ForwardCrossEntropy",
    "ForwardGeneralisedCrossEntropy",
    "ForwardLoss",
    "ForwardSquaredError",
    "GradientAscentRisk",
    "LikelihoodLoss",
    "MultiLabel",
    "NearestRowForwardCrossEntropy",
    "NonNegativeRisk",
    "OneVersusAll",
    "OneVersusRestRisk",
    "OrderPreserving",
    "PairwiseComparison",
    "PartialLabel",
    "PartialOutputConsistency",
    "ReversedSoftmax",
    "SeveralLabelsAbsoluteError",
    "SeveralLabelsExponential",
    "SeveralLabelsLog",
    "SurrogateExponential",
    "SurrogateLog",
    "TrainedForwardCrossEntropy",
    "WeightedOrderPreserving",
    "WeightedReversedSoftmax",
]


class _AbstractLoss(nn.Module):
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


class _Loss(_AbstractLoss):
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


class _TransitionLoss(_Loss):
    """A loss of single examples that knows Q."""

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


class _BinaryLoss(_Loss):
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


class _TransitionRisk(_AbstractLoss):
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


class ForwardCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.forward_cross_entropy`.

    Examples
    --------
    >>> import torch
    >>> loss = ForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> loss(torch.tensor([[0.0, 4.0, 0.0]]), torch.tensor([1]))
    tensor(4.0360)
    """

    function = staticmethod(F.forward_cross_entropy)


class ForwardSquaredError(_TransitionLoss):
    """Module form of `naysay.functional.forward_squared_error`."""

    function = staticmethod(F.forward_squared_error)


class ForwardAbsoluteError(_TransitionLoss):
    """Module form of `naysay.functional.forward_absolute_error`."""

    function = staticmethod(F.forward_absolute_error)


class ForwardGeneralisedCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.forward_generalised_cross_entropy`."""

    function = staticmethod(F.forward_generalised_cross_entropy)

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


class ForwardLoss(_TransitionLoss):
    """Module form of `naysay.functional.forward_loss`."""

    function = staticmethod(F.forward_loss)

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


class LikelihoodLoss(nn.Module):
    """Module form of `naysay.functional.likelihood_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under likelihoods of the same shape."""
        return F.likelihood_loss(logits, log_likelihood, reduction=self.reduction)


class PairwiseComparison(_Loss):
    """Module form of `naysay.functional.pairwise_comparison`."""

    function = staticmethod(F.pairwise_comparison)


class OneVersusAll(_Loss):
    """Module form of `naysay.functional.one_versus_all`."""

    function = staticmethod(F.one_versus_all)


class PartialLabel(_BinaryLoss):
    """Module form of `naysay.functional.partial_label`."""

    function = staticmethod(F.partial_label)


class MultiLabel(_BinaryLoss):
    """Module form of `naysay.functional.multi_label`."""

    function = staticmethod(F.multi_label)


class BackwardCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.backward_cross_entropy`."""

    function = staticmethod(F.backward_cross_entropy)


class NonNegativeRisk(_TransitionRisk):
    """Module form of `naysay.functional.non_negative_risk`."""

    function = staticmethod(F.non_negative_risk)


class GradientAscentRisk(_TransitionRisk):
    """Module form of `naysay.functional.gradient_ascent_risk`."""

    function = staticmethod(F.gradient_ascent_risk)


class SurrogateLog(_Loss):
    """Module form of `naysay.functional.surrogate_log`."""

    function = staticmethod(F.surrogate_log)


class SurrogateExponential(_Loss):
    """Module form of `naysay.functional.surrogate_exponential`."""

    function = staticmethod(F.surrogate_exponential)


class ReversedSoftmax(_Loss):
    """Module form of `naysay.functional.reversed_softmax`."""

    function = staticmethod(F.reversed_softmax)


class WeightedReversedSoftmax(_Loss):
    """Module form of `naysay.functional.weighted_reversed_softmax`."""

    function = staticmethod(F.weighted_reversed_softmax)


class OrderPreserving(_Loss):
    """Module form of `naysay.functional.order_preserving`."""

    function = staticmethod(F.order_preserving)


class WeightedOrderPreserving(_Loss):
    """Module form of `naysay.functional.weighted_order_preserving`."""

    function = staticmethod(F.weighted_order_preserving)


class SeveralLabelsAbsoluteError(_Loss):
    """Module form of `naysay.functional.several_labels_absolute_error`."""

    function = staticmethod(F.several_labels_absolute_error)


class SeveralLabelsExponential(_Loss):
    """Module form of `naysay.functional.several_labels_exponential`."""

    function = staticmethod(F.several_labels_exponential)


class SeveralLabelsLog(_Loss):
    """Module form of `naysay.functional.several_labels_log`."""

    function = staticmethod(F.several_labels_log)


class OneVersusRestRisk(_AbstractLoss):
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


class ComplementaryCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.complementary_cross_entropy`; Q serves to read it."""

    function = staticmethod(F.complementary_cross_entropy)

    def _arguments(self) -> dict[str, Any]:
        return {name: value for name, value in super()._arguments().items() if name != "Q"}

    def log_scores(self, logits: Tensor) -> Tensor:
        """Return how near each row of Q is to P(Ȳ | x), shape (N, K)."""
        return F.nearest_row_scores(logits.softmax(1), _rows(self.Q, logits))


class NearestRowForwardCrossEntropy(_TransitionLoss):
    """`ForwardCrossEntropy` that decides by the row of Q nearest to Qᵀ p ("CPE-F")."""

    function = staticmethod(F.forward_cross_entropy)

    def log_scores(self, logits: Tensor) -> Tensor:
        """Return how near each row of Q is to P(Ȳ | x), shape (N, K)."""
        columns = columns_of(self.Q, logits.dtype, logits.device)
        return F.nearest_row_scores(columns.q(logits.softmax(1)), _rows(self.Q, logits))


class TrainedForwardCrossEntropy(_TransitionLoss):
    """Module form of `naysay.functional.trained_forward_cross_entropy`, with the matrix.

    The matrix starts at Q and is trained with the network: each row is a softmax. Where the
    diagonal of Q is zero it stays so. Other zeros start at ``floor``, for nothing could make them
    grow from zero. K×K numbers are trained: not for very many classes.

    Parameters
    ----------
    Q : TransitionMatrix or array-like of shape (K, K)
        The start.
    floor : float, default=1e-3
        Where zeros off the diagonal start, before rows are made to sum to 1.
    pull : float, default=0.0
        Weight of the divergence KL(start ‖ matrix), the mean over rows, added to the loss while
        training: how strongly the matrix is held near its start. Anchors hold it too, through the
        network.

    Examples
    --------
    >>> loss = TrainedForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> bool(np.allclose(loss.learned_transition, loss.Q))
    True
    """

    function = staticmethod(F.trained_forward_cross_entropy)
    impossible: Tensor
    start: Tensor

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        floor: float = 1e-3,
        pull: float = 0.0,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.pull = 0.0 if pull == 0 else check_number(pull, "pull", above=0)
        start = torch.from_numpy(np.array(self.Q, dtype=np.float64))
        impossible = torch.diag(start.diagonal() == 0)
        self.register_buffer("impossible", impossible, persistent=False)
        start = start.clamp_min(floor).masked_fill(impossible, 1)  # log 1: a finite stand-in
        self.row_logits = nn.Parameter(start.log().float())
        self.register_buffer("start", self.log_Q.detach().softmax(1), persistent=False)

    @property
    def log_Q(self) -> Tensor:
        """The logarithm of the matrix as it is now, shape (K, K)."""
        return self.row_logits.masked_fill(self.impossible, -torch.inf).log_softmax(1)

    @property
    def learned_transition(self) -> TransitionMatrix:
        """The matrix as it is now."""
        rows = self.log_Q.detach().double().softmax(1).cpu().numpy()
        names = self.Q.classes if self.Q.has_names else None
        return TransitionMatrix(rows, names, allow_diagonal=self.Q.allow_diagonal)

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K), or (N, K, d1, …)."""
        found = super().forward(logits, comp_labels)
        if not self.pull or not self.training:
            return found
        log_Q = self.log_Q.masked_fill(self.impossible, 0)
        divergence = (torch.xlogy(self.start, self.start) - self.start * log_Q).sum(1).mean()
        return found + self.pull * divergence

    def _arguments(self) -> dict[str, Any]:
        arguments = {**super()._arguments(), "log_Q": self.log_Q}
        del arguments["Q"]
        return arguments

    def log_scores(self, logits: Tensor) -> Tensor:
        """Return how near each row of the matrix is to P(Ȳ | x), shape (N, K)."""
        rows = self.log_Q.to(logits).softmax(1)
        return F.nearest_row_scores(logits.softmax(1) @ rows, rows)


class PartialOutputConsistency(_TransitionLoss):
    """Module form of `naysay.functional.partial_output_consistency`, with its schedule.

    In training mode it takes the logits of all views, shape (n_views, N, K), the first of which
    gives the target. In evaluation mode it takes logits (N, K) and is the forward-corrected
    cross-entropy alone.

    Parameters
    ----------
    n_views : int, default=2
        Views of each example, the first included.
    consistency : float, default=1.0
        Weight of the agreement once training has passed `ramp`.
    ramp : float, default=0.3
        Share of training over which that weight rises from 0, in a straight line.
    """

    function = staticmethod(F.partial_output_consistency)

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        n_views: int = 2,
        consistency: float = 1.0,
        ramp: float = 0.3,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.n_views = 1 + check_count(n_views - 1, "n_views - 1")
        self.consistency = consistency
        self.ramp = check_number(ramp, "ramp", above=0)
        self.progress = 1.0

    def set_progress(self, share: float) -> None:
        """Say what share of training is done."""
        self.progress = share

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (n_views, N, K), or (N, K) in evaluation mode."""
        if not self.training:
            return F.forward_cross_entropy(logits, comp_labels, **self._arguments())
        if not isinstance(logits, Tensor) or logits.ndim < 3 or len(logits) != self.n_views:
            raise InvalidInput(
                f"logits must be those of all views, shape ({self.n_views}, N, K), in training "
                "mode. Call eval() for logits of shape (N, K)."
            )
        return F.partial_output_consistency(
            logits[0],
            comp_labels,
            view_logits=logits[1:],
            consistency=self.consistency * min(1.0, self.progress / self.ramp),
            **self._arguments(),
        )


def _rows(Q: TransitionMatrix, like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(Q, dtype=np.float64)).to(like)
