"""Module of consistency between views of an example, with its schedule."""

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput
from naysay.functional.views import check_target
from naysay.losses.protocol import TrainingLoss
from naysay.losses.shells import LikelihoodLoss, TransitionLoss
from naysay.transition import TransitionMatrix

_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 11))  # a half to nearly 6


class RampedLoss(TrainingLoss):
    """A loss of several views, whose agreement has weight `consistency` after `ramp`.

    Training says before each step how far it is. That is no part of the loss's state: a training
    that is resumed says it anew.
    """

    consistency: float
    ramp: float
    _progress: float | Tensor = 1.0  # not public: no setting that would tell trainings apart

    def set_progress(self, share: float | Tensor) -> None:
        """Say what share of training is done; a tensor stays on its device and is never read."""
        self._progress = share

    @torch.no_grad()
    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss at the temperature of the logits at which it is least.

        Views that are taught by each other grow too sure. The loss itself then rises while the
        order of the classes still improves, and training would be stopped too early.
        """
        return torch.stack([self(logits / each, labels) for each in _TEMPERATURES]).amin(0)

    def _consistency_now(self) -> float | Tensor:
        """Return the weight of the agreement, which rises from 0 in a straight line."""
        risen = self._progress / self.ramp
        return self.consistency * (
            risen.clamp_max(1) if isinstance(risen, Tensor) else min(1.0, risen)
        )

    def _check_views(self, logits: Tensor) -> None:
        """Refuse logits that are not those of all views."""
        if not isinstance(logits, Tensor) or logits.ndim < 3 or len(logits) != self.n_views:
            raise InvalidInput(
                f"logits must be those of all views, shape ({self.n_views}, N, K), in training "
                "mode. Call eval() for logits of shape (N, K)."
            )


class PartialOutputConsistency(RampedLoss, TransitionLoss):
    """Module form of `naysay.functional.partial_output_consistency`, with its schedule.

    In training mode it takes the logits of all views, shape (n_views, N, K), the first of which
    gives the target. In evaluation mode it takes logits (N, K) and is the forward-corrected
    cross-entropy alone.

    The defaults are those of the authors' code: two views besides the first, and a weight that
    rises over the first 100 of 200 epochs, here step by step rather than epoch by epoch.

    Parameters
    ----------
    n_views : int, default=3
        Views of each example, the first included.
    consistency : float, default=1.0
        Weight of the agreement once training has passed `ramp`.
    ramp : float, default=0.5
        Share of training over which that weight rises from 0, in a straight line.
    """

    function = staticmethod(F.partial_output_consistency)

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

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Return the loss of logits (n_views, N, K), or (N, K) in evaluation mode."""
        if not self.training:
            return F.forward_cross_entropy(logits, comp_labels, **self._arguments())
        self._check_views(logits)
        return F.partial_output_consistency(
            logits[0],
            comp_labels,
            view_logits=logits[1:],
            consistency=self._consistency_now(),
            **self._arguments(),
        )


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
