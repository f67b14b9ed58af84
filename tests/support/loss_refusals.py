"""What every loss refuses, by its wording; part of the contract of `loss_contract`."""

import numpy as np
import pytest
import torch

from naysay import InvalidInput, InvalidLabels


class Refusals:
    """What every loss must refuse."""

    @pytest.mark.parametrize(
        "logits, got",
        [
            (torch.zeros(3), r"Got torch\.float32 of shape \(3,\)"),
            (torch.zeros(2, 3, dtype=torch.int64), r"Got torch\.int64 of shape \(2, 3\)"),
            (torch.tensor(1.0), r"Got torch\.float32 of shape \(\)"),
            (np.zeros((2, 3)), "Got ndarray, not a Tensor"),
            ([[0.0, 1.0, 2.0]], "Got list, not a Tensor"),
        ],
    )
    def test_logits_of_another_shape_or_kind_are_refused(self, logits, got):
        rule = r"logits must be floating point of shape \(N, (3|K)\) or \(N, (3|K), d1, …\).*"
        with pytest.raises(InvalidInput, match=rule + got):
            self.loss(logits, torch.tensor([0, 1]), self.transition("with zeros", 3))

    @pytest.mark.parametrize(
        "labels, got",
        [
            (torch.tensor([0.0, 1.0]), r"Got torch\.float32 of shape \(2,\)"),
            (torch.tensor([float("nan"), 1.0]), r"Got torch\.float32 of shape \(2,\)"),
            (torch.tensor([True, False]), r"Got torch\.bool of shape \(2,\)"),
            (torch.tensor([0, 1, 2]), r"Got torch\.int64 of shape \(3,\)"),
            (torch.zeros(2, 3, dtype=torch.int64), r"Got torch\.int64 of shape \(2, 3\)"),
            (torch.tensor(1), r"Got torch\.int64 of shape \(\)"),
            (np.array([0, 1]), "Got ndarray, not a Tensor"),
            ([0, 1], "Got list, not a Tensor"),
        ],
    )
    def test_labels_of_another_shape_or_kind_are_refused(self, labels, got):
        rule = r"comp_labels must be integers of shape \(2,\), one per row of logits\. "
        with pytest.raises(InvalidLabels, match=rule + got):
            self.loss(torch.zeros(2, 3), labels, self.transition("with zeros", 3))

    @pytest.mark.parametrize(
        "labels, ignore_index, message",
        [
            ([0, 3], -100, r"integers 0\.\.2, or ignore_index=-100\. Got 3, and 1 of 2 labels"),
            ([-1, -2], -100, r"Got -1, and 2 of 2 labels are out of range"),
            ([7, 1], 7, None),
            ([7, 9], 7, r"or ignore_index=7\. Got 9, and 1 of 2 labels"),
        ],
    )
    def test_labels_out_of_range_are_refused(self, labels, ignore_index, message):
        def call():
            return self.loss(
                torch.zeros(2, 3),
                torch.tensor(labels),
                self.transition("with zeros", 3),
                ignore_index=ignore_index,
            )

        if message is None:
            assert call().isfinite()
        else:
            with pytest.raises(InvalidLabels, match=message):
                call()

    def test_a_reduction_that_does_not_exist_is_refused(self):
        with pytest.raises(InvalidInput, match=r"'mean', 'sum' or 'none'\. Got 'average'"):
            self.loss(
                torch.zeros(1, 3),
                torch.tensor([0]),
                self.transition("uniform", 3),
                reduction="average",
            )

    @pytest.mark.parametrize(
        "weight, got",
        [
            (torch.ones(2), r"Got torch\.float32 of shape \(2,\)"),
            (torch.ones(3, 1), r"Got torch\.float32 of shape \(3, 1\)"),
            ([1.0, 1.0, 1.0], "Got list, not a Tensor"),
        ],
    )
    def test_weights_of_another_shape_are_refused(self, weight, got):
        rule = r"weight must contain one number per class, shape \(3,\)\. "
        with pytest.raises(InvalidInput, match=rule + got):
            self.loss(torch.zeros(1, 3), torch.tensor([0]), self.transition("uniform", 3), weight)
