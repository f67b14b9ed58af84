"""The matrices of the paper, and those published of people."""

import math

import numpy as np
import pytest

from naysay import (
    InvalidInput,
    TransitionMatrix,
)
from places import SHARED

SHARED_DATA = SHARED / "data"


# --- the paper's settings -----------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_uniform_gives_every_other_class_the_same_probability(n_classes):
    expected = (np.ones((n_classes, n_classes)) - np.eye(n_classes)) / (n_classes - 1)
    np.testing.assert_array_equal(np.asarray(TransitionMatrix.uniform(n_classes)), expected)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 300])
def test_dense_uniform_values_are_recognised_as_uniform(n_classes):
    uniform = TransitionMatrix.uniform(n_classes)
    dense = TransitionMatrix(np.asarray(uniform))
    assert dense.is_uniform
    assert dense == uniform
    assert not TransitionMatrix(np.full((3, 3), 1 / 3), allow_diagonal=True).is_uniform
    assert not TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]).is_uniform


@pytest.mark.parametrize(
    "n_classes, message",
    [
        (1, "at least 2: one class leaves nothing to exclude"),
        (-3, "at least 2"),
        (2.0, "must be an integer"),
        (True, "must be an integer"),
        ("10", "must be an integer"),
    ],
)
@pytest.mark.parametrize("make", ["uniform", "without_zeros", "with_zeros"])
def test_the_number_of_classes_must_be_an_integer_above_one(make, n_classes, message):
    with pytest.raises(InvalidInput, match=message):
        getattr(TransitionMatrix, make)(n_classes)


@pytest.mark.parametrize("n_classes", [4, 10, 100])
@pytest.mark.parametrize("seed", range(5))
def test_without_zeros_splits_the_other_classes_into_equal_groups(n_classes, seed):
    values = np.asarray(TransitionMatrix.without_zeros(n_classes, seed=seed))
    size = (n_classes - 1) // 3
    row = np.repeat([0.0, 0.1 / size, 0.3 / size, 0.6 / size], [1, size, size, size])
    np.testing.assert_allclose(np.sort(values, axis=1), np.tile(row, (n_classes, 1)))
    np.testing.assert_array_equal(np.diag(values), 0)


def test_without_zeros_makes_groups_as_equal_as_the_number_allows():
    values = np.asarray(TransitionMatrix.without_zeros(6, shares=(0.5, 0.5)))
    for row in values:
        found, counts = np.unique(row[row > 0], return_counts=True)
        np.testing.assert_allclose(found * counts, 0.5)
        assert sorted(counts) == [2, 3]


def test_without_zeros_takes_any_shares():
    values = np.asarray(TransitionMatrix.without_zeros(3, shares=(0.75, 0.25)))
    np.testing.assert_allclose(np.sort(values, axis=1), np.tile([0, 0.25, 0.75], (3, 1)))
    assert TransitionMatrix.without_zeros(2, shares=(1.0,)).is_uniform


def test_without_zeros_rows_differ_in_their_order():
    values = np.asarray(TransitionMatrix.without_zeros(10))
    likeliest = {tuple(np.flatnonzero(np.delete(row, i) > 0.15)) for i, row in enumerate(values)}
    assert len(likeliest) > 5


@pytest.mark.parametrize(
    "shares, message",
    [
        ((0.5, 0.4), "shares must be positive and sum to 1"),
        ((1.5, -0.5), "shares must be positive and sum to 1"),
        ((1.0, 0.0), "shares must be positive and sum to 1"),
        ((), "shares must be positive and sum to 1"),
        ((float("nan"), 0.5), "shares must be positive and sum to 1"),
        (((0.5, 0.5),), "shares must be positive and sum to 1"),
        ((0.25,) * 4, "at most one per other class: 4 classes allow 3. Got 4"),
        (("most", "few"), "shares must be a list of numbers"),
    ],
)
def test_shares_must_be_positive_and_sum_to_one(shares, message):
    with pytest.raises(InvalidInput, match=message):
        TransitionMatrix.without_zeros(4, shares)


@pytest.mark.parametrize(
    "n_classes, n_labels", [(2, 1), (3, 1), (3, 2), (4, 3), (10, 1), (10, 3), (10, 9), (50, 3)]
)
def test_with_zeros_has_so_many_labels_per_row_and_no_unused_label(n_classes, n_labels):
    for seed in range(40):
        values = np.asarray(TransitionMatrix.with_zeros(n_classes, n_labels, seed=seed))
        np.testing.assert_array_equal((values > 0).sum(axis=1), n_labels)
        assert (values > 0).any(axis=0).all()
        np.testing.assert_array_equal(np.diag(values), 0)
        np.testing.assert_allclose(values.sum(axis=1), 1)


