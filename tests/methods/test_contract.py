"""Properties that the loss of every entry of METHODS must have.

The formulas themselves are compared with references in `tests/functional`.
"""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch

from loss_cases import make_logits, possible_labels, saturated_logits, with_gradient
from naysay import TransitionMatrix
from naysay.methods import METHODS, Setting

EVERY = pytest.mark.parametrize("name", METHODS)
N_CLASSES = 4
BIASED = TransitionMatrix.without_zeros(N_CLASSES, (0.7, 0.2, 0.1), seed=0)
PRIOR = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
#: these hold part of their value constant in the gradient, which their own tests differentiate
PARTLY_CONSTANT = {"ga", "op-w", "pocr", "two-views", "weak-to-strong"}


def make_loss(name, Q=BIASED, prior=PRIOR):
    return METHODS[name].make_loss(Setting(Q=Q, prior=prior)).double()


def views_of(loss, logits):
    """Return the logits as the loss takes them in training: all views, or the one."""
    views = [logits / (1 + view) for view in range(loss.n_views)]
    return torch.stack(views) if len(views) > 1 else logits


def call(loss):
    return lambda logits, labels: loss(views_of(loss, logits), labels)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in PARTLY_CONSTANT])
def test_gradient_passes_the_check_by_finite_differences(name):
    for Q in (TransitionMatrix.uniform(N_CLASSES), BIASED):
        loss = make_loss(name, Q)
        logits, labels = make_logits(7, N_CLASSES).requires_grad_(), possible_labels(Q, 7)
        assert torch.autograd.gradcheck(partial(call(loss), labels=labels), logits)


@EVERY
def test_loss_and_gradient_are_finite_at_large_logits(name):
    labels = possible_labels(BIASED, 40)
    for dtype, size in product((torch.float32, torch.float64), (100.0, 1000.0)):
        loss = make_loss(name).to(dtype)
        logits = (size * saturated_logits(40, N_CLASSES).sign()).to(dtype)
        value, gradient = with_gradient(call(loss), logits, labels)
        assert value.isfinite()
        assert gradient.isfinite().all()


@EVERY
def test_half_precision_is_computed_in_single(name):
    loss, dtype = make_loss(name), torch.bfloat16
    logits, labels = make_logits(6, N_CLASSES).to(dtype), possible_labels(BIASED, 6)
    value, gradient = with_gradient(call(loss.float()), logits, labels)
    expected, _ = with_gradient(lambda f, y: loss(f.double(), y), views_of(loss, logits), labels)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    torch.testing.assert_close(value.double(), expected.double(), rtol=1e-4, atol=1e-5)


@EVERY
def test_order_of_the_classes_does_not_matter(name):
    order = np.array([2, 0, 3, 1])
    permuted = TransitionMatrix(np.asarray(BIASED)[np.ix_(order, order)])
    logits, labels = make_logits(6, N_CLASSES), possible_labels(BIASED, 6)
    new_labels = torch.from_numpy(np.argsort(order))[labels]
    value, gradient = with_gradient(call(make_loss(name)), logits, labels)
    twin = make_loss(name, permuted, PRIOR[order])
    other, slopes = with_gradient(call(twin), logits[:, order], new_labels)
    torch.testing.assert_close(value, other)
    torch.testing.assert_close(gradient[:, order], slopes)


@EVERY
def test_a_batch_of_one_and_a_batch_without_one_of_the_labels_are_taken(name):
    loss = make_loss(name)
    for labels in (torch.tensor([2]), torch.tensor([0, 1, 3, 0, 1])):
        logits = make_logits(len(labels), N_CLASSES)
        value, gradient = with_gradient(call(loss), logits, labels)
        assert value.isfinite()
        assert gradient.isfinite().all()
        assert gradient.any()
