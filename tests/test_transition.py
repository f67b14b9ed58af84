"""TransitionMatrix: made, checked, sampled, read and written."""

import copy
import math
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayError,
    TransitionMatrix,
)

ANIMALS = ["cat", "dog", "owl"]
VALUES = [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def column_stochastic():
    return np.array([[0, 0.7, 0.2], [0.4, 0, 0.8], [0.6, 0.3, 0]])


# --- what is refused, by its wording ------------------------------------------------------------


def test_rows_that_do_not_sum_to_one_are_refused_with_row_and_sum():
    values = [[0, 0.5, 0.5], [0.5, 0, 0.44], [0.5, 0.5, 0]]
    with pytest.raises(InvalidTransitionMatrix, match=r"rows that sum to 1; row 1 sums to 0\.94"):
        TransitionMatrix(values)


def test_a_wrong_row_is_called_by_the_name_of_its_class():
    values = [[0, 0.5, 0.5], [0.5, 0, 0.44], [0.5, 0.5, 0]]
    with pytest.raises(InvalidTransitionMatrix, match=r"row 1 \('dog'\) sums to 0\.94"):
        TransitionMatrix(values, ANIMALS)


def test_a_matrix_whose_columns_sum_to_one_looks_transposed():
    with pytest.raises(InvalidTransitionMatrix, match=r"looks transposed: pass Q\.T"):
        TransitionMatrix(column_stochastic())
    assert TransitionMatrix(column_stochastic().T).n_classes == 3


def test_counts_are_refused_with_the_advice_to_divide():
    counts = [[0, 5, 5], [7, 0, 3], [2, 8, 0]]
    with pytest.raises(InvalidTransitionMatrix, match="divide each row by its sum") as caught:
        TransitionMatrix(counts)
    assert "transposed" not in str(caught.value)


def test_values_rounded_to_four_digits_are_refused_but_float32_is_room_enough():
    third = [[0, 0.3333, 0.3333, 0.3333], *np.full((3, 4), 0.25).tolist()]
    with pytest.raises(InvalidTransitionMatrix, match=r"row 0 sums to 0\.9999"):
        TransitionMatrix(third, allow_diagonal=True)
    softmax = np.exp(np.random.default_rng(0).normal(size=(50, 50))).astype(np.float32)
    softmax /= softmax.sum(1, keepdims=True)
    assert TransitionMatrix(softmax, allow_diagonal=True).n_classes == 50


@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (1, 4), (0, 3)])
def test_a_matrix_that_is_not_square_is_refused_with_its_shape(shape):
    with pytest.raises(InvalidTransitionMatrix, match=rf"must be square.*Got shape \({shape[0]}, "):
        TransitionMatrix(np.ones(shape))


def test_negative_entries_are_refused_with_their_place():
    values = [[0, 1.5, -0.5], [0.5, 0, 0.5], [1, 0, 0]]
    message = r"must not have negative entries\. Q\[0 \('cat'\), 2 \('owl'\)\] is -0\.5"
    with pytest.raises(InvalidTransitionMatrix, match=message):
        TransitionMatrix(values, ANIMALS)


@pytest.mark.parametrize("entry", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.coo_array])
def test_entries_that_are_not_finite_are_refused_with_their_place(entry, make):
    values = np.array(VALUES)
    values[1, 2] = entry
    with pytest.raises(InvalidTransitionMatrix, match=r"must have finite entries\. Q\[1, 2\] is"):
        TransitionMatrix(make(values))


def test_a_diagonal_is_refused_unless_annotators_may_err():
    values = [[0.1, 0.9], [1, 0]]
    message = r"must have a zero diagonal.*Q\[0, 0\] is 0\.1.*pass allow_diagonal=True"
    with pytest.raises(InvalidTransitionMatrix, match=message):
        TransitionMatrix(values)
    Q = TransitionMatrix(values, allow_diagonal=True)
    assert Q.allow_diagonal
    np.testing.assert_array_equal(np.asarray(Q), values)


