"""The losses that know no Q: margins, surrogates and sets of labels, under the contract."""

import math

import pytest
import torch

import loss_references as reference
from loss_cases import (
    make_logits,
    make_transition,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_compilation import assert_compiles, compiles
from loss_contract import PlainLossContract, TransitionLossContract
from loss_references import (
    reference_generalised,
)
from naysay import InvalidInput, InvalidLabels, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)


class TestForwardAbsoluteError(TransitionLossContract):
    function = staticmethod(F.forward_absolute_error)
    module = losses.ForwardAbsoluteError
    reference = staticmethod(reference.absolute_error)
    cases = (("uniform", 3), ("with zeros", 10), ("with diagonal", 10))


class TestForwardGeneralisedCrossEntropy(TransitionLossContract):
    function = staticmethod(F.forward_generalised_cross_entropy)
    module = losses.ForwardGeneralisedCrossEntropy
    reference = staticmethod(reference_generalised)
    cases = (("uniform", 3), ("with zeros", 10), ("with diagonal", 10))

    def test_gamma_of_one_is_half_the_absolute_error(self):
        Q = make_transition("without zeros", 10)
        logits, labels = make_logits(5, 10), possible_labels(Q, 5)
        torch.testing.assert_close(
            2 * self.loss(logits, labels, Q, gamma=1), F.forward_absolute_error(logits, labels, Q)
        )

    @pytest.mark.parametrize("gamma", [0, -1, 1.5, float("nan")])
    def test_gamma_out_of_range_is_refused(self, gamma):
        with pytest.raises(InvalidInput, match="gamma must be above 0 and at most 1"):
            self.loss(
                torch.zeros(1, 3), torch.tensor([0]), make_transition("uniform", 3), gamma=gamma
            )


class TestOneVersusAll(PlainLossContract):
    plain_function = staticmethod(F.one_versus_all)
    plain_module = losses.OneVersusAll
    reference = staticmethod(reference.one_versus_all)
    test_gradient_of_each_example_sums_to_zero = None  # the size of a logit matters


class TestPartialLabel(PlainLossContract):
    plain_function = staticmethod(F.partial_label)
    plain_module = losses.PartialLabel
    reference = staticmethod(reference.partial_label)
    test_gradient_of_each_example_sums_to_zero = None  # the size of a logit matters
    single_saturated = (1e-5, 1e-3)  # a mean of logits of ±1000 has lost its last digits


class TestMultiLabel(PlainLossContract):
    plain_function = staticmethod(F.multi_label)
    plain_module = losses.MultiLabel
    reference = staticmethod(reference.multi_label)
    test_gradient_of_each_example_sums_to_zero = None  # the size of a logit matters


class TestSurrogateLog(PlainLossContract):
    plain_function = staticmethod(F.surrogate_log)
    plain_module = losses.SurrogateLog
    reference = staticmethod(reference.surrogate_log)


class TestSurrogateExponential(PlainLossContract):
    plain_function = staticmethod(F.surrogate_exponential)
    plain_module = losses.SurrogateExponential
    reference = staticmethod(reference.surrogate_exponential)


class TestReversedSoftmax(PlainLossContract):
    plain_function = staticmethod(F.reversed_softmax)
    plain_module = losses.ReversedSoftmax
    reference = staticmethod(reference.reversed_softmax)


class TestWeightedReversedSoftmax(PlainLossContract):
    plain_function = staticmethod(F.weighted_reversed_softmax)
    plain_module = losses.WeightedReversedSoftmax
    reference = staticmethod(reference.weighted_reversed_softmax)


class TestOrderPreserving(PlainLossContract):
    plain_function = staticmethod(F.order_preserving)
    plain_module = losses.OrderPreserving
    reference = staticmethod(reference.order_preserving)


