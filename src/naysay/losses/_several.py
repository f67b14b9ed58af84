"""Modules of losses on a set of complementary labels per example."""

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses._shells import Loss


class SeveralLabelsAbsoluteError(Loss):
    """Module form of `naysay.functional.several_labels_absolute_error`."""

    function = staticmethod(F.several_labels_absolute_error)


class SeveralLabelsExponential(Loss):
    """Module form of `naysay.functional.several_labels_exponential`."""

    function = staticmethod(F.several_labels_exponential)


class SeveralLabelsLog(Loss):
    """Module form of `naysay.functional.several_labels_log`."""

    function = staticmethod(F.several_labels_log)
