"""The contract that every loss of `naysay.functional` passes.

A loss is tested by a subclass of `LossContract` in `tests/functional` that gives the function, its
module, and an independent reference from `loss_references`: the formula in plain Python, for one
example at a time, in float64 with exact sums, and in log space so that it is exact for logits of
±1000.
"""

import itertools

import numpy as np
import pytest
import torch

from loss_cases import (
    CASES,
    EVERY_KIND,
    FEW,
    FEW_CASES,
    KINDS,
    SMALL,
    SMALL_CASES,
    make_logits,
    make_transition,
    plain,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_layouts import Layouts
from loss_reductions import Reductions
from loss_refusals import Refusals
from naysay import InvalidInput, InvalidLabels, TransitionMatrix


class LossContract:
    """What every loss must do. Subclasses give `function`, `module` and `reference`."""

    #: function(logits, comp_labels, Q, weight=None, *, ignore_index, reduction)
    function = None
    #: module(Q, weight=..., ignore_index=..., reduction=...)
    module = None
    #: reference(list of logits, label, PlainMatrix) gives value and gradient of one example
    reference = None

    cases = SMALL
    few_cases = FEW
    kinds = KINDS
    #: (relative, absolute) distance from the reference in single precision; and at logits of ±1000
    single = (2e-6, 1e-6)
    single_saturated = (2e-6, 1e-6)
    #: absolute distance of a gradient in half precision
    half_gradient = 1e-4
    #: relative distance of the module from the function
    module_rtol = 0.0

    def pytest_generate_tests(self, metafunc):
        cases = getattr(metafunc.function, "cases", None)
        if cases is not None:
            metafunc.parametrize("kind, n_classes", cases(self))

    def transition(self, kind, n_classes):
        """Return a matrix of that kind which the loss can take."""
        return make_transition(kind, n_classes)

    def plain(self, kind, n_classes):
        return plain(kind, n_classes)

    def loss(self, *arguments, **options):
        return type(self).function(*arguments, **options)

    def by_module(self, logits, labels, Q, **options):
        return type(self).module(Q, **options)(logits, labels)

    def assert_equals_reference(self, kind, n_classes, logits, rtol, atol):
        labels = possible_labels(self.transition(kind, n_classes), len(logits))
        values, gradients = with_gradient(
            self.loss, logits, labels, self.transition(kind, n_classes), reduction="none"
        )
        for row, label, value, gradient in zip(
            logits.double().tolist(), labels.tolist(), values, gradients, strict=True
        ):
            expected, slopes = type(self).reference(row, label, self.plain(kind, n_classes))
            assert value.item() == pytest.approx(expected, rel=rtol, abs=atol)
            np.testing.assert_allclose(gradient.double(), slopes, rtol=rtol, atol=atol)

    @CASES
    def test_value_and_gradient_equal_the_reference(self, kind, n_classes):
        n = 8 if n_classes < 100 else 2
        logits = make_logits(n, n_classes)
        self.assert_equals_reference(kind, n_classes, logits, rtol=1e-6, atol=1e-13)

    @pytest.mark.unmeasured
    @SMALL_CASES
    def test_value_and_gradient_equal_the_reference_at_saturated_logits(self, kind, n_classes):
        logits = saturated_logits(20, n_classes)
        self.assert_equals_reference(kind, n_classes, logits, rtol=1e-6, atol=1e-13)

    @pytest.mark.unmeasured
    @SMALL_CASES
    def test_saturated_logits_keep_their_digits_in_single_precision(self, kind, n_classes):
        logits = saturated_logits(20, n_classes).float() + make_logits(20, n_classes).float()
        rtol, atol = self.single_saturated
        self.assert_equals_reference(kind, n_classes, logits, rtol=rtol, atol=atol)

    @pytest.mark.unmeasured
    @SMALL_CASES
    def test_single_precision_is_close_to_the_reference(self, kind, n_classes):
        logits = make_logits(8, n_classes, dtype=torch.float32)
        rtol, atol = self.single
        self.assert_equals_reference(kind, n_classes, logits, rtol=rtol, atol=atol)

    @pytest.mark.unmeasured
    @FEW_CASES
    def test_gradient_passes_the_check_by_finite_differences(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        labels = possible_labels(Q, 3)
        logits = make_logits(3, n_classes).requires_grad_()
        assert torch.autograd.gradcheck(
            lambda f: self.loss(f, labels, Q, reduction="none"),
            logits,
            fast_mode=n_classes > 100,
        )

    @pytest.mark.unmeasured
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    @EVERY_KIND
    def test_value_and_gradient_are_finite_at_every_pattern_of_large_logits(
        self, dtype, kind, n_classes
    ):
        levels = [-1000.0, -100.0, 0.0, 100.0, 1000.0]
        patterns = torch.tensor([*itertools.product(levels, repeat=n_classes)], dtype=dtype)
        Q = self.transition(kind, n_classes)
        for label in range(n_classes):
            labels = torch.full((len(patterns),), label)
            value, gradient = with_gradient(self.loss, patterns, labels, Q, reduction="none")
            assert value.isfinite().all()
            assert gradient.isfinite().all()

    @FEW_CASES
    def test_gradient_of_each_example_sums_to_zero(self, kind, n_classes):
        # adding a constant to all logits changes nothing
        Q = self.transition(kind, n_classes)
        _, gradient = with_gradient(
            self.loss, make_logits(4, n_classes), possible_labels(Q, 4), Q, reduction="sum"
        )
        np.testing.assert_allclose(gradient.sum(1), 0, atol=1e-12)

    @pytest.mark.unmeasured
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @FEW_CASES
    def test_half_precision_is_computed_in_single(self, dtype, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes, dtype=dtype), possible_labels(Q, 4)
        value, gradient = with_gradient(self.loss, logits, labels, Q)
        expected, slopes = with_gradient(self.loss, logits.double(), labels, Q)
        assert value.dtype == torch.float32
        assert gradient.dtype == dtype
        torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(gradient.double(), slopes, rtol=1e-2, atol=self.half_gradient)

    @pytest.mark.unmeasured
    @FEW_CASES
    def test_automatic_mixed_precision_loses_no_digits(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes, dtype=torch.float32), possible_labels(Q, 4)
        expected, slopes = with_gradient(self.loss, logits, labels, Q)
        leaf = logits.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            value = self.loss(leaf, labels, Q)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
        value.backward()  # outside, as torch advises
        torch.testing.assert_close(leaf.grad, slopes, rtol=1e-5, atol=1e-6)

    @FEW_CASES
    def test_a_matrix_first_used_in_inference_mode_can_train_later(self, kind, n_classes):
        fresh = TransitionMatrix(self.transition(kind, n_classes).entries, allow_diagonal=True)
        logits, labels = make_logits(3, n_classes), possible_labels(fresh, 3)
        with torch.inference_mode():
            first = self.loss(logits, labels, fresh).item()
        value, gradient = with_gradient(self.loss, logits, labels, fresh)
        assert value.item() == pytest.approx(first)
        assert gradient.isfinite().all()

    def test_nothing_given_is_changed(self):
        Q = self.transition("with zeros", 10)
        logits, labels, weight = make_logits(3, 10), torch.tensor([1, -100, 3]), torch.ones(10)
        copies = [tensor.clone() for tensor in (logits, labels, weight)]
        with_gradient(self.loss, logits, labels, Q, weight)
        for tensor, before in zip((logits, labels, weight), copies, strict=True):
            assert torch.equal(tensor, before)

    @FEW_CASES
    def test_the_module_equals_the_function(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        weight = torch.linspace(1, 2, n_classes, dtype=torch.float64)
        options = {"weight": weight, "ignore_index": int(labels[0]), "reduction": "sum"}
        found = self.by_module(logits, labels, Q, **options)
        expected = self.loss(logits, labels, Q, **options)
        torch.testing.assert_close(found, expected, rtol=self.module_rtol, atol=0)

    def test_examples_count_as_in_every_loss(self):
        """A smoke case of what `WholeContract` tries in full for two losses."""
        Q = self.transition("with zeros", 10)
        flat_logits, flat_labels = make_logits(2 * 3 * 4, 10), possible_labels(Q, 24)
        flat_labels[5] = -100
        logits = flat_logits.reshape(2, 3, 4, 10).permute(0, 3, 1, 2)
        labels = flat_labels.reshape(2, 3, 4)
        weight = torch.linspace(0.5, 2, 10, dtype=torch.float64)
        each = self.loss(flat_logits, flat_labels, Q, reduction="none")
        maps = self.loss(logits, labels, Q, weight, reduction="none")
        torch.testing.assert_close(maps.reshape(-1), each * weight[flat_labels.clamp_min(0)])
        assert maps[0, 1, 1] == 0
        value, gradient = with_gradient(self.loss, logits, labels, Q, weight)
        counted = weight[flat_labels[flat_labels >= 0]].sum()
        torch.testing.assert_close(value, maps.sum() / counted)
        assert not gradient[0, :, 1, 1].any()
        total = self.loss(logits, labels, Q, reduction="sum")
        torch.testing.assert_close(total, each.sum())
        assert self.loss(logits[:0], labels[:0], Q) == 0
        found = self.loss(flat_logits, flat_labels.where(flat_labels >= 0, 7), Q, ignore_index=7)
        kept = (flat_labels >= 0) & (flat_labels != 7)
        torch.testing.assert_close(found, each[kept].mean())

    def test_what_no_loss_takes_is_refused(self):
        """A smoke case of what `WholeContract` tries in full for two losses."""
        Q = self.transition("with zeros", 10)
        logits, labels = make_logits(2, 10), torch.tensor([0, 1])
        for error, message, arguments, options in (
            (
                InvalidInput,
                r"logits must be .*int64 of shape \(2, 10\)",
                (logits.long(), labels),
                {},
            ),
            (InvalidLabels, "must be integers of shape", (logits, labels.double()), {}),
            (InvalidLabels, r"0\.\.9, .* Got 10, and 1 of 2", (logits, 10 * labels), {}),
            (InvalidInput, "'mean', 'sum' or 'none'", (logits, labels), {"reduction": "average"}),
            (InvalidInput, r"shape \(10,\)", (logits, labels), {"weight": torch.ones(3)}),
        ):
            with pytest.raises(error, match=message):
                self.loss(*arguments, Q, **options)


class WholeContract(Layouts, Reductions, Refusals):
    """How examples are laid out, counted and refused, which all losses share: in every case.

    It is mixed into the contract of one loss with Q and of one without.
    """


class PlainLossContract(LossContract):
    """What every loss that knows no Q must do: the kinds of matrix do not matter."""

    cases = (("uniform", 2), ("uniform", 3), ("uniform", 10))
    few_cases = (("uniform", 2), ("uniform", 10))
    kinds = ("uniform",)
    #: the function of `naysay.functional` and the module of `naysay.losses`
    plain_function = None
    plain_module = None

    @classmethod
    def function(cls, logits, comp_labels, Q, weight=None, **options):
        return cls.plain_function(logits, comp_labels, weight, **options)

    @classmethod
    def module(cls, Q, **options):
        return cls.plain_module(**options)


class TransitionLossContract(LossContract):
    """What every loss that knows Q must do besides."""

    def test_a_label_whose_column_is_empty_is_refused_by_name(self):
        values = [[0, 0.5, 0.5, 0], [0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0], [0.4, 0.4, 0.2, 0]]
        Q = TransitionMatrix(values, classes=["cat", "dog", "owl", "horse"])
        message = (
            r"comp_labels contains class 3 \('horse'\), but Q\[:, 3\] is all zero, so that label "
            r"could never occur\. Re-estimate Q or drop the 2 rows\."
        )
        with pytest.raises(InvalidLabels, match=message):
            self.loss(torch.zeros(4, 4), torch.tensor([0, 3, 1, 3]), Q)
        assert self.loss(torch.zeros(2, 4), torch.tensor([0, 3]), Q, ignore_index=3).isfinite()

    def test_an_empty_column_is_refused_among_many_classes_too(self):
        Q = make_transition("uneven", 1200)
        with pytest.raises(InvalidLabels, match=r"contains class 1, but Q\[:, 1\] is all zero"):
            self.loss(torch.zeros(2, 1200), torch.tensor([0, 1]), Q)

    def test_an_ignored_example_is_safe_where_the_first_column_is_empty(self):
        Q = TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
        value, gradient = with_gradient(self.loss, make_logits(2, 3), torch.tensor([-100, 1]), Q)
        assert value.isfinite()
        assert gradient.isfinite().all()

    def test_logits_with_another_number_of_classes_are_refused(self):
        with pytest.raises(
            InvalidInput, match=r"shape \(N, 10\).*Got torch\.float32 of shape \(2, 9\)"
        ):
            self.loss(torch.zeros(2, 9), torch.tensor([0, 1]), make_transition("uniform", 10))

    @pytest.mark.parametrize("make", [np.asarray, lambda Q: torch.as_tensor(np.asarray(Q))])
    def test_an_array_or_tensor_can_stand_for_the_matrix(self, make):
        for kind in ("with zeros", "with diagonal", "uniform"):
            Q = make_transition(kind, 10)
            logits, labels = make_logits(3, 10), possible_labels(Q, 3)
            torch.testing.assert_close(
                self.loss(logits, labels, make(Q)), self.loss(logits, labels, Q)
            )

    def test_a_tensor_that_learns_can_stand_for_the_matrix_but_gets_no_gradient(self):
        values = torch.tensor([[0.0, 1.0], [1.0, 0.0]], requires_grad=True)
        self.loss(torch.zeros(1, 2, requires_grad=True), torch.tensor([0]), values).backward()
        assert values.grad is None

    @FEW_CASES
    def test_structure_of_the_matrix_does_not_change_the_value(self, kind, n_classes, monkeypatch):
        Q = make_transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        expected, slopes = with_gradient(self.loss, logits, labels, Q)
        for largest_table in (1, 10_000):
            monkeypatch.setattr("naysay.functional.columns._LARGEST_TABLE", largest_table)
            twin = TransitionMatrix(Q.entries, allow_diagonal=True)
            value, gradient = with_gradient(self.loss, logits, labels, twin)
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(gradient, slopes)
