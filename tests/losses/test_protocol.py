"""What training may ask of a loss: defaults, losses of other packages, and wrappers."""

import copy

import pytest
import torch
from torch import nn

from naysay import InvalidInput, TransitionMatrix
from naysay.losses import ForwardCrossEntropy, PriorMatching, SurrogateLog, TrainingLoss, TwoViews
from naysay.losses.protocol import as_training_loss
from naysay.methods import METHODS, Setting
from naysay.networks import MLP
from naysay.training import Examples, Options, fit

LOGITS, LABELS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
Q = TransitionMatrix.uniform(3)


def fit_once(loss):
    options = Options(epochs=1, batch_size=3, lr=0.1, weight_decay=0.5, patience=1)
    network = MLP((3,), 3, widths=(4,), dropout=0)
    return fit(network, Examples(LOGITS, LABELS), loss, options, held_out=Examples(LOGITS, LABELS))


class Squared(TrainingLoss):
    def forward(self, logits, labels):
        return logits.softmax(1).gather(1, labels[:, None]).square().mean()


@pytest.mark.unmeasured
def test_a_loss_of_ones_own_has_the_defaults():
    loss = Squared()
    assert (loss.n_views, loss.takes_stack, loss.needs_progress) == (1, False, False)
    assert torch.equal(loss.held_out(LOGITS, LABELS), loss(LOGITS, LABELS))
    assert torch.equal(loss.log_scores(LOGITS), LOGITS.log_softmax(1))
    assert loss.per_example(LABELS) is None
    assert as_training_loss(loss) is loss
    assert fit_once(loss)[0]["held_out_loss"] < 1


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_loss_of_the_protocol(name):
    method = METHODS[name]
    loss = method.make_loss(Setting(Q=Q, prior=torch.full((3,), 1 / 3)))
    assert isinstance(loss, TrainingLoss)
    assert (loss.n_views > 1) == method.needs_augmentation == loss.needs_progress
    assert loss.reads_softmax == torch.equal(loss.log_scores(LOGITS), LOGITS.log_softmax(1))
    if method.make_evidence_loss is not None:
        assert method.make_evidence_loss().n_views == loss.n_views


def test_a_callable_is_a_loss_and_is_not_copied():
    class Uncopied:
        def __call__(self, logits, labels):
            return nn.functional.cross_entropy(logits, labels)

        def __deepcopy__(self, memo):
            raise AssertionError

    loss = as_training_loss(Uncopied())
    assert copy.deepcopy(loss).loss is loss.loss
    assert fit_once(Uncopied())


def test_the_parameters_of_a_module_of_another_package_are_trained():
    class Tempered(nn.Module):
        def __init__(self):
            super().__init__()
            self.temperature = nn.Parameter(torch.ones(()))

        def forward(self, logits, labels):
            return nn.functional.cross_entropy(logits * self.temperature, labels)

    loss = Tempered()
    fit_once(loss)
    assert loss.temperature != 1
    assert not loss.training
    assert copy.deepcopy(as_training_loss(loss)).loss is not loss


@pytest.mark.parametrize("name", ["n_views", "set_progress", "held_out", "log_scores"])
def test_a_module_that_asks_without_the_base_class_is_refused(name):
    asking = type("Asking", (nn.Module,), {name: 2})()
    message = f"defines {name} must derive from naysay.losses.TrainingLoss; Asking does not"
    for use in (as_training_loss, fit_once, lambda loss: PriorMatching(loss, torch.ones(3) / 3)):
        with pytest.raises(InvalidInput, match=message):
            use(asking)


def test_a_loss_of_single_examples_gives_the_values_whose_mean_it_is():
    for loss in (ForwardCrossEntropy(Q), SurrogateLog()):
        single = loss.per_example(LABELS)
        assert single(LOGITS, LABELS).shape == (6,)
        torch.testing.assert_close(single(LOGITS, LABELS).mean(), loss(LOGITS, LABELS))
        assert loss.reduction == "mean"


def test_a_mean_that_weighs_or_leaves_out_has_no_such_values():
    assert SurrogateLog(weight=torch.ones(3)).per_example(LABELS) is None
    assert SurrogateLog(ignore_index=2).per_example(LABELS) is None
    assert SurrogateLog(reduction="sum").per_example(LABELS) is None
    assert PriorMatching(SurrogateLog(), torch.ones(3) / 3).per_example(LABELS) is None


def test_a_wrapper_asks_for_what_its_loss_asks_for():
    prior = torch.ones(3) / 3
    wrapped = PriorMatching(TwoViews(Q), prior)
    assert (wrapped.n_views, wrapped.needs_progress, wrapped.reads_softmax) == (2, True, True)
    nearest = METHODS["cpe-i"].make_loss(Setting(Q=Q))
    assert not PriorMatching(nearest, prior).reads_softmax
    found = PriorMatching(nearest, prior).log_scores(LOGITS)
    assert torch.equal(found, nearest.log_scores(LOGITS))
