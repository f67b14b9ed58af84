"""Tests common to both targets of `two_views`: the contract of a loss, and the gradient."""

import numpy as np
import torch

import loss_references as reference
from loss_cases import FEW, FEW_CASES, make_logits, possible_labels, with_gradient
from loss_contract import TransitionLossContract
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay import losses


def log_column(Q, labels):
    return torch.from_numpy(np.array(Q).T.copy()).log()[labels]


class TwoViewsContract(TransitionLossContract):
    """Of `target`; `shares` are those of both posteriors in it."""

    target: str
    shares: tuple[float, float]
    cases = (*FEW, ("singular", 3), ("without zeros", 10), ("uniform", 20))
    single_saturated = (1e-5, 1e-3)  # digits of a target near 0, times a logarithm of -2000
    half_gradient = 1e-3  # the sum of two gradients, each rounded to half precision

    @classmethod
    def function(cls, logits, *arguments, **options):
        other = reference.OTHER_VIEW * logits if isinstance(logits, torch.Tensor) else None
        return F.two_views(logits, *arguments, other_logits=other, target=cls.target, **options)

    def by_module(self, logits, labels, Q, **options):
        stacked = torch.stack([logits, reference.OTHER_VIEW * logits])
        return losses.TwoViews(Q, target=self.target, **options)(stacked, labels)

    @FEW_CASES
    def test_gradient_passes_the_check_by_finite_differences(self, kind, n_classes):
        Q = self.transition(kind, n_classes)
        labels = possible_labels(Q, 3)
        views = torch.stack([make_logits(3, n_classes), make_logits(3, n_classes, seed=1)])
        column = log_column(Q, labels)
        posteriors = (views + column).softmax(2)
        target = self.shares[0] * posteriors[0] + self.shares[1] * posteriors[1]  # a constant

        def held_constant(views):
            of_label = -(views.log_softmax(2) + column).logsumexp(2)
            of_target = -(target * views.log_softmax(2)).sum(2)
            return (0.1 * of_label + 0.9 * of_target).mean(0)

        leaf = views.clone().requires_grad_()
        assert torch.autograd.gradcheck(held_constant, leaf, fast_mode=n_classes > 100)
        expected = with_gradient(held_constant, views)
        found = with_gradient(
            lambda v: F.two_views(
                v[0], labels, Q, other_logits=v[1], target=self.target, reduction="none"
            ),
            views,
        )
        torch.testing.assert_close(found, expected)
