"""Accuracy estimated from complementary labels alone is right on average."""

import numpy as np
import pytest
import torch

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.classifier.targets import Targets
from naysay.classifier.trainer import accuracy_measure
from naysay.losses import ForwardCrossEntropy

N = 4000


def measure_of(Q, values=None):
    labels = np.zeros(1, dtype=np.int64) if values is None else values
    targets = Targets(np.arange(len(labels)), labels, None, ForwardCrossEntropy(Q))
    return accuracy_measure(Q, targets)


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(4),
        TransitionMatrix.without_zeros(4, seed=1),
        TransitionMatrix.with_zeros(6, seed=0),
    ],
    ids=["uniform", "without zeros", "with zeros"],
)
@pytest.mark.parametrize("share_right", [0.2, 0.9])
def test_the_mean_of_many_estimates_is_the_accuracy(Q, share_right):
    rng = np.random.default_rng(0)
    true = rng.integers(Q.n_classes, size=N)
    is_wrong = rng.random(N) > share_right
    predicted = (true + is_wrong * rng.integers(1, Q.n_classes, size=N)) % Q.n_classes
    logits = 5 * torch.eye(Q.n_classes)[predicted]
    measure = measure_of(Q)
    estimates = []
    for _ in range(40):
        labels = torch.from_numpy(Q.sample(true, seed=rng))
        estimates.append(measure(logits, labels)["held_out_accuracy"])
    error = np.mean(estimates) - (predicted == true).mean()
    assert abs(error) < 4 * np.std(estimates) / 40**0.5
    assert np.std(estimates) < 0.1  # else nothing was tested


def test_nothing_is_measured_where_the_matrix_or_the_labels_do_not_allow_it():
    logits, labels = torch.zeros(3, 3), torch.zeros(3, dtype=torch.int64)
    singular = TransitionMatrix([[0, 0.5, 0.5], [1, 0, 0], [1, 0, 0]])
    assert measure_of(singular)(logits, labels) == {}
    several = np.zeros((3, 3), dtype=bool)
    assert measure_of(TransitionMatrix.uniform(3), several)(logits, labels) == {}
    assert measure_of(TransitionMatrix.uniform(1001))(logits, labels) == {}


def test_a_classifier_records_it():
    rng = np.random.default_rng(0)
    true = rng.integers(3, size=3000)
    X = 4 * np.eye(3)[true] + rng.normal(size=(3000, 3))
    Q = TransitionMatrix.without_zeros(3, (0.7, 0.3), seed=0)
    clf = ComplementaryClassifier(
        learner="network",
        transition=Q,
        epochs=10,
        batch_size=128,
        validation_fraction=0.5,
        random_state=0,
    ).fit(X, Q.sample(true, seed=0))
    estimate = clf.history_[-1]["held_out_accuracy"]
    assert estimate == pytest.approx((clf.predict(X) == true).mean(), abs=0.1)
    assert (clf.predict(X) == true).mean() > 0.9
