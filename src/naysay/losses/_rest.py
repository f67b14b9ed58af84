"""Module of the risk of each class against the rest."""

from typing import Any

from torch import Tensor

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import AbstractLoss


class OneVersusRestRisk(AbstractLoss):
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
