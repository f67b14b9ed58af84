"""Losses as modules, one for each function of `naysay.functional` and with the same name.

Their only tensors are the optional class weights or prior, and the matrix if it is trained. The
columns of any other Q are converted to the device and precision of the logits.

What training, prediction and model files may ask of a loss is declared in `TrainingLoss`, the base
class of all of them and of losses of your own.
"""

from naysay.losses.protocol import TrainingLoss
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
    "TrainingLoss",
    "TwoViews",
    "TwoViewsLikelihood",
    "WeightedOrderPreserving",
    "WeightedReversedSoftmax",
]
