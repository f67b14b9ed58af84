"""TransitionMatrix: what is refused, and what a matrix is."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from naysay import InvalidInput, InvalidTransitionMatrix, TransitionMatrix
from naysay.transition import as_transition_matrix

ANIMALS = ["cat", "dog", "owl"]
VALUES = [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]


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
    with pytest.raises(InvalidTransitionMatrix, match="must be a matrix of numbers"):
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


def test_distance_is_the_mean_over_rows_of_absolute_differences():
    first, second = (
        TransitionMatrix.with_zeros(6, seed=0),
        TransitionMatrix.without_zeros(6, seed=1),
    )
    rows = [
        sum(abs(a - b) for a, b in zip(one, other, strict=True))
        for one, other in zip(np.asarray(first), np.asarray(second), strict=True)
    ]
    assert first.distance(second) == pytest.approx(sum(rows) / 6)
    assert first.distance(second) == second.distance(first)
    assert first.distance(first) == 0


def test_matrices_of_different_sizes_have_no_distance():
    with pytest.raises(InvalidInput, match=r"4 classes too\. Got 5"):
        TransitionMatrix.uniform(4).distance(TransitionMatrix.uniform(5))


@pytest.mark.parametrize(
    "make",
    [list, np.array, sp.csr_array, lambda v: torch.tensor(v, dtype=torch.double).requires_grad_()],
    ids=["list", "array", "sparse", "tensor"],
)
def test_anything_that_holds_a_matrix_is_converted_and_a_matrix_passes_through(make):
    Q = TransitionMatrix(VALUES)
    assert as_transition_matrix(make(VALUES)) == Q
    assert as_transition_matrix(Q) is as_transition_matrix(Q, allow_diagonal=False) is Q
    with_diagonal = [[0.1, 0.9], [1, 0]]
    assert as_transition_matrix(make(with_diagonal)).allow_diagonal
    with pytest.raises(InvalidTransitionMatrix, match="zero diagonal"):
        as_transition_matrix(make(with_diagonal), allow_diagonal=False)


def test_a_matrix_with_a_diagonal_is_refused_by_name_where_none_is_allowed():
    Q = TransitionMatrix([[0.1, 0.9], [1, 0]], ["cat", "dog"], allow_diagonal=True)
    assert as_transition_matrix(Q) is Q
    with pytest.raises(InvalidTransitionMatrix, match=r"Q\[0 \('cat'\), 0 \('cat'\)\] is 0.1"):
        as_transition_matrix(Q, allow_diagonal=False)


def test_print_shows_the_numbers_of_up_to_20_classes():
    printed = str(TransitionMatrix.human("clcifar20"))
    assert max(map(len, printed.splitlines())) <= 110
    assert len(printed.splitlines()) == 22
    Q = TransitionMatrix([[0, 0.004, 0.996], [0.5, 0, 0.5], [1, 0, 0]], ["a", "b" * 60, "c"])
    rows = [line.split() for line in str(Q).splitlines()[1:]]
    assert rows[0] == ["0", "1", "2"]
    assert rows[1] == ["0", "a", ".", "0.4", "99.6"]
    assert rows[2][-3:] == ["50.0", ".", "50.0"]
    assert str(TransitionMatrix.uniform(21)) == repr(TransitionMatrix.uniform(21))
