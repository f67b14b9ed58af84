"""The fused form of -log q agrees with log space, its derivatives too; stacks; the cache."""

import gc
import weakref

import pytest
import torch

from loss_cases import with_gradient
from naysay import InvalidLabels, TransitionMatrix
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.functional.columns import can_stack, columns_of, stack_columns
from naysay.functional.forward import fused_mean_or_none, negative_log_q

MATRICES = {
    "uniform, few": TransitionMatrix.uniform(4),  # in a table, class by class
    "uniform, many": TransitionMatrix.uniform(20),  # in closed form
    "dense, few": TransitionMatrix.without_zeros(4),
    "dense, many": TransitionMatrix.without_zeros(20),
}


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("scale", [1.0, 30.0, 100.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_fused_form_agrees_with_log_space(Q, scale, dtype):
    torch.manual_seed(0)
    logits = (torch.randn(64, Q.n_classes, dtype=dtype) * scale).requires_grad_()
    labels = torch.randint(Q.n_classes, (64,))
    columns = columns_of(Q, dtype, logits.device)
    fused = negative_log_q(columns, logits, labels)
    in_log_space = -columns.log_q_of(logits, labels)
    torch.testing.assert_close(fused, in_log_space)
    slopes = [torch.autograd.grad(losses.sum(), logits)[0] for losses in (fused, in_log_space)]
    torch.testing.assert_close(*slopes)
    mean = fused_mean_or_none(logits, labels, Q, -100)
    assert mean is not None
    torch.testing.assert_close(mean, in_log_space.mean())
    torch.testing.assert_close(torch.autograd.grad(3 * mean, logits)[0], 3 * slopes[1] / 64)


@pytest.mark.unmeasured
@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_second_derivatives_are_those_of_the_formula(Q):
    torch.manual_seed(0)
    logits = torch.randn(5, Q.n_classes, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(Q.n_classes, (5,))
    columns = columns_of(Q, torch.float64, logits.device)
    assert torch.autograd.gradgradcheck(lambda x: negative_log_q(columns, x, labels), logits)
    assert torch.autograd.gradgradcheck(lambda x: F.forward_cross_entropy(x, labels, Q), logits)


def test_vmap_gives_the_losses_of_each_batch_alone():
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
def test_a_label_out_of_range_is_refused_although_the_fused_form_checks_none(Q, wrong):
    wrong = Q.n_classes if wrong == "one too many" else wrong
    logits = torch.zeros(3, Q.n_classes, requires_grad=True)
    message = f"Got {wrong}, and 1 of 3 labels"
    with pytest.raises(InvalidLabels, match=message):
        F.forward_cross_entropy(logits, torch.tensor([0, wrong, 1]), Q)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_ignored_labels_are_left_out_although_the_fused_form_checks_none(Q):
    logits = torch.randn(3, Q.n_classes)
    found = F.forward_cross_entropy(logits, torch.tensor([0, -100, 1]), Q)
    expected = F.forward_cross_entropy(logits[[0, 2]], torch.tensor([0, 1]), Q)
    torch.testing.assert_close(found, expected)
    # if 0 is the ignored label, looking it up would raise no error
    found = F.forward_cross_entropy(logits, torch.tensor([0, 0, 1]), Q, ignore_index=0)
    torch.testing.assert_close(found, F.forward_cross_entropy(logits[2:], torch.tensor([1]), Q))


def test_tensors_cached_in_inference_mode_can_be_used_in_training():
    Q = TransitionMatrix.uniform(4)
    logits = torch.randn(977, 4, requires_grad=True)  # a batch size that no other test uses
    labels = torch.arange(977) % 4
    with torch.inference_mode():
        value = F.forward_cross_entropy(logits, labels, Q)
    loss = F.forward_cross_entropy(logits, labels, Q)
    assert loss == value
    (slope,) = torch.autograd.grad(loss, logits, create_graph=True)
    slope.square().sum().backward()
    assert logits.grad.isfinite().all()


def test_tensors_of_a_matrix_are_made_once_and_dropped_with_it():
    Q = TransitionMatrix.without_zeros(4)
    columns = columns_of(Q, torch.float32, torch.device("cpu"))
    assert columns_of(Q, torch.float32, torch.device("cpu")) is columns
    assert columns_of(Q, torch.float64, torch.device("cpu")).values.dtype == torch.float64
    values = weakref.ref(columns.values)
    del Q, columns
    gc.collect()
    assert values() is None


def test_batched_gradients_are_supported():
    Q = TransitionMatrix.without_zeros(4)
    logits, labels = torch.randn(5, 4, requires_grad=True), torch.randint(4, (5,))
    losses = negative_log_q(columns_of(Q, torch.float32, logits.device), logits, labels)
    (found,) = torch.autograd.grad(losses, logits, torch.eye(5), is_grads_batched=True)
    for number, slope in enumerate(found):
        assert slope[number].abs().sum() > 0
        assert not slope[torch.arange(5) != number].any()


@pytest.mark.parametrize(
    "function", [F.forward_cross_entropy, F.forward_squared_error, F.two_views]
)
@pytest.mark.parametrize("n_classes", [4, 20])
def test_a_stack_gives_each_part_of_a_batch_its_matrix(function, n_classes):
    matrices = [TransitionMatrix.without_zeros(n_classes, seed=seed) for seed in range(3)]
    assert can_stack(matrices)
    stack = stack_columns(matrices, torch.device("cpu"))
    logits, labels = torch.randn(3, 5, n_classes), torch.randint(n_classes, (3, 5))

    def loss(logits, labels, Q):
        views = {"other_logits": 2 * logits} if function is F.two_views else {}
        return function(logits, labels, Q, reduction="none", **views)

    found, slopes = with_gradient(loss, logits.flatten(0, 1), labels.flatten(), stack)
    alone = [with_gradient(loss, *part) for part in zip(logits, labels, matrices, strict=True)]
    torch.testing.assert_close(found, torch.cat([value for value, _ in alone]))
    torch.testing.assert_close(slopes, torch.cat([slope for _, slope in alone]))
    if function is F.forward_cross_entropy:
        mean = function(logits.flatten(0, 1), labels.flatten(), stack)
        torch.testing.assert_close(mean, found.mean())


def test_matrices_are_stacked_only_where_every_label_can_occur_and_classes_agree():
    full = [TransitionMatrix.without_zeros(3, shares=(0.7, 0.3), seed=seed) for seed in (0, 1)]
    assert can_stack(full)
    assert not can_stack([*full, TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])])
    assert not can_stack([*full, TransitionMatrix.uniform(4)])
    assert not can_stack([TransitionMatrix.uniform(3000)] * 2)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_logits_are_not_changed(Q, n):
    logits = torch.randn(n, Q.n_classes)
    before = logits.clone()
    for reduction in ("mean", "none"):
        F.forward_cross_entropy(logits, torch.zeros(n, dtype=torch.int64), Q, reduction=reduction)
    assert torch.equal(logits, before)
