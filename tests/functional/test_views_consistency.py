"""Consistency between views, under the contract of every loss, and its schedule."""

import numpy as np
import pytest
import torch

import loss_references as reference
from loss_cases import FEW, FEW_CASES, make_logits, make_transition, possible_labels, with_gradient
from loss_compilation import assert_compiles, compiles
from loss_contract import TransitionLossContract
from naysay import InvalidInput, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)

Q = make_transition("with zeros", 10)
MATRIX = make_transition("without zeros", 10)
UNIFORM = make_transition("uniform", 10)


class TestPartialOutputConsistency(TransitionLossContract):
    reference = staticmethod(reference.partial_output_consistency)
    cases = (*FEW, ("singular", 3), ("without zeros", 10), ("uniform", 20))
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

    def by_module(self, logits, labels, Q, **options):
        stacked = torch.cat([logits[None], self.views(logits)])
        return losses.PartialOutputConsistency(Q, n_views=3, **options)(stacked, labels)

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

    def test_without_weight_on_it_the_loss_is_that_of_the_label(self):
        Q = self.transition("with zeros", 10)
        logits, labels = make_logits(4, 10), possible_labels(Q, 4)
        found = self.loss(logits, labels, Q, consistency=0)
        torch.testing.assert_close(found, F.forward_cross_entropy(logits, labels, Q))

    def test_views_of_another_shape_are_refused(self):
        with pytest.raises(InvalidInput, match=r"view_logits must be .* shape \(V, 2, 3\)"):
            F.partial_output_consistency(
                torch.zeros(2, 3),
                torch.tensor([0, 1]),
                TransitionMatrix.uniform(3),
                view_logits=torch.zeros(2, 3),
            )


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


@compiles
@pytest.mark.parametrize(
    "loss",
    [
        lambda f, y: TestPartialOutputConsistency.function(f, y, MATRIX),
        lambda f, y: TestPartialOutputConsistency.function(f, y, UNIFORM),
    ],
    ids=["consistency", "uniform consistency"],
)
def test_losses_compile_without_a_graph_break(loss):
    assert_compiles(loss, make_logits(4, 10), torch.tensor([0, 1, -100, 9]))
