"""Every loss as a function: the contract, identities, theorems, devices and memory."""

import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as torch_functional

from loss_cases import (
    FEW,
    LARGE,
    SMALL,
    make_logits,
    make_transition,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_contract import PlainLossContract, TransitionLossContract, WholeContract
from loss_references import (
    generalised_cross_entropy,
    reference_cross_entropy,
    reference_generalised,
    reference_pairwise,
    reference_squared_error,
)
from naysay import InvalidInput, InvalidLabels, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


class TestForwardCrossEntropy(WholeContract, TransitionLossContract):
    cases = SMALL + LARGE
    few_cases = (*FEW, ("uneven", 1200))
    function = staticmethod(F.forward_cross_entropy)
    module = losses.ForwardCrossEntropy
    reference = staticmethod(reference_cross_entropy)

    @pytest.mark.parametrize("kind", ["uniform", "with zeros", "singular", "with diagonal"])
    @pytest.mark.parametrize("make", [make_logits, saturated_logits])
    def test_gradient_lies_within_one_as_appendix_c_proves(self, kind, make):
        Q = make_transition(kind, 10)
        for dtype in (torch.float32, torch.float64):
            logits, labels = make(200, 10).to(dtype), possible_labels(Q, 200)
            _, gradient = with_gradient(self.loss, logits, labels, Q, reduction="sum")
            assert gradient.abs().max() <= 1 + 1e-6

    def test_gradient_stays_one_where_the_model_is_most_wrong(self):
        # an epsilon of 1e-6 inside the logarithm would leave 0.002 of it
        for size in (20.0, 100.0, 1000.0):
            logits = torch.zeros(1, 10)
            logits[0, 3] = size
            for kind in ("uniform", "without zeros", "with zeros"):
                _, gradient = with_gradient(
                    self.loss, logits, torch.tensor([3]), make_transition(kind, 10)
                )
                assert gradient[0, 3].item() == pytest.approx(1, abs=1e-6)


class TestForwardSquaredError(TransitionLossContract):
    cases = (*SMALL, ("uniform", 20), ("uneven", 1200))  # 20: a closed form
    function = staticmethod(F.forward_squared_error)
    module = losses.ForwardSquaredError
    reference = staticmethod(reference_squared_error)

    def test_the_loss_lies_between_zero_and_two(self):
        Q = make_transition("with diagonal", 10)
        found = self.loss(saturated_logits(200, 10), possible_labels(Q, 200), Q, reduction="none")
        assert (found >= 0).all()
        assert (found <= 2).all()


class TestForwardLossOfGeneralisedCrossEntropy(TransitionLossContract):
    cases = SMALL
    module = staticmethod(partial(losses.ForwardLoss, base=generalised_cross_entropy))
    reference = staticmethod(reference_generalised)

    @staticmethod
    def function(logits, comp_labels, Q, weight=None, **options):
        return F.forward_loss(
            logits, comp_labels, Q, weight, base=generalised_cross_entropy, **options
        )

    @pytest.mark.parametrize("size", [15.0, 20.0, 40.0])
    def test_a_model_sure_of_the_excluded_class_still_learns_in_single_precision(self, size):
        logits = torch.zeros(1, 5)
        logits[0, 1] = size
        for kind in ("uniform", "without zeros"):
            Q, label = make_transition(kind, 5), torch.tensor([1])
            _, gradient = with_gradient(self.loss, logits, label, Q)
            _, slopes = with_gradient(self.loss, logits.double(), label, Q)
            torch.testing.assert_close(gradient.double(), slopes, rtol=1e-4, atol=0)
            assert gradient[0, 1] > 0

    @pytest.mark.parametrize(
        "base, got",
        [
            (lambda q, labels: q.mean(), r"Got torch\.float32 of shape \(\)"),
            (lambda q, labels: q, r"Got torch\.float32 of shape \(2, 3\)"),
            (lambda q, labels: 0.5, "Got float, not a Tensor"),
        ],
    )
    def test_a_base_must_return_one_loss_per_example(self, base, got):
        message = rf"base must return one loss per example, shape \(2,\)\. {got}.*reduction='none'"
        with pytest.raises(InvalidInput, match=message):
            F.forward_loss(
                torch.zeros(2, 3), torch.tensor([0, 1]), make_transition("uniform", 3), base=base
            )

    def test_a_base_of_cross_entropy_equals_forward_cross_entropy(self):
        for kind in ("uniform", "with zeros", "with diagonal"):
            Q = make_transition(kind, 10)
            logits, labels = make_logits(5, 10), possible_labels(Q, 5)
            found, gradient = with_gradient(
                F.forward_loss,
                logits,
                labels,
                Q,
                base=lambda q, labels: torch_functional.nll_loss(q.log(), labels, reduction="none"),
            )
            expected, slopes = with_gradient(F.forward_cross_entropy, logits, labels, Q)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(gradient, slopes)


class TestPairwiseComparison(WholeContract, PlainLossContract):
    plain_function = staticmethod(F.pairwise_comparison)
    plain_module = losses.PairwiseComparison
    reference = staticmethod(reference_pairwise)

    def test_losses_of_all_labels_sum_to_the_number_of_pairs(self):
        # σ(z) + σ(-z) = 1, once for every pair of classes
        logits = make_logits(1, 7).expand(7, 7)
        assert self.loss(logits, torch.arange(7), None, reduction="sum").item() == pytest.approx(21)


# --- identities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_forward_cross_entropy_with_identity_Q_is_cross_entropy(n_classes, reduction):
    identity = TransitionMatrix(np.eye(n_classes), allow_diagonal=True)
    logits, labels = make_logits(6, n_classes), possible_labels(identity, 6)
    weight = torch.linspace(1, 3, n_classes, dtype=torch.float64)
    labels[2] = -100
    found, gradient = with_gradient(
        F.forward_cross_entropy, logits, labels, identity, weight, reduction=reduction
    )
    expected, slopes = with_gradient(
        torch_functional.cross_entropy, logits, labels, weight, reduction=reduction
    )
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradient, slopes)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 1000])
def test_forward_cross_entropy_with_uniform_Q_equals_closed_form(n_classes):
    logits = make_logits(6, n_classes)
    labels = torch.arange(6) % n_classes
    p = logits.softmax(1)[torch.arange(6), labels]
    found = F.forward_cross_entropy(
        logits, labels, TransitionMatrix.uniform(n_classes), reduction="none"
    )
    torch.testing.assert_close(found, -torch.log1p(-p) + np.log(n_classes - 1))


