"""One thread per process: the tests' networks are small, and several processes share the cores."""

import torch

torch.set_num_threads(1)
