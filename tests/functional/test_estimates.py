"""Estimates of P(Ȳ | x), under the contract of every loss, and how their classes are read."""

from functools import partial

import numpy as np
import pytest
import torch

import loss_references as reference
from loss_cases import (
    FEW,
    make_logits,
    make_transition,
    possible_labels,
    saturated_logits,
    with_gradient,
)
from loss_compilation import assert_compiles, compiles
from loss_contract import LossContract, PlainLossContract
from loss_references import reference_cross_entropy
from naysay import InvalidInput, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)

Q = make_transition("with zeros", 10)
LOG_MATRIX = torch.from_numpy(np.array(make_transition("without zeros", 10))).log()


class TestComplementaryCrossEntropy(PlainLossContract):
    plain_function = staticmethod(F.complementary_cross_entropy)
    module = losses.ComplementaryCrossEntropy
    reference = staticmethod(reference.complementary_cross_entropy)


class TestTrainedForwardCrossEntropy(LossContract):
    cases = FEW
    module = partial(losses.TrainedForwardCrossEntropy, floor=1e-12)
    module_rtol = 1e-5  # its logits of rows are in single precision
    reference = staticmethod(reference_cross_entropy)

    @staticmethod
    def function(logits, comp_labels, Q, weight=None, **options):
        log_Q = torch.from_numpy(np.array(Q)).log()
        return F.trained_forward_cross_entropy(logits, comp_labels, log_Q, weight, **options)

    @pytest.mark.parametrize("log_Q", [torch.zeros(3, 2), torch.zeros(2), [[0.0]]])
    def test_a_matrix_of_another_shape_is_refused(self, log_Q):
        with pytest.raises(InvalidInput, match=r"log_Q must be a Tensor of shape \(3, 3\)"):
            F.trained_forward_cross_entropy(torch.zeros(1, 3), torch.tensor([0]), log_Q)


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


@compiles
@pytest.mark.parametrize(
    "loss",
    [
        F.complementary_cross_entropy,
        lambda f, y: F.trained_forward_cross_entropy(f, y, LOG_MATRIX),
    ],
    ids=["complementary", "trained"],
)
def test_losses_compile_without_a_graph_break(loss):
    assert_compiles(loss, make_logits(4, 10), torch.tensor([0, 1, -100, 9]))
