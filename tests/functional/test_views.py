"""Two views of an example with one target: the loss, its schedule, and trainings with it."""

import copy
import math
import os
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy, one_hot

import loss_references as reference
from loss_cases import make_logits, make_transition, possible_labels, with_gradient
from loss_compilation import assert_compiles, compiles
from naysay import ComplementaryClassifier, InvalidInput, InvalidLabels, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.classifier.targets import MixedLabelLoss
from naysay.networks import MLP
from naysay.observations import Observations
from naysay.training import Examples, Options, fit, predict_logits
from trainings import make_data
from two_views_contract import TwoViewsContract, log_column

Q = make_transition("with zeros", 10)


class TestTwoViews(TwoViewsContract):
    reference = staticmethod(reference.two_views)
    target = "mean"
    cases = (*TwoViewsContract.cases, ("with zeros", 1200))
    shares = (0.5, 0.5)

    def test_another_view_of_another_shape_is_refused(self):
        for other in (torch.zeros(3, 3), None):
            with pytest.raises(InvalidInput, match=r"other_logits must be .*shape.*\(2, 3\)\. G"):
                F.two_views(torch.zeros(2, 3), torch.tensor([0, 1]), UNIFORM, other_logits=other)


UNIFORM = TransitionMatrix.uniform(3)
VIEWS = make_logits(12, 10).reshape(2, 6, 10)
LABELS = possible_labels(Q, 6)


@given(
    st.sampled_from(["uniform", "without zeros", "with zeros", "singular", "with diagonal"]),
    st.floats(0, 1),
    st.integers(0, 2**16),
)
def test_views_that_agree_have_the_gradient_of_forward(kind, consistency, seed):
    matrix = make_transition(kind, 10)
    logits, labels = make_logits(5, 10, seed), possible_labels(matrix, 5, seed)
    _, gradient = with_gradient(
        lambda f: F.two_views(f, labels, matrix, other_logits=f, consistency=consistency), logits
    )
    _, expected = with_gradient(F.forward_cross_entropy, logits, labels, matrix)
    torch.testing.assert_close(gradient, expected)


def test_the_order_of_the_views_does_not_matter():
    found = F.two_views(VIEWS[0], LABELS, Q, other_logits=VIEWS[1])
    torch.testing.assert_close(found, F.two_views(VIEWS[1], LABELS, Q, other_logits=VIEWS[0]))


def test_each_view_learns_from_the_other_and_no_gradient_passes_the_target():
    leaf = VIEWS.clone().requires_grad_()
    loss = F.two_views(leaf[0], LABELS, Q, other_logits=leaf[1], consistency=1.0)
    (gradient,) = torch.autograd.grad(loss, leaf)
    target = (VIEWS + log_column(Q, LABELS)).softmax(2).mean(0)
    for view, found in zip(VIEWS, gradient, strict=True):
        _, expected = with_gradient(lambda f: cross_entropy(f, target), view)
        torch.testing.assert_close(found, expected / 2)


def test_evidence_of_one_label_gives_the_loss_of_that_label():
    column = log_column(Q, LABELS)
    for consistency in (0.0, 0.3, 1.0):
        options = {"other_logits": VIEWS[1], "consistency": consistency}
        for reduction in ("mean", "none"):
            torch.testing.assert_close(
                F.two_views_likelihood(VIEWS[0], column, **options, reduction=reduction),
                F.two_views(VIEWS[0], LABELS, Q, **options, reduction=reduction),
            )


def test_evidence_that_settles_the_class_gives_the_cross_entropy_of_both_views():
    classes = torch.arange(6)
    evidence = one_hot(classes, 10).double().log()
    found = with_gradient(
        lambda v: F.two_views_likelihood(v[0], evidence, other_logits=v[1]), VIEWS
    )
    expected = with_gradient(lambda v: cross_entropy(v.flatten(0, 1), classes.repeat(2)), VIEWS)
    torch.testing.assert_close(found, expected)


def test_without_evidence_views_only_agree():
    options = {"other_logits": VIEWS[1], "reduction": "none"}
    nothing = torch.zeros(6, 10, dtype=torch.float64)
    found = F.two_views_likelihood(VIEWS[0], nothing, consistency=1.0, **options)
    mean = VIEWS.softmax(2).mean(0)
    expected = -(mean * VIEWS.log_softmax(2).mean(0)).sum(1)
    torch.testing.assert_close(found, expected)
    alone = F.two_views_likelihood(VIEWS[0], nothing, consistency=0.0, **options)
    torch.testing.assert_close(alone, torch.zeros(6, dtype=torch.float64))


