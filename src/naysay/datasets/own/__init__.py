"""Readers for the user's data: tables, array files and images with complementary labels."""

from naysay.datasets.own.data import OwnData
from naysay.datasets.own.read import read_anchors, read_features, read_own, recipe_from_dict

__all__ = ["OwnData", "read_anchors", "read_features", "read_own", "recipe_from_dict"]
