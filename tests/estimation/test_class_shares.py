"""The class prior from complementary labels alone."""

import numpy as np
import pytest

from naysay import InvalidLabels, TransitionMatrix, estimation


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(5),
        TransitionMatrix.without_zeros(10, seed=2),
        TransitionMatrix.with_zeros(10, 3, seed=2),
        TransitionMatrix.human("clcifar10"),
    ],
    ids=["uniform", "without zeros", "with zeros", "human"],
)
def test_class_prior_is_recovered_from_labels_drawn(Q):
    rng = np.random.default_rng(0)
    prior = rng.dirichlet(np.full(Q.n_classes, 3.0))
    n = 400_000
    labels = Q.sample(rng.choice(Q.n_classes, size=n, p=prior), seed=rng)
    found = estimation.class_prior(labels, Q)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
    # errors of the frequencies, at most 0.5/√n each, are enlarged by the inverse of Q
    worst = np.linalg.norm(np.linalg.inv(np.asarray(Q)), 2)
    assert np.linalg.norm(found - prior) < 4 * worst / np.sqrt(n)


def test_class_prior_is_exact_for_exact_frequencies_and_takes_names_and_arrays():
    Q = TransitionMatrix([[0, 0.5, 0.5], [1, 0, 0], [0, 1, 0]], classes=["cat", "dog", "owl"])
    labels = ["dog"] * 3 + ["owl"] * 2 + ["cat"]
    np.testing.assert_allclose(estimation.class_prior(labels, Q), [4 / 6, 1 / 6, 1 / 6])
    found = estimation.class_prior([1, 1, 1, 2, 2, 0], np.asarray(Q))
    np.testing.assert_allclose(found, [4 / 6, 1 / 6, 1 / 6])


def test_class_prior_is_never_negative():
    # more labels "not 0" than any prior can give
    found = estimation.class_prior([0] * 9 + [1, 2], TransitionMatrix.uniform(3))
    assert found[0] == 0
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "labels, wording",
    [
        ([], r"at least one label, shape \(n,\)\. Got shape \(0,\)"),
        ([[0, 1]], r"at least one label"),
        ([0, 1, 1], r"contains class 1, but Q\[:, 1\] is all zero.*drop the 2 rows"),
        ([0, 3], r"integers 0\.\.2"),
    ],
)
def test_class_prior_refuses_labels_that_cannot_be(labels, wording):
    with pytest.raises(InvalidLabels, match=wording):
        estimation.class_prior(labels, [[0, 0, 1], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("kind", ["without_zeros", "with_zeros"])
def test_shrinkage_keeps_real_imbalance_and_removes_that_of_chance(kind):
    zipf = 1 / np.arange(1, 21)
    for name, true, n in (("zipf", zipf / zipf.sum(), 20_000), ("equal", np.full(20, 0.05), 1_000)):
        errors = []
        for seed in range(20):
            Q = getattr(TransitionMatrix, kind)(20, seed=seed)
            rng = np.random.default_rng(seed)
            labels = Q.sample(rng.choice(20, size=n, p=true), seed=rng)
            found = [estimation.class_prior(labels, Q, shrink=shrink) for shrink in (False, True)]
            errors.append([np.abs(each - true).sum() for each in found])
        plain, shrunk = np.mean(errors, axis=0)
        assert shrunk < (plain if name == "zipf" else plain / 4)
