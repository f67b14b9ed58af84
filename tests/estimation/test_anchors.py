"""The transition matrix from anchors, their choice, and the calibration of predictions."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayError,
    NaysayWarning,
    NoAnchorPoints,
    TransitionMatrix,
    estimation,
)
from simulated import draw, error, softmax

EXACT = [
    TransitionMatrix.uniform(2),
    TransitionMatrix.uniform(10),
    TransitionMatrix.without_zeros(10, seed=2),
    TransitionMatrix.with_zeros(10, 3, seed=2),
    TransitionMatrix([[0, 0, 1], [0, 0, 1], [1, 0, 0]]),  # label 1 is never used
]


@pytest.mark.parametrize("n_anchors", [5, 10, 13])
@pytest.mark.parametrize("Q", EXACT, ids=repr)
def test_exact_anchors_return_Q_exactly(Q, n_anchors):
    labels = np.repeat(np.arange(Q.n_classes), n_anchors)
    found = estimation.from_anchors(np.asarray(Q)[labels], labels, Q.n_classes)
    np.testing.assert_allclose(np.asarray(found), np.asarray(Q), rtol=1e-14, atol=0)


def test_exact_anchors_return_a_diagonal_where_it_is_allowed():
    Q = TransitionMatrix.human("clcifar10")
    labels = np.repeat(np.arange(10), 5)
    found = estimation.from_anchors(
        np.asarray(Q)[labels], labels, 10, classes=Q.classes, allow_diagonal=True
    )
    np.testing.assert_allclose(np.asarray(found), np.asarray(Q), rtol=1e-14)
    assert found.allow_diagonal
    assert found.classes == Q.classes


def test_each_row_is_the_mean_over_its_anchors_without_diagonal_divided_by_its_sum():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=40)
    labels = np.tile(np.arange(4), 10)
    expected = []
    for label in range(4):
        row = [
            sum(p[j] for p, y in zip(probs, labels, strict=True) if y == label) / 10
            for j in range(4)
        ]
        row[label] = 0
        expected.append([entry / sum(row) for entry in row])
    found = estimation.from_anchors(probs, labels, 4)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def test_order_of_the_anchors_and_their_number_per_class_do_not_matter():
    Q = TransitionMatrix.without_zeros(5)
    labels = np.repeat(np.arange(5), [5, 9, 6, 20, 7])
    order = np.random.default_rng(0).permutation(len(labels))
    found = estimation.from_anchors(np.asarray(Q)[labels][order], labels[order], 5)
    np.testing.assert_allclose(np.asarray(found), np.asarray(Q), rtol=1e-13)


def test_anchors_can_be_named():
    Q = TransitionMatrix([[0, 0.9, 0.1], [0.4, 0, 0.6], [1, 0, 0]], ["cat", "dog", "owl"])
    labels = np.repeat(np.arange(3), 5)
    names = np.array(Q.classes)[labels]
    found = estimation.from_anchors(np.asarray(Q)[labels], names, 3, classes=Q.classes)
    np.testing.assert_allclose(np.asarray(found), np.asarray(Q), rtol=1e-14)
    assert found.classes == Q.classes


def test_a_softmax_in_single_precision_is_close_enough():
    rng = np.random.default_rng(0)
    probs = np.exp(rng.normal(size=(50, 10))).astype(np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    found = estimation.from_anchors(probs, np.repeat(np.arange(10), 5), 10)
    np.testing.assert_allclose(np.asarray(found).sum(axis=1), 1, atol=1e-12)


def test_the_estimate_approaches_Q_as_anchors_grow():
    Q = TransitionMatrix.without_zeros(10)
    rng = np.random.default_rng(0)
    errors = []
    for n_anchors in (5, 500):
        labels = np.repeat(np.arange(10), n_anchors)
        noisy = np.asarray(Q)[labels] * rng.gamma(5, 1 / 5, size=(len(labels), 10))
        noisy /= noisy.sum(axis=1, keepdims=True)
        found = estimation.from_anchors(noisy, labels, 10)
        errors.append(np.abs(np.asarray(found) - np.asarray(Q)).sum(axis=1).mean())
    assert errors[1] < errors[0] / 2


def test_the_probabilities_given_are_not_changed():
    probs = np.full((10, 2), 0.5)
    estimation.from_anchors(probs, [0, 1] * 5, 2)
    np.testing.assert_array_equal(probs, 0.5)


# --- few anchors --------------------------------------------------------------------------------


@pytest.mark.parametrize("n, noun", [(1, "1 anchor"), (3, "3 anchors")])
def test_few_anchors_are_warned_of_without_an_error_that_they_cannot_show(n, noun):
    probs = [*[[0, 0.9, 0.1]] * n, *[[0.5, 0, 0.5]] * 5, *[[1.0, 0, 0]] * 5]
    with pytest.warns(NaysayWarning, match=f"from {noun} for class 'cat', so that") as caught:
        estimation.from_anchors(
            probs, [0] * n + [1] * 5 + [2] * 5, 3, classes=["cat", "dog", "owl"]
        )
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "%" not in str(caught[0].message)  # equal predictions may all be wrong


def test_all_classes_with_few_anchors_are_named():
    probs = [*[[0, 0.9, 0.1]] * 2, *[[0.5, 0, 0.5]] * 4, *[[1.0, 0, 0]] * 5]
    with pytest.warns(NaysayWarning, match="from 2 to 4 anchors for each of 'cat', 'dog', so that"):
        estimation.from_anchors(
            probs, [0] * 2 + [1] * 4 + [2] * 5, 3, classes=["cat", "dog", "owl"]
        )


def test_five_anchors_of_each_class_are_enough_for_silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimation.from_anchors([[0, 1], [1, 0]] * 5, [0, 1] * 5, 2)


# --- what is refused ----------------------------------------------------------------------------


def test_a_class_without_anchors_is_refused_by_name():
    message = r"Every class needs at least one anchor.*None was given for 'dog', 'emu'\. Add"
    with pytest.raises(NoAnchorPoints, match=message):
        estimation.from_anchors(
            np.full((2, 4), 0.25), ["cat", "owl"], 4, classes=["cat", "dog", "owl", "emu"]
        )


def test_no_anchors_at_all_are_refused():
    with pytest.raises(NoAnchorPoints, match="None was given for '0', '1', '2'"):
        estimation.from_anchors(np.zeros((0, 3)), [], 3)


def test_anchors_that_leave_no_other_label_are_refused():
    with pytest.raises(InvalidInput, match="must leave class 'dog' some other label"):
        estimation.from_anchors([[0, 1], [0, 1]] * 5, [0, 1] * 5, 2, classes=["cat", "dog"])


@pytest.mark.parametrize(
    "probs, message",
    [
        ([[0.5, 0.5, 0.0]], r"one column per class, shape \(n, 2\)\. Got shape \(1, 3\)"),
        ([0.5, 0.5], r"Got shape \(2,\)"),
        ([[3.0, -2.0]], "finite and not negative: probabilities, not logits"),
        ([[np.nan, 1.0]], "finite and not negative"),
        ([[np.inf, 0.0]], "finite and not negative"),
        ([[0.5, 0.5], [2.0, 1.0]], "row 1 sums to 3. For logits apply a softmax first"),
        ("probabilities", "comp_probs must be an array of numbers"),
        ([[0.5], [0.5, 0.5]], "comp_probs must be an array of numbers"),
    ],
)
def test_predictions_that_are_no_probabilities_are_refused(probs, message):
    with pytest.raises(InvalidInput, match=message):
        estimation.from_anchors(probs, [0] * len(probs), 2)


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 2], r"anchor_labels must be integers 0\.\.1\. Got 2"),
        ([0.0, 1.0], r"anchor_labels must be integers 0\.\.1 or class names\. Got float64"),
        ([0, 1, 1], r"one label per row of comp_probs, shape \(2,\)\. Got shape \(3,\)"),
        ([[0], [1]], r"shape \(2,\)\. Got shape \(2, 1\)"),
        (["cat", "emu"], "anchor_labels must name the classes"),
    ],
)
def test_anchor_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(InvalidLabels, match=message):
        estimation.from_anchors([[0, 1], [1, 0]], labels, 2)


def test_a_number_of_classes_or_names_that_cannot_be_are_refused():
    with pytest.raises(InvalidInput, match="n_classes must be an integer of at least 2"):
        estimation.from_anchors([[1.0]], [0], 1)
    with pytest.raises(InvalidTransitionMatrix, match="2 classes of Q once"):
        estimation.from_anchors([[0, 1], [1, 0]], [0, 1], 2, classes=["cat"])


@pytest.mark.unmeasured
@settings(max_examples=100)
@given(
    probs=hnp.arrays(
        np.float64, st.tuples(st.integers(0, 6), st.integers(1, 3)), elements=st.floats(-1, 2)
    ),
    labels=st.lists(st.integers(-1, 3), max_size=6),
    normalise=st.booleans(),
    allow_diagonal=st.booleans(),
)
@pytest.mark.filterwarnings("ignore::naysay.NaysayWarning")  # few anchors are tested above
def test_property_any_anchors_give_a_matrix_or_a_clear_refusal(
    probs, labels, normalise, allow_diagonal
):
    if normalise:
        probs = np.abs(probs) + 1e-3
        probs /= probs.sum(axis=1, keepdims=True)
        labels = (labels * 6)[: len(probs)]
    try:
        Q = estimation.from_anchors(probs, labels, 2, allow_diagonal=allow_diagonal)
    except NaysayError:
        return
    np.testing.assert_allclose(np.asarray(Q).sum(axis=1), 1)


# --- calibration --------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_a_model_is_recovered(temperature):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 5)) * 2
    probs = softmax(logits)
    labels = np.array([rng.choice(5, p=p) for p in probs])
    assert estimation.calibrate(logits * temperature, labels) == pytest.approx(temperature, rel=0.1)


def test_calibration_stays_at_one_without_evidence_and_takes_zeros():
    assert estimation.calibrate(np.log([[0.6, 0.4], [0.3, 0.7]]), [0, 0]) == 1
    with np.errstate(divide="ignore"):
        one_hot = np.log(np.eye(2)[[0, 1] * 50])
    assert estimation.calibrate(one_hot, [0, 1] * 45 + [1, 0] * 5) == pytest.approx(
        10, rel=0.01
    )  # wrong with probability 1: the largest temperature


def test_very_many_examples_give_the_temperature_of_some_of_them():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(150_000, 3)).astype(np.float32)
    labels = (softmax(logits).cumsum(axis=1) > rng.random((150_000, 1))).argmax(axis=1)
    found = estimation.calibrate(2 * logits, labels)
    assert found == estimation.calibrate(2 * logits[::3], labels[::3])
    assert found == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    "scores, labels, kind, wording",
    [
        ([[0.0, np.nan]], [0], InvalidInput, "none of them NaN"),
        ([[0.0, 1.0], [-np.inf, -np.inf]], [0, 1], InvalidInput, "a finite one in every row"),
        ([0.0, 1.0], [0], InvalidInput, r"Got shape \(2,\)"),
        ([[0.0, 1.0]], [0, 1], InvalidLabels, "one label per row"),
        ([[0.0, 1.0]], [2], InvalidLabels, r"integers 0\.\.1"),
    ],
)
def test_calibration_refuses_what_does_not_fit(scores, labels, kind, wording):
    with pytest.raises(kind, match=wording):
        estimation.calibrate(scores, labels)


# --- the choice of anchors ----------------------------------------------------------------------


def test_chosen_anchors_give_a_better_matrix():
    Q = TransitionMatrix.without_zeros(5, (0.7, 0.3))
    gains = []
    for seed in range(5):
        probs, _, labels = draw(Q, 1000, sharpness=2, seed=seed)
        comp_probs = probs @ np.asarray(Q)
        chosen = estimation.choose_anchors(comp_probs, labels, 10)
        assert (np.bincount(labels[chosen]) == 10).all()
        best = estimation.from_anchors(comp_probs[chosen], labels[chosen], 5)
        gains.append(error(estimation.from_anchors(comp_probs, labels, 5), Q) - error(best, Q))
    assert np.mean(gains) > 0.05


def test_anchors_are_all_taken_where_there_are_few_and_misfits_refused():
    assert estimation.choose_anchors(np.full((3, 2), 0.5), [0, 1, 1], 5).tolist() == [0, 1, 2]
    with pytest.raises(InvalidLabels, match="one label per row"):
        estimation.choose_anchors(np.full((3, 2), 0.5), [0, 1])
    with pytest.raises(InvalidInput, match="n_per_class"):
        estimation.choose_anchors(np.full((2, 2), 0.5), [0, 1], 0)
