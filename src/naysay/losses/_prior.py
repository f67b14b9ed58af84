"""A loss that holds the mean prediction near the class prior."""

import torch
from torch import Tensor, nn

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_number


class PriorMatching(nn.Module):
    """Any loss, and `naysay.functional.prior_matching` of the batch added to it in training.

    In evaluation mode it is the loss alone, so that held-out losses stay comparable. The mean is
    over the predictions as the loss reads them, of all views; examples whose label is
    `ignore_index` are left out.

    Parameters
    ----------
    loss : Module
        Gives one number for logits and labels. What else it asks of training is asked here too.
    prior : Tensor of shape (K,)
        Share of each class, sum 1.
    strength : float, default=1.0
        What the divergence counts for.

    Examples
    --------
    >>> from naysay.losses import SurrogateLog
    >>> loss = PriorMatching(SurrogateLog(), torch.tensor([0.5, 0.25, 0.25]))
    >>> logits, labels = torch.zeros(2, 3), torch.tensor([0, 1])
    >>> round((loss(logits, labels) - loss.eval()(logits, labels)).item(), 3)
    0.059
    """

    prior: Tensor

    def __init__(
        self, loss: nn.Module, prior: Tensor, *, strength: float = 1.0, ignore_index: int = -100
    ) -> None:
        super().__init__()
        self.loss = loss
        self.strength = check_number(strength, "strength", above=0)
        self.ignore_index = ignore_index
        self.register_buffer("prior", prior)
        self.n_views: int = getattr(loss, "n_views", 1)
        for asked in ("set_progress", "log_scores", "held_out"):
            if hasattr(loss, asked):
                setattr(self, asked, getattr(loss, asked))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …), or (n_views, N, K, …) as the loss takes them."""
        found = self.loss(logits, labels)
        if not self.training:
            return found
        counted = None
        if not labels.is_floating_point() and labels.dtype != torch.bool:
            counted = (labels != self.ignore_index).expand(self.n_views, *labels.shape)
        if self.n_views > 1:
            logits = logits.flatten(0, 1)
        read = getattr(self.loss, "log_scores", lambda logits: logits)
        return found + self.strength * F.prior_matching(read(logits), self.prior, counted=counted)

    def extra_repr(self) -> str:
        return f"strength={self.strength}"
