"""Several matrices read as one."""

import numpy as np
import pytest
import torch

from members import (
    CPU,
    make_Q,
)
from naysay import TransitionMatrix
from naysay.ensemble.losses import Losses, TransitionStack
from naysay.losses import (
    ForwardCrossEntropy,
)


def test_a_stack_of_matrices_has_columns_only():
    stack = TransitionStack([make_Q(0), make_Q(1)], CPU)
    with pytest.raises(TypeError, match="columns only"):
        np.asarray(stack)
    assert not stack.is_uniform


def test_matrices_with_a_label_that_never_occurs_are_not_stacked():
    unused = TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    full = [TransitionMatrix.without_zeros(3, shares=(0.7, 0.3), seed=seed) for seed in (0, 1)]
    assert TransitionStack.can_hold(full)
    assert not TransitionStack.can_hold([*full, unused])
    labels = [torch.tensor([1, 2])] * 3
    together = Losses([ForwardCrossEntropy(Q) for Q in (*full, unused)], labels)
    assert [size for size, _ in together.parts] == [1, 1, 1]
