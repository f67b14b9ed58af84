"""The short way to -log q agrees with the long one, and second derivatives pass through it."""

import pytest
import torch

from naysay import InvalidLabels, TransitionMatrix
from naysay.functional import forward_cross_entropy
from naysay.functional.columns import columns_of
from naysay.functional.negative_log import mean_in_short, negative_log_q

MATRICES = {
    "uniform, few": TransitionMatrix.uniform(4),  # in a table, class by class
    "uniform, many": TransitionMatrix.uniform(20),  # in closed form
    "dense, few": TransitionMatrix.without_zeros(4),
    "dense, many": TransitionMatrix.without_zeros(20),
}


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("scale", [1.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_agree(Q, scale, dtype):
    torch.manual_seed(0)
    logits = (torch.randn(64, Q.n_classes, dtype=dtype) * scale).requires_grad_()
    labels = torch.randint(Q.n_classes, (64,))
    columns = columns_of(Q, dtype, logits.device)
    short = negative_log_q(columns, logits, labels)
    long = -columns.log_q_of(logits, labels)
    torch.testing.assert_close(short, long)
    slopes = [torch.autograd.grad(losses.sum(), logits)[0] for losses in (short, long)]
    torch.testing.assert_close(*slopes)
    mean = mean_in_short(logits, labels, Q, -100)
    assert mean is not None
    torch.testing.assert_close(mean, long.mean())
    torch.testing.assert_close(torch.autograd.grad(3 * mean, logits)[0], 3 * slopes[1] / 64)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_second_derivatives_are_those_of_the_formula(Q):
    torch.manual_seed(0)
    logits = torch.randn(5, Q.n_classes, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(Q.n_classes, (5,))
    columns = columns_of(Q, torch.float64, logits.device)
    assert torch.autograd.gradgradcheck(lambda x: negative_log_q(columns, x, labels), logits)
    assert torch.autograd.gradgradcheck(lambda x: forward_cross_entropy(x, labels, Q), logits)


def test_functional_transforms_see_through_it():
    Q = TransitionMatrix.uniform(4)
    columns = columns_of(Q, torch.float32, torch.device("cpu"))
    logits, labels = torch.randn(3, 5, 4), torch.randint(4, (3, 5))
    one_by_one = torch.stack(
        [negative_log_q(columns, *pair) for pair in zip(logits, labels, strict=True)]
    )
    together = torch.func.vmap(lambda x, y: negative_log_q(columns, x, y))(logits, labels)
    torch.testing.assert_close(together, one_by_one)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("wrong", ["one too many", -1])
def test_a_wrong_label_is_refused_by_name_though_none_is_looked_at_first(Q, wrong):
    wrong = Q.n_classes if wrong == "one too many" else wrong
    logits = torch.zeros(3, Q.n_classes, requires_grad=True)
    message = f"Got {wrong}, and 1 of 3 labels"
    with pytest.raises(InvalidLabels, match=message):
        forward_cross_entropy(logits, torch.tensor([0, wrong, 1]), Q)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_a_label_to_ignore_takes_the_careful_way(Q):
    logits = torch.randn(3, Q.n_classes)
    found = forward_cross_entropy(logits, torch.tensor([0, -100, 1]), Q)
    expected = forward_cross_entropy(logits[[0, 2]], torch.tensor([0, 1]), Q)
    torch.testing.assert_close(found, expected)
    # where 0 is the label to ignore, no operation would refuse it
    found = forward_cross_entropy(logits, torch.tensor([0, 0, 1]), Q, ignore_index=0)
    torch.testing.assert_close(found, forward_cross_entropy(logits[2:], torch.tensor([1]), Q))


def test_what_was_made_without_gradients_serves_training_too():
    Q = TransitionMatrix.uniform(4)
    logits = torch.randn(977, 4, requires_grad=True)  # a number of examples of no other test
    labels = torch.arange(977) % 4
    with torch.inference_mode():
        value = forward_cross_entropy(logits, labels, Q)
    loss = forward_cross_entropy(logits, labels, Q)
    assert loss == value
    (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
    slope.square().sum().backward()
    assert logits.grad.isfinite().all()


def test_gradients_of_many_sums_at_once_pass_through_it():
    Q = TransitionMatrix.without_zeros(4)
    logits, labels = torch.randn(5, 4, requires_grad=True), torch.randint(4, (5,))
    losses = negative_log_q(columns_of(Q, torch.float32, logits.device), logits, labels)
    (found,) = torch.autograd.grad(losses, logits, torch.eye(5), is_grads_batched=True)
    for number, slope in enumerate(found):
        assert slope[number].abs().sum() > 0
        assert not slope[torch.arange(5) != number].any()


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_logits_are_left_as_they_are(Q, n):
    logits = torch.randn(n, Q.n_classes)
    before = logits.clone()
    for reduction in ("mean", "none"):
        forward_cross_entropy(logits, torch.zeros(n, dtype=torch.int64), Q, reduction=reduction)
    assert torch.equal(logits, before)
