"""Modules of losses on margins."""

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import BinaryLoss, Loss


class PairwiseComparison(Loss):
    """Module form of `naysay.functional.pairwise_comparison`."""

    function = staticmethod(F.pairwise_comparison)


class OneVersusAll(Loss):
    """Module form of `naysay.functional.one_versus_all`."""

    function = staticmethod(F.one_versus_all)


class PartialLabel(BinaryLoss):
    """Module form of `naysay.functional.partial_label`."""

    function = staticmethod(F.partial_label)


class MultiLabel(BinaryLoss):
    """Module form of `naysay.functional.multi_label`."""

    function = staticmethod(F.multi_label)
