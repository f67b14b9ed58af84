"""The way from anchors to a refined matrix inside the classifier."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.demo import row_error
from naysay.observations import Observations

X, y = load_digits(return_X_y=True)
Q = TransitionMatrix.with_zeros(10, seed=0)
ANCHORS = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(10)])


def classifier(**options):
    return ComplementaryClassifier(
        transition="estimate", epochs=20, batch_size=128, lr=5e-3, random_state=0, **options
    )


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))


def test_the_classifier_refines_what_the_anchors_gave(fitted):
    habit = fitted.habit_
    assert fitted.transition_ == habit.transition
    assert row_error(habit.transition, Q) < row_error(habit.from_anchors, Q) / 1.5
    assert fitted.score(X, y) > 0.9


def test_without_refining_the_matrix_is_that_of_the_anchors(fitted):
    plain = classifier(refine=False).fit(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert plain.transition_ == plain.habit_.from_anchors == fitted.habit_.from_anchors
    assert plain.habit_.uncertainty is None


def test_a_diagonal_is_estimated_where_annotators_may_err():
    wrong = TransitionMatrix(0.9 * np.asarray(Q) + 0.1 * np.eye(10), allow_diagonal=True)
    clf = classifier(allow_diagonal=True).fit(X, wrong.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert 0.03 < np.asarray(clf.transition_).diagonal().mean() < 0.2


def test_intervals_come_with_the_matrix(fitted):
    known = fitted.habit_.uncertainty
    values = np.asarray(Q)
    inside = (known.lower <= values + 0.01) & (values <= known.upper)
    assert inside.mean() > 0.85
    assert known.advice.startswith("More anchors of class")


def test_the_same_seed_gives_the_same_matrix_and_answers_may_be_several():
    answers = Observations(
        example=np.concatenate([np.arange(300), np.arange(100)]),
        label=np.concatenate([Q.sample(y[:300], seed=1), Q.sample(y[:100], seed=2)]),
    )
    found = [
        classifier(classes=range(10))
        .set_params(epochs=3)
        .fit(X[:300], answers, anchors=(X[ANCHORS], y[ANCHORS]))
        .transition_
        for _ in range(2)
    ]
    assert found[0] == found[1]


def test_a_matrix_that_was_given_leaves_no_habit():
    clf = ComplementaryClassifier(transition=Q, epochs=1, random_state=0).fit(X, Q.sample(y))
    assert clf.habit_ is None
