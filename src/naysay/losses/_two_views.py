"""Modules of two views taught together, with their schedule."""

from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_number
from naysay._base.errors import InvalidInput
from naysay.functional.views import check_target
from naysay.losses._likelihood import LikelihoodLoss
from naysay.losses._ramp import RampedLoss
from naysay.losses._shells import TransitionLoss
from naysay.transition import TransitionMatrix


class TwoViews(RampedLoss, TransitionLoss):
    """Module form of `naysay.functional.two_views`, with its schedule.

    In training mode it takes the logits of both views, shape (2, N, K). In evaluation mode it
    takes logits (N, K) and is the forward-corrected cross-entropy alone.

    Parameters
    ----------
    consistency : float, default=0.9
        Weight of the common target once training has passed `ramp`, 0 to 1; the label has the
        rest.
    ramp : float, default=0.3
        Share of training over which that weight rises from 0, in a straight line, step by step.
    target : "mean" or "first", default="mean"
        Whether both views make the target, or the first alone.

    Examples
    --------
    >>> import torch
    >>> loss = TwoViews(TransitionMatrix.uniform(3))
    >>> loss.set_progress(0.0)  # the first step: the labels alone
    >>> views, labels = torch.tensor([[[0.0, 4.0, 0.0]], [[4.0, 0.0, 0.0]]]), torch.tensor([1])
    >>> loss(views, labels), F.forward_cross_entropy(views.flatten(0, 1), labels.repeat(2), loss.Q)
    (tensor(2.3735), tensor(2.3735))
    """

    function = staticmethod(F.two_views)
    n_views = 2

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
        self.consistency = _check_share(consistency)
        self.ramp = check_number(ramp, "ramp", above=0)
        self.target = check_target(target)

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (2, N, K), or (N, K) in evaluation mode."""
        if not self.training:
            return F.forward_cross_entropy(logits, comp_labels, **self._arguments())
        self._check_views(logits)
        return F.two_views(
            logits[0],
            comp_labels,
            other_logits=logits[1],
            consistency=self._consistency_now(),
            target=self.target,
            **self._arguments(),
        )


class TwoViewsLikelihood(RampedLoss, LikelihoodLoss):
    """Module form of `naysay.functional.two_views_likelihood`, with the schedule of `TwoViews`.

    In evaluation mode it takes logits (N, K) and is `naysay.functional.likelihood_loss`.
    """

    n_views = 2

    def __init__(
        self,
        *,
        consistency: float = 0.9,
        ramp: float = 0.3,
        target: str = "mean",
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.consistency = _check_share(consistency)
        self.ramp = check_number(ramp, "ramp", above=0)
        self.target = check_target(target)

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:
        """Return the loss of logits (2, N, K), or (N, K) in evaluation mode."""
        if not self.training:
            return super().forward(logits, log_likelihood)
        self._check_views(logits)
        return F.two_views_likelihood(
            logits[0],
            log_likelihood,
            other_logits=logits[1],
            consistency=self._consistency_now(),
            target=self.target,
            reduction=self.reduction,
        )


def _check_share(consistency: float) -> float:
    if isinstance(consistency, bool) or not isinstance(consistency, int | float):
        raise InvalidInput(f"consistency must be a number. Got {consistency!r}.")
    if not 0 <= consistency <= 1:
        raise InvalidInput(f"consistency must be from 0 to 1. Got {consistency!r}.")
    return float(consistency)
