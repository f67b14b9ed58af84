"""Losses as modules: one shell per function of `naysay.functional`, same stem, same order.

They hold no tensors of their own but the optional weight or prior, and the matrix where it is
trained: the columns of Q follow the device and precision of the logits.

A loss whose logits are not those of the classes says how to read them: ``log_scores(logits)``
gives scores of the classes, shape (N, K), in place of the logarithm of the softmax. What else a
loss may ask of training is said in `naysay.training`.
"""

from naysay.losses.shells import (
    BackwardCrossEntropy,
    ForwardAbsoluteError,
    ForwardCrossEntropy,
    ForwardGeneralisedCrossEntropy,
    ForwardLoss,
    ForwardSquaredError,
    GradientAscentRisk,
    LikelihoodLoss,
    MultiLabel,
    NonNegativeRisk,
    OneVersusAll,
    OneVersusRestRisk,
    OrderPreserving,
    PairwiseComparison,
    PartialLabel,
    ReversedSoftmax,
    SeveralLabelsAbsoluteError,
    SeveralLabelsExponential,
    SeveralLabelsLog,
    SurrogateExponential,
    SurrogateLog,
    WeightedOrderPreserving,
    WeightedReversedSoftmax,
)
from naysay.losses.trained import (
    ComplementaryCrossEntropy,
    NearestRowForwardCrossEntropy,
    PriorMatching,
    TrainedForwardCrossEntropy,
)
from naysay.losses.views import PartialOutputConsistency, TwoViews, TwoViewsLikelihood

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