class TestWeightedOrderPreserving(PlainLossContract):
    plain_function = staticmethod(F.weighted_order_preserving)
    plain_module = losses.WeightedOrderPreserving
    reference = staticmethod(reference.weighted_order_preserving)
    single = single_saturated = (5e-3, 1e-5)  # the exponent of its weight is some thousands

    def test_gradient_passes_the_check_by_finite_differences(self):
        # with the factor held at its value: it is a constant in the gradient
        logits, labels = make_logits(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
        found, gradient = with_gradient(self.loss, logits, labels, None, reduction="none")
        plain, slopes = with_gradient(F.order_preserving, logits, labels, reduction="none")
        assert (found / plain > 0.1).any()
        torch.testing.assert_close(gradient, (found / plain)[:, None] * slopes)


class SetContract(PlainLossContract):
    """What a loss on sets of labels must do besides; one label is the set of one."""

    #: the loss of a probability P of the classes left, before the factor (K - 1)/s
    formula = None

    def assert_equals_reference(self, kind, n_classes, logits, rtol, atol):
        # in single precision log P is off by 1e-7, and its factor is K - 1
        super().assert_equals_reference(kind, n_classes, logits, rtol, atol * (n_classes - 1))

    def test_a_set_of_one_is_a_label(self):
        logits, labels = make_logits(6, 10), torch.arange(6)
        ruled_out = torch.nn.functional.one_hot(labels, 10).bool()
        weight = torch.linspace(1, 2, 10, dtype=torch.float64)
        for reduction in ("mean", "sum", "none"):
            found, gradient = with_gradient(
                self.loss, logits, ruled_out, None, weight, reduction=reduction
            )
            expected, slopes = with_gradient(
                self.loss, logits, labels, None, weight, reduction=reduction
            )
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(gradient, slopes)

    def test_sets_follow_the_formula(self):
        logits = make_logits(8, 5)
        ruled_out = torch.rand(8, 5, generator=torch.Generator().manual_seed(0)) < 0.5
        ruled_out[:, 2], ruled_out[:, 3] = True, False
        found = self.loss(logits, ruled_out, None, reduction="none")
        for row, excluded, value in zip(
            logits.tolist(), ruled_out.tolist(), found.tolist(), strict=True
        ):
            probs = reference.softmax_by_hand(row)
            left = math.fsum(p for p, out in zip(probs, excluded, strict=True) if not out)
            assert value == pytest.approx(type(self).formula(left) * 4 / sum(excluded))
        leaf = logits.clone().requires_grad_()
        assert torch.autograd.gradcheck(lambda f: self.loss(f, ruled_out, None), leaf)

    def test_sets_are_finite_at_large_logits_in_single_precision(self):
        ruled_out = torch.tensor([[True, True, False, False]]).expand(200, 4)
        logits = saturated_logits(200, 4).float()
        value, gradient = with_gradient(self.loss, logits, ruled_out, None, reduction="none")
        assert value.isfinite().all()
        assert gradient.isfinite().all()

    def test_an_example_of_which_nothing_is_ruled_out_counts_nothing(self):
        logits = make_logits(3, 4)
        ruled_out = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]).bool()
        value, gradient = with_gradient(self.loss, logits, ruled_out, None)
        expected = self.loss(logits[[0, 2]], ruled_out[[0, 2]], None)
        torch.testing.assert_close(value, expected)
        assert not gradient[1].any()

    def test_an_example_without_any_class_left_is_refused(self):
        ruled_out = torch.tensor([[1, 0, 0], [1, 1, 1]]).bool()
        with pytest.raises(InvalidLabels, match="in 1 of 2 rows, first in row 1"):
            self.loss(torch.zeros(2, 3), ruled_out, None)

    def test_maps_of_sets_equal_the_same_examples_in_a_row(self):
        logits, ruled_out = make_logits(6, 4), torch.zeros(6, 4, dtype=torch.bool)
        ruled_out[:, 1] = ruled_out[::2, 3] = True
        folded = [each.reshape(2, 3, 4).transpose(1, 2) for each in (logits, ruled_out)]
        found = self.loss(*folded, None, reduction="none")
        assert found.shape == (2, 3)
        torch.testing.assert_close(
            found.reshape(-1), self.loss(logits, ruled_out, None, reduction="none")
        )

    @pytest.mark.parametrize("labels", [torch.tensor([True, False]), torch.ones(2, 4).bool()])
    def test_sets_of_another_shape_are_refused(self, labels):
        with pytest.raises(InvalidLabels, match=r"ruled_out must have the shape of the logits"):
            self.loss(torch.zeros(2, 3), labels, None)

    @pytest.mark.parametrize("labels", [torch.tensor([0.0, 1.0]), [0, 1]])
    def test_labels_of_another_shape_or_kind_are_refused(self, labels):
        with pytest.raises(InvalidLabels, match="must be integers of shape"):
            self.loss(torch.zeros(2, 3), labels, None)


class TestSeveralLabelsAbsoluteError(SetContract):
    plain_function = staticmethod(F.several_labels_absolute_error)
    plain_module = losses.SeveralLabelsAbsoluteError
    reference = staticmethod(reference.several_absolute_error)
    formula = staticmethod(lambda left: 2 * (1 - left))


class TestSeveralLabelsExponential(SetContract):
    plain_function = staticmethod(F.several_labels_exponential)
    plain_module = losses.SeveralLabelsExponential
    reference = staticmethod(reference.several_exponential)
    formula = staticmethod(lambda left: math.exp(-left))


class TestSeveralLabelsLog(SetContract):
    plain_function = staticmethod(F.several_labels_log)
    plain_module = losses.SeveralLabelsLog
    reference = staticmethod(reference.several_log)
    formula = staticmethod(lambda left: -math.log(left))


def test_surrogate_log_is_forward_cross_entropy_with_a_uniform_matrix():
    logits, labels = make_logits(5, 7), torch.arange(5)
    forward = F.forward_cross_entropy(logits, labels, TransitionMatrix.uniform(7))
    torch.testing.assert_close(F.surrogate_log(logits, labels), forward - math.log(6))


@pytest.mark.parametrize("function", [F.partial_label, F.multi_label])
def test_the_loss_on_margins_can_be_chosen(function):
    logits, labels = torch.tensor([[3.0, -2.0]]), torch.tensor([1])
    squared = function(logits, labels, binary_loss=lambda z: (1 - z).square())
    assert squared.item() == pytest.approx((1 - 3) ** 2 + (1 - 2) ** 2)


@compiles
def test_losses_compile_without_a_graph_break():
    contracts = [
        *(each for each in PlainLossContract.__subclasses__() if each is not SetContract),
        *SetContract.__subclasses__(),
        TestForwardAbsoluteError,
        TestForwardGeneralisedCrossEntropy,
    ]
    assert len(contracts) >= 14

    def all_losses(logits, labels):
        return torch.stack([contract.function(logits, labels, Q) for contract in contracts])

    Q = make_transition("without zeros", 10)
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, -100, 9])
    compiled = assert_compiles(all_losses, logits, labels)
    with pytest.raises(RuntimeError, match=r"comp_labels must be integers 0\.\.9"):
        compiled(logits, torch.tensor([0, 1, 2, 10]))


@compiles
def test_a_compiled_loss_takes_sets_and_refuses_those_that_leave_no_class():
    logits = make_logits(3, 4)
    ruled_out = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]).bool()
    compiled = assert_compiles(F.several_labels_log, logits, ruled_out)
    with pytest.raises(RuntimeError, match="must leave each example a class"):
        compiled(logits, torch.ones(3, 4, dtype=torch.bool))
