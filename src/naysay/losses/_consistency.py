"""Module of consistency between views of an example, with its schedule."""

from numpy.typing import ArrayLike
from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_count, check_number
from naysay.losses._ramp import RampedLoss
from naysay.losses._shells import TransitionLoss
from naysay.transition import TransitionMatrix


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
