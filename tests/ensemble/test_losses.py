"""Several matrices read as one."""

import torch

from naysay import TransitionMatrix
from naysay.ensemble.losses import Losses
from naysay.losses import (
    ForwardCrossEntropy,
)


def test_matrices_with_a_label_that_never_occurs_are_not_stacked():
    unused = TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    full = [TransitionMatrix.without_zeros(3, shares=(0.7, 0.3), seed=seed) for seed in (0, 1)]
    labels = [torch.tensor([1, 2])] * 3
    together = Losses([ForwardCrossEntropy(Q) for Q in (*full, unused)], labels)
    assert [size for size, _ in together.parts] == [1, 1, 1]
