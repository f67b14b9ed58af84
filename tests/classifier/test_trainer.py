"""A class that died in training comes back when training starts again."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from torch import nn

from naysay import ComplementaryClassifier, InvalidInput, NaysayWarning, TransitionMatrix
from naysay.classifier.targets import RobustHeldOut, allow_mistakes
from naysay.losses import ForwardCrossEntropy, TwoViews
from naysay.networks import MLP

X, y = load_digits(n_class=4, return_X_y=True)
Q = TransitionMatrix.with_zeros(4, 2, seed=1)
COMP_LABELS = Q.sample(y, seed=1)


class Deaf(nn.Module):
    """A network that never predicts class 2."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, inputs):
        return self.network(inputs) - 50 * torch.tensor([0, 0, 1, 0], device=inputs.device)


def first_is_deaf():
    """Return a factory whose first network is deaf, and the list of those it made."""
    made = []

    def make(input_shape, n_classes):
        network = MLP(input_shape, n_classes)
        made.append(Deaf(network) if not made else network)
        return made[-1]

    return make, made


def fit(restarts, **options):
    make, made = first_is_deaf()
    clf = ComplementaryClassifier(
        learner="network",
        transition=Q,
        network=make,
        restarts=restarts,
        epochs=20,
        validation_fraction=0.4,
        random_state=0,
        **options,
    )
    return clf.fit(X, COMP_LABELS), made


def test_without_restarts_the_class_stays_dead():
    clf, made = fit(0)
    assert len(made) == 1
    assert 2 not in clf.predict(X)


@pytest.mark.unmeasured
@pytest.mark.parametrize("method", ["forward", "cpe-t"])
def test_a_restart_brings_it_back_and_no_more_are_made_than_needed(method):
    clf, made = fit(3, method=method)
    assert len(made) == 2
    assert clf.network_ is not made[0]
    assert (clf.predict(X[y == 2]) == 2).mean() > 0.8


def test_of_all_attempts_that_of_least_held_out_loss_is_kept():
    def deafer(input_shape, n_classes):
        return Deaf(MLP(input_shape, n_classes))

    options = {"transition": Q, "network": deafer, "epochs": 5, "validation_fraction": 0.4}
    tries = [
        ComplementaryClassifier(learner="network", **options, restarts=n, random_state=0).fit(
            X, COMP_LABELS
        )
        for n in range(3)
    ]
    losses = [min(r["held_out_loss"] for r in clf.history_) for clf in tries]
    assert losses == sorted(losses, reverse=True)


def test_several_answers_or_nothing_held_out_are_trained_once():
    ruled_out = np.zeros((len(X), 4), dtype=bool)
    ruled_out[np.arange(len(X)), COMP_LABELS] = True
    ruled_out[::2, (COMP_LABELS[::2] + 1) % 4] |= y[::2] != (COMP_LABELS[::2] + 1) % 4
    make, made = first_is_deaf()
    clf = ComplementaryClassifier(
        learner="network", network=make, restarts=2, epochs=2, random_state=0
    )
    with pytest.warns(NaysayWarning, match="the labels refute"):  # they are not uniform
        clf.fit(X, ruled_out)
    assert len(made) == 1
    make, made = first_is_deaf()
    ComplementaryClassifier(
        learner="network", transition=Q, network=make, restarts=2, epochs=2, validation_fraction=0
    ).fit(X, COMP_LABELS)
    assert len(made) == 1


def test_restarts_must_be_a_count():
    with pytest.raises(InvalidInput, match="restarts"):
        fit(-1)


# --- mistakes -----------------------------------------------------------------------------------


def test_a_diagonal_is_raised_and_one_that_is_large_enough_is_kept():
    raised = np.asarray(allow_mistakes(Q, 0.01))
    np.testing.assert_allclose(raised, 0.99 * np.asarray(Q) + 0.01 * np.eye(4))
    erring = TransitionMatrix([[0.5, 0.5], [1.0, 0.0]], ["a", "b"], allow_diagonal=True)
    np.testing.assert_allclose(np.asarray(allow_mistakes(erring, 0.1)), [[0.5, 0.5], [0.9, 0.1]])
    assert allow_mistakes(erring, 0.1).classes == ("a", "b")
    identity = TransitionMatrix(np.eye(2), allow_diagonal=True)
    assert allow_mistakes(identity, 0.1) is identity
    never = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])
    assert not np.asarray(allow_mistakes(never, 0.1))[:, 2].any()  # no class may lead to label 2
    many = TransitionMatrix.uniform(2000)
    assert allow_mistakes(many, 0.1) is many


def test_the_largest_held_out_losses_are_left_out():
    logits = torch.zeros(15, 4)
    labels = torch.zeros(15, dtype=torch.int64)
    exact = ForwardCrossEntropy(TransitionMatrix.uniform(4)).eval()
    robust = RobustHeldOut(exact).eval()
    assert robust.held_out(logits, labels) == pytest.approx(exact.held_out(logits, labels).item())
    logits[:2, 0] = 20  # two labels that exclude what the network is certain of
    assert robust.held_out(logits, labels) == pytest.approx(exact(logits[2:], labels[2:]).item())
    assert robust(logits, labels) == exact(logits, labels)
    few = (logits[:4], labels[:4])
    assert robust.held_out(*few) == pytest.approx(exact.held_out(*few).item())
    views = TwoViews(Q).eval()  # its held-out loss is at the best temperature
    assert RobustHeldOut(views).held_out(logits, labels) == views.held_out(logits, labels)


@pytest.mark.unmeasured
def test_one_mistake_among_the_held_out_labels_does_not_stop_training():
    X, y = load_iris(return_X_y=True)
    is_held_out = np.argsort(np.random.RandomState(1).permutation(150)) < 15
    scores = {}
    for mistakes in (0, 0.01):
        not_y = TransitionMatrix.uniform(3).sample(y, seed=1)
        wrong = np.random.default_rng(101).choice(np.flatnonzero(is_held_out))
        not_y[wrong] = y[wrong]
        clf = ComplementaryClassifier(learner="network", mistakes=mistakes, random_state=1).fit(
            X, not_y
        )
        scores[mistakes] = (clf.predict(X) == y).mean()
    assert scores[0] < 0.8
    assert scores[0.01] > 0.9


def test_mistakes_are_a_share():
    with pytest.raises(InvalidInput, match="mistakes must be"):
        ComplementaryClassifier(learner="network", mistakes=0.7).fit(X, COMP_LABELS)