@pytest.mark.parametrize("values", [[[1.0]], [[0.0]], np.zeros((0, 0))])
def test_fewer_than_two_classes_are_refused(values):
    with pytest.raises(InvalidTransitionMatrix, match="at least 2 classes"):
        TransitionMatrix(values, allow_diagonal=True)


@pytest.mark.parametrize("values", [np.ones((2, 2, 2)), [0.5, 0.5], 1.0, None])
def test_anything_but_two_axes_is_refused_with_its_shape(values):
    with pytest.raises(InvalidTransitionMatrix, match=r"shape \(n_classes, n_classes\)\. Got"):
        TransitionMatrix(values)


@pytest.mark.parametrize(
    "values",
    [
        [["a", "b"], ["c", "d"]],
        "uniform",
        [[0, 1], [1]],
        {"cat": [0, 1]},
        np.array([[0, 1j], [1, 0]]),
        sp.csr_array(np.array([[0, 1j], [1, 0]])),
        sp.coo_array(np.array([0.0, 1.0])),
        np.array([["2020", "2021"]], dtype="M8[Y]"),
        [[0, 10**400], [1, 0]],
    ],
    ids=str,
)
def test_anything_but_numbers_is_refused(values):
    with pytest.raises(InvalidTransitionMatrix, match="must be a square matrix of numbers"):
        TransitionMatrix(values)


def test_the_error_about_a_large_ragged_matrix_stays_short():
    ragged = [[0.001] * 1000 for _ in range(1000)]
    ragged[3] = [1.0]
    with pytest.raises(InvalidTransitionMatrix) as caught:
        TransitionMatrix(ragged)
    assert len(str(caught.value)) < 800


def test_entries_so_large_that_their_sum_overflows_are_refused():
    with pytest.raises(InvalidTransitionMatrix, match="row 0 sums to inf"):
        TransitionMatrix([[0, 1e308, 1e308], [1, 0, 0], [1, 0, 0]])


def test_class_names_must_be_as_many_as_rows():
    with pytest.raises(InvalidTransitionMatrix, match=r"3 classes of Q once\. Got 2 names: 'cat'"):
        TransitionMatrix(VALUES, classes=["cat", "dog"])


def test_class_names_must_differ():
    with pytest.raises(InvalidTransitionMatrix, match="differ from each other; 'dog' is twice"):
        TransitionMatrix(VALUES, classes=["cat", "dog", "dog"])


def test_class_names_must_be_a_list():
    with pytest.raises(InvalidTransitionMatrix, match=r"list of 3 names\. Got 7"):
        TransitionMatrix(VALUES, classes=7)


def test_every_error_is_also_the_value_error_that_callers_expect():
    with pytest.raises(ValueError, match="must be square"):
        TransitionMatrix([[0, 1]])


# --- what a matrix is ---------------------------------------------------------------------------


