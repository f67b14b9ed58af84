"""The user's own data: tables, arrays and images, and what was said about them."""

from naysay.datasets.own.data import OwnData
from naysay.datasets.own.read import read_anchors, read_features, read_own, recipe_from_dict

__all__ = ["OwnData", "read_anchors", "read_features", "read_own", "recipe_from_dict"]
