"""The short way to -log q agrees with the long one, and second derivatives pass through it."""

import pytest
import torch

from naysay import TransitionMatrix
from naysay._columns import columns_of, negative_log_q

MATRICES = [TransitionMatrix.uniform(4), TransitionMatrix.without_zeros(4)]


@pytest.mark.parametrize("Q", MATRICES, ids=["uniform", "dense"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_agree(Q, scale, dtype):
    torch.manual_seed(0)
    logits = (torch.randn(64, 4, dtype=dtype) * scale).requires_grad_()
    labels = torch.randint(4, (64,))
    columns = columns_of(Q, dtype, logits.device)
    short = negative_log_q(columns, logits, labels)
    long = -columns.log_q_of(logits, labels)
    torch.testing.assert_close(short, long)
    slopes = [torch.autograd.grad(losses.sum(), logits)[0] for losses in (short, long)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("Q", MATRICES, ids=["uniform", "dense"])
def test_second_derivatives_are_those_of_the_formula(Q):
    torch.manual_seed(0)
    logits = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(4, (5,))
    columns = columns_of(Q, torch.float64, logits.device)
    assert torch.autograd.gradgradcheck(lambda x: negative_log_q(columns, x, labels), logits)


def test_functional_transforms_see_through_it():
    Q = TransitionMatrix.uniform(4)
    columns = columns_of(Q, torch.float32, torch.device("cpu"))
    logits, labels = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    one_by_one = torch.stack(
        [negative_log_q(columns, *pair) for pair in zip(logits, labels, strict=True)]
    )
    together = torch.func.vmap(lambda x, y: negative_log_q(columns, x, y))(logits, labels)
    torch.testing.assert_close(together, one_by_one)