def test_the_array_is_float64_with_rows_as_true_classes():
    array = np.asarray(TransitionMatrix(VALUES))
    assert array.dtype == np.float64
    np.testing.assert_array_equal(array, VALUES)
    assert np.asarray(TransitionMatrix(VALUES), dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("Q", [TransitionMatrix(VALUES), TransitionMatrix.uniform(3)])
def test_every_array_is_a_fresh_copy(Q):
    np.asarray(Q)[:] = 7
    np.testing.assert_allclose(np.asarray(Q).sum(1), 1)
    with pytest.raises(ValueError, match="cannot give one uncopied"):
        np.asarray(Q, copy=False)


def test_the_matrix_does_not_follow_the_array_it_was_made_of():
    for make in (np.array, sp.csr_array):
        values = make(np.array(VALUES))
        Q = TransitionMatrix(values)
        values[0, 1] = 0.2
        np.testing.assert_array_equal(np.asarray(Q), VALUES)


@pytest.mark.parametrize("name", ["n_classes", "classes", "allow_diagonal", "entries", "new"])
def test_attributes_cannot_be_assigned(name):
    with pytest.raises(AttributeError):
        setattr(TransitionMatrix(VALUES), name, 1)


def test_the_arrays_of_entries_are_read_only():
    Q = TransitionMatrix(VALUES)
    for name in ("data", "indices", "indptr"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(Q.entries, name)[0] = 1


def test_what_is_done_to_the_holder_of_entries_does_not_reach_the_matrix():
    Q = TransitionMatrix(VALUES)
    entries = Q.entries
    entries.data = np.zeros(5)
    np.testing.assert_array_equal(Q.entries.toarray(), VALUES)
    np.testing.assert_array_equal(np.asarray(Q), VALUES)


def test_entries_of_a_uniform_matrix_are_all_built():
    uniform = TransitionMatrix.uniform(4)
    np.testing.assert_array_equal(uniform.entries.toarray(), np.asarray(uniform))


def test_matrices_are_equal_when_values_and_names_are():
    Q = TransitionMatrix(VALUES, ANIMALS)
    assert TransitionMatrix(sp.coo_array(np.array(VALUES)), tuple(ANIMALS)) == Q
    assert hash(Q) == hash(TransitionMatrix(np.array(VALUES), ANIMALS))
    assert TransitionMatrix(VALUES) != Q
    assert TransitionMatrix([[0, 0.8, 0.2], *VALUES[1:]], ANIMALS) != Q
    assert TransitionMatrix([[0, 0.1, 0.9], *VALUES[1:]], ANIMALS) != Q
    assert TransitionMatrix(VALUES) != TransitionMatrix.uniform(3)
    assert TransitionMatrix.uniform(3) == TransitionMatrix.uniform(3)
    assert TransitionMatrix.uniform(3) != TransitionMatrix.uniform(4)
    assert Q != VALUES


def test_repr_says_kind_size_and_first_names():
    assert repr(TransitionMatrix(VALUES, ANIMALS)) == (
        "TransitionMatrix(3 classes: 'cat', 'dog', 'owl')"
    )
    assert repr(TransitionMatrix.uniform(10)) == (
        "TransitionMatrix(uniform, 10 classes: '0', '1', '2', … (10 in all))"
    )


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix(VALUES, ANIMALS),
        TransitionMatrix.uniform(3, classes=ANIMALS),
        TransitionMatrix(np.eye(3), ANIMALS, allow_diagonal=True),
        TransitionMatrix.with_zeros(1500, 3),
    ],
)
def test_pickle_and_deepcopy_give_an_equal_matrix(Q):
    for twin in (pickle.loads(pickle.dumps(Q)), copy.deepcopy(Q), copy.copy(Q)):
        assert twin == Q
        assert hash(twin) == hash(Q)
        assert twin.classes == Q.classes
        assert twin.allow_diagonal == Q.allow_diagonal
        assert twin.is_uniform == Q.is_uniform


def test_classes_without_names_are_numbered():
    assert TransitionMatrix(VALUES).classes == ("0", "1", "2")
    assert not TransitionMatrix(VALUES).has_names
    assert TransitionMatrix(VALUES, ANIMALS).has_names
    assert TransitionMatrix.uniform(3, classes=ANIMALS).classes == tuple(ANIMALS)


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
    assert not TransitionMatrix(VALUES).is_uniform


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


# --- CSV ----------------------------------------------------------------------------------------

AWKWARD = ["a,b", 'say "no"', "two\nlines", "carriage\rreturn", "both\r\n", " spaces ", "ä €"]


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix(VALUES),
        TransitionMatrix(VALUES, ANIMALS),
        TransitionMatrix.with_zeros(30, 4),
        TransitionMatrix.without_zeros(11, seed=3),
        TransitionMatrix.uniform(7, classes=AWKWARD),
        TransitionMatrix(np.asarray(TransitionMatrix.with_zeros(7)), classes=AWKWARD),
        TransitionMatrix.human("clcifar20"),
        TransitionMatrix([[0.1, 0.9], [1.0, 0.0]], ["1", "nan"], allow_diagonal=True),
    ],
    ids=repr,
)
def test_a_matrix_written_is_read_back_exactly(Q, tmp_path):
    Q.write(tmp_path / "Q.csv")
    twin = TransitionMatrix.read(tmp_path / "Q.csv")
    assert twin == Q
    np.testing.assert_array_equal(np.asarray(twin), np.asarray(Q))
    assert twin.classes == Q.classes
    assert twin.allow_diagonal == Q.allow_diagonal
    assert twin.is_uniform == Q.is_uniform


