"""Intervals of the entries of Q with their nominal coverage."""

import numpy as np
import pytest

from naysay import InvalidInput, TransitionMatrix
from naysay.estimation import uncertainty
from simulated import draw

TRUE_MATRICES = pytest.mark.parametrize(
    "make",
    [
        lambda seed: TransitionMatrix.uniform(4),
        lambda seed: TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=seed),
    ],
    ids=["uniform", "without zeros"],
)


def coverage(make, sharpness, estimate):
    """Compute how often an interval contains the true entry, over 20 sets of labels."""
    hits = []
    for seed in range(20):
        Q = make(seed)
        probs, comp_labels, _ = draw(Q, 600, sharpness=sharpness, seed=seed)
        known = uncertainty(probs, comp_labels, estimate(probs, comp_labels, Q, seed), seed=seed)
        values = np.asarray(Q)
        inside = (known.lower <= values) & (values <= known.upper)
        hits.append(inside[~np.eye(4, dtype=bool)].mean())
    return np.mean(hits)


def from_labels_alone(probs, comp_labels, Q, seed):
    """Estimate Q from the labels alone."""
    return uncertainty(probs, comp_labels, TransitionMatrix.uniform(4)).samples.mean(axis=0)


def from_anchors_alone(probs, comp_labels, Q, seed):
    """Estimate Q from about 40 answers at anchors of each class, independently of the labels."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.dirichlet(40 * row + 1e-9) for row in np.asarray(Q)])


@pytest.mark.parametrize("sharpness", [5.0, 1.2], ids=["precise", "imprecise"])
@TRUE_MATRICES
@pytest.mark.unmeasured
def test_intervals_have_their_nominal_coverage(make, sharpness):
    assert 0.9 <= coverage(make, sharpness, from_labels_alone) <= 0.98


@TRUE_MATRICES
@pytest.mark.unmeasured
def test_intervals_around_an_independent_estimate_have_their_coverage_too(make):
    assert coverage(make, 2.0, from_anchors_alone) >= 0.94


@pytest.mark.unmeasured
@pytest.mark.parametrize("level", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("allow_diagonal", [False, True])
def test_the_estimate_is_the_middle_of_its_interval(level, allow_diagonal):
    rng = np.random.default_rng(0)
    values = 0.9 * np.asarray(TransitionMatrix.with_zeros(5, 2, seed=0)) + 0.1 * np.eye(5)
    made = TransitionMatrix(values, allow_diagonal=True)
    probs, comp_labels, _ = draw(made, 800, sharpness=2)
    for concentration in (0.3, 3.0, 300.0):  # far from what the labels say, and zeros among it
        estimate = rng.dirichlet(np.full(5, concentration), size=5).round(3)
        np.fill_diagonal(estimate, estimate.diagonal() * allow_diagonal)
        estimate /= estimate.sum(axis=1, keepdims=True)
        known = uncertainty(
            probs, comp_labels, estimate, level=level, allow_diagonal=allow_diagonal
        )
        assert (known.lower <= estimate).all()
        assert (estimate <= known.upper).all()
        whole = (known.lower > 0) & (known.upper < 1)
        middle = (known.lower + known.upper) / 2
        np.testing.assert_allclose(middle[whole], estimate[whole], atol=1e-9)


def test_intervals_contain_their_level_of_the_samples():
    Q = TransitionMatrix.without_zeros(5, (0.6, 0.3, 0.1), seed=0)
    probs, comp_labels, _ = draw(Q, 2000, sharpness=3)
    for estimate in (Q, TransitionMatrix.uniform(5)):
        known = uncertainty(probs, comp_labels, estimate, level=0.8, n_samples=2000)
        inside = (known.lower <= known.samples) & (known.samples <= known.upper)
        shares = inside.mean(axis=0)[~np.eye(5, dtype=bool)]
        np.testing.assert_allclose(shares, 0.8, atol=0.04)


def test_one_hot_probabilities_give_the_dirichlet_posterior():
    Q = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=0)
    labels = np.repeat(np.arange(4), [2000, 2000, 2000, 100])
    comp_labels = Q.sample(labels)
    known = uncertainty(np.eye(4)[labels], comp_labels, Q, n_samples=2000)
    counts = np.full((4, 4), 0.5) * ~np.eye(4, dtype=bool)
    np.add.at(counts, (labels, comp_labels), 1)
    total = counts.sum(axis=1, keepdims=True)
    mean = counts / total
    deviation = np.sqrt(mean * (1 - mean) / (total + 1))
    np.testing.assert_allclose(known.samples.mean(axis=0), mean, atol=4e-3)
    np.testing.assert_allclose(known.samples.std(axis=0), deviation, rtol=0.1, atol=1e-9)


def test_samples_are_matrices_and_advice_names_the_class_with_the_largest_error():
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    labels = np.repeat(np.arange(4), [500, 500, 20, 500])
    named = TransitionMatrix(np.asarray(Q), ["ant", "bee", "cat", "dog"])
    known = uncertainty(np.eye(4)[labels], Q.sample(labels), named, n_samples=50)
    assert known.samples.shape == (50, 4, 4)
    np.testing.assert_allclose(known.samples.sum(axis=2), 1)
    assert (known.samples.diagonal(axis1=1, axis2=2) == 0).all()
    assert (known.lower <= known.upper).all()
    assert known.row_error.argmax() == 2
    assert "More anchors of class 'cat' would help most" in known.advice
    assert known.advice in str(known)


def test_an_entry_that_is_zero_may_be_zero_and_a_wider_level_is_wider():
    Q = TransitionMatrix.with_zeros(5, 2, seed=0)
    probs, comp_labels, _ = draw(Q, 1500, sharpness=2)
    known = uncertainty(probs, comp_labels, TransitionMatrix.uniform(5))
    assert (known.lower[np.asarray(Q) == 0] < 0.01).mean() > 0.9
    wide = uncertainty(probs, comp_labels, TransitionMatrix.uniform(5), level=0.99)
    assert (wide.upper - wide.lower).sum() > (known.upper - known.lower).sum()


def test_mistakes_have_intervals_too():
    values = 0.9 * np.asarray(TransitionMatrix.uniform(4)) + 0.1 * np.eye(4)
    Q = TransitionMatrix(values, allow_diagonal=True)
    probs, comp_labels, _ = draw(Q, 3000, sharpness=5)
    known = uncertainty(probs, comp_labels, Q, allow_diagonal=True)
    assert (known.lower.diagonal() > 0.05).all()
    assert (known.upper.diagonal() < 0.2).all()


@pytest.mark.parametrize("options", [{"level": 0}, {"level": 1}, {"n_samples": 0}])
def test_levels_and_numbers_that_cannot_be_are_refused(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        uncertainty(np.eye(3), [1, 2, 0], TransitionMatrix.uniform(3), **options)
