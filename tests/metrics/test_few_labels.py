"""Accuracy from a few true labels and the scores of many predictions."""

import numpy as np
import pytest

from naysay import InvalidInput, InvalidLabels, TransitionMatrix
from naysay.metrics import accuracy_with_few_labels
from naysay.metrics.few_labels import (
    drawn_within_classes,
    estimate_improvement,
    few_labels_estimate,
)


def simulate(rng, accuracies, shares, n, *, true=None):
    """Draw true classes, predictions, and overconfident scores of them."""
    accuracies = np.asarray(accuracies)
    if true is None:
        true = rng.choice(len(shares), n, p=shares)
    sure = rng.beta(8 * accuracies[true], 8 * (1 - accuracies[true]))
    is_right = rng.random(len(true)) < sure
    return true, np.where(is_right, true, (true + 1) % len(shares)), sure**0.5


@pytest.mark.parametrize("accuracies", [(0.9, 0.6, 0.5), (0.97, 0.95, 0.9)])
@pytest.mark.parametrize("per_class", [5, 20])
def test_the_interval_covers_whatever_the_scores_are(accuracies, per_class):
    rng = np.random.default_rng(0)
    shares = np.array([0.6, 0.3, 0.1])
    truth = shares @ accuracies
    inside, width, alone = 0, [], []
    for _ in range(300):
        _, _, all_scores = simulate(rng, accuracies, shares, 500)
        few = simulate(rng, accuracies, shares, 0, true=np.repeat(np.arange(3), per_class))
        found = accuracy_with_few_labels(
            few[0], few[1], scores=few[2], all_scores=all_scores, class_shares=shares
        )
        inside += found.interval[0] <= truth <= found.interval[1]
        width.append(np.ptp(found.interval))
        alone.append(np.ptp(accuracy_with_few_labels(*few[:2], class_shares=shares).interval))
    assert inside / 300 >= 0.92
    assert np.mean(width) <= np.mean(alone)


def test_no_interval_is_wider_than_by_the_few_labels_alone():
    """Neither scores nor a better model with doubt about how much better may widen it."""
    rng = np.random.default_rng(3)
    weights, strata = np.full(20, 0.05), np.repeat(np.arange(4), 5)
    for _ in range(200):
        correct = (rng.random(20) < rng.uniform(0.05, 0.95)).astype(float)
        scores, all_scores = rng.random(20) + 0.3 * correct, rng.uniform(0, 1.3, 300)
        doubt = {"weights_error": rng.uniform(0, 0.1)}
        alone = few_labels_estimate(correct, weights, strata, **doubt)
        found = few_labels_estimate(
            *(correct, weights, strata, scores, all_scores),
            shift=rng.normal(0, 0.1),
            shift_error=rng.uniform(0, 0.1),
            **doubt,
        )
        assert np.ptp(found.interval) <= np.ptp(alone.interval) + 1e-12
        assert found.interval[0] - 1e-12 <= found.value <= found.interval[1] + 1e-12


def test_scores_that_tell_right_from_wrong_make_the_interval_narrower():
    rng = np.random.default_rng(1)
    is_right = rng.random(5000) < 0.7
    scores = np.where(is_right, 0.9, 0.2) + 0.05 * rng.normal(size=5000)
    predictions = np.where(is_right, 0, 1)
    few = slice(0, 100)
    true = np.zeros(100, dtype=int)
    with_scores = accuracy_with_few_labels(
        true, predictions[few], scores=scores[few], all_scores=scores
    )
    without = accuracy_with_few_labels(true, predictions[few])
    assert np.ptp(with_scores.interval) < 0.75 * np.ptp(without.interval)
    assert with_scores.value == pytest.approx(0.7, abs=0.03)


def test_a_sample_without_mistakes_is_no_proof():
    found = accuracy_with_few_labels([0, 1] * 10, [0, 1] * 10)
    assert found.value == pytest.approx(1)
    assert found.interval[0] < 0.9
    assert found.n_true_labels == 20
    assert "from 20 true labels" in str(found)


@pytest.mark.parametrize("n", [*range(2, 40), 200])
def test_rounding_does_not_exclude_an_accuracy_of_one(n):
    found = accuracy_with_few_labels(np.zeros(n, int), np.zeros(n, int))
    assert found.interval[1] == 1
    assert type(found.interval[0]) is type(found.interval[1]) is float


def test_classes_count_by_their_share():
    true, predicted = ["a"] * 10 + ["b"] * 10, ["a"] * 20
    found = accuracy_with_few_labels(true, predicted, class_shares={"a": 0.9, "b": 0.1})
    assert found.value == pytest.approx(0.9)
    assert accuracy_with_few_labels(true, predicted).value == 0.5


@pytest.mark.parametrize(
    "counts, expected",
    [
        ([8, 8, 8, 8], True),
        ([8, 8, 8, 3], True),  # a class has no more examples
        ([20, 9, 4, 1], False),  # a random sample
        ([4, 9, 4, 20], True),  # not with these shares
    ],
)
def test_class_counts_show_how_examples_were_drawn(counts, expected):
    shares = np.array([0.55, 0.25, 0.15, 0.05])
    true = np.repeat(np.arange(4), counts)
    assert drawn_within_classes(true, true, shares) == expected


@pytest.mark.parametrize(
    "given, error, message",
    [
        (([0], [0]), InvalidLabels, "at least 2"),
        (([0, 1], [0]), InvalidLabels, "one class per example"),
        (([0, 1], [0, 1], {"scores": [1, 1]}), InvalidInput, "together"),
        (([0, 1], [0, 1], {"scores": [1], "all_scores": [1]}), InvalidInput, r"shape \(2,\)"),
        (
            ([0, 1], [0, 1], {"scores": [1, np.nan], "all_scores": [1]}),
            InvalidInput,
            "finite",
        ),
        (([0, 5], [0, 1], {"class_shares": [0.5, 0.5]}), InvalidInput, r"Missing: \[5\]"),
        (([0, 1], [0, 1], {"class_shares": {0: 1}}), InvalidInput, "Missing"),
        (([0, 1], [0, 1], {"class_shares": [-1, 1]}), InvalidInput, "non-negative"),
    ],
)
def test_input_that_does_not_fit_is_refused(given, error, message):
    *arrays, options = given if len(given) == 3 else (*given, {})
    with pytest.raises(error, match=message):
        accuracy_with_few_labels(*arrays, **options)


@pytest.mark.parametrize("is_better", [True, False])
def test_the_labels_decide_which_of_two_models_is_better(is_better):
    """Both models are sure of themselves; the labels know."""
    rng = np.random.default_rng(0)
    Q = TransitionMatrix.without_zeros(4, (0.8, 0.1, 0.1), seed=0)
    true = rng.integers(4, size=1000)
    good, bad = (
        0.05 + 0.8 * np.eye(4)[np.where(rng.random(1000) < right, true, (true + 1) % 4)]
        for right in (0.85, 0.6)
    )
    models = (good, bad) if is_better else (bad, good)
    likelihoods = np.asarray(Q).T[Q.sample(true, seed=1)]
    shift, error = estimate_improvement(*models, likelihoods)
    accuracies = [(each.argmax(axis=1) == true).mean() for each in models]
    assert shift == pytest.approx(accuracies[0] - accuracies[1], abs=2 * error)
    assert (shift > 0) == is_better
