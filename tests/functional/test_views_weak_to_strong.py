"""A strongly augmented view learns from a weakly augmented one: the loss, and its trainings."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import loss_references as reference
from loss_cases import make_logits, make_transition, possible_labels, with_gradient
from loss_compilation import assert_compiles, compiles
from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix, losses
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.methods import METHODS, Setting
from naysay.networks import MLP
from naysay.observations import Observations
from trainings import make_data
from two_views_contract import TwoViewsContract, log_column

Q = make_transition("with zeros", 10)
VIEWS = make_logits(12, 10).reshape(2, 6, 10)
LABELS = possible_labels(Q, 6)


def first_alone(views, labels=LABELS, matrix=Q, **options):
    return F.two_views(views[0], labels, matrix, other_logits=views[1], target="first", **options)


class TestTargetOfTheFirst(TwoViewsContract):
    reference = staticmethod(reference.weak_to_strong)
    target = "first"
    shares = (1.0, 0.0)


@compiles
@pytest.mark.parametrize("kind", ["uniform", "without zeros"])
def test_it_compiles_without_a_graph_break(kind):
    matrix = make_transition(kind, 10)
    logits, labels = make_logits(4, 10), torch.tensor([0, 1, -100, 9])
    assert_compiles(lambda f, y: TestTargetOfTheFirst.function(f, y, matrix), logits, labels)


def test_both_views_learn_the_posterior_of_the_first():
    leaf = VIEWS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(first_alone(leaf, consistency=1.0), leaf)
    target = (VIEWS[0] + log_column(Q, LABELS)).softmax(1)
    for view, found in zip(VIEWS, gradient, strict=True):
        _, expected = with_gradient(lambda f: cross_entropy(f, target), view)
        torch.testing.assert_close(found, expected / 2)


def test_the_second_view_has_no_part_in_the_target_of_the_first():
    def slope(other):
        leaf = VIEWS[0].clone().requires_grad_()
        return torch.autograd.grad(first_alone((leaf, other)), leaf)[0]

    torch.testing.assert_close(slope(VIEWS[1]), slope(-3 * VIEWS[1]))


def test_the_order_of_the_views_matters():
    assert abs(first_alone(VIEWS) - first_alone(VIEWS.flip(0))) > 1e-3
    mean = F.two_views(VIEWS[0], LABELS, Q, other_logits=VIEWS[1], reduction="none")
    both = [first_alone(views, reduction="none") for views in (VIEWS, VIEWS.flip(0))]
    # the target is the mean of theirs, and the loss linear in it
    torch.testing.assert_close(sum(both) / 2, mean)


@given(
    st.sampled_from(["uniform", "without zeros", "with zeros", "singular", "with diagonal"]),
    st.floats(0, 1),
    st.integers(0, 2**16),
)
def test_the_gradient_of_the_first_view_is_that_of_forward_for_any_second_view(kind, weight, seed):
    matrix = make_transition(kind, 10)
    labels, other = possible_labels(matrix, 5, seed), make_logits(5, 10, seed + 1)
    logits = make_logits(5, 10, seed)
    _, gradient = with_gradient(
        lambda f: first_alone((f, other), labels, matrix, consistency=weight), logits
    )
    _, expected = with_gradient(F.forward_cross_entropy, logits, labels, matrix)
    torch.testing.assert_close(gradient, expected / 2)


def test_evidence_of_one_label_gives_the_loss_of_that_label():
    column = log_column(Q, LABELS)
    for consistency in (0.0, 0.3, 1.0):
        for reduction in ("mean", "none"):
            options = {"consistency": consistency, "reduction": reduction}
            found = F.two_views_likelihood(
                VIEWS[0], column, other_logits=VIEWS[1], target="first", **options
            )
            torch.testing.assert_close(found, first_alone(VIEWS, **options))


def test_another_target_is_refused():
    for function, observed in (
        (partial(F.two_views, Q=Q), LABELS),
        (F.two_views_likelihood, log_column(Q, LABELS)),
    ):
        with pytest.raises(InvalidInput, match=r"target must be 'mean' or 'first'\. Got 'second'"):
            function(VIEWS[0], observed, other_logits=VIEWS[1], target="second")


@pytest.mark.parametrize(
    "make, observed",
    [
        (lambda method: method.make_loss(Setting(Q=Q)), LABELS),
        (lambda method: method.make_evidence_loss(), log_column(Q, LABELS)),
    ],
    ids=["labels", "evidence"],
)
def test_the_method_has_the_loss_of_that_target(make, observed):
    loss = make(METHODS["weak-to-strong"])
    loss.set_progress(1.0)
    expected = first_alone(VIEWS)
    for each in (loss, copy.deepcopy(loss)):
        torch.testing.assert_close(each(VIEWS, observed), expected)
        assert not each.state_dict()
    other = make(METHODS["two-views"])
    other.set_progress(1.0)
    assert abs(other(VIEWS, observed) - expected) > 1e-3
    torch.testing.assert_close(loss.eval()(VIEWS[1], observed), other.eval()(VIEWS[1], observed))


# --- trainings -----------------------------------------------------------------------------------

X, y = load_digits(return_X_y=True)
X = X.reshape(-1, 1, 8, 8)
ANCHORS = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(10)])


def classifier(**options):
    defaults = {"method": "weak-to-strong", "network": partial(MLP, dropout=0.0), "lr": 0.01}
    return ComplementaryClassifier(**{**defaults, "random_state": 0, "device": "cpu", **options})


@pytest.mark.unmeasured
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_images_are_learned_by_the_views_of_the_default(dtype):
    matrix = TransitionMatrix.without_zeros(10, (0.6, 0.3, 0.1), seed=0)
    clf = classifier(transition=matrix, epochs=15)
    clf.fit(X.astype(dtype), matrix.sample(y, seed=0))
    assert (clf.predict(X) == y).mean() > 0.85


@pytest.mark.unmeasured
def test_cross_fitting_with_this_method_predicts_better_than_with_forward():
    matrix = TransitionMatrix.without_zeros(10, (0.6, 0.3, 0.1), seed=0)
    options = {"transition": "estimate", "epochs": 1, "estimation_epochs": 10, "batch_size": 32}
    right = {}
    for method in ("forward", "weak-to-strong"):
        clf = classifier(method=method, **options)
        clf.fit(X[:400], matrix.sample(y[:400], seed=0), anchors=(X[ANCHORS], y[ANCHORS]))
        right[method] = (clf.transition_estimate_.predictions.argmax(axis=1) == y[:400]).mean()
    assert right["weak-to-strong"] > max(0.85, right["forward"])


def test_several_labels_are_one_likelihood_and_annotators_may_differ_in_their_matrix():
    X, _, y = make_data(300, 0)
    habits = {
        "ann": TransitionMatrix.with_zeros(4, 2, seed=1),
        "bob": TransitionMatrix.with_zeros(4, 2, seed=5),
    }
    answers = Observations(
        example=np.tile(np.arange(300), 2),
        label=np.concatenate([habit.sample(y, seed=0) for habit in habits.values()]),
        annotator=np.repeat([*habits], 300),
    )
    clf = classifier(network=None, transition=habits, epochs=12).fit(X, answers)
    assert isinstance(clf.loss_, losses.TwoViewsLikelihood)
    assert clf.loss_.target == "first"
    assert (clf.predict(X) == y).mean() > 0.95


def test_methods_that_cannot_take_evidence_name_it():
    answers = Observations(example=[0, 1], label=[0, 1], annotator=["ann", "bob"])
    habits = dict.fromkeys(["ann", "bob"], TransitionMatrix.uniform(3))
    with pytest.raises(InvalidInput, match=r"Use 'forward', 'two-views' or 'weak-to-strong', or"):
        classifier(method="pc", transition=habits).fit(np.eye(2), answers)
