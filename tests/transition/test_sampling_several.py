"""Several distinct labels per example."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay import InvalidInput, InvalidLabels, TransitionMatrix


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(6),
        TransitionMatrix.without_zeros(6, seed=1),
        TransitionMatrix.with_zeros(6, 3, seed=1),
    ],
    ids=["uniform", "without_zeros", "with_zeros"],
)
def test_labels_are_distinct_possible_and_drawn_one_after_another(Q):
    labels = np.random.default_rng(0).integers(6, size=200_000)
    drawn = Q.sample_several(labels, 2, seed=1)
    values = np.asarray(Q)
    assert drawn.shape == (200_000, 2)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert (values[labels[:, None], drawn] > 0).all()
    np.testing.assert_array_equal(drawn, Q.sample_several(labels, 2, seed=1))
    # P(first = a, then b | class i) = Q[i, a] Q[i, b] / (1 - Q[i, a])
    counts = np.zeros((6, 6, 6))
    np.add.at(counts, (labels, drawn[:, 0], drawn[:, 1]), 1)
    expected = np.zeros((6, 6, 6))
    for i in range(6):
        for a in range(6):
            for b in range(6):
                if a != b and values[i, a] > 0:
                    expected[i, a, b] = values[i, a] * values[i, b] / (1 - values[i, a])
    n = counts.sum(axis=(1, 2), keepdims=True)
    deviation = np.abs(counts / n - expected)
    assert (deviation <= 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9).all()


def test_all_possible_labels_can_be_drawn_and_names_come_back_as_names():
    Q = TransitionMatrix.with_zeros(8, 3, seed=2)
    drawn = Q.sample_several(np.arange(8), 3, seed=0)
    for label, row in enumerate(drawn):
        assert set(row) == set(np.flatnonzero(np.asarray(Q)[label]))
    named = TransitionMatrix(np.asarray(Q), classes=list("abcdefgh"))
    assert named.sample_several(["a"], 3, seed=0).tolist() == [
        [named.classes[label] for label in named.sample_several([0], 3, seed=0)[0]]
    ]


def test_row_with_too_few_labels_is_named():
    Q = TransitionMatrix([[0, 1, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]], classes=["cat", "dog", "owl"])
    assert Q.sample_several(["dog", "owl"], 2).shape == (2, 2)
    with pytest.raises(InvalidInput, match=r"Class 0 \('cat'\) can get 1, and 2 were asked for"):
        Q.sample_several(["dog", "cat"], 2)
    with pytest.raises(InvalidInput, match="can get 2, and 3 were asked for"):
        TransitionMatrix.uniform(3).sample_several([0], 3)
    with pytest.raises(InvalidInput, match="n_labels must be an integer of at least 1"):
        Q.sample_several([1], 0)
    with pytest.raises(InvalidLabels, match=r"integers 0\.\.2"):
        Q.sample_several([3], 1)


def test_many_classes_need_no_full_matrix():
    labels = np.arange(100_000)
    for Q in (TransitionMatrix.uniform(100_000), TransitionMatrix.with_zeros(100_000, 5)):
        drawn = Q.sample_several(labels[:1000], 4, seed=0)
        assert (np.sort(drawn)[:, 1:] != np.sort(drawn)[:, :-1]).all()


@given(
    n_classes=st.integers(2, 9),
    n_labels=st.integers(1, 9),
    n=st.integers(0, 20),
    seed=st.integers(0, 2**31),
)
def test_any_number_of_labels_is_drawn_or_refused(n_classes, n_labels, n, seed):
    Q = TransitionMatrix.with_zeros(n_classes, min(3, n_classes - 1), seed=seed)
    labels = np.random.default_rng(seed).integers(n_classes, size=n)
    possible = min(3, n_classes - 1)
    if n_labels > possible and n:
        with pytest.raises(InvalidInput, match="were asked for"):
            Q.sample_several(labels, n_labels, seed=seed)
        return
    drawn = Q.sample_several(labels, n_labels, seed=seed)
    assert drawn.shape == (n, n_labels)
    assert (drawn != labels[:, None]).all()
