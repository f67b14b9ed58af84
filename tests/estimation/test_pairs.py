"""An estimate of Q combined with counted pairs of a true class and a label."""

import numpy as np
import pytest

from naysay import InvalidInput, InvalidLabels, InvalidTransitionMatrix, TransitionMatrix
from naysay.estimation import combine_with_pairs, rate_of_mistakes


def count(Q, per_class, seed):
    true = np.repeat(np.arange(Q.n_classes), per_class)
    counts = np.zeros((Q.n_classes, Q.n_classes))
    np.add.at(counts, (true, Q.sample(true, seed=seed)), 1)
    return counts


def test_a_right_estimate_is_kept_and_a_wrong_one_corrected():
    Q = TransitionMatrix.without_zeros(5, (0.6, 0.2, 0.1, 0.1), seed=0)
    kept, before, after = 0, [], []
    for seed in range(20):
        counts = count(Q, 10, seed)
        kept += combine_with_pairs(Q, counts, seed=seed).matrix == Q
        wrong = TransitionMatrix.without_zeros(5, (0.6, 0.2, 0.1, 0.1), seed=1)
        before.append(wrong.distance(Q))
        after.append(combine_with_pairs(wrong, counts, seed=seed).matrix.distance(Q))
    assert kept >= 17
    assert np.mean(after) < 0.6 * np.mean(before)


@pytest.mark.unmeasured
def test_intervals_of_a_biased_estimate_cover_the_matrix():
    """The estimate is off by a fixed bias that its own samples do not know of."""
    rng = np.random.default_rng(0)
    inside = []
    for seed in range(60):
        values = np.zeros((4, 4))
        values[~np.eye(4, dtype=bool)] = rng.dirichlet(np.full(3, 2.0), 4).ravel()
        bias = np.zeros((4, 4))
        bias[~np.eye(4, dtype=bool)] = rng.dirichlet(np.full(3, 2.0), 4).ravel()
        Q = TransitionMatrix(values)
        estimate = TransitionMatrix(0.7 * values + 0.3 * bias)
        found = combine_with_pairs(estimate, count(Q, 10, seed), n_samples=400, seed=seed)
        low, high = np.quantile(found.samples, [0.025, 0.975], axis=0)
        off = ~np.eye(4, dtype=bool)
        inside.append(((low <= values) & (values <= high))[off].mean())
    assert np.mean(inside) > 0.8


def test_zeros_of_an_estimate_are_no_proof_against_a_pair():
    zero = TransitionMatrix([[0, 1, 0], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    counts = np.array([[0, 5, 5], [5, 0, 5], [5, 5, 0]])
    found = combine_with_pairs(zero, counts)
    assert np.asarray(found.matrix)[0, 2] > 0.2
    assert not np.diag(np.asarray(found.matrix)).any()


def test_without_pairs_nothing_changes():
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    found = combine_with_pairs(Q, np.zeros((4, 4)))
    assert found.matrix == Q
    assert np.isinf(found.worth)


def test_a_pair_that_contradicts_itself_is_refused_unless_annotators_may_err():
    with pytest.raises(InvalidLabels, match="true class as complementary label"):
        combine_with_pairs(TransitionMatrix.uniform(3), np.eye(3))
    found = combine_with_pairs(TransitionMatrix.uniform(3), 9 * np.eye(3) + 1, allow_diagonal=True)
    assert np.diag(np.asarray(found.matrix)).min() > 0.3


@pytest.mark.parametrize("samples", [np.full((3, 3), 1 / 3), np.full((5, 2, 2), 0.5), "none"])
def test_samples_of_another_shape_are_refused(samples):
    Q = TransitionMatrix.uniform(3)
    rule = r"Q_samples must be at least 2 matrices, shape \(n, 3, 3\)"
    with pytest.raises(InvalidTransitionMatrix, match=rule):
        combine_with_pairs(Q, count(Q, 2, 0), Q_samples=samples)
    with pytest.raises(InvalidTransitionMatrix, match=rule):
        rate_of_mistakes(np.eye(3), Q, samples)


@pytest.mark.parametrize(
    "counts", [np.eye(2)[::-1], np.eye(3) - 1, np.full((3, 3), np.nan), [["a"] * 3] * 3]
)
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(InvalidInput, match=r"counts must be numbers of pairs, .* shape \(3, 3\)"):
        combine_with_pairs(TransitionMatrix.uniform(3), counts)
