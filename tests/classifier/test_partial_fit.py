"""partial_fit: one pass over new answers."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix


def small(**options):
    return ComplementaryClassifier(**{"random_state": 0, "lr": 0.01, "device": "cpu", **options})


@pytest.fixture(scope="module")
def stream():
    X, y = make_blobs(1200, n_features=5, centers=4, cluster_std=1.5, random_state=0)
    names = np.array(["ant", "bee", "cat", "dog"])
    return X, names[y], names[TransitionMatrix.uniform(4).sample(y, seed=0)], names.tolist()


def test_a_stream_of_answers_is_learned_batch_by_batch(stream):
    X, y, labels, names = stream
    clf = small()
    accuracies = []
    for start in range(0, 1200, 100):
        rows = slice(start, start + 100)
        clf.partial_fit(X[rows], labels[rows], classes=names if start == 0 else None)
        accuracies.append((clf.predict(X) == y).mean())
    assert accuracies[-1] > 0.9
    assert accuracies[-1] > accuracies[0]
    assert [each["epoch"] for each in clf.history_] == list(range(1, 13))
    assert clf.get_params()["epochs"] == 100  # parameters stay


def test_a_batch_need_not_name_every_class_and_parameters_of_fit_stay(stream):
    X, _, labels, names = stream
    rows = np.flatnonzero(labels != "dog")[:50]
    clf = small(classes=names, transition=TransitionMatrix.without_zeros(4, seed=0))
    clf.partial_fit(X[rows], labels[rows])
    assert clf.predict_proba(X).shape == (1200, 4)
    assert clf.transition_.distance(TransitionMatrix.without_zeros(4, seed=0)) == 0


def test_it_continues_a_fit_with_its_estimated_matrix():
    X, y = load_iris(return_X_y=True)
    labels = TransitionMatrix.uniform(3).sample(y, seed=0)
    clf = small(learner="network", transition="estimate", epochs=3)
    clf.fit(X, labels, true_labels=np.where(np.arange(150) % 5 == 0, y, -1))
    estimate, n_epochs = clf.transition_estimate_, len(clf.history_)
    clf.partial_fit(X[:40], labels[:40])
    assert clf.transition_estimate_ is estimate
    assert clf.transition_ == estimate.transition
    assert len(clf.history_) == n_epochs + 1
    assert clf.accuracy_ is None  # that of another network


def test_what_cannot_be_continued_is_refused(stream):
    X, _, labels, names = stream
    X, labels = X[:60], labels[:60]
    with pytest.raises(InvalidInput, match="first call of partial_fit needs all classes"):
        small().partial_fit(X, labels)
    with pytest.raises(InvalidInput, match="cannot estimate the matrix"):
        small(transition="estimate").partial_fit(X, labels, names)
    with pytest.raises(InvalidInput, match="needs learner='network'"):
        small(learner="trees").partial_fit(X, labels, names)
    clf = small().partial_fit(X, labels, names)
    with pytest.raises(InvalidInput, match="those of the first call"):
        clf.partial_fit(X, labels, names[::-1])
    mixed = small(learner="linear").fit(X, labels).set_params(learner="auto")
    with pytest.raises(InvalidInput, match="is a mixture of models"):
        mixed.partial_fit(X, labels)
