"""What can be learned from labels: rank, information, and how it reads."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from naysay import InvalidInput, TransitionMatrix

# Yu et al. 2018, "Non-invertible Q", as printed; the rows sum to 1 only up to rounding
PAPER_SINGULAR = """
0 .3042 0 0 .5197 0 0 .1762 0 0
0 0 0 .6141 0 .0478 0 .3381 0 0
0 0 0 0 0 .0213 0 .7834 .1953 0
0 .4489 0 0 .1034 0 0 .4477 0 0
0 .2596 0 0 0 .3836 0 0 .3568 0
0 .4416 0 .5412 0 0 0 0 .0172 0
0 .3049 0 0 0 .5828 0 .1123 0 0
0 .1499 0 0 0 .3134 0 0 0 .5367
.1061 .4718 0 0 0 0 0 .4220 0 0
0 .4261 .0579 0 0 0 .5160 0 0 0
"""


def paper_singular():
    values = np.array([line.split() for line in PAPER_SINGULAR.split("\n") if line], dtype=float)
    return TransitionMatrix(values / values.sum(axis=1, keepdims=True))


def random_matrix(n_classes, seed, *, diagonal=False):
    rng = np.random.default_rng(seed)
    values = rng.dirichlet(np.full(n_classes, 0.5), size=n_classes)
    if not diagonal:
        np.fill_diagonal(values, 0)
        values /= values.sum(axis=1, keepdims=True)
    return TransitionMatrix(values, allow_diagonal=diagonal)


def cyclic(n_classes):
    """Each class is always answered with the next one: a permutation."""
    return TransitionMatrix(np.roll(np.eye(n_classes), 1, axis=1))


def mutual_information(values, prior):
    """Sum over pairs as in the textbook, in plain Python."""
    n_classes = len(prior)
    label_prior = [
        math.fsum(prior[i] * values[i][j] for i in range(n_classes)) for j in range(n_classes)
    ]
    return math.fsum(
        prior[i] * values[i][j] * math.log2(values[i][j] / label_prior[j])
        for i in range(n_classes)
        for j in range(n_classes)
        if prior[i] * values[i][j] > 0
    )


def entropy(prior):
    return -math.fsum(p * math.log2(p) for p in prior if p > 0)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 60])
@pytest.mark.parametrize("diagonal", [False, True])
def test_rank_condition_and_smallest_singular_value_are_those_of_numpy(n_classes, diagonal):
    Q = random_matrix(n_classes, seed=n_classes, diagonal=diagonal)
    d = Q.diagnose()
    singular_values = np.linalg.svd(np.asarray(Q), compute_uv=False)
    assert d.rank == np.linalg.matrix_rank(np.asarray(Q))
    assert d.condition_number == pytest.approx(np.linalg.cond(np.asarray(Q)), rel=1e-9)
    assert d.smallest_singular_value == pytest.approx(singular_values[-1], rel=1e-9)
    assert d.identifiable == (d.rank == n_classes)


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100])
def test_a_uniform_matrix_has_closed_forms(n_classes):
    Q = TransitionMatrix.uniform(n_classes)
    d = Q.diagnose()
    assert d.rank == n_classes
    assert d.identifiable is True
    assert d.condition_number == pytest.approx(n_classes - 1)
    assert d.smallest_singular_value == pytest.approx(1 / (n_classes - 1))
    assert d.unused_labels == ()
    assert d.bits_per_label == pytest.approx(math.log2(n_classes / (n_classes - 1)))
    assert d.bits_per_true_label == pytest.approx(math.log2(n_classes))
    assert d.condition_number == pytest.approx(np.linalg.cond(np.asarray(Q)))


@pytest.mark.parametrize("n_classes", [2, 3, 10, 40])
@pytest.mark.parametrize("kind", ["uniform", "random", "diagonal", "sparse"])
def test_information_is_that_of_a_double_loop_under_any_prior(n_classes, kind):
    Q = {
        "uniform": lambda: TransitionMatrix.uniform(n_classes),
        "random": lambda: random_matrix(n_classes, seed=1),
        "diagonal": lambda: random_matrix(n_classes, seed=2, diagonal=True),
        "sparse": lambda: TransitionMatrix.with_zeros(n_classes, 1 + n_classes // 4),
    }[kind]()
    values = np.asarray(Q).tolist()
    for seed in range(3):
        prior = np.random.default_rng(seed).dirichlet(np.ones(n_classes))
        d = Q.diagnose(prior=prior)
        expected = mutual_information(values, prior.tolist())
        assert d.bits_per_label == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert d.bits_per_true_label == pytest.approx(entropy(prior.tolist()), rel=1e-12)
        assert d.share_of_true_label == pytest.approx(
            expected / entropy(prior), rel=1e-9, abs=1e-12
        )


def test_the_prior_is_uniform_when_left_out():
    Q = TransitionMatrix.without_zeros(10)
    assert Q.diagnose() == Q.diagnose(prior=np.full(10, 0.1))


def test_a_class_of_prior_zero_takes_no_part():
    Q = TransitionMatrix(np.array([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]]))
    d = Q.diagnose(prior=[0.5, 0.5, 0])
    assert d.bits_per_label == pytest.approx(1)
    assert d.share_of_true_label == pytest.approx(1)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_a_permutation_carries_as_much_as_a_true_label(n_classes):
    d = cyclic(n_classes).diagnose()
    assert d.share_of_true_label == pytest.approx(1)
    assert d.condition_number == pytest.approx(1)
    assert "one such label carries 100.0% of a true label" in str(d)


def test_identical_rows_carry_nothing():
    d = TransitionMatrix(np.tile([0.2, 0.3, 0.5], (3, 1)), allow_diagonal=True).diagnose()
    assert d.bits_per_label == pytest.approx(0, abs=1e-12)
    assert d.bits_per_label >= 0
    assert d.rank == 1
    assert d.identifiable is False


def test_unused_labels_are_found_and_make_Q_unidentifiable():
    values = [[0, 1, 0, 0], [1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]]
    d = TransitionMatrix(values, classes=["cat", "dog", "owl", "emu"]).diagnose()
    assert d.unused_labels == (2, 3)
    assert d.identifiable is False
    assert d.smallest_singular_value == 0
    assert d.condition_number == math.inf
    assert "'owl', 'emu': never named as complementary" in str(d)


def test_the_singular_matrix_of_the_paper_is_singular_but_leaves_no_label_unused():
    d = paper_singular().diagnose()
    assert d.rank == np.linalg.matrix_rank(np.asarray(paper_singular())) == 9
    assert d.identifiable is False
    assert d.condition_number == math.inf
    assert d.smallest_singular_value == 0
    assert d.unused_labels == ()


def test_information_does_not_depend_on_the_order_of_classes():
    Q = TransitionMatrix.without_zeros(10)
    order = np.random.default_rng(0).permutation(10)
    prior = np.random.default_rng(1).dirichlet(np.ones(10))
    permuted = TransitionMatrix(np.asarray(Q)[np.ix_(order, order)])
    assert permuted.diagnose(prior=prior[order]).bits_per_label == pytest.approx(
        Q.diagnose(prior=prior).bits_per_label
    )


def test_bias_makes_labels_say_more():
    shares = [
        Q.diagnose().share_of_true_label
        for Q in (
            TransitionMatrix.uniform(10),
            TransitionMatrix.without_zeros(10),
            TransitionMatrix.with_zeros(10),
            cyclic(10),
        )
    ]
    assert shares == sorted(shares)


def test_a_diagnosis_reads_well():
    assert str(TransitionMatrix.uniform(10).diagnose()) == (
        "Transition matrix of 10 classes\n"
        "  rank                    10 of 10\n"
        "  condition number        9\n"
        "  smallest singular value 0.1111\n"
        "  unused labels           none\n"
        "  identifiable            "
        "yes: Q is invertible, the classifier learned is the one of true labels\n"
        "  information             0.152 bits: one such label carries 4.6% of a true label"
    )


def test_a_singular_matrix_reads_as_such():
    text = str(paper_singular().diagnose())
    assert "rank                    9 of 10" in text
    assert "condition number        inf" in text
    assert "no: Q is singular; clear-cut examples may still be learned" in text


def test_more_than_2000_sparse_classes_leave_the_rank_unknown_and_say_so():
    d = TransitionMatrix.with_zeros(2001, 3).diagnose()
    assert d.rank is d.condition_number is d.smallest_singular_value is d.identifiable is None
    assert str(d).count("not computed for more than 2000 classes") == 4
    prior = [1 / 2001] * 2001
    entries = TransitionMatrix.with_zeros(2001, 3).entries
    row_entropy = math.fsum(-p * math.log2(p) for p in entries.data.tolist()) / 2001
    label_prior = np.bincount(entries.indices, entries.data) / 2001
    assert d.bits_per_label == pytest.approx(entropy(label_prior.tolist()) - row_entropy)
    assert d.bits_per_true_label == pytest.approx(entropy(prior))


def test_an_unused_label_among_many_classes_is_enough_to_say_no():
    rows = np.arange(2500)
    columns = np.where(rows == 0, 1, 0)
    entries = csr_array((np.ones(2500), (rows, columns)), shape=(2500, 2500))
    d = TransitionMatrix(entries).diagnose()
    assert d.identifiable is False
    assert len(d.unused_labels) == 2498
    assert "(2498 in all)" in str(d)


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(3),
        TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], ["cat", "dog", "owl"]),
        TransitionMatrix.with_zeros(2001, 3),
    ],
    ids=repr,
)
def test_a_diagnosis_is_plain_json_without_infinity(Q):
    d = Q.diagnose()
    found = json.loads(json.dumps(d.to_dict(), allow_nan=False))
    assert found["classes"] == list(Q.classes)
    assert found["unused_labels"] == [Q.classes[label] for label in d.unused_labels]
    assert found["rank"] == d.rank
    assert found["identifiable"] == d.identifiable
    assert found["bits_per_label"] == d.bits_per_label
    assert found["share_of_true_label"] == d.share_of_true_label
    assert found["condition_number"] == (
        None if d.condition_number == math.inf else d.condition_number
    )


def test_a_diagnosis_cannot_be_changed():
    d = TransitionMatrix.uniform(3).diagnose()
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.rank = 1


@pytest.mark.parametrize(
    "prior",
    [
        [0.5, 0.5],
        [0.5, 0.6, -0.1],
        [0.5, 0.4, 0.05],
        [0.5, float("nan"), 0.5],
        [0.5, float("inf"), 0.5],
        [[0.2, 0.3, 0.5]],
        "abc",
        [[1], [0, 0]],
        0.5,
        [1, 2, 3j],
    ],
    ids=str,
)
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(InvalidInput, match="prior must be 3 probabilities"):
        TransitionMatrix.uniform(3).diagnose(prior=prior)


@pytest.mark.parametrize("certain", [1.0, 1 + 1e-7, 1 - 1e-7])
def test_a_prior_that_knows_the_class_is_refused(certain):
    with pytest.raises(InvalidInput, match="prior must leave at least two classes possible"):
        TransitionMatrix.uniform(3).diagnose(prior=[certain, 0, 0])
