"""A class that died in training comes back when training starts again."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix
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
        ComplementaryClassifier(**options, restarts=n, random_state=0).fit(X, COMP_LABELS)
        for n in range(3)
    ]
    losses = [min(r["held_out_loss"] for r in clf.history_) for clf in tries]
    assert losses == sorted(losses, reverse=True)


def test_several_answers_or_nothing_held_out_are_trained_once():
    ruled_out = np.zeros((len(X), 4), dtype=bool)
    ruled_out[np.arange(len(X)), COMP_LABELS] = True
    ruled_out[::2, (COMP_LABELS[::2] + 1) % 4] |= y[::2] != (COMP_LABELS[::2] + 1) % 4
    make, made = first_is_deaf()
    ComplementaryClassifier(network=make, restarts=2, epochs=2, random_state=0).fit(X, ruled_out)
    assert len(made) == 1
    make, made = first_is_deaf()
    ComplementaryClassifier(
        transition=Q, network=make, restarts=2, epochs=2, validation_fraction=0
    ).fit(X, COMP_LABELS)
    assert len(made) == 1


def test_restarts_must_be_a_count():
    with pytest.raises(InvalidInput, match="restarts"):
        fit(-1)
