"""Scores that need no true label."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    TransitionMatrix,
    functional,
    metrics,
)

MATRICES = [
    TransitionMatrix.uniform(2),
    TransitionMatrix.uniform(10),
    TransitionMatrix.without_zeros(10),
    TransitionMatrix.with_zeros(10),
    TransitionMatrix.human("clcifar20"),
]


def log_softmax(n, n_classes, seed=0):
    logits = np.random.default_rng(seed).normal(scale=3, size=(n, n_classes))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("Q", MATRICES, ids=repr)
def test_log_likelihood_is_that_of_a_plain_loop(Q):
    log_probs = log_softmax(30, Q.n_classes)
    labels = Q.sample(np.arange(30) % Q.n_classes)
    values = np.asarray(Q)
    expected = math.fsum(
        math.log(math.fsum(values[k, label] * math.exp(row[k]) for k in range(Q.n_classes)))
        for row, label in zip(log_probs, labels, strict=True)
    )
    assert metrics.log_likelihood(log_probs, labels, Q) == pytest.approx(expected / 30, rel=1e-12)
    assert metrics.log_likelihood(log_probs, labels, values) == pytest.approx(expected / 30)


@pytest.mark.parametrize("Q", MATRICES, ids=repr)
def test_log_likelihood_is_the_negative_of_the_forward_loss(Q):
    log_probs = log_softmax(30, Q.n_classes, seed=1)
    labels = Q.sample(np.arange(30) % Q.n_classes)
    loss = functional.forward_cross_entropy(
        torch.from_numpy(log_probs), torch.from_numpy(labels), Q
    )
    assert metrics.log_likelihood(log_probs, labels, Q) == pytest.approx(-loss.item(), rel=1e-12)


def test_log_likelihood_holds_where_probabilities_underflow():
    log_probs = np.array([[0.0, -1000.0, -1001.0]])
    found = metrics.log_likelihood(log_probs, [0], TransitionMatrix.uniform(3))
    assert found == pytest.approx(-1000 + math.log1p(math.exp(-1)) - math.log(2))


def test_log_likelihood_of_what_a_model_excludes_is_minus_infinity():
    log_probs = [[0.0, -np.inf, -np.inf]]
    assert metrics.log_likelihood(log_probs, [0], TransitionMatrix.uniform(3)) == -np.inf


def test_the_true_probabilities_have_the_greatest_expected_log_likelihood():
    Q = TransitionMatrix.without_zeros(4)
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(4))
    given_probs = truth @ np.asarray(Q)

    def expected(probs):
        rows = np.tile(np.log(probs), (4, 1))
        each = [metrics.log_likelihood(rows[[j]], [j], Q) for j in range(4)]
        return given_probs @ each

    best = expected(truth)
    assert all(expected(rng.dirichlet(np.ones(4))) < best for _ in range(50))


def test_names_of_the_classes_of_a_matrix_do_not_matter_to_indices():
    Q = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]], ["cat", "dog", "owl"])
    log_probs = log_softmax(3, 3)
    assert metrics.log_likelihood(log_probs, [0, 1, 2], Q) == metrics.log_likelihood(
        log_probs, [0, 1, 2], np.asarray(Q)
    )


@pytest.mark.parametrize(
    "log_probs, message",
    [
        ([[0.2, 0.3, 0.5]], r"logarithms of probabilities, shape \(n, 3\)\..*largest value 0\.5"),
        ([[np.nan, -1.0, -1.0]], "must be logarithms of probabilities"),
        ([[-1.0, -1.0]], r"Got shape \(1, 2\)"),
        ([-1.0, -1.0, -1.0], r"Got shape \(3,\)"),
        ("log", "must be logarithms of probabilities"),
        ([[-1.0], [-1.0, 2.0]], "must be logarithms of probabilities"),
    ],
)
def test_predictions_that_are_no_log_probabilities_are_refused(log_probs, message):
    with pytest.raises(InvalidInput, match=message):
        metrics.log_likelihood(log_probs, [0], TransitionMatrix.uniform(3))


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 1], r"one label per row of log_probs, shape \(1,\).*Got shape \(2,\)"),
        ([[0]], r"Got shape \(1, 1\)"),
        ([], r"Got shape \(0,\)"),
        ([3], r"comp_labels must be integers 0\.\.2\. Got 3"),
        ([-100], "Got -100"),
        ([0.5], "Got float64"),
        ([np.nan], "Got float64"),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(InvalidLabels, match=message):
        metrics.log_likelihood(log_softmax(1, 3), labels, TransitionMatrix.uniform(3))


def test_the_mean_over_no_examples_is_refused():
    with pytest.raises(InvalidLabels, match="and at least one"):
        metrics.log_likelihood(np.zeros((0, 3)), [], TransitionMatrix.uniform(3))


def test_a_label_that_cannot_occur_is_refused_with_its_count():
    Q = [[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]]
    message = r"contains class 2, but Q\[:, 2\] is all zero.*drop the 2 rows"
    with pytest.raises(InvalidLabels, match=message):
        metrics.log_likelihood(log_softmax(4, 3), [0, 2, 1, 2], Q)


@pytest.mark.parametrize(
    "Q, message",
    [
        ([[0, 0.7, 0.2], [0.4, 0, 0.8], [0.6, 0.3, 0]], "looks transposed"),
        ([[np.nan, 1], [1, 0]], "must have finite entries"),
        ([0.5, 0.5], r"Got shape \(2,\)"),
        (None, r"Got shape \(\)"),
        ([[0, 0.5, 0.5], [1, 0, 0]], "must be square"),
    ],
)
def test_a_matrix_that_is_none_is_refused(Q, message):
    with pytest.raises(InvalidTransitionMatrix, match=message):
        metrics.log_likelihood(log_softmax(1, 3), [0], Q)


def test_the_scorer_scores_a_classifier_by_its_own_classes_and_matrix():
    Q = TransitionMatrix.without_zeros(4)
    log_probs = log_softmax(8, 4)
    indices = Q.sample(np.arange(8) % 4)
    classes = np.array(["emu", "cat", "owl", "dog"])
    classifier = SimpleNamespace(
        classes_=classes, transition_=Q, predict_log_proba=lambda X: log_probs[X]
    )
    found = metrics.log_likelihood_scorer(classifier, np.arange(8), classes[indices])
    assert found == metrics.log_likelihood(log_probs, indices, Q)


@settings(max_examples=100)
@given(
    log_probs=hnp.arrays(
        np.float64, (2, 3), elements=st.floats(-1e6, 0.0) | st.sampled_from([-np.inf, np.nan, 1.0])
    ),
    labels=st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_property_log_likelihood_is_a_number_or_input_is_refused(log_probs, labels):
    if (log_probs <= 0).all():
        assert metrics.log_likelihood(log_probs, labels, TransitionMatrix.uniform(3)) <= 0
    else:
        with pytest.raises(InvalidInput, match="must be logarithms of probabilities"):
            metrics.log_likelihood(log_probs, labels, TransitionMatrix.uniform(3))
