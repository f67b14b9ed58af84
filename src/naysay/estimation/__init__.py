"""Estimate the transition matrix, its uncertainty and the class prior from plain arrays.

The functions take predictions of any model; none of them trains a model or needs torch.
"""

from naysay.estimation.anchors import calibrate, choose_anchors, from_anchors, from_structure
from naysay.estimation.class_shares import class_prior
from naysay.estimation.matrix_interval import Uncertainty, uncertainty
from naysay.estimation.mistakes import MistakeRate, rate_of_mistakes
from naysay.estimation.pairs import combine_with_pairs
from naysay.estimation.refinement import refine

__all__ = [
    "MistakeRate",
    "Uncertainty",
    "calibrate",
    "choose_anchors",
    "class_prior",
    "combine_with_pairs",
    "from_anchors",
    "from_structure",
    "rate_of_mistakes",
    "refine",
    "uncertainty",
]