def test_with_zeros_probabilities_are_uniform_on_the_simplex():
    # of a point uniform on the simplex with 2 corners, each coordinate is uniform on [0, 1]
    first = TransitionMatrix.with_zeros(20_000, 2).entries.data[::2]
    grid = np.linspace(0, 1, 21)
    distance = np.abs(np.quantile(first, grid) - grid).max()
    assert distance < 1.95 / math.sqrt(20_000)  # Kolmogorov, p = 0.001


def test_with_zeros_names_every_label_about_equally_often():
    entries = TransitionMatrix.with_zeros(2000, 5).entries
    counts = np.bincount(entries.indices, minlength=2000)
    # one required label, four free ones: 1 + about Poisson(4)
    assert counts.mean() == 5
    assert abs(counts.var() - 4) < 6 * 4 * math.sqrt(2 / 2000)


@pytest.mark.parametrize("n_labels", [0, -1, 10, 2.5, "3", True])
def test_labels_per_row_must_be_between_one_and_the_other_classes(n_labels):
    with pytest.raises(InvalidInput, match="n_labels must be"):
        TransitionMatrix.with_zeros(10, n_labels)


@pytest.mark.parametrize("make", [TransitionMatrix.without_zeros, TransitionMatrix.with_zeros])
def test_settings_are_repeatable_by_seed_or_generator(make):
    assert make(10, seed=3) == make(10, seed=3)
    assert make(10, seed=3) != make(10, seed=4)
    assert make(10) == make(10, seed=0)
    assert make(10, seed=np.random.default_rng(3)) == make(10, seed=3)
    rng = np.random.default_rng(3)
    assert make(10, seed=rng) != make(10, seed=rng)


@pytest.mark.parametrize("seed", [-1, "seven", 0.5])
def test_a_seed_must_be_an_integer_or_generator(seed):
    message = "seed must be an integer of at least 0 or a numpy.random.Generator. Got"
    for call in (
        lambda: TransitionMatrix.without_zeros(5, seed=seed),
        lambda: TransitionMatrix.with_zeros(5, seed=seed),
        lambda: TransitionMatrix.uniform(5).sample([1], seed=seed),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()


# --- published human matrices -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, first_row",
    [
        ("clcifar10", [0.05, 0.08, 0.09, 0.13, 0.12, 0.13, 0.12, 0.12, 0.07, 0.09]),
        (
            "clcifar10-early",
            [0.0576, 0.077, 0.0898, 0.1186, 0.106, 0.1302, 0.1198, 0.1254, 0.0858, 0.0898],
        ),
        (
            "clcifar10-released",
            [0.0475, 0.0791, 0.0915, 0.1287, 0.1193, 0.1259, 0.1215, 0.1235, 0.0738, 0.0893],
        ),
        ("clcifar20", [0.0268, 0.0353, 0.0837, 0.0709, 0.0692, 0.0568, 0.0752, 0.0423]),
    ],
)
def test_human_matrices_hold_the_published_values_up_to_rounding(name, first_row):
    Q = TransitionMatrix.human(name)
    values = np.asarray(Q)
    assert Q.has_names
    assert Q.allow_diagonal
    assert (np.diag(values) > 0).all()
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-12)
    published = np.array(first_row)
    ratio = values[0, : len(published)] / published
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert abs(ratio[0] - 1) < 0.02


@pytest.mark.parametrize(
    "name, file",
    [
        ("clcifar10", "human-clcifar10-final-2dp.csv"),
        ("clcifar10-early", "human-clcifar10-early-4dp.csv"),
        ("clcifar10-released", "habits/human-clcifar10-released-4dp.csv"),
        ("clcifar20", "human-clcifar20-4dp.csv"),
    ],
)
@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="needs the shared data beside the checkout")
def test_human_matrices_equal_the_shared_files_after_row_normalisation(name, file):
    published = np.loadtxt(SHARED_DATA / file, delimiter=",")
    expected = published / published.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(TransitionMatrix.human(name)), expected, rtol=1e-14)


def test_human_matrices_carry_the_names_of_their_classes():
    assert TransitionMatrix.human("clcifar10").classes[:3] == ("airplane", "automobile", "bird")
    assert TransitionMatrix.human("clcifar20").n_classes == 20


def test_an_unknown_human_matrix_is_refused_with_those_known():
    with pytest.raises(InvalidInput, match=r"human matrix 'mnist'\. Known: clcifar10, "):
        TransitionMatrix.human("mnist")
