"""Shapes and orders that must not matter to a loss; part of the contract of `loss_contract`."""

import numpy as np
import pytest
import torch

from loss_cases import FEW_CASES, make_logits, possible_labels, with_gradient
from naysay import TransitionMatrix


class Layouts:
    """The same examples give the same loss, however they are laid out."""

    @FEW_CASES
    def test_maps_of_labels_equal_the_same_examples_in_a_row(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        flat_logits, flat_labels = make_logits(2 * 3 * 4, n_classes), possible_labels(Q, 24)
        flat_labels[5] = -100
        logits = flat_logits.reshape(2, 3, 4, n_classes).permute(0, 3, 1, 2)
        labels = flat_labels.reshape(2, 3, 4)
        weight = torch.linspace(0.5, 2, n_classes, dtype=torch.float64)
        losses = self.loss(logits, labels, Q, weight, reduction="none")
        assert losses.shape == (2, 3, 4)
        torch.testing.assert_close(
            losses.reshape(-1), self.loss(flat_logits, flat_labels, Q, weight, reduction="none")
        )
        value, gradient = with_gradient(self.loss, logits, labels, Q, weight)
        expected, slopes = with_gradient(self.loss, flat_logits, flat_labels, Q, weight)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(gradient.permute(0, 2, 3, 1).reshape(24, n_classes), slopes)

    def test_one_further_axis_is_taken_too(self):
        Q = self.transition("with zeros", 10)
        logits, labels = make_logits(6, 10), possible_labels(Q, 6)
        folded = logits.reshape(2, 3, 10).transpose(1, 2)
        torch.testing.assert_close(
            self.loss(folded, labels.reshape(2, 3), Q), self.loss(logits, labels, Q)
        )

    @FEW_CASES
    def test_order_of_the_classes_does_not_matter(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        order = np.random.default_rng(3).permutation(n_classes)
        permuted = TransitionMatrix(np.asarray(Q)[np.ix_(order, order)], allow_diagonal=True)
        new_labels = torch.from_numpy(np.argsort(order))[labels]
        value, gradient = with_gradient(self.loss, logits, labels, Q)
        other, slopes = with_gradient(self.loss, logits[:, order], new_labels, permuted)
        torch.testing.assert_close(value, other)
        torch.testing.assert_close(gradient[:, order], slopes)

    @FEW_CASES
    def test_order_of_the_examples_does_not_matter_and_a_batch_of_one_is_one_of_many(
        self, kind, n_classes
    ):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(4, n_classes), possible_labels(Q, 4)
        losses = self.loss(logits, labels, Q, reduction="none")
        for i in range(4):
            one = self.loss(logits[i : i + 1], labels[i : i + 1], Q)
            torch.testing.assert_close(one, losses[i])

    @pytest.mark.parametrize(
        "dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    )
    def test_labels_of_any_integer_kind_are_taken(self, dtype):
        Q = self.transition("with zeros", 10)
        labels = torch.tensor([0, 4, 9])
        logits = make_logits(3, 10)
        expected = self.loss(logits, labels, Q)
        torch.testing.assert_close(self.loss(logits, labels.to(dtype), Q), expected)

    def test_logits_that_are_not_contiguous_give_the_same(self):
        Q = self.transition("without zeros", 10)
        logits, labels = make_logits(10, 10), possible_labels(Q, 10)
        torch.testing.assert_close(
            self.loss(logits.T, labels, Q), self.loss(logits.T.contiguous(), labels, Q)
        )
