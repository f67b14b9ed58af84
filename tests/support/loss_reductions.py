"""How every loss counts the examples of a batch; part of the contract of `loss_contract`."""

import pytest
import torch

from loss_cases import FEW_CASES, make_logits, possible_labels, saturated_logits, with_gradient


class Reductions:
    """Mean and sum, weights of labels, and examples that are ignored."""

    @FEW_CASES
    def test_reductions_are_mean_and_sum_of_the_losses(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(5, n_classes), possible_labels(Q, 5)
        losses = self.loss(logits, labels, Q, reduction="none")
        assert losses.shape == (5,)
        torch.testing.assert_close(self.loss(logits, labels, Q, reduction="sum"), losses.sum())
        torch.testing.assert_close(self.loss(logits, labels, Q, reduction="mean"), losses.mean())
        torch.testing.assert_close(self.loss(logits, labels, Q), losses.mean())

    @FEW_CASES
    def test_weight_counts_each_label_and_its_mean_is_weighted(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(6, n_classes), possible_labels(Q, 6)
        weight = torch.arange(1.0, n_classes + 1, dtype=torch.float64)
        losses = self.loss(logits, labels, Q, reduction="none")
        weighted = losses * weight[labels]
        for reduction, expected in (
            ("none", weighted),
            ("sum", weighted.sum()),
            ("mean", weighted.sum() / weight[labels].sum()),
        ):
            found = self.loss(logits, labels, Q, weight, reduction=reduction)
            torch.testing.assert_close(found, expected)

    def test_weight_of_another_precision_does_not_change_that_of_the_loss(self):
        Q = self.transition("uniform", 3)
        for weight in (torch.ones(3, dtype=torch.float64), torch.tensor([1, 1, 1])):
            value = self.loss(
                make_logits(2, 3, dtype=torch.float32), torch.tensor([0, 1]), Q, weight
            )
            assert value.dtype == torch.float32

    def test_mean_under_weights_of_zero_is_zero(self):
        Q = self.transition("uniform", 3)
        value, gradient = with_gradient(
            self.loss, make_logits(2, 3), torch.tensor([0, 1]), Q, torch.zeros(3)
        )
        assert value == 0
        assert not gradient.any()

    @FEW_CASES
    @pytest.mark.parametrize("weighted", [False, True])
    def test_ignored_examples_count_nothing(self, kind, n_classes, weighted):
        Q = self.transition(kind, n_classes)
        logits, labels = make_logits(6, n_classes), possible_labels(Q, 6)
        weight = torch.arange(1.0, n_classes + 1).double() if weighted else None
        kept = torch.tensor([True, False, True, True, False, True])
        with_ignored = labels.where(kept, -100)
        for reduction in ("mean", "sum"):
            value, gradient = with_gradient(
                self.loss, logits, with_ignored, Q, weight, reduction=reduction
            )
            expected, slopes = with_gradient(
                self.loss, logits[kept], labels[kept], Q, weight, reduction=reduction
            )
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(gradient[kept], slopes)
            assert not gradient[~kept].any()
        losses = self.loss(logits, with_ignored, Q, weight, reduction="none")
        assert not losses[~kept].any()
        assert losses[kept].all()

    @pytest.mark.parametrize("ignore_index", [-1, -7, 0, 2, 255])
    def test_any_index_can_be_the_ignored_one(self, ignore_index):
        Q = self.transition("with zeros", 10)
        labels = torch.tensor([5, ignore_index, 6, ignore_index])
        logits = make_logits(4, 10)
        found = self.loss(logits, labels, Q, ignore_index=ignore_index)
        expected = self.loss(logits[[0, 2]], labels[[0, 2]], Q)
        torch.testing.assert_close(found, expected)

    def test_an_index_to_ignore_that_does_not_occur_changes_nothing(self):
        Q = self.transition("with zeros", 10)
        logits, labels = make_logits(3, 10), torch.tensor([1, 2, 3])
        torch.testing.assert_close(
            self.loss(logits, labels, Q, ignore_index=9), self.loss(logits, labels, Q)
        )

    @FEW_CASES
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    def test_a_batch_of_which_all_is_ignored_gives_zero(self, kind, n_classes, reduction):
        Q = self.transition(kind, n_classes)
        for weight in (None, torch.ones(n_classes)):
            value, gradient = with_gradient(
                self.loss,
                saturated_logits(3, n_classes),
                torch.full((3,), -100),
                Q,
                weight,
                reduction=reduction,
            )
            assert not value.any()
            assert not gradient.any()

    @FEW_CASES
    @pytest.mark.parametrize("shape", [(0,), (0, 2, 2), (2, 0)])
    def test_an_empty_batch_gives_zero(self, kind, n_classes, shape):
        Q = self.transition(kind, n_classes)
        logits = torch.zeros(shape[0], n_classes, *shape[1:])
        labels = torch.zeros(shape, dtype=torch.int64)
        for reduction in ("mean", "sum"):
            value, gradient = with_gradient(self.loss, logits, labels, Q, reduction=reduction)
            assert value == 0
            assert gradient.shape == logits.shape
        assert self.loss(logits, labels, Q, reduction="none").shape == shape
