"""Estimates of P(Ȳ | x), and consistency between views, under the contract of every loss."""

import copy
import io
import math

import numpy as np
import pytest
import torch

import loss_references as reference
from loss_cases import (
    FEW,
    FEW_CASES,
    make_logits,
    make_transition,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_contract import LossContract, PlainLossContract, TransitionLossContract
from loss_references import (
    reference_cross_entropy,
)
from naysay import InvalidInput, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


class TestComplementaryCrossEntropy(PlainLossContract):
    plain_function = staticmethod(F.complementary_cross_entropy)
    module = losses.ComplementaryCrossEntropy
    reference = staticmethod(reference.complementary_cross_entropy)


class TestTrainedForwardCrossEntropy(LossContract):
    cases = FEW
    module = losses.TrainedForwardCrossEntropy
    reference = staticmethod(reference_cross_entropy)

    @staticmethod
    def function(logits, comp_labels, Q, weight=None, **options):
        log_Q = torch.from_numpy(np.array(Q)).log()
        return F.trained_forward_cross_entropy(logits, comp_labels, log_Q, weight, **options)

    @FEW_CASES
    def test_the_module_equals_the_function(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        weight = torch.linspace(1, 2, n_classes, dtype=torch.float64)
        options = {"weight": weight, "ignore_index": int(labels[0]), "reduction": "sum"}
        found = losses.TrainedForwardCrossEntropy(Q, floor=1e-12, **options)(logits, labels)
        torch.testing.assert_close(
            found, self.loss(logits, labels, Q, **options), rtol=1e-5, atol=0
        )

    @pytest.mark.parametrize("log_Q", [torch.zeros(3, 2), torch.zeros(2), [[0.0]]])
    def test_a_matrix_of_another_shape_is_refused(self, log_Q):
        with pytest.raises(InvalidInput, match=r"log_Q must be a Tensor of shape \(3, 3\)"):
            F.trained_forward_cross_entropy(torch.zeros(1, 3), torch.tensor([0]), log_Q)


class TestPartialOutputConsistency(TransitionLossContract):
    reference = staticmethod(reference.partial_output_consistency)
    cases = (*FEW, ("singular", 3), ("without zeros", 10), ("uniform", 1000), ("with zeros", 1200))
    single = (1e-5, 1e-5)  # a divergence is a difference of logarithms
    single_saturated = (1e-5, 1e-3)
    half_gradient = 1e-3  # the sum of three gradients, each rounded to half precision

    @staticmethod
    def views(logits):
        return torch.stack([factor * logits for factor in reference.VIEWS])

    @classmethod
    def function(cls, logits, *arguments, **options):
        views = cls.views(logits) if isinstance(logits, torch.Tensor) else None
        return F.partial_output_consistency(logits, *arguments, view_logits=views, **options)

    @FEW_CASES
    def test_gradient_passes_the_check_by_finite_differences(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        labels, logits = possible_labels(Q, 3), make_logits(3, n_classes)
        views = self.views(logits).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda v: F.partial_output_consistency(logits, labels, Q, view_logits=v),
            views,
            fast_mode=n_classes > 100,
        )
        # the target is a constant: by its own logits the gradient is that of the label alone
        _, gradient = with_gradient(
            F.partial_output_consistency, logits, labels, Q, view_logits=views.detach()
        )
        _, expected = with_gradient(F.forward_cross_entropy, logits, labels, Q)
        torch.testing.assert_close(gradient, expected)

    @FEW_CASES
    def test_the_module_equals_the_function(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        weight = torch.linspace(1, 2, n_classes, dtype=torch.float64)
        options = {"weight": weight, "ignore_index": int(labels[0]), "reduction": "sum"}
        module = losses.PartialOutputConsistency(Q, n_views=3, **options)
        stacked = torch.cat([logits[None], self.views(logits)])
        assert torch.equal(module(stacked, labels), self.loss(logits, labels, Q, **options))

    def test_without_weight_on_it_the_loss_is_that_of_the_label(self):
        Q = self.transition("with zeros", 10)
        logits, labels = make_logits(4, 10), possible_labels(Q, 4)
        found = self.loss(logits, labels, Q, consistency=0)
        torch.testing.assert_close(found, F.forward_cross_entropy(logits, labels, Q))

    def test_views_of_another_shape_are_refused(self):
        with pytest.raises(InvalidInput, match=r"view_logits must hold .* shape \(V, 2, 3\)"):
            F.partial_output_consistency(
                torch.zeros(2, 3),
                torch.tensor([0, 1]),
                TransitionMatrix.uniform(3),
                view_logits=torch.zeros(2, 3),
            )


# --- the modules: what they read, train and ask for ----------------------------------------------

Q = make_transition("with zeros", 10)


def nearest_by_hand(comp_probs, rows):
    distances = [
        [sum(abs(p - q) for p, q in zip(probs, row, strict=True)) for row in rows]
        for probs in comp_probs
    ]
    return [min(range(len(rows)), key=each.__getitem__) for each in distances]


def test_scores_are_those_of_the_nearest_row():
    logits = make_logits(50, 10)
    rows = np.asarray(Q).tolist()
    direct = losses.ComplementaryCrossEntropy(Q).log_scores(logits)
    assert direct.argmax(1).tolist() == nearest_by_hand(logits.softmax(1).tolist(), rows)
    comp_probs = (logits.softmax(1) @ torch.from_numpy(np.array(Q))).tolist()
    through = losses.NearestRowForwardCrossEntropy(Q).log_scores(logits)
    assert through.argmax(1).tolist() == nearest_by_hand(comp_probs, rows)
    trained = losses.TrainedForwardCrossEntropy(Q, floor=1e-12).log_scores(logits)
    torch.testing.assert_close(trained, through, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(direct.exp().sum(1), torch.ones(50, dtype=torch.float64))


def test_scores_are_finite_at_large_logits():
    logits = saturated_logits(100, 10).float()
    for make in (
        losses.ComplementaryCrossEntropy,
        losses.NearestRowForwardCrossEntropy,
        losses.TrainedForwardCrossEntropy,
    ):
        value, gradient = with_gradient(make(Q).log_scores, logits)
        assert value.isfinite().all()
        assert gradient.isfinite().all()


def test_reading_by_the_nearest_row_does_not_change_the_loss():
    logits, labels = make_logits(5, 10), possible_labels(Q, 5)
    found = losses.NearestRowForwardCrossEntropy(Q)(logits, labels)
    assert torch.equal(found, losses.ForwardCrossEntropy(Q)(logits, labels))


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


def test_consistency_rises_over_the_first_share_of_training():
    logits, labels = make_logits(12, 10).reshape(3, 4, 10), possible_labels(Q, 4)
    module = losses.PartialOutputConsistency(Q, consistency=2.0)
    plain = F.forward_cross_entropy(logits[0], labels, Q)
    full = module(logits, labels) - plain
    assert full > 0
    for share, expected in ((0.0, 0.0), (0.25, 0.5), (0.5, 1.0), (0.9, 1.0)):
        module.set_progress(share)
        torch.testing.assert_close(module(logits, labels) - plain, expected * full)
        module.set_progress(torch.tensor(share))
        torch.testing.assert_close(module(logits, labels) - plain, expected * full)


def test_progress_is_read_from_its_tensor_at_each_step():
    # one tensor, changed in place, as a captured CUDA graph needs it
    logits, labels = make_logits(12, 10).reshape(3, 4, 10), possible_labels(Q, 4)
    module = losses.PartialOutputConsistency(Q)
    share = torch.tensor(0.0)
    module.set_progress(share)
    start = module(logits, labels)
    torch.testing.assert_close(start, F.forward_cross_entropy(logits[0], labels, Q))
    share.fill_(0.25)
    half = module(logits, labels) - start
    share.fill_(1.0)
    torch.testing.assert_close(module(logits, labels) - start, 2 * half)


def test_consistency_equals_the_code_of_its_source_with_a_uniform_matrix():
    # the formulas of the authors' code: SCL-NL, and both divergences from the renormalised target
    logits, labels = make_logits(12, 10).reshape(3, 4, 10), torch.tensor([1, 2, 3, 4])
    found = losses.PartialOutputConsistency(UNIFORM)(logits, labels)
    probs = logits[0].softmax(1)
    excluded = torch.nn.functional.one_hot(labels, 10)
    expected = -((1 - probs).log() * excluded).sum(1).mean() + np.log(9)
    target = (1 - excluded) * probs
    target /= target.sum(1, keepdim=True)
    for view in logits[1:]:
        expected += torch.nn.functional.kl_div(view.log_softmax(1), target, reduction="batchmean")
    torch.testing.assert_close(found, expected)


def test_consistency_is_no_part_of_the_loss_in_evaluation_mode():
    logits, labels = make_logits(4, 10), possible_labels(Q, 4)
    module = losses.PartialOutputConsistency(Q).eval()
    assert torch.equal(module(logits, labels), F.forward_cross_entropy(logits, labels, Q))
    with pytest.raises(InvalidInput, match=r"shape \(3, N, K\), in training mode"):
        module.train()(logits, labels)


@pytest.mark.parametrize("options", [{"n_views": 1}, {"ramp": 0}])
def test_a_schedule_that_makes_no_sense_is_refused(options):
    with pytest.raises(InvalidInput, match="must be"):
        losses.PartialOutputConsistency(Q, **options)


MATRIX = make_transition("without zeros", 10)
UNIFORM = make_transition("uniform", 10)
LOG_MATRIX = torch.from_numpy(np.array(MATRIX)).log()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # raised inside torch's own compiler
@pytest.mark.parametrize(
    "loss",
    [
        F.complementary_cross_entropy,
        lambda f, y: F.trained_forward_cross_entropy(f, y, LOG_MATRIX),
        lambda f, y: TestPartialOutputConsistency.function(f, y, MATRIX),
        lambda f, y: TestPartialOutputConsistency.function(f, y, UNIFORM),
    ],
    ids=["complementary", "trained", "consistency", "uniform consistency"],
)
def test_losses_compile_without_a_graph_break(loss):
    torch._dynamo.reset()
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, -100, 9])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    value, gradient = with_gradient(compiled, logits, labels)
    expected, slopes = with_gradient(loss, logits, labels)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, slopes)


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


# --- a bound on mistakes ------------------------------------------------------------------------

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
