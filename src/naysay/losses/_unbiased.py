"""Modules of the unbiased estimates of the ordinary risk, and their corrections."""

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import TransitionLoss, TransitionRisk


class BackwardCrossEntropy(TransitionLoss):
    """Module form of `naysay.functional.backward_cross_entropy`."""

    function = staticmethod(F.backward_cross_entropy)


class NonNegativeRisk(TransitionRisk):
    """Module form of `naysay.functional.non_negative_risk`."""

    function = staticmethod(F.non_negative_risk)


class GradientAscentRisk(TransitionRisk):
    """Module form of `naysay.functional.gradient_ascent_risk`."""

    function = staticmethod(F.gradient_ascent_risk)