def test_forward_squared_error_with_identity_Q_is_the_brier_score():
    identity = TransitionMatrix(np.eye(5), allow_diagonal=True)
    logits, labels = make_logits(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
    brier = (logits.softmax(1) - torch_functional.one_hot(labels, 5)).square().sum(1)
    found = F.forward_squared_error(logits, labels, identity, reduction="none")
    torch.testing.assert_close(found, brier)


def test_with_two_classes_not_one_is_the_other():
    logits, labels = make_logits(6, 2), torch.tensor([0, 1, 0, 1, 1, 0])
    for Q in (TransitionMatrix.uniform(2), TransitionMatrix([[0, 1], [1, 0]])):
        torch.testing.assert_close(
            F.forward_cross_entropy(logits, labels, Q),
            torch_functional.cross_entropy(logits, 1 - labels),
        )


@pytest.mark.parametrize("kind", ["uniform", "with zeros", "singular", "with diagonal"])
def test_probabilities_of_all_labels_sum_to_one(kind):
    Q = make_transition(kind, 10)
    logits = make_logits(1, 10).expand(10, 10)
    total = (-F.forward_cross_entropy(logits, torch.arange(10), Q, reduction="none")).exp().sum()
    assert total.item() == pytest.approx(1)


@pytest.mark.parametrize("loss", [F.forward_cross_entropy, F.forward_squared_error])
@pytest.mark.parametrize("biased", [False, True])
def test_theorem_1_the_minimiser_recovers_the_class_probabilities(loss, biased):
    Q = (
        TransitionMatrix([[0, 0.9, 0.1], [0.3, 0, 0.7], [0.6, 0.4, 0]])
        if biased
        else TransitionMatrix.uniform(3)
    )
    rng = np.random.default_rng(0)
    true = torch.from_numpy(rng.dirichlet(np.full(3, 5.0), size=6))  # P(Y|x) of six inputs
    given = true @ torch.from_numpy(np.asarray(Q))  # P(Ȳ|x), all that training sees
    table = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [table],
        max_iter=200,
        tolerance_grad=1e-11,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def risk():
        optimiser.zero_grad()
        each = loss(table.repeat_interleave(3, 0), torch.arange(3).repeat(6), Q, reduction="none")
        expected = (each.reshape(6, 3) * given).sum()
        expected.backward()
        return expected

    optimiser.step(risk)
    torch.testing.assert_close(table.detach().softmax(1), true, rtol=1e-4, atol=1e-5)


@pytest.mark.unmeasured
@settings(max_examples=60)
@given(data=st.data(), n_classes=st.integers(2, 5), single=st.booleans())
def test_property_losses_and_gradients_are_finite_and_bounded(data, n_classes, single):
    weights = st.just(0.0) | st.floats(1e-12, 1)
    values = np.array(
        data.draw(st.lists(weights, min_size=n_classes**2, max_size=n_classes**2))
    ).reshape(n_classes, n_classes)
    values[values.sum(1) == 0] = 1
    Q = TransitionMatrix(values / values.sum(1, keepdims=True), allow_diagonal=True)
    entry = st.floats(-1000, 1000)
    logits = torch.tensor(
        [data.draw(st.lists(entry, min_size=n_classes, max_size=n_classes)) for _ in range(2)],
        dtype=torch.float32 if single else torch.float64,
    )
    labels = torch.tensor(data.draw(st.lists(st.integers(-2, n_classes), min_size=2, max_size=2)))
    for function in (
        TestForwardCrossEntropy.function,
        TestForwardSquaredError.function,
        TestForwardLossOfGeneralisedCrossEntropy.function,
        TestPairwiseComparison.function,
    ):
        try:
            value, gradient = with_gradient(function, logits, labels, Q, reduction="none")
        except InvalidLabels:
            continue
        assert value.isfinite().all()
        assert (value > -1e-5).all()
        assert gradient.isfinite().all()
        assert gradient.abs().max() <= 2 * n_classes


# --- devices and memory -------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "kind, n_classes", [("uniform", 10), ("without zeros", 10), ("uneven", 1200)]
)
@pytest.mark.parametrize("loss", [F.forward_cross_entropy, F.forward_squared_error])
def test_losses_on_a_gpu_equal_those_on_the_cpu(loss, kind, n_classes):
    Q = make_transition(kind, n_classes)
    logits, labels = make_logits(6, n_classes), possible_labels(Q, 6)
    labels[2] = -100
    expected, slopes = with_gradient(loss, logits, labels, Q)
    for labels_there in (labels.cuda(), labels):
        value, gradient = with_gradient(loss, logits.cuda(), labels_there, Q)
        assert value.is_cuda
        torch.testing.assert_close(value.cpu(), expected)
        torch.testing.assert_close(gradient.cpu(), slopes)


@pytest.mark.unmeasured
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak from /proc")
def test_100000_classes_take_less_than_a_gigabyte_and_a_half():
    # In a process of its own, since the peak of this one is that of all tests; and not from
    # getrusage, whose figure a new process inherits from the one that started it.
    program = textwrap.dedent("""
        import re
        from pathlib import Path

        import torch
        from naysay import TransitionMatrix
        from naysay.functional import forward_cross_entropy

        for Q in (TransitionMatrix.uniform(100_000), TransitionMatrix.with_zeros(100_000, 5)):
            logits = torch.randn(16, 100_000, requires_grad=True)
            labels = torch.from_numpy(Q.sample(range(16)))
            forward_cross_entropy(logits, labels, Q).backward()
            assert logits.grad.isfinite().all() and logits.grad.any()
        status = Path("/proc/self/status").read_text()
        print(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1])
    """)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) * 1024 < 1.5e9
