"""Estimate the transition matrix, how sure it is, and class shares; from plain arrays.

Predictions of any model serve: nothing here trains one, and nothing needs torch.
"""

from naysay.estimation.anchors import calibrate, choose_anchors, from_anchors
from naysay.estimation.interval import Uncertainty, uncertainty
from naysay.estimation.prior import class_prior
from naysay.estimation.refinement import refine
from naysay.estimation.structure import from_structure

__all__ = [
    "Uncertainty",
    "calibrate",
    "choose_anchors",
    "class_prior",
    "from_anchors",
    "from_structure",
    "refine",
    "uncertainty",
]
