"""Losses on several views of each example, with the schedule of their consistency weight."""

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

from typing import Any, ClassVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput
from naysay.functional.views import check_view_target
from naysay.losses.shells import ForwardCrossEntropy, FunctionLoss, LikelihoodLoss, TransitionLoss
from naysay.transition import TransitionMatrix

_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 11))  # from 0.5 to 5.7


class RampedLoss(FunctionLoss):
    """A loss of several views, whose consistency has weight `consistency` after a linear ramp.

    In training mode it takes logits (n_views, N, K). In evaluation mode it takes logits (N, K) and
    is the loss `of_one_view`. The progress of training, which determines the weight, is not part of
    the state of the loss: training sets it before each step.
    """

    of_one_view: ClassVar[type[FunctionLoss]] = ForwardCrossEntropy
    consistency: float
    ramp: float
    _progress: float | Tensor = 1.0  # private, so that fingerprints of trainings ignore it

    def set_progress(self, share: float | Tensor) -> None:
        """Set the share of training that is done; a tensor is not read back from its device."""
        self._progress = share

    @torch.no_grad()
    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss at the temperature of the logits that minimises it.

        Consistency between views makes predictions overconfident. The loss then increases while
        the order of the classes still improves, and training would stop too early.
        """
        return torch.stack([self(logits / each, labels) for each in _TEMPERATURES]).amin(0)

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Compute the loss of logits (n_views, N, K), or (N, K) in evaluation mode."""
        arguments = self._arguments(self.of_one_view)
        if not self.training:
            return self.of_one_view.function(logits, comp_labels, **arguments)
        if not isinstance(logits, Tensor) or logits.ndim < 3 or len(logits) != self.n_views:
            raise InvalidInput(
                f"logits must be those of all views, shape ({self.n_views}, N, K), in training "
                "mode. Call eval() for logits of shape (N, K)."
            )
        share = self._progress / self.ramp
        share = share.clamp_max(1) if isinstance(share, Tensor) else min(1.0, share)
        arguments |= self._other_views(logits) | {"consistency": self.consistency * share}
        return type(self).function(logits[0], comp_labels, **arguments)

    def _other_views(self, logits: Tensor) -> dict[str, Any]:
        """Name the arguments that depend on the views after the first one."""
        raise NotImplementedError


class PartialOutputConsistency(RampedLoss, TransitionLoss, function=F.partial_output_consistency):
    """Module form of `naysay.functional.partial_output_consistency`, with its schedule.

    In training mode it takes the logits of all views, shape (n_views, N, K); the first view
    defines the target. In evaluation mode it takes logits (N, K) and is the forward-corrected
    cross-entropy alone. The defaults are those of the authors' code: two views besides the first,
    and a weight that increases over the first 100 of 200 epochs, here with each step.

    Parameters
    ----------
    n_views : int, default=3
        Number of views of each example, including the first.
    consistency : float, default=1.0
        Weight of the consistency after the ramp.
    ramp : float, default=0.5
        Share of training over which this weight increases linearly from 0.
    """

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        n_views: int = 3,
        consistency: float = 1.0,
        ramp: float = 0.5,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.n_views = 1 + check_count(n_views - 1, "n_views - 1")
        self.consistency = consistency
        self.ramp = check_number(ramp, "ramp", above=0)

    def _other_views(self, logits: Tensor) -> dict[str, Any]:
        return {"view_logits": logits[1:]}


class _TwoViews(RampedLoss):
    """A loss of two views with a common target."""

    n_views = 2
    target: str

    def _set_schedule(self, consistency: float, ramp: float, target: str) -> None:
        if isinstance(consistency, bool) or not isinstance(consistency, int | float):
            raise InvalidInput(f"consistency must be a number. Got {consistency!r}.")
        if not 0 <= consistency <= 1:
            raise InvalidInput(f"consistency must be from 0 to 1. Got {consistency!r}.")
        self.consistency = float(consistency)
        self.ramp = check_number(ramp, "ramp", above=0)
        self.target = check_view_target(target)

    def _other_views(self, logits: Tensor) -> dict[str, Any]:
        return {"other_logits": logits[1], "target": self.target}


class TwoViews(_TwoViews, TransitionLoss, function=F.two_views):
    """Module form of `naysay.functional.two_views`, with its schedule.

    In training mode it takes the logits of both views, shape (2, N, K). In evaluation mode it
    takes logits (N, K) and is the forward-corrected cross-entropy alone.

    Parameters
    ----------
    consistency : float, default=0.9
        Weight of the common target after the ramp, from 0 to 1; the weight of the label is 1 minus
        this weight.
    ramp : float, default=0.3
        Share of training over which this weight increases linearly from 0, with each step.
    target : "mean" or "first", default="mean"
        Whether the target is computed from both views or from the first view alone.

    Examples
    --------
    >>> loss = TwoViews(TransitionMatrix.uniform(3))
    >>> loss.set_progress(0.0)  # in the first step, only the labels count
    >>> views, labels = torch.tensor([[[0.0, 4.0, 0.0]], [[4.0, 0.0, 0.0]]]), torch.tensor([1])
    >>> loss(views, labels), F.forward_cross_entropy(views.flatten(0, 1), labels.repeat(2), loss.Q)
    (tensor(2.3735), tensor(2.3735))
    """

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        consistency: float = 0.9,
        ramp: float = 0.3,
        target: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self._set_schedule(consistency, ramp, target)


class TwoViewsLikelihood(_TwoViews, LikelihoodLoss, function=F.two_views_likelihood):
    """Module form of `naysay.functional.two_views_likelihood`, with the schedule of `TwoViews`.

    In evaluation mode it takes logits (N, K) and is `naysay.functional.likelihood_loss`.
    """

    of_one_view = LikelihoodLoss

    def __init__(
        self,
        *,
        consistency: float = 0.9,
        ramp: float = 0.3,
        target: str = "mean",
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self._set_schedule(consistency, ramp, target)

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:  # pyright: ignore
        """Compute the loss of logits (2, N, K), or (N, K) in evaluation mode."""
        return super().forward(logits, log_likelihood)
