"""Accuracy, precision and recall without true labels: identities, simulations, bounds."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import softmax

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayWarning,
    TransitionMatrix,
    metrics,
)
from naysay.estimation import uncertainty


def with_mistakes(Q, rate):
    values = (1 - rate) * np.asarray(Q) + rate * np.eye(Q.n_classes)
    return TransitionMatrix(values, Q.classes, allow_diagonal=True)


MATRICES = {
    "uniform": TransitionMatrix.uniform(10),
    "without0": TransitionMatrix.without_zeros(10),
    "with0": TransitionMatrix.with_zeros(10),
    "mistakes": with_mistakes(TransitionMatrix.without_zeros(10), 0.03),
}
#: Two classes with the same row, a circle of labels, and a label that nobody names.
SINGULAR = {
    "twins": [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0.3, 0.5, 0, 0.2], [0.4, 0.2, 0.4, 0]],
    "circle": 0.5 * (np.roll(np.eye(6), 2, axis=1) + np.roll(np.eye(6), 3, axis=1)),
    "unused": np.c_[np.r_[0.5 * (1 - np.eye(3)), [[0.2, 0.3, 0.5]]], np.zeros(4)],
}


def simulate(Q, n, rng, accuracy=0.85):
    """Return true classes, predictions that prefer the next class when wrong, and labels."""
    prior = np.linspace(1, 2, Q.n_classes)
    true = rng.choice(Q.n_classes, size=n, p=prior / prior.sum())
    step = np.where(rng.random(n) < 0.5, 1, rng.integers(1, Q.n_classes, size=n))
    predictions = np.where(rng.random(n) < accuracy, true, (true + step) % Q.n_classes)
    return true, predictions, Q.sample(true, seed=rng)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
def test_the_estimate_is_that_of_a_plain_loop(Q):
    n = 2000  # 200 labels may allow bounds only
    _, predictions, labels = simulate(Q, n, np.random.default_rng(0))
    inverse = np.linalg.inv(np.asarray(Q))
    terms = [inverse[j, k] for j, k in zip(labels, predictions, strict=True)]
    mean = math.fsum(terms) / n
    error = math.sqrt(math.fsum((term - mean) ** 2 for term in terms) / (n - 1) / n)
    found = metrics.accuracy_without_labels(predictions, labels, Q)
    assert found.value == pytest.approx(mean, rel=1e-9)
    assert found.standard_error == pytest.approx(error, rel=1e-9)
    assert found.n_labels == n


@given(n_classes=st.integers(2, 12), seed=st.integers(0, 1000))
@settings(max_examples=30)
def test_property_a_uniform_matrix_has_a_closed_form_and_wilsons_interval(n_classes, seed):
    rng = np.random.default_rng(seed)
    n = 5000
    Q = TransitionMatrix.uniform(n_classes)
    _, predictions, labels = simulate(Q, n, rng)
    hits = int((predictions == labels).sum())
    found = metrics.accuracy_without_labels(predictions, labels, Q)
    assert found.value == pytest.approx(1 - (n_classes - 1) * hits / n, abs=1e-9)
    z = 1.959963984540054
    centre = (hits + z**2 / 2) / (n + z**2)
    half = z * math.sqrt(hits * (n - hits) / n + z**2 / 4) / (n + z**2)
    low, high = (1 - (n_classes - 1) * (centre + side * half) for side in (1, -1))
    assert found.interval == pytest.approx((max(low, 0), min(high, 1)), abs=1e-6)


@given(seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_property_relabelling_the_classes_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    Q = MATRICES["without0"]
    _, predictions, labels = simulate(Q, 3000, rng)
    new = rng.permutation(10)
    values = np.empty((10, 10))
    values[np.ix_(new, new)] = np.asarray(Q)
    found = metrics.accuracy_without_labels(predictions, labels, Q)
    again = metrics.accuracy_without_labels(new[predictions], new[labels], values)
    assert again.value == pytest.approx(found.value)
    assert again.interval == pytest.approx(found.interval)


@pytest.mark.parametrize("Q", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("n, accuracy", [(4000, 0.8), (1500, 0.97)])
def test_the_interval_contains_the_true_accuracy_as_often_as_it_says(Q, n, accuracy):
    rng = np.random.default_rng(7)
    estimates = [
        metrics.accuracy_without_labels(*simulate(Q, n, rng, accuracy)[1:], Q) for _ in range(200)
    ]
    hits = sum(each.interval[0] <= accuracy <= each.interval[1] for each in estimates)
    assert 184 <= hits <= 196
    values = np.array([each.value for each in estimates])
    assert abs(values.mean() - accuracy) < 4 * values.std() / math.sqrt(200)
    errors = np.mean([each.standard_error for each in estimates])
    assert values.std() == pytest.approx(errors, rel=0.2)


def test_the_interval_does_not_shrink_to_a_point_where_nothing_contradicts():
    Q = TransitionMatrix.uniform(10)
    found = metrics.accuracy_without_labels([0] * 50, [1, 2] * 25, Q)
    assert found.value == pytest.approx(1)
    assert found.interval[1] == 1
    assert found.interval[0] == pytest.approx(1 - 9 * 1.96**2 / (50 + 1.96**2), abs=1e-3)


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_rounding_does_not_exclude_an_accuracy_of_one(n_classes):
    true, Q = np.arange(300) % n_classes, TransitionMatrix.uniform(n_classes)
    found = metrics.accuracy_without_labels(true, Q.sample(true, seed=1), Q)
    assert found.interval[1] == 1


def test_a_matrix_that_is_not_that_of_the_labels_is_pointed_out():
    rng = np.random.default_rng(0)
    Q = with_mistakes(TransitionMatrix.uniform(3), 0.3)
    true = rng.integers(3, size=20_000)
    labels = TransitionMatrix.uniform(3).sample(true, seed=rng)  # nobody errs
    with pytest.warns(NaysayWarning, match="Q does not describe these labels"):
        found = metrics.accuracy_without_labels(true, labels, Q)
    assert found.value > 1
    assert found.interval == (0, 1)
    assert str(found).startswith("unknown: the whole interval is outside 0 to 100 %")


def test_samples_of_Q_widen_the_interval_until_it_holds():
    """Q from 400 true labels per class, as bad as an anchor set may be; 200 data sets."""
    rng = np.random.default_rng(11)
    Q, accuracy, with_samples, without = TransitionMatrix.without_zeros(5, seed=2), 0.85, 0, 0
    for _ in range(200):
        counts = np.stack([rng.multinomial(400, row) for row in np.asarray(Q)]) + 1e-9
        estimated = counts / counts.sum(axis=1, keepdims=True)
        draws = np.stack([rng.dirichlet(row, size=60) for row in counts + 1e-3], axis=1)
        _, predictions, labels = simulate(Q, 4000, rng, accuracy)
        wide = metrics.accuracy_without_labels(predictions, labels, estimated, Q_samples=draws)
        narrow = metrics.accuracy_without_labels(predictions, labels, estimated)
        assert wide.value == narrow.value
        assert wide.standard_error > narrow.standard_error
        with_samples += wide.interval[0] <= accuracy <= wide.interval[1]
        without += narrow.interval[0] <= accuracy <= narrow.interval[1]
    assert without < 184
    assert 184 <= with_samples <= 197


@pytest.mark.parametrize("centred", [True, False])
def test_the_intervals_hold_wherever_the_samples_of_Q_are_centred(centred):
    """Samples about a matrix from true labels: the one passed as Q, or a better one."""
    rng = np.random.default_rng(11)
    Q, accuracy, hits, recalls = TransitionMatrix.without_zeros(5, seed=2), 0.85, 0, []
    for _ in range(100):
        counts = np.stack([rng.multinomial(400 if centred else 2000, row) for row in np.asarray(Q)])
        draws = np.stack([rng.dirichlet(row, size=60) for row in counts + 1e-3], axis=1)
        passed = counts if centred else [rng.multinomial(100, row) for row in np.asarray(Q)]
        estimated = passed / np.sum(passed, axis=1, keepdims=True)
        _, predictions, labels = simulate(Q, 4000, rng, accuracy)
        about = predictions, labels, estimated
        found = metrics.accuracy_without_labels(*about, Q_samples=draws)
        hits += found.interval[0] <= accuracy <= found.interval[1]
        for each in metrics.recall_without_labels(*about, Q_samples=draws):
            recalls.append(each.interval[0] <= accuracy <= each.interval[1])
    assert hits >= 92
    assert np.mean(recalls) >= 0.95


def test_samples_of_uncertainty_make_up_for_a_first_guess_of_Q():
    rng, hits = np.random.default_rng(0), 0
    for seed in range(15):
        Q = TransitionMatrix.without_zeros(4, seed=seed)
        rows = [rng.dirichlet(30 * np.delete(row, k)) for k, row in enumerate(np.asarray(Q))]
        guess = TransitionMatrix([np.insert(row, k, 0) for k, row in enumerate(rows)])
        true = rng.integers(4, size=6000)
        probs = softmax(3 * rng.normal(size=(6000, 4)) + 9 * np.eye(4)[true], axis=1)
        labels = Q.sample(true, seed=rng)
        known = uncertainty(probs[:2000], labels[:2000], guess)
        predictions, truth = probs[2000:].argmax(axis=1), true[2000:]
        found = metrics.accuracy_without_labels(
            predictions, labels[2000:], guess, Q_samples=known.samples
        )
        hits += found.interval[0] <= (predictions == truth).mean() <= found.interval[1]
    assert hits >= 13


def test_a_few_wild_samples_of_Q_change_little():
    Q, rng = TransitionMatrix.without_zeros(5, seed=2), np.random.default_rng(0)
    draws = np.stack([rng.dirichlet(1000 * row + 1e-3, size=100) for row in np.asarray(Q)], axis=1)
    wild = draws.copy()
    wild[::20, 0] = wild[::20, 1] + 1e-7 * (wild[::20, 0] - wild[::20, 1])  # nearly singular
    about = (*simulate(Q, 4000, rng)[1:], Q)
    found, again = (metrics.accuracy_without_labels(*about, Q_samples=q) for q in (draws, wild))
    assert again.standard_error == pytest.approx(found.standard_error, rel=0.1)


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["uniform", "with0"])
def test_precision_and_recall_of_every_class_are_contained_as_often_as_they_say(name):
    Q, rng, n_classes = MATRICES[name], np.random.default_rng(3), 10
    true, predictions, _ = simulate(Q, 2_000_000, rng)
    joint = np.zeros((n_classes, n_classes))
    np.add.at(joint, (true, predictions), 1)
    truths = {
        metrics.precision_without_labels: joint.diagonal() / joint.sum(axis=0),
        metrics.recall_without_labels: joint.diagonal() / joint.sum(axis=1),
    }
    hits, errors = dict.fromkeys(truths, 0), {each: [] for each in truths}
    for _ in range(60):
        _, predictions, labels = simulate(Q, 40_000, rng)
        for estimate, truth in truths.items():
            found = estimate(predictions, labels, Q)
            for each, value in zip(found, truth, strict=True):
                hits[estimate] += each.interval[0] <= value <= each.interval[1]
                errors[estimate].append((each.value - value) / each.standard_error)
    for estimate in truths:
        assert 0.92 <= hits[estimate] / 600 <= 0.98
        assert abs(np.mean(errors[estimate])) < 0.3
        assert np.std(errors[estimate]) == pytest.approx(1, abs=0.2)


def test_precision_weighted_by_predictions_is_accuracy():
    Q = MATRICES["with0"]
    _, predictions, labels = simulate(Q, 5000, np.random.default_rng(0))
    precision = metrics.precision_without_labels(predictions, labels, Q)
    total = sum(each.value * each.n_labels for each in precision) / 5000
    accuracy = metrics.accuracy_without_labels(predictions, labels, Q)
    assert total == pytest.approx(accuracy.value)


def test_recall_with_certain_labels_is_the_ordinary_one():
    """Two classes: "not a" says "b", so nothing is uncertain but the sample."""
    Q = TransitionMatrix([[0, 1], [1, 0]], classes=["a", "b"])
    predictions = ["a", "a", "a", "b", "b"] * 20
    labels = ["b", "b", "a", "a", "b"] * 20  # true: a a b b a
    found = metrics.recall_without_labels(predictions, labels, Q)
    assert [each.value for each in found] == pytest.approx([2 / 3, 1 / 2])


def test_a_class_never_predicted_has_no_precision_and_one_too_rare_no_recall():
    Q = TransitionMatrix.uniform(3)
    empty = metrics.precision_without_labels([0, 0, 1], [1, 2, 2], Q)[2]
    assert (empty.value, empty.interval, empty.n_labels) == (None, (0.0, 1.0), 0)
    labels = [1, 2] * 50  # nobody says "not 0": all are 0, as far as one can see
    recall = metrics.recall_without_labels([0] * 100, labels, Q)
    assert recall[0].value == pytest.approx(1)
    assert (recall[1].value, recall[1].interval) == (None, (0.0, 1.0))


def test_recall_is_not_certain_where_few_labels_happen_not_to_contradict():
    Q = TransitionMatrix.uniform(3)
    for each in metrics.recall_without_labels([0], [1], Q):
        assert (each.value, each.interval) == (None, (0.0, 1.0))
    for n_classes, n in [(3, 1), (3, 3), (10, 10), (10, 50)]:
        Q, rng, hits = TransitionMatrix.uniform(n_classes), np.random.default_rng(0), []
        for _ in range(200):
            true = rng.integers(n_classes, size=n)
            predictions = np.where(rng.random(n) < 0.9, true, (true + 1) % n_classes)
            for each in metrics.recall_without_labels(predictions, Q.sample(true, seed=rng), Q):
                hits.append(each.interval[0] <= 0.9 <= each.interval[1])
        assert np.mean(hits) >= 0.95


def identified(Q, joint):
    """Return the smallest and largest accuracy that explain the labels of a joint (Y, f)."""
    ends = []
    for sign in (1, -1):
        total = 0.0
        for k in range(len(Q)):
            cost = np.zeros(len(Q))
            cost[k] = sign
            total += sign * linprog(cost, A_eq=Q.T, b_eq=Q.T @ joint[:, k]).fun
        ends.append(total)
    return ends


@pytest.mark.unmeasured
@pytest.mark.parametrize("values", SINGULAR.values(), ids=SINGULAR)
@pytest.mark.parametrize("accuracy", [0.6, 1.0])
def test_with_a_singular_matrix_bounds_hold_and_are_near_the_best_possible(values, accuracy):
    Q, rng = TransitionMatrix(values), np.random.default_rng(5)
    n_classes, n = Q.n_classes, 4000
    joint = np.full((n_classes, n_classes), (1 - accuracy) / (n_classes - 1) / n_classes)
    np.fill_diagonal(joint, accuracy / n_classes)
    low, high = identified(np.asarray(Q), joint)
    hits, ends = 0, []
    for _ in range(20):
        true = rng.integers(n_classes, size=n)
        wrong = (true + rng.integers(1, n_classes, size=n)) % n_classes
        predictions = np.where(rng.random(n) < accuracy, true, wrong)
        found = metrics.accuracy_without_labels(predictions, Q.sample(true, seed=rng), Q)
        assert found.value is found.standard_error is None
        hits += found.interval[0] <= accuracy <= found.interval[1]
        ends.append(found.interval)
    assert hits >= 18
    mean_low, mean_high = np.mean(ends, axis=0)
    assert low - 0.1 < mean_low < low
    assert high - 0.002 <= mean_high < high + 0.1


def test_a_matrix_too_near_a_singular_one_gives_bounds_with_few_labels():
    Q = TransitionMatrix.human("clcifar10")
    rng = np.random.default_rng(0)
    _, predictions, labels = simulate(Q, 200, rng)
    assert metrics.accuracy_without_labels(predictions, labels, Q).value is None
    _, predictions, labels = simulate(Q, 20_000, rng)
    found = metrics.accuracy_without_labels(predictions, labels, Q)
    assert found.value == pytest.approx(0.85, abs=4 * found.standard_error)


def test_precision_has_bounds_and_recall_refuses_a_singular_matrix():
    Q = TransitionMatrix(SINGULAR["twins"])
    true, predictions, labels = simulate(Q, 4000, np.random.default_rng(0))
    for k, each in enumerate(metrics.precision_without_labels(predictions, labels, Q)):
        truth = (true[predictions == k] == k).mean()
        assert each.interval[0] <= truth <= each.interval[1]
    with pytest.raises(InvalidTransitionMatrix, match="invertible to estimate recall"):
        metrics.recall_without_labels(predictions, labels, Q)


def test_names_serve_as_well_as_indices():
    Q = TransitionMatrix(np.asarray(TransitionMatrix.without_zeros(4)), list("abcd"))
    _, predictions, labels = simulate(Q, 500, np.random.default_rng(0))
    names = np.array(list("abcd"))
    assert metrics.accuracy_without_labels(
        names[predictions], names[labels], Q
    ) == metrics.accuracy_without_labels(predictions, labels, Q)


def test_the_estimate_reads_well_and_goes_into_json():
    found = metrics.accuracy_without_labels(
        [0] * 100, [0] * 2 + [1] * 98, TransitionMatrix.uniform(4), confidence=0.9
    )
    assert str(found) == (
        "94.0 % ± 4.2 (90 % interval: 82.4 to 98.0 %), from 100 complementary labels"
    )
    assert json.loads(json.dumps(found.to_dict()))["n_labels"] == 100
    Q = TransitionMatrix(SINGULAR["twins"])
    assert "95 % bounds" in str(metrics.accuracy_without_labels([0, 1], [2, 3], Q))


@pytest.mark.parametrize(
    "predictions, labels, options, error, message",
    [
        ([0, 1], [1], {}, InvalidLabels, r"one label per prediction, shape \(2,\)"),
        ([], [], {}, InvalidLabels, "at least one"),
        ([3], [0], {}, InvalidLabels, r"predictions must be integers 0\.\.2"),
        ([[0.1, 0.9, 0]], [0], {}, InvalidLabels, "predictions must be integers"),
        ([[0, 1]], [0], {}, InvalidLabels, "argmax"),
        ([0], [1], {"confidence": 95}, InvalidInput, "confidence must be above 0 and below 1"),
        ([0], [1], {"Q_samples": np.eye(3)}, InvalidTransitionMatrix, "at least 2 matrices"),
        ([0], [1], {"Q_samples": np.ones((2, 3, 3))}, InvalidTransitionMatrix, "sum to 1"),
        ([0], [1], {"Q_samples": np.full((2, 3, 3), 1 / 3)}, InvalidTransitionMatrix, "singular"),
    ],
)
def test_input_that_does_not_fit_is_refused(predictions, labels, options, error, message):
    Q = TransitionMatrix.uniform(3)
    with pytest.raises(error, match=message):
        metrics.accuracy_without_labels(predictions, labels, Q, **options)


def test_a_few_singular_samples_of_Q_change_little():
    """A sample of an estimate from few anchors became singular when a model file rounded it."""
    Q = TransitionMatrix.without_zeros(3, (0.8, 0.2), seed=0)
    samples = np.broadcast_to(np.asarray(Q), (40, 3, 3)).copy()
    samples[:, 0] = 0.9 * samples[:, 0] + 0.1 * samples[:, 1]
    true = np.arange(600) % 3
    labels = Q.sample(true, seed=1)
    without = metrics.accuracy_without_labels(true, labels, Q, Q_samples=samples)
    samples[3] = [[0, 0, 1], [0, 0, 1], [0.98, 0.02, 0]]
    found = metrics.accuracy_without_labels(true, labels, Q, Q_samples=samples)
    assert found.interval == pytest.approx(without.interval, abs=0.02)
    samples[:30] = [[0, 0, 1], [0, 0, 1], [0.98, 0.02, 0]]
    found = metrics.accuracy_without_labels(true, labels, Q, Q_samples=samples)
    assert found.interval[1] - found.interval[0] > 0.9


def test_labels_that_cannot_occur_and_samples_of_a_singular_matrix_are_refused():
    Q = TransitionMatrix(SINGULAR["unused"])
    with pytest.raises(InvalidLabels, match=r"contains class 3.*drop the 1 rows"):
        metrics.accuracy_without_labels([0, 0], [3, 1], Q)
    with pytest.raises(InvalidInput, match="Q_samples needs an invertible Q"):
        metrics.accuracy_without_labels([0], [1], Q, Q_samples=np.zeros((2, 4, 4)))


def test_the_scorer_gives_the_accuracy_and_refuses_bounds():
    Q = TransitionMatrix.without_zeros(4)
    _, predictions, labels = simulate(Q, 500, np.random.default_rng(0))
    names = np.array(["emu", "cat", "owl", "dog"])
    classifier = SimpleNamespace(
        classes_=names, transition_=Q, predict=lambda X: names[predictions[X]]
    )
    expected = metrics.accuracy_without_labels(predictions, labels, Q).value
    assert metrics.accuracy_scorer(classifier, np.arange(500), names[labels]) == expected
    classifier.transition_ = TransitionMatrix(SINGULAR["twins"])
    with pytest.raises(InvalidTransitionMatrix, match="log_likelihood_scorer"):
        metrics.accuracy_scorer(classifier, np.arange(500), names[labels])


def test_recall_is_not_certain_where_nothing_was_missed():
    twenty = [0, 1] * 10
    for each in metrics.recall_without_labels(twenty, [1, 0] * 10, TransitionMatrix.uniform(2)):
        assert each.value == 1
        assert 0.7 < each.interval[0] < 0.95
        assert each.standard_error > 0


def test_a_sample_without_a_mistake_does_not_warn_of_the_matrix(recwarn):
    true, right = np.arange(20) % 3, np.asarray(TransitionMatrix.uniform(3))
    mistakes = TransitionMatrix(0.9 * right + 0.1 * np.eye(3), allow_diagonal=True)
    found = metrics.accuracy_without_labels(true, (true + 1 + np.arange(20) % 2) % 3, mistakes)
    assert found.value > 1.05
    assert found.standard_error == pytest.approx(0)
    assert not recwarn


def test_several_labels_of_an_example_are_averaged_and_not_taken_for_independent():
    """With 4 labels per example the interval is narrower than with 1, and still covers."""
    rng = np.random.default_rng(3)
    Q = TransitionMatrix.without_zeros(4, (0.6, 0.3, 0.1), seed=0)
    inside, widths = 0, []
    for _ in range(200):
        true = rng.integers(4, size=150)
        predicted = np.where(rng.random(150) < 0.8, true, (true + 1) % 4)
        example = np.repeat(np.arange(150), 4)
        labels = Q.sample(true[example], seed=rng)
        found = metrics.accuracy_without_labels(predicted[example], labels, Q, examples=example)
        single = metrics.accuracy_without_labels(predicted, labels[::4], Q)
        naive = metrics.accuracy_without_labels(predicted[example], labels, Q)
        widths.append([np.ptp(each.interval) for each in (naive, found, single)])
        inside += found.interval[0] <= 0.8 <= found.interval[1]
    assert found.n_labels == 600
    assert 0.9 < inside / 200 <= 1
    assert (np.diff(np.mean(widths, axis=0)) > 0).all()


def test_examples_must_be_named_for_every_label():
    with pytest.raises(InvalidLabels, match="examples must have one entry per label"):
        metrics.accuracy_without_labels([0, 1], [1, 0], TransitionMatrix.uniform(3), examples=[0])
