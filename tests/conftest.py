"""What holds for every test: one thread per process, and properties that try the same examples."""

import os

import torch
from hypothesis import settings

# The tests' networks are small, and several processes share the cores.
torch.set_num_threads(1)

# The same commit must give the same verdict, here and in CI: a failure by a new draw belongs to
# the commit that brought it. NAYSAY_EXPLORE=1 draws new examples at every run, to look further.
settings.register_profile("repeatable", derandomize=True, database=None)
if "NAYSAY_EXPLORE" not in os.environ:
    settings.load_profile("repeatable")