def test_the_file_has_class_names_in_its_first_row_and_column(tmp_path):
    TransitionMatrix(VALUES, ANIMALS).write(tmp_path / "Q.csv")
    lines = (tmp_path / "Q.csv").read_text("utf-8").splitlines()
    assert lines[0] == "true class,cat,dog,owl"
    assert lines[1] == "cat,0.0,0.9,0.1"


def read_text(folder, text, **options):
    file = folder / "Q.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TransitionMatrix.read(file, **options)


def test_a_file_of_numbers_only_is_read_without_names(tmp_path):
    Q = read_text(tmp_path, "0,0.5,0.5\n1,0,0\n\n.25,7.5e-1,0\n")
    np.testing.assert_array_equal(np.asarray(Q), [[0, 0.5, 0.5], [1, 0, 0], [0.25, 0.75, 0]])
    assert not Q.has_names


def test_spreadsheet_habits_are_read(tmp_path):
    text = "\ufeff,cat,dog\r\ncat,0,1\r\ndog,1,0\r\n,,\r\n"  # byte order mark, blank corner and row
    assert read_text(tmp_path, text).classes == ("cat", "dog")


def test_reading_a_diagonal_needs_the_mark_or_the_flag(tmp_path):
    text = ",cat,dog\ncat,0.1,0.9\ndog,1,0\n"
    with pytest.raises(InvalidTransitionMatrix, match="must have a zero diagonal"):
        read_text(tmp_path, text)
    assert read_text(tmp_path, text, allow_diagonal=True).allow_diagonal


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "Q.csv must hold a matrix. It is empty"),
        ("\n ,\n\n".replace(" ", ""), "must hold a matrix. It is empty"),
        ("0,1\n1,0,0\n", "Q.csv, row 2, must have 2 values. Got 3"),
        (",a,b\na,0,1\nb,1\n", "Q.csv, row 3, must have 2 values. Got 1"),
        ("0,1\n1,zero\n", "Q.csv, row 2, must hold numbers. Got 'zero'"),
        (",a,b\na,0,\nb,1,0\n", "Q.csv, row 2, must hold numbers. Got ''"),
        (",a,b\nb,0,1\na,1,0\n", "same classes in its first row and first column"),
        (",a,b\n", "same classes in its first row and first column"),
        ("0;1\n1;0\n", "same classes in its first row and first column"),
        (",a,a\na,0,1\na,1,0\n", "'a' is twice"),
        ("0,0.7,0.2\n0.4,0,0.8\n0.6,0.3,0\n", "looks transposed"),
        ("0,nan\n1,0\n", "must have finite entries"),
        ("0,0.5,0.5\n1,0,0\n", "must be square"),
        ("x", "at least 2 classes. Got 0"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "must be a comma-separated text file in UTF-8"),
        ("0," + "1" * 200_000, r"must be a CSV file: field larger than field limit"),
    ],
    ids=lambda value: None if len(value) > 60 else repr(value),
)
def test_a_file_that_holds_no_matrix_is_refused(tmp_path, text, message):
    with pytest.raises(InvalidTransitionMatrix, match=message):
        read_text(tmp_path, text)


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        TransitionMatrix.read(tmp_path / "none.csv")


