"""Modules of surrogate losses on one complementary label."""

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import Loss


class SurrogateLog(Loss):
    """Module form of `naysay.functional.surrogate_log`."""

    function = staticmethod(F.surrogate_log)


class SurrogateExponential(Loss):
    """Module form of `naysay.functional.surrogate_exponential`."""

    function = staticmethod(F.surrogate_exponential)


class ReversedSoftmax(Loss):
    """Module form of `naysay.functional.reversed_softmax`."""

    function = staticmethod(F.reversed_softmax)


class WeightedReversedSoftmax(Loss):
    """Module form of `naysay.functional.weighted_reversed_softmax`."""

    function = staticmethod(F.weighted_reversed_softmax)


class OrderPreserving(Loss):
    """Module form of `naysay.functional.order_preserving`."""

    function = staticmethod(F.order_preserving)


class WeightedOrderPreserving(Loss):
    """Module form of `naysay.functional.weighted_order_preserving`."""

    function = staticmethod(F.weighted_order_preserving)
