"""Module of the loss for evidence of any kind."""

from torch import Tensor, nn

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


class LikelihoodLoss(nn.Module):
    """Module form of `naysay.functional.likelihood_loss`."""

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, log_likelihood: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) under likelihoods of the same shape."""
        return F.likelihood_loss(logits, log_likelihood, reduction=self.reduction)
