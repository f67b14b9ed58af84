"""Official data sets in their published formats: found, downloaded, checked and read."""
