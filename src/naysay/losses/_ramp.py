"""What losses of several views share: how much their agreement counts grows with training."""

import torch
from torch import Tensor, nn

from naysay._base.errors import InvalidInput

_TEMPERATURES = tuple(2 ** (step / 4) for step in range(-4, 11))  # a half to nearly 6


class RampedLoss(nn.Module):
    """A loss of several views, whose agreement has weight `consistency` after `ramp`.

    Training says before each step how far it is. That is no part of the loss's state: a training
    that is resumed says it anew.
    """

    n_views: int
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
