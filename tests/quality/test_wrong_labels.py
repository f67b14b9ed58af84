"""Wrong labels, found in simulations whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    TransitionMatrix,
    quality,
)
from simulated import ANIMALS, animals, draw


def test_the_probability_of_a_wrong_label_is_that_of_a_plain_loop():
    Q = animals(mistakes=0.1)
    probs, labels, _ = draw(Q, 50, sharpness=2)
    values = np.asarray(Q)
    expected = [
        values[j, j] * p[j] / sum(values[k, j] * p[k] for k in range(6))
        for p, j in zip(probs, labels, strict=True)
    ]
    found = quality.find_wrong_labels(probs, labels, Q)
    assert found.probabilities == pytest.approx(sorted(expected, reverse=True))
    assert 1 - found.weights == pytest.approx(expected)
    assert found.keep.tolist() == [p < 0.5 for p in expected]
    assert (labels[found.indices] == found.labels).all()
    again = quality.find_wrong_labels(probs.astype(np.float32), np.array(ANIMALS)[labels], Q)
    assert again.probabilities == pytest.approx(found.probabilities, abs=1e-5)


def test_wrong_labels_come_first_and_their_probabilities_are_calibrated():
    Q = animals(mistakes=0.1)
    probs, labels, true = draw(Q, 40_000, sharpness=4, seed=1)
    found = quality.find_wrong_labels(probs, labels, Q)
    is_wrong = labels == true
    assert found.n_expected == pytest.approx(is_wrong.sum(), rel=0.05)
    assert found.precision_at(is_wrong, 2000) > 0.95
    assert found.recall_at(is_wrong, 4000) > 0.85
    assert found.recall_at(is_wrong, 40_000) == 1
    middle = (found.probabilities > 0.2) & (found.probabilities < 0.8)
    assert middle.sum() > 150
    share = is_wrong[found.indices[middle]].mean()
    assert share == pytest.approx(found.probabilities[middle].mean(), abs=0.08)


@given(seed=st.integers(0, 10_000), mistakes=st.floats(0.001, 0.9))
@settings(max_examples=30, deadline=None)
def test_property_probabilities_are_ordered_and_between_0_and_1(seed, mistakes):
    Q = animals(mistakes=mistakes)
    probs, labels, _ = draw(Q, 20, sharpness=20, seed=seed)
    found = quality.find_wrong_labels(probs, labels, Q)
    assert (found.probabilities >= 0).all()
    assert (found.probabilities <= 1).all()
    assert (np.diff(found.probabilities) <= 0).all()
    assert sorted(found.indices.tolist()) == list(range(20))


def test_wrong_labels_read_well():
    Q = animals(3, mistakes=0.1)
    found = quality.find_wrong_labels([[0.1, 0.8, 0.1], [0.98, 0.01, 0.01]], [0, 0], Q)
    assert str(found).splitlines()[0] == (
        "1 of 2 labels are more likely wrong than right (1 wrong ones expected)."
    )
    assert "example 1: 'not ape' is wrong with probability 0.8" in str(found)


def test_a_label_with_probability_zero_under_the_model_is_not_suspect():
    Q = TransitionMatrix([[0.1, 0.9, 0], [0.5, 0, 0.5], [1, 0, 0]], allow_diagonal=True)
    found = quality.find_wrong_labels([[0, 1.0, 0], [1.0, 0, 0]], [1, 0], Q)
    assert found.indices.tolist() == [1, 0]
    assert found.probabilities.tolist() == [1, 0]


def test_a_zero_diagonal_and_a_truth_that_does_not_fit_are_refused():
    Q = animals()
    probs, labels, true = draw(Q, 20, sharpness=2)
    with pytest.raises(InvalidTransitionMatrix, match="allow_diagonal=True"):
        quality.find_wrong_labels(probs, labels, Q)
    found = quality.find_wrong_labels(probs, labels, animals(mistakes=0.1))
    with pytest.raises(InvalidLabels, match="is_wrong must be a boolean array"):
        found.precision_at(true, 5)
    with pytest.raises(InvalidInput, match="n must be an integer of at least 1"):
        found.precision_at(labels == true, 0)


@pytest.mark.parametrize(
    "probs, labels, error, message",
    [
        (np.eye(6)[:2] * 2, [0, 1], InvalidInput, "row 0 sums to 2"),
        (np.eye(6)[0], [0], InvalidInput, r"shape \(n, 6\)\. Got shape \(6,\)"),
        (np.eye(5), [0], InvalidInput, r"shape \(n, 6\)"),
        ("many", [0], InvalidInput, "probs must be an array"),
        (np.eye(6), [0, 1], InvalidLabels, "one label per row of probs"),
        (np.zeros((0, 6)), [], InvalidLabels, "at least one"),
        (np.eye(6)[:1], [9], InvalidLabels, r"integers 0\.\.5"),
    ],
)
def test_input_that_does_not_fit_is_refused(probs, labels, error, message):
    with pytest.raises(error, match=message):
        quality.find_wrong_labels(probs, labels, animals(mistakes=0.05))


def test_the_row_that_is_no_distribution_is_named_far_down_too():
    probs = np.full((400_000, 6), 1 / 6, dtype=np.float32)
    probs[390_000] *= 2
    with pytest.raises(InvalidInput, match="row 390000 sums to 2"):
        quality.find_wrong_labels(probs, np.zeros(400_000, int), animals(mistakes=0.05))
