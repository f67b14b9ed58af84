"""Intervals with the coverage they claim; calibration, choice of anchors, structure."""

import numpy as np
import pytest

from naysay import InvalidInput, InvalidLabels, NotIdentifiable, TransitionMatrix
from naysay.estimation import (
    calibrate,
    choose_anchors,
    from_anchors,
    from_structure,
    uncertainty,
)
from simulated import draw, error, softmax

# --- intervals ----------------------------------------------------------------------------------


TRUE_MATRICES = pytest.mark.parametrize(
    "make",
    [
        lambda seed: TransitionMatrix.uniform(4),
        lambda seed: TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=seed),
    ],
    ids=["uniform", "without zeros"],
)


def coverage(make, sharpness, estimate):
    """Return how often the interval of an entry holds the true one, over 20 sets of labels."""
    hits = []
    for seed in range(20):
        Q = make(seed)
        probs, comp_labels, _ = draw(Q, 600, sharpness=sharpness, seed=seed)
        known = uncertainty(probs, comp_labels, estimate(probs, comp_labels, Q, seed), seed=seed)
        values = np.asarray(Q)
        inside = (known.lower <= values) & (values <= known.upper)
        hits.append(inside[~np.eye(4, dtype=bool)].mean())
    return np.mean(hits)


def own_of_the_labels(probs, comp_labels, Q, seed):
    """Return the matrix that the labels alone speak for."""
    return uncertainty(probs, comp_labels, TransitionMatrix.uniform(4)).samples.mean(axis=0)


