"""Complementary labels drawn from a matrix, of few classes and of many."""

import math
import tracemalloc

import numpy as np
import pytest

from naysay import (
    InvalidLabels,
    TransitionMatrix,
)

ANIMALS = ["cat", "dog", "owl"]
VALUES = [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]


# --- sampling -----------------------------------------------------------------------------------


def dense_with_tiny_probabilities():
    values = np.full((4, 4), 1e-9)
    values[:, 0] = 0
    values[:, 2] = 1 - values[:, [1, 3]].sum(axis=1)
    return TransitionMatrix(values, allow_diagonal=True)


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(2),
        TransitionMatrix.uniform(10),
        TransitionMatrix.without_zeros(10),
        TransitionMatrix.with_zeros(10),
        TransitionMatrix.with_zeros(1500, 4),
        TransitionMatrix.human("clcifar10"),
        dense_with_tiny_probabilities(),
    ],
    ids=repr,
)
def test_sample_then_count_recovers_Q_within_a_binomial_bound(Q):
    n = 20_000
    values = np.asarray(Q)
    for label in (0, Q.n_classes // 2, Q.n_classes - 1):
        drawn = Q.sample(np.full(n, label), seed=5)
        counts = np.bincount(drawn, minlength=Q.n_classes)
        p = values[label]
        bound = 5 * np.sqrt(n * p * (1 - p)) + 1
        assert (np.abs(counts - n * p) <= bound).all()
        assert counts[p == 0].sum() == 0


def test_sampling_all_classes_at_once_passes_a_chi_square_test():
    Q = TransitionMatrix.without_zeros(10, seed=1)
    labels = np.tile(np.arange(10), 20_000)
    drawn = Q.sample(labels, seed=2)
    counts = np.zeros((10, 10))
    np.add.at(counts, (labels, drawn), 1)
    expected = 20_000 * np.asarray(Q)
    used = expected > 0
    chi_square = ((counts - expected)[used] ** 2 / expected[used]).sum()
    freedom = 10 * 8
    assert abs(chi_square - freedom) < 4 * math.sqrt(2 * freedom)
    assert counts[~used].sum() == 0


def test_impossible_labels_are_never_drawn_even_with_rows_that_fall_short_of_one():
    values = np.array([[0, 1 - 9e-7, 0, 0], [0.5, 0, 0.5, 0], [0, 1, 0, 0], [0, 0, 1 + 9e-7, 0]])
    Q = TransitionMatrix(values)
    labels = np.tile(np.arange(4), 50_000)
    drawn = Q.sample(labels, seed=0)
    assert (values[labels, drawn] > 0).all()


@pytest.mark.parametrize("u", [0.0, np.nextafter(1.0, 0.0)])
@pytest.mark.parametrize("n_classes", [3, 1500])
def test_the_ends_of_the_unit_interval_draw_possible_labels(u, n_classes):
    class Fixed(np.random.Generator):
        def random(self, size):
            return np.full(size, u)

    Q = TransitionMatrix.with_zeros(n_classes, 2)
    labels = np.arange(n_classes)
    drawn = Q.sample(labels, seed=Fixed(np.random.PCG64(0)))
    assert (np.asarray(Q)[labels, drawn] > 0).all()


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 0, 4), (0,)])
@pytest.mark.parametrize("Q", [TransitionMatrix.uniform(3), TransitionMatrix(VALUES)])
def test_samples_have_the_shape_of_the_labels(Q, shape):
    drawn = Q.sample(np.zeros(shape, dtype=int))
    assert drawn.shape == shape
    assert drawn.dtype == np.int64


def test_no_labels_give_no_samples_whatever_their_kind():
    Q = TransitionMatrix(VALUES, ANIMALS)
    assert Q.sample([]).shape == (0,)
    assert Q.sample(np.array([], dtype=str)).dtype.kind == "U"
    assert Q.sample(np.array([], dtype=bool)).shape == (0,)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64])
def test_labels_of_any_integer_kind_are_taken(dtype):
    Q = TransitionMatrix(VALUES)
    labels = np.array([0, 1, 2, 2])
    np.testing.assert_array_equal(Q.sample(labels.astype(dtype)), Q.sample(labels))


def test_labels_given_by_name_give_names():
    Q = TransitionMatrix(VALUES, ANIMALS)
    indices = np.tile([0, 1, 2], 50)
    by_name = Q.sample(np.array(ANIMALS)[indices], seed=9)
    np.testing.assert_array_equal(by_name, np.array(ANIMALS)[Q.sample(indices, seed=9)])
    assert Q.sample(np.array(["owl"], dtype=object)).tolist() == ["cat"]
    assert Q.sample(np.array([b"owl"])).tolist() == ["cat"]


def test_sampling_is_repeatable_by_seed_or_generator():
    Q = TransitionMatrix.without_zeros(10)
    labels = np.arange(10).repeat(10)
    np.testing.assert_array_equal(Q.sample(labels, seed=4), Q.sample(labels, seed=4))
    assert (Q.sample(labels, seed=4) != Q.sample(labels, seed=5)).any()
    generator = np.random.default_rng(4)
    np.testing.assert_array_equal(Q.sample(labels, seed=generator), Q.sample(labels, seed=4))
    assert (Q.sample(labels, seed=generator) != Q.sample(labels, seed=4)).any()


def test_sampling_a_generator_leaves_the_labels_alone():
    labels = np.array([0, 1, 2])
    TransitionMatrix(VALUES).sample(labels)
    assert labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0.0, 1.0], r"integers 0\.\.2 or class names\. Got float64 of shape \(2,\)\. Whole"),
        ([float("nan")], "Got float64 of shape"),
        ([True], "Got bool of shape"),
        ([0, 3, 5], r"integers 0\.\.2\. Got 3, and 2 of 3 labels are out of range"),
        ([-1], "Got -1, and 1 of 1 labels are out of range"),
        (["cat", "emu"], "labels must name the classes 'cat', 'dog', 'owl'. Got 'emu'"),
        ([None], "Got 'None'"),
        ([10**30], "labels must name the classes"),
        ([[0], [0, 1]], "labels must be an array of integers"),
        (np.array([b"\xff"]), "labels must name the classes"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels, message):
    with pytest.raises(InvalidLabels, match=message):
        TransitionMatrix(VALUES, ANIMALS).sample(labels)


# --- many classes -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "five labels per row"])
def test_100000_classes_are_made_sampled_and_diagnosed_without_a_full_array(kind):
    n_classes = 100_000
    tracemalloc.start()
    try:
        Q = (
            TransitionMatrix.uniform(n_classes)
            if kind == "uniform"
            else TransitionMatrix.with_zeros(n_classes, 5)
        )
        labels = np.arange(n_classes)
        drawn = Q.sample(labels)
        diagnosis = Q.diagnose()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200e6  # a full array would take 80e9
    assert (drawn != labels).all()
    assert diagnosis.unused_labels == ()
    assert 0 < diagnosis.bits_per_label < math.log2(n_classes)
