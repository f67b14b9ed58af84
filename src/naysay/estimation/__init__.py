"""Estimate the transition matrix, how sure it is, and class shares; from plain arrays.

Predictions of any model serve: nothing here trains one, and nothing needs torch.
"""

from naysay.estimation._anchors import choose_anchors, from_anchors
from naysay.estimation._calibrate import calibrate
from naysay.estimation._interval import Uncertainty, uncertainty
from naysay.estimation._prior import class_prior
from naysay.estimation._refine import refine
from naysay.estimation._structure import from_structure

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
