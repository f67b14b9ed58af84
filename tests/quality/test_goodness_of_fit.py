"""Tests whether labels can come from a matrix, by their frequencies and by predictions."""

import numpy as np
import pytest

from naysay import InvalidLabels, InvalidTransitionMatrix, TransitionMatrix
from naysay.quality import check_matrix, find_collapsed_classes


def draw(Q, n, seed, *, accuracy=0.8):
    rng = np.random.default_rng(seed)
    true = rng.choice(Q.n_classes, n, p=rng.dirichlet(np.full(Q.n_classes, 5.0)))
    others = rng.integers(Q.n_classes, size=n)
    predicted = np.where(rng.random(n) < accuracy, true, others)
    return Q.sample(true, seed=rng), predicted


MATRICES = [
    TransitionMatrix.uniform(4),
    TransitionMatrix.with_zeros(5, 2, seed=0),
    TransitionMatrix.without_zeros(10, seed=0),
]


@pytest.mark.parametrize("Q", MATRICES)
@pytest.mark.unmeasured
def test_a_right_matrix_is_refuted_in_fewer_than_one_of_twenty_cases(Q):
    refuted = [
        check_matrix(labels, Q, predictions=predicted, seed=seed).refuted
        for seed in range(40)
        for labels, predicted in [draw(Q, 60 + 10 * seed, seed)]
    ]
    assert np.mean(refuted) <= 0.05 + 1.64 * np.sqrt(0.05 * 0.95 / 40)


@pytest.mark.parametrize("Q", MATRICES[1:])
def test_labels_that_are_not_uniform_refute_the_uniform_matrix(Q):
    labels, predicted = draw(Q, 500, 1)
    found = check_matrix(labels, TransitionMatrix.uniform(Q.n_classes), predictions=predicted)
    assert found.refuted
    assert found.p_predictions < 0.001  # less than the 1/200 that simulation can show
    assert found.to_dict()["refuted"]
    assert str(found).startswith("the labels refute the transition matrix")


def test_predictions_refute_what_frequencies_do_not():
    Q = TransitionMatrix([[0, 0.9, 0.1], [0.1, 0, 0.9], [0.9, 0.1, 0]])
    true = np.arange(300) % 3
    labels = Q.sample(true, seed=0)
    assert not check_matrix(labels, TransitionMatrix.uniform(3)).refuted
    found = check_matrix(labels, TransitionMatrix.uniform(3), predictions=true)
    assert "among the examples of each predicted class" in found.reason


def test_frequencies_alone_refute_a_matrix_that_cannot_give_them():
    Q = TransitionMatrix([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    found = check_matrix([0] * 90 + [1] * 5 + [2] * 5, Q)
    assert found.refuted
    assert found.p_predictions is None
    assert "occurs (p = " in found.reason
    assert not check_matrix([0] * 40 + [1] * 35 + [2] * 25, Q).refuted


@pytest.mark.parametrize("Q", [TransitionMatrix.uniform(10), TransitionMatrix.with_zeros(4, 2)])
def test_a_million_labels_of_rare_classes_do_not_refute_a_right_matrix(Q):
    rng = np.random.default_rng(3)
    shares = np.maximum(rng.dirichlet(np.full(Q.n_classes, 0.5)), 1e-3)
    true = rng.choice(Q.n_classes, 1_000_000, p=shares / shares.sum())
    found = check_matrix(Q.sample(true, seed=1), Q, predictions=true)
    assert min(found.p_frequencies, found.p_predictions) > 0.02


def test_few_labels_for_each_cell_are_no_reason_to_refute_a_right_matrix():
    Q, true = TransitionMatrix.uniform(50), np.arange(1000) % 50
    found = [check_matrix(Q.sample(true, seed=each), Q, predictions=true) for each in range(4)]
    assert not any(each.refuted for each in found)
    assert check_matrix(Q.sample(true), Q, predictions=true, n_simulated=0).p_predictions is None


def test_a_label_that_cannot_occur_refutes_the_matrix_outright():
    Q = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])
    found = check_matrix([0, 1, 2, 1], Q)
    assert found.p_frequencies == 0
    assert "p < 1e-300" in found.reason


@pytest.mark.unmeasured
def test_samples_of_an_estimate_keep_it_from_being_refuted_by_its_own_error():
    Q = TransitionMatrix.without_zeros(5, (0.5, 0.2, 0.2, 0.1), seed=0)
    rng = np.random.default_rng(0)
    refuted = {False: 0, True: 0}
    for seed in range(20):
        counts = np.stack([rng.multinomial(20, row) for row in np.asarray(Q)]) + 0.1 * (
            1 - np.eye(5)
        )
        estimate = counts / counts.sum(axis=1, keepdims=True)
        samples = np.stack([rng.dirichlet(row + 1e-9, 100) for row in counts], axis=1)
        labels, predicted = draw(Q, 1000, seed)
        for known in refuted:
            refuted[known] += check_matrix(
                labels, estimate, predictions=predicted, Q_samples=samples if known else None
            ).refuted
    assert refuted[True] <= 2
    assert refuted[False] >= 10


def test_many_classes_are_tested_in_groups_and_more_only_by_the_bound():
    Q = TransitionMatrix.with_zeros(30, 3, seed=0)
    labels, predicted = draw(Q, 2000, 0)
    assert not check_matrix(labels, Q, predictions=predicted).refuted
    assert check_matrix(labels, TransitionMatrix.uniform(30), predictions=predicted).refuted
    many = TransitionMatrix.with_zeros(300, 3, seed=0)
    assert check_matrix(many.sample(np.arange(300)), many).p_frequencies is None


def test_predictions_of_other_examples_are_refused():
    with pytest.raises(InvalidLabels, match="one class per label"):
        check_matrix([0, 1], TransitionMatrix.uniform(3), predictions=[0])


@pytest.mark.parametrize("samples", [np.full((3, 3), 1 / 3), np.full((5, 2, 2), 0.5), "none"])
def test_samples_of_another_shape_are_refused(samples):
    Q, labels = TransitionMatrix.uniform(3), [0, 1, 2]
    rule = r"Q_samples must be at least 2 matrices, shape \(n, 3, 3\)"
    with pytest.raises(InvalidTransitionMatrix, match=rule):
        check_matrix(labels, Q, Q_samples=samples)
    with pytest.raises(InvalidTransitionMatrix, match=rule):
        find_collapsed_classes(np.eye(3), labels, Q, Q_samples=samples)