def test_evidence_of_maps_equals_that_of_rows_and_impossible_evidence_is_refused():
    views, column = VIEWS.reshape(2, 2, 3, 10).movedim(3, 2), log_column(Q, LABELS)
    found = F.two_views_likelihood(
        views[0], column.reshape(2, 3, 10).movedim(2, 1), other_logits=views[1]
    )
    torch.testing.assert_close(found, F.two_views(VIEWS[0], LABELS, Q, other_logits=VIEWS[1]))
    with pytest.raises(InvalidLabels, match="in 6 of 6 rows, first in row 0"):
        F.two_views_likelihood(VIEWS[0], column - math.inf, other_logits=VIEWS[1])
    with pytest.raises(InvalidInput, match="other_logits must be"):
        F.two_views_likelihood(VIEWS[0], column, other_logits=VIEWS)


# --- the modules ---------------------------------------------------------------------------------

MODULES = pytest.mark.parametrize(
    "module, observed",
    [
        (partial(losses.TwoViews, Q), LABELS),
        (losses.TwoViewsLikelihood, log_column(Q, LABELS)),
    ],
    ids=["labels", "evidence"],
)


@MODULES
@pytest.mark.parametrize("as_share", [float, torch.tensor])
def test_weight_moves_from_the_label_to_the_target_over_the_first_share(module, observed, as_share):
    loss = module(consistency=0.8, ramp=0.4)
    of_label, of_target = (
        F.two_views(VIEWS[0], LABELS, Q, other_logits=VIEWS[1], consistency=end) for end in (0, 1)
    )
    for share, weight in ((0.0, 0.0), (0.1, 0.2), (0.4, 0.8), (0.9, 0.8)):
        loss.set_progress(as_share(share))
        expected = (1 - weight) * of_label + weight * of_target
        torch.testing.assert_close(loss(VIEWS, observed), expected)


@MODULES
def test_progress_is_read_from_its_tensor_at_each_step(module, observed):
    # one tensor, changed in place, as a captured CUDA graph needs it
    loss, share = module(), torch.tensor(0.0)
    loss.set_progress(share)
    start = loss(VIEWS, observed)
    share.fill_(0.15)
    half = loss(VIEWS, observed) - start
    assert half.abs() > 1e-3
    share.fill_(1.0)
    torch.testing.assert_close(loss(VIEWS, observed) - start, 2 * half)


@MODULES
def test_held_out_examples_have_one_view_and_the_loss_of_forward(module, observed):
    loss = module().eval()
    expected = F.forward_cross_entropy(VIEWS[0], LABELS, Q)
    torch.testing.assert_close(loss(VIEWS[0], observed), expected)
    with pytest.raises(InvalidInput, match=r"shape \(2, N, K\), in training mode"):
        loss.train()(VIEWS[0], observed)


@MODULES
def test_progress_is_no_part_of_the_state(module, observed):
    loss = module()
    loss.set_progress(torch.tensor(0.5))
    assert not loss.state_dict()
    assert not list(loss.buffers())


