import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay import InvalidInput, InvalidLabels, TransitionMatrix, datasets
from naysay.datasets import Dataset, Provenance, Split
from naysay.experiments.tasks import (
    draw_per_class,
    draw_task,
    keep_classes,
    select_classes,
    split_validation,
    standardise,
)

TEN = tuple(range(1, 11))


@pytest.mark.parametrize(
    "notation, digits",
    [
        ("1 ~ 5", [0, 1, 2, 3, 4]),
        ("6 ~ 10", [5, 6, 7, 8, 9]),
        ("6~10", [5, 6, 7, 8, 9]),
        ("even #", [1, 3, 5, 7, 9]),  # classes are counted from 1
        ("odd #", [0, 2, 4, 6, 8]),
        ("1 ~ 10", list(range(10))),
    ],
)
def test_the_papers_notation(notation, digits):
    assert select_classes(notation, TEN).tolist() == digits


@pytest.mark.parametrize("notation", ["", "1-5", "even", "5 ~ 1", "0 ~ 3", "6 ~ 11", "3 ~ 3"])
def test_other_notation_is_refused(notation):
    with pytest.raises(InvalidInput, match="Classes must be"):
        select_classes(notation, TEN)


def make_dataset(n_each=10, *, with_test=True, n_classes=4):
    def split(offset):
        y = np.tile(np.arange(n_classes), n_each)
        return Split(np.stack([y, offset + np.arange(len(y))], axis=1), y)

    names = tuple("abcd"[:n_classes])
    provenance = Provenance("here", "none", "nobody", ())
    numbers = tuple(range(1, n_classes + 1))
    test = split(1000) if with_test else None
    return Dataset("made", split(0), test, names, numbers, provenance)


def test_keep_classes_numbers_them_anew_and_edits_nothing():
    train = make_dataset().train
    before = train.y.copy()
    kept = keep_classes(train, [3, 1])
    assert set(kept.X[kept.y == 0, 0].tolist()) == {3}
    assert set(kept.X[kept.y == 1, 0].tolist()) == {1}
    np.testing.assert_array_equal(train.y, before)


@pytest.mark.parametrize("with_test", [True, False])
def test_draw_task_gives_a_fixed_number_of_each_class(with_test):
    dataset = make_dataset(with_test=with_test)
    task = draw_task(dataset, "2 ~ 4", n_train=6, n_test=4, seed=0)
    assert task.classes == ("b", "c", "d")
    assert np.bincount(task.train.y).tolist() == [6, 6, 6]
    assert np.bincount(task.test.y).tolist() == [4, 4, 4]
    np.testing.assert_array_equal(task.train.X[:, 0], task.train.y + 1)
    rows = set(task.train.X[:, 1].tolist())
    assert rows.isdisjoint(task.test.X[:, 1].tolist())
    assert (task.test.X[:, 1] >= 1000).all() == with_test


def test_the_same_seed_draws_the_same_task_and_another_another():
    first, again, other = (
        draw_task(make_dataset(), "1 ~ 4", n_train=3, n_test=3, seed=seed).train.X[:, 1].tolist()
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_too_few_examples_are_an_error_that_names_the_class():
    with pytest.raises(InvalidInput, match=r"must have 11 examples .* Class 0 \('b'\) has 10"):
        draw_task(make_dataset(), "2 ~ 4", n_train=11, n_test=1, seed=0)
    with pytest.raises(InvalidInput, match=r"must have 11 examples"):
        draw_task(make_dataset(with_test=False), "1 ~ 4", n_train=6, n_test=5, seed=0)
    with pytest.raises(InvalidLabels, match=r"at least 4 examples to draw from. Class 1 has 3"):
        draw_per_class([0, 0, 0, 0, 1, 1, 1], (2, 2), seed=0)


@given(st.integers(2, 300), st.floats(0.01, 0.99), st.integers(0, 5))
def test_validation_is_a_partition_that_needs_no_label(n_samples, fraction, seed):
    train, validation = split_validation(n_samples, fraction=fraction, seed=seed)
    assert sorted([*train, *validation]) == list(range(n_samples))
    assert len(train) >= 1
    assert len(validation) >= 1
    assert abs(len(validation) - n_samples * fraction) <= 1


def test_validation_refuses_what_cannot_be_split():
    with pytest.raises(InvalidInput, match="n_samples must be at least 2"):
        split_validation(1, seed=0)
    with pytest.raises(InvalidInput, match=r"fraction must be above 0 and below 1"):
        split_validation(10, fraction=1.0, seed=0)


def test_standardise_uses_the_training_part_only():
    rng = np.random.default_rng(0)
    train, test = rng.normal(3, 5, size=(200, 4)), rng.normal(0, 1, size=(50, 4))
    before = train.copy()
    train[:, 2] = before[:, 2] = 0.1  # constant; its computed deviation is not exactly 0
    scaled, other = standardise(train, test)
    np.testing.assert_allclose(scaled[:, [0, 1, 3]].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled[:, [0, 1, 3]].std(axis=0), 1)
    assert (scaled[:, 2] == 0).all()
    np.testing.assert_allclose(other[:, 2], test[:, 2] - 0.1)
    (alone,) = standardise(train)
    np.testing.assert_array_equal(alone, scaled)
    np.testing.assert_array_equal(train, before)


def test_standardise_keeps_float64_and_makes_the_rest_float32():
    train, other = standardise(np.array([[0], [255]], np.uint8), np.array([[0.5]]))
    assert (train.dtype, other.dtype) == (np.float32, np.float64)


def test_complementary_labels_of_a_task_never_name_the_true_class():
    task = draw_task(make_dataset(50), "1 ~ 4", n_train=50, n_test=1, seed=0)
    Q = TransitionMatrix.uniform(4)
    assert (Q.sample(task.train.y, seed=0) != task.train.y).all()


@pytest.mark.parametrize(
    "name, classes, n_train, n_test",
    [  # the paper's Table 1, as far as its numbers are those of the scarcest class
        ("satimage", "1 ~ 7", 415, 211),
        ("pendigits", "1 ~ 5", 719, 336),
        ("pendigits", "6 ~ 10", 719, 335),
        ("pendigits", "even #", 719, 335),
        ("pendigits", "1 ~ 10", 719, 335),
        ("usps", "1 ~ 5", 652, 166),
        ("usps", "6 ~ 10", 542, 147),
        ("usps", "even #", 556, 147),
    ],
)
def test_the_papers_numbers_are_what_the_official_splits_allow(
    official_data, name, classes, n_train, n_test
):
    dataset = datasets.load(name, data_dir=official_data, download=False)
    task = draw_task(dataset, classes, n_train=n_train, n_test=n_test, seed=0)
    assert set(np.bincount(task.train.y)) == {n_train}
    with pytest.raises(InvalidInput, match=f"must have {n_train + 1} examples of each class"):
        draw_task(dataset, classes, n_train=n_train + 1, n_test=n_test, seed=0)
    with pytest.raises(InvalidInput, match=f"must have {n_test + 1} examples of each class"):
        draw_task(dataset, classes, n_train=n_train, n_test=n_test + 1, seed=0)
