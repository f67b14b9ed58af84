"""Locate, download, check and read official data sets in their published formats."""