@MODULES
@pytest.mark.parametrize(
    "options, message",
    [
        ({"consistency": 1.1}, r"consistency must be from 0 to 1\. Got 1\.1"),
        ({"consistency": -0.1}, "from 0 to 1"),
        ({"consistency": float("nan")}, "from 0 to 1"),
        ({"consistency": "much"}, "consistency must be a number. Got 'much'"),
        ({"ramp": 0}, "ramp must be above 0"),
        ({"target": "last"}, r"target must be 'mean' or 'first'\. Got 'last'"),
        ({"target": None}, r"Got None"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(module, observed, options, message):
    with pytest.raises(InvalidInput, match=message):
        module(**options)


@compiles
@pytest.mark.parametrize("kind", ["uniform", "without zeros"])
def test_it_compiles_without_a_graph_break(kind):
    matrix = make_transition(kind, 10)
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, -100, 9])
    assert_compiles(lambda f, y: TestTwoViews.function(f, y, matrix), logits, labels)


# --- trainings -----------------------------------------------------------------------------------


def small(**options):
    defaults = {"method": "two-views", "epochs": 12, "lr": 0.01, "random_state": 0, "device": "cpu"}
    return ComplementaryClassifier(**{**defaults, **options})


def test_several_labels_are_one_likelihood_and_anchors_join_them():
    X, _, y = make_data(300, 0)
    matrix = TransitionMatrix.uniform(4)
    ruled_out = np.zeros((300, 4), dtype=bool)
    ruled_out[np.arange(300)[:, None], matrix.sample_several(y, 2, seed=0)] = True
    clf = small().fit(X, ruled_out)
    assert isinstance(clf.loss_, losses.TwoViewsLikelihood)
    assert (clf.predict(X) == y).mean() > 0.95
    with_anchors = small().fit(X, ruled_out, anchors=(X[::10], y[::10]))
    assert (with_anchors.predict(X) == y).mean() > 0.95
    assert not np.array_equal(with_anchors.predict_proba(X), clf.predict_proba(X))


def test_annotators_have_matrices_of_their_own(tmp_path):
    X, _, y = make_data(300, 0)
    habits = {
        "ann": TransitionMatrix.with_zeros(4, 2, seed=1),
        "bob": TransitionMatrix.with_zeros(4, 2, seed=5),
    }
    who = np.where(np.arange(300) % 2, "ann", "bob")
    said = np.where(who == "ann", *(habits[name].sample(y, seed=0) for name in ("ann", "bob")))
    answers = Observations(example=np.arange(300), label=said, annotator=who)
    clf = small(transition=habits).fit(X, answers)
    assert (clf.predict(X) == y).mean() > 0.95
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.mark.unmeasured
@pytest.mark.parametrize("method", ["two-views", "weak-to-strong", "pocr"])
def test_a_restarted_training_goes_on_from_its_checkpoint(method, tmp_path):
    # the second training must not remember how far the first one came
    X, labels, _ = make_data(1500, 0)

    class Deaf(MLP):
        def forward(self, inputs):
            return super().forward(inputs) - 50 * torch.tensor([0, 0, 1, 0])

    def deaf(input_shape, n_classes):
        return Deaf(input_shape, n_classes, widths=(16,))

    def fit():
        matrix = TransitionMatrix.without_zeros(4, seed=1)
        options = {"transition": matrix, "network": deaf, "restarts": 1, "epochs": 3}
        options |= {"validation_fraction": 0.4, "checkpoint": tmp_path, "lr": 0.05}
        return small(method=method, **options).fit(X, labels)

    first = fit()
    assert len(os.listdir(tmp_path)) == 2  # it was trained again
    second = fit()
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert [r["held_out_loss"] for r in first.history_] == [
        r["held_out_loss"] for r in second.history_
    ]


# --- what epochs are compared by -----------------------------------------------------------------


def test_the_held_out_loss_does_not_depend_on_overconfidence():
    true = torch.arange(500) % 10
    labels = torch.from_numpy(Q.sample(true.numpy(), seed=0))
    noise = torch.randn(500, 10, generator=torch.Generator().manual_seed(0))
    logits = 2 * one_hot(true, 10) + noise
    loss = losses.TwoViews(Q).eval()
    found = loss.held_out(logits, labels)
    assert found <= loss(logits, labels)
    assert found < loss(4 * logits, labels) - 0.1
    torch.testing.assert_close(loss.held_out(4 * logits, labels), found, rtol=0.02, atol=0)
    evidence = losses.TwoViewsLikelihood().eval()
    of_labels = log_column(Q, labels).float()
    torch.testing.assert_close(evidence.held_out(logits, of_labels), found)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda loss: losses.PriorMatching(loss, torch.full((10,), 0.1)),
        lambda loss: MixedLabelLoss(loss),
        lambda loss: MixedLabelLoss(losses.PriorMatching(loss, torch.full((10,), 0.1))),
    ],
)
def test_a_loss_that_wraps_it_has_the_same_held_out_loss(wrap):
    labels = possible_labels(Q, 50)
    logits = make_logits(50, 10)
    loss = losses.TwoViews(Q)
    copied = copy.deepcopy(wrap(loss)).eval()
    assert copied.held_out(logits, labels) == loss.eval().held_out(logits, labels)


def test_training_keeps_the_epoch_that_is_best_at_its_best_temperature():
    X, labels, _ = make_data(60, 0)
    held_out = Examples(*map(torch.from_numpy, make_data(100, 1)[:2]))
    small = TransitionMatrix.uniform(4)
    loss = losses.TwoViews(small, consistency=0.99)
    network = MLP((2,), 4, widths=(32,), dropout=0)
    history = fit(
        network,
        Examples(torch.from_numpy(X), torch.from_numpy(labels)),
        loss,
        Options(epochs=60, batch_size=20, lr=0.05, weight_decay=0, patience=60),
        held_out=held_out,
        augment=lambda inputs: inputs + 0.1 * torch.randn_like(inputs),
    )
    logits = predict_logits(network, held_out)
    least = min(record["held_out_loss"] for record in history)
    assert loss.held_out(logits, held_out.labels).item() == pytest.approx(least, rel=1e-5)
    assert loss(logits, held_out.labels).item() > least
