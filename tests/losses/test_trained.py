"""A matrix that is trained along: where it starts, what pulls it back, and what bounds it."""

import copy
import io
import math

import numpy as np
import pytest
import torch

from loss_cases import make_logits, make_transition, possible_labels
from naysay import InvalidInput, TransitionMatrix, losses

Q = make_transition("with zeros", 10)


@pytest.mark.parametrize("kind", ["uniform", "without zeros", "with zeros", "with diagonal"])
def test_a_trained_matrix_starts_at_the_one_given_and_keeps_its_zero_diagonal(kind):
    start = make_transition(kind, 10)
    module = losses.TrainedForwardCrossEntropy(start)
    np.testing.assert_allclose(module.learned_transition, start, atol=0.01)
    optimiser = torch.optim.SGD(module.parameters(), lr=50)
    logits, labels = make_logits(40, 10).float(), possible_labels(start, 40)
    before = module(logits, labels).item()
    for _ in range(20):
        optimiser.zero_grad()
        module(logits, labels).backward()
        optimiser.step()
    assert module(logits, labels).item() < before
    learned = np.asarray(module.learned_transition)
    assert np.abs(learned - np.asarray(start)).max() > 0.01
    np.testing.assert_allclose(learned.sum(1), 1)
    assert (learned.diagonal()[np.asarray(start).diagonal() == 0] == 0).all()


@pytest.mark.parametrize("kind", ["uniform", "with zeros", "with diagonal"])
def test_gradient_by_the_trained_matrix_passes_the_check_by_finite_differences(kind):
    start = make_transition(kind, 3)
    module = losses.TrainedForwardCrossEntropy(start).double()
    labels = possible_labels(start, 5)

    def loss(row_logits, logits):
        return torch.func.functional_call(module, {"row_logits": row_logits}, (logits, labels))

    rows = module.row_logits.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (rows, make_logits(5, 3).requires_grad_()))


@pytest.mark.parametrize("size", [100.0, 1000.0])
def test_gradient_by_the_trained_matrix_is_finite_at_large_logits(size):
    module = losses.TrainedForwardCrossEntropy(make_transition("with zeros", 3))
    for label in range(3):
        for logits in size * torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0])] * 3):
            module.zero_grad()
            module(logits[None], torch.tensor([label])).backward()
            assert module.row_logits.grad.isfinite().all()


def test_a_trained_matrix_survives_copying_and_saving():
    module = losses.TrainedForwardCrossEntropy(Q)
    with torch.no_grad():
        module.row_logits.add_(torch.linspace(0, 1, 100).reshape(10, 10))
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    rebuilt = losses.TrainedForwardCrossEntropy(Q)
    rebuilt.load_state_dict(module.state_dict())
    for twin in (copy.deepcopy(module), torch.load(file, weights_only=False), rebuilt):
        assert twin.learned_transition == module.learned_transition


def test_a_pull_holds_the_trained_matrix_near_its_start():
    start = TransitionMatrix.with_zeros(4, 2, seed=0)
    labels = torch.randint(0, 4, (200,), generator=torch.Generator().manual_seed(0))
    logits = torch.zeros(200, 4)
    moved = {}
    for pull in (0.0, 1.0, 100.0):
        module = losses.TrainedForwardCrossEntropy(start, pull=pull)
        before = np.asarray(module.learned_transition)
        optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
        for _ in range(50):
            optimiser.zero_grad()
            module(logits, labels).backward()
            optimiser.step()
        moved[pull] = np.abs(np.asarray(module.learned_transition) - before).sum()
    assert moved[100.0] < moved[1.0] < moved[0.0]


def test_the_pull_is_the_divergence_from_the_start_and_only_while_training():
    start = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1))
    module = losses.TrainedForwardCrossEntropy(start, pull=2.0)
    plain = losses.TrainedForwardCrossEntropy(start)
    with torch.no_grad():
        noise = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
        module.row_logits.add_(noise)
        plain.row_logits.add_(noise)
    logits, labels = torch.zeros(3, 4), torch.tensor([0, 1, 2])
    before, after = np.asarray(start), np.asarray(module.learned_transition)
    divergence = sum(
        before[i, j] * np.log(before[i, j] / after[i, j])
        for i in range(4)
        for j in range(4)
        if i != j
    )
    gap = module(logits, labels) - plain(logits, labels)
    assert gap.item() == pytest.approx(2 * divergence / 4, rel=1e-4)
    assert module.eval()(logits, labels).item() == plain.eval()(logits, labels).item()
    with pytest.raises(InvalidInput, match="pull must be"):
        losses.TrainedForwardCrossEntropy(start, pull=-1)