# --- properties ---------------------------------------------------------------------------------

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)
ANY_ARRAY = hnp.arrays(
    dtype=st.one_of(
        st.just(np.dtype(np.float64)),
        hnp.floating_dtypes(),
        hnp.integer_dtypes(),
        hnp.complex_number_dtypes(),
        hnp.byte_string_dtypes(),
        hnp.unicode_string_dtypes(),
        hnp.datetime64_dtypes(),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_FLOAT | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=9,
)


@st.composite
def transition_matrices(draw, max_classes=6):
    """Any matrix that should be accepted, of all kinds."""
    n_classes = draw(st.integers(2, max_classes))
    allow_diagonal = draw(st.booleans())
    values = draw(
        hnp.arrays(
            np.float64,
            (n_classes, n_classes),
            elements=st.just(0.0) | st.floats(1e-30, 1.0),
        )
    )
    if not allow_diagonal:
        np.fill_diagonal(values, 0)
    empty = values.sum(axis=1) == 0
    values[empty, (np.flatnonzero(empty) + 1) % n_classes] = 1
    values /= values.sum(axis=1, keepdims=True)
    return TransitionMatrix(values, allow_diagonal=allow_diagonal)


@settings(max_examples=200, deadline=None)
@given(values=ANY_ARRAY | NESTED, allow_diagonal=st.booleans())
def test_property_any_values_make_a_matrix_or_a_clear_refusal(values, allow_diagonal):
    try:
        Q = TransitionMatrix(values, allow_diagonal=allow_diagonal)
    except NaysayError as refusal:
        message = str(refusal)
    else:
        message = None
    if message is not None:
        assert message.startswith("Q must")
        return
    array = np.asarray(Q)
    assert np.isfinite(array).all()
    assert (array >= 0).all()
    np.testing.assert_allclose(array.sum(axis=1), 1, atol=2e-6)


@settings(max_examples=150, deadline=None)
@given(Q=transition_matrices(), labels=ANY_ARRAY | NESTED)
def test_property_any_labels_are_sampled_or_clearly_refused(Q, labels):
    try:
        drawn = Q.sample(labels)
    except InvalidLabels:
        return
    assert drawn.shape == np.shape(labels)


@settings(max_examples=100, deadline=None)
@given(Q=transition_matrices(), seed=st.integers(0, 2**32), data=st.data())
def test_property_samples_are_possible_labels(Q, seed, data):
    labels = data.draw(
        hnp.arrays(np.int64, st.integers(0, 30), elements=st.integers(0, Q.n_classes - 1))
    )
    drawn = Q.sample(labels, seed=seed)
    assert (np.asarray(Q)[labels, drawn] > 0).all()


@settings(max_examples=100, deadline=None)
@given(Q=transition_matrices(), data=st.data())
def test_property_a_diagnosis_is_never_nan(Q, data):
    weights = data.draw(
        hnp.arrays(np.float64, Q.n_classes, elements=st.floats(0, 1)).filter(
            lambda w: (w > 1e-9).sum() > 1
        )
    )
    d = Q.diagnose(prior=weights / weights.sum())
    assert 1 <= d.rank <= Q.n_classes
    assert d.condition_number >= 1
    assert d.smallest_singular_value >= 0
    assert 0 <= d.share_of_true_label <= 1 + 1e-9
    assert "nan" not in str(d)


@settings(max_examples=60, deadline=None)
@given(Q=transition_matrices(max_classes=4), names=st.data())
def test_property_csv_gives_back_any_matrix_with_any_names(tmp_path_factory, Q, names):
    encodable = st.characters(codec="utf-8")
    classes = names.draw(
        st.lists(
            st.text(encodable, max_size=4),
            min_size=Q.n_classes,
            max_size=Q.n_classes,
            unique=True,
        )
    )
    named = TransitionMatrix(np.asarray(Q), classes, allow_diagonal=Q.allow_diagonal)
    file = tmp_path_factory.mktemp("csv") / "Q.csv"
    named.write(file)
    assert TransitionMatrix.read(file) == named


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.sampled_from("01.,;\n\"'ab -e"), max_size=30) | st.binary(max_size=30))
def test_property_any_file_is_read_or_clearly_refused(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("csv") / "Q.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        Q = TransitionMatrix.read(file)
    except InvalidTransitionMatrix:
        return
    assert np.isfinite(np.asarray(Q)).all()