def kept_from_anchors(probs, comp_labels, Q, seed):
    """Return what about 40 answers at anchors of each class give, which knows nothing of labels."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.dirichlet(40 * row + 1e-9) for row in np.asarray(Q)])


@pytest.mark.parametrize("sharpness", [5.0, 1.2], ids=["sure", "unsure"])
@TRUE_MATRICES
def test_intervals_hold_the_true_entry_as_often_as_they_say(make, sharpness):
    assert 0.9 <= coverage(make, sharpness, own_of_the_labels) <= 0.98


@TRUE_MATRICES
def test_intervals_of_another_estimate_hold_the_true_entry_too(make):
    assert coverage(make, 2.0, kept_from_anchors) >= 0.94


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


def test_intervals_hold_the_share_of_the_samples_that_they_say():
    Q = TransitionMatrix.without_zeros(5, (0.6, 0.3, 0.1), seed=0)
    probs, comp_labels, _ = draw(Q, 2000, sharpness=3)
    for estimate in (Q, TransitionMatrix.uniform(5)):
        known = uncertainty(probs, comp_labels, estimate, level=0.8, n_samples=2000)
        inside = (known.lower <= known.samples) & (known.samples <= known.upper)
        shares = inside.mean(axis=0)[~np.eye(5, dtype=bool)]
        np.testing.assert_allclose(shares, 0.8, atol=0.04)


def test_sure_probabilities_give_the_dirichlet_posterior():
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


def test_samples_are_matrices_and_advice_names_the_class_with_least_known():
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    labels = np.repeat(np.arange(4), [500, 500, 20, 500])
    named = TransitionMatrix(np.asarray(Q), ["ant", "bee", "cat", "dog"])
    known = uncertainty(np.eye(4)[labels], Q.sample(labels), named, n_samples=50)
    assert known.samples.shape == (50, 4, 4)
    np.testing.assert_allclose(known.samples.sum(axis=2), 1)
    assert (known.samples.diagonal(axis1=1, axis2=2) == 0).all()
    assert (known.lower <= known.upper).all()
    assert known.row_error.argmax() == 2
    assert "More anchors of class 2 ('cat') would help most" in known.advice
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


# --- calibration --------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_a_model_is_recovered(temperature):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 5)) * 2
    probs = softmax(logits)
    labels = np.array([rng.choice(5, p=p) for p in probs])
    assert calibrate(logits * temperature, labels) == pytest.approx(temperature, rel=0.1)


def test_calibration_stays_at_one_without_evidence_and_takes_zeros():
    assert calibrate(np.log([[0.6, 0.4], [0.3, 0.7]]), [0, 0]) == 1
    with np.errstate(divide="ignore"):
        sure = np.log(np.eye(2)[[0, 1] * 50])
    assert calibrate(sure, [0, 1] * 45 + [1, 0] * 5) == pytest.approx(
        10, rel=0.01
    )  # surely wrong: as unsure as can be


def test_very_many_examples_give_the_temperature_of_some_of_them():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(150_000, 3)).astype(np.float32)
    labels = (softmax(logits).cumsum(axis=1) > rng.random((150_000, 1))).argmax(axis=1)
    found = calibrate(2 * logits, labels)
    assert found == calibrate(2 * logits[::3], labels[::3])
    assert found == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    "scores, labels, kind, wording",
    [
        ([[0.0, np.nan]], [0], InvalidInput, "none of them NaN"),
        ([[0.0, 1.0], [-np.inf, -np.inf]], [0, 1], InvalidInput, "a finite one in every row"),
        ([0.0, 1.0], [0], InvalidInput, r"Got shape \(2,\)"),
        ([[0.0, 1.0]], [0, 1], InvalidLabels, "one label per row"),
        ([[0.0, 1.0]], [2], InvalidLabels, r"integers 0\.\.1"),
    ],
)
def test_calibration_refuses_what_does_not_fit(scores, labels, kind, wording):
    with pytest.raises(kind, match=wording):
        calibrate(scores, labels)


# --- the choice of anchors ----------------------------------------------------------------------


def test_the_surest_anchors_give_a_better_matrix():
    Q = TransitionMatrix.without_zeros(5, (0.7, 0.3))
    gains = []
    for seed in range(5):
        probs, _, labels = draw(Q, 1000, sharpness=2, seed=seed)
        comp_probs = probs @ np.asarray(Q)
        chosen = choose_anchors(comp_probs, labels, 10)
        assert (np.bincount(labels[chosen]) == 10).all()
        best = from_anchors(comp_probs[chosen], labels[chosen], 5)
        gains.append(error(from_anchors(comp_probs, labels, 5), Q) - error(best, Q))
    assert np.mean(gains) > 0.05


def test_anchors_are_all_taken_where_there_are_few_and_misfits_refused():
    assert choose_anchors(np.full((3, 2), 0.5), [0, 1, 1], 5).tolist() == [0, 1, 2]
    with pytest.raises(InvalidLabels, match="one label per row"):
        choose_anchors(np.full((3, 2), 0.5), [0, 1])
    with pytest.raises(InvalidInput, match="n_per_class"):
        choose_anchors(np.full((2, 2), 0.5), [0, 1], 0)


# --- structure alone ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix.uniform(6, classes=list("abcdef")),
        TransitionMatrix.without_zeros(5, (0.6, 0.4)),
    ],
    ids=["uniform", "without zeros"],
)
def test_structure_is_enough_where_each_row_has_one_zero(Q):
    probs, _, _ = draw(Q, 4000, sharpness=4)
    classes = np.array(Q.classes) if Q.has_names else None
    found = from_structure(probs @ np.asarray(Q), classes=classes)
    assert error(found, Q) < 0.05
    assert found.classes == Q.classes


def test_structure_is_refused_where_several_assignments_fit():
    Q = TransitionMatrix.with_zeros(6, 2, seed=0)
    probs, _, _ = draw(Q, 4000, sharpness=4)
    with pytest.raises(NotIdentifiable, match="must identify the classes"):
        from_structure(probs @ np.asarray(Q))


def test_only_the_classes_that_cannot_be_told_apart_are_named():
    values = np.array([[0, 0, 0.5, 0.5], [0, 0, 0.7, 0.3], [0.4, 0.3, 0, 0.3], [0.3, 0.5, 0.2, 0]])
    probs, _, _ = draw(TransitionMatrix(values), 4000, sharpness=5)
    with pytest.raises(NotIdentifiable, match="does not for 'ant', 'bee': their rows"):
        from_structure(probs @ values, classes=["ant", "bee", "cat", "dog"])


def test_structure_with_mistakes_keeps_the_diagonal():
    values = 0.95 * np.asarray(TransitionMatrix.uniform(4)) + 0.05 * np.eye(4)
    probs, _, _ = draw(TransitionMatrix(values, allow_diagonal=True), 4000, sharpness=5)
    found = from_structure(probs @ values, allow_diagonal=True)
    np.testing.assert_allclose(np.asarray(found).diagonal(), 0.05, atol=0.02)


@pytest.mark.parametrize(
    "comp_probs, wording",
    [([0.5, 0.5], r"Got shape \(2,\)"), ([[0.5, 0.5]], "at least one row per class, 2. Got 1")],
)
def test_structure_refuses_what_does_not_fit(comp_probs, wording):
    with pytest.raises(InvalidInput, match=wording):
        from_structure(comp_probs)


def test_single_precision_is_kept_and_gives_the_same_matrix():
    rng = np.random.default_rng(3)
    comp_probs = rng.dirichlet(np.full(6, 0.1), size=6000) @ np.asarray(TransitionMatrix.uniform(6))
    found = from_structure(comp_probs.astype(np.float32))
    np.testing.assert_allclose(found, from_structure(comp_probs), atol=1e-5)
    negative = comp_probs.astype(np.float32)
    negative[-1, 0] = -0.1
    with pytest.raises(InvalidInput, match="comp_probs"):
        from_structure(negative)
