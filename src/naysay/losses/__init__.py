"""Losses as modules: one shell per function of `naysay.functional`, same stem, same order.

They hold no tensors of their own but the optional weight or prior, and the matrix where it is
trained: the columns of Q follow the device and precision of the logits.

A loss whose logits are not those of the classes says how to read them: ``log_scores(logits)``
gives scores of the classes, shape (N, K), in place of the logarithm of the softmax. What else a
loss may ask of training is said in `naysay.training`.
"""

from naysay.losses._consistency import PartialOutputConsistency
from naysay.losses._estimates import (
    ComplementaryCrossEntropy,
    NearestRowForwardCrossEntropy,
    TrainedForwardCrossEntropy,
)
from naysay.losses._forward import (
    ForwardAbsoluteError,
    ForwardCrossEntropy,
    ForwardGeneralisedCrossEntropy,
    ForwardLoss,
    ForwardSquaredError,
)
from naysay.losses._likelihood import LikelihoodLoss
from naysay.losses._margins import MultiLabel, OneVersusAll, PairwiseComparison, PartialLabel
from naysay.losses._prior import PriorMatching
from naysay.losses._rest import OneVersusRestRisk
from naysay.losses._several import (
    SeveralLabelsAbsoluteError,
    SeveralLabelsExponential,
    SeveralLabelsLog,
)
from naysay.losses._surrogates import (
    OrderPreserving,
    ReversedSoftmax,
    SurrogateExponential,
    SurrogateLog,
    WeightedOrderPreserving,
    WeightedReversedSoftmax,
)
from naysay.losses._two_views import TwoViews, TwoViewsLikelihood
from naysay.losses._unbiased import BackwardCrossEntropy, GradientAscentRisk, NonNegativeRisk

__all__ = [
    "BackwardCrossEntropy",
    "ComplementaryCrossEntropy",
    "ForwardAbsoluteError",
    "ForwardCrossEntropy",
    "ForwardGeneralisedCrossEntropy",
    "ForwardLoss",
    "ForwardSquaredError",
    "GradientAscentRisk",
    "LikelihoodLoss",
    "MultiLabel",
    "NearestRowForwardCrossEntropy",
    "NonNegativeRisk",
    "OneVersusAll",
    "OneVersusRestRisk",
    "OrderPreserving",
    "PairwiseComparison",
    "PartialLabel",
    "PartialOutputConsistency",
    "PriorMatching",
    "ReversedSoftmax",
    "SeveralLabelsAbsoluteError",
    "SeveralLabelsExponential",
    "SeveralLabelsLog",
    "SurrogateExponential",
    "SurrogateLog",
    "TrainedForwardCrossEntropy",
    "TwoViews",
    "TwoViewsLikelihood",
    "WeightedOrderPreserving",
    "WeightedReversedSoftmax",
]