Q3 = TransitionMatrix.without_zeros(3, (0.7, 0.3))


def bounded_by_hand(row_logits, bound):
    """Return the matrix that logits stand for when its diagonal is bounded, in plain loops."""
    rows = []
    for i, logits in enumerate(row_logits):
        error = bound / (1 + math.exp(-logits[i]))
        total = sum(math.exp(each) for j, each in enumerate(logits) if j != i)
        rows.append(
            [
                error if j == i else (1 - error) * math.exp(each) / total
                for j, each in enumerate(logits)
            ]
        )
    return rows


@pytest.mark.parametrize("kind", ["uniform", "without zeros", "with zeros", "with diagonal"])
def test_a_bounded_diagonal_is_the_bound_times_a_sigmoid_and_rows_sum_to_one(kind):
    module = losses.TrainedForwardCrossEntropy(make_transition(kind, 10), max_error=0.2).double()
    with torch.no_grad():
        module.row_logits.add_(make_logits(10, 10))
    expected = bounded_by_hand(module.row_logits.tolist(), 0.2)
    np.testing.assert_allclose(module.learned_transition, expected, rtol=1e-9)
    np.testing.assert_allclose(module.log_Q.detach().exp().sum(1), 1)


def test_mistakes_are_learned_up_to_the_bound_and_no_further():
    # the network knows every class, and annotators exclude the true one in 3 cases of 10
    true = torch.arange(4).repeat(250)
    rows = 0.7 * np.asarray(TransitionMatrix.uniform(4)) + 0.3 * np.eye(4)
    labels = torch.from_numpy(TransitionMatrix(rows, allow_diagonal=True).sample(true.numpy()))
    logits = 50 * torch.nn.functional.one_hot(true, 4).float()
    found = {}
    for bound in (None, 0.1, 0.6):
        start = TransitionMatrix.uniform(4)
        module = losses.TrainedForwardCrossEntropy(start, max_error=bound)
        optimiser = torch.optim.Adam(module.parameters(), lr=0.2)
        for _ in range(200):
            optimiser.zero_grad()
            module(logits, labels).backward()
            optimiser.step()
        found[bound] = np.asarray(module.learned_transition).diagonal()
    assert (found[None] == 0).all()
    assert ((found[0.1] > 0.09) & (found[0.1] <= 0.1)).all()
    np.testing.assert_allclose(found[0.6], 0.3, atol=0.08)


def test_gradient_by_a_bounded_matrix_is_right_and_finite():
    module = losses.TrainedForwardCrossEntropy(Q3, max_error=0.3, pull=0.5).double()
    labels = torch.tensor([0, 1, 2, 1, 0])

    def loss(row_logits, logits):
        return torch.func.functional_call(module, {"row_logits": row_logits}, (logits, labels))

    rows = module.row_logits.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (rows, make_logits(5, 3).requires_grad_()))
    for size in (100.0, 1000.0):
        module.zero_grad()
        module(size * torch.eye(3).double(), torch.tensor([0, 1, 2])).backward()
        assert module.row_logits.grad.isfinite().all()


def test_a_bounded_matrix_starts_near_the_one_given_and_inside_the_bound():
    rows = 0.85 * np.asarray(TransitionMatrix.uniform(3)) + 0.15 * np.eye(3)
    given = TransitionMatrix(rows, allow_diagonal=True)
    within = losses.TrainedForwardCrossEntropy(given, max_error=0.3)
    np.testing.assert_allclose(within.learned_transition, given, atol=1e-6)
    outside = np.asarray(losses.TrainedForwardCrossEntropy(given, max_error=0.1).learned_transition)
    np.testing.assert_allclose(outside.diagonal(), 0.095, rtol=1e-5)
    np.testing.assert_allclose(outside.sum(1), 1)
    zero = losses.TrainedForwardCrossEntropy(TransitionMatrix.uniform(3), max_error=0.1)
    np.testing.assert_allclose(np.asarray(zero.learned_transition).diagonal(), 0.005, rtol=1e-5)
    for bound in (0, 1, -0.1):
        with pytest.raises(InvalidInput, match="max_error"):
            losses.TrainedForwardCrossEntropy(given, max_error=bound)


def test_a_bounded_matrix_survives_copying_and_saving():
    module = losses.TrainedForwardCrossEntropy(Q3, max_error=0.2)
    with torch.no_grad():
        module.row_logits.add_(torch.linspace(0, 1, 9).reshape(3, 3))
    rebuilt = losses.TrainedForwardCrossEntropy(Q3, max_error=0.2)
    rebuilt.load_state_dict(module.state_dict())
    for twin in (copy.deepcopy(module), rebuilt):
        assert twin.learned_transition == module.learned_transition
