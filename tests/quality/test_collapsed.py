"""Classes that a model has lost, found in simulations whose truth is known."""

import numpy as np
import pytest

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    TransitionMatrix,
    quality,
)
from simulated import animals, draw


def collapse(true, probs, how):
    """Create the probabilities of a model that is broken in one way."""
    broken = probs.copy()
    if how == "merged":  # every bat is taken for an ape
        broken[:, 0] += broken[:, 1]
        broken[:, 1] = 0
    elif how == "swapped":
        broken[:, [1, 2]] = broken[:, [2, 1]]
    elif how == "cycle":
        broken[:, [1, 2, 3]] = broken[:, [2, 3, 1]]
    elif how == "mixed":  # apes and bats are confused at random
        swap = np.arange(len(true)) % 2 == 0
        broken[swap, 0], broken[swap, 1] = probs[swap, 1], probs[swap, 0]
    elif how == "dead":  # every bat becomes anything else
        broken[:, 1] = 0
        broken[np.arange(len(true)), np.arange(len(true)) % 5 + (np.arange(len(true)) % 5 > 0)] += (
            3.0 * (true == 1)
        )
    return broken / broken.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "how, expected",
    [
        ("merged", {("merged", ("bat", "ape"))}),
        ("swapped", {("swapped", ("bat", "cat"))}),
        ("mixed", {("merged", ("ape", "bat"))}),
        ("dead", {("dead", ("bat",))}),
        (
            "cycle",
            {
                ("misnamed", ("bat", "cat")),
                ("misnamed", ("cat", "dog")),
                ("misnamed", ("dog", "bat")),
            },
        ),
    ],
)
def test_a_broken_class_is_found_and_named(how, expected):
    Q = animals()
    probs, labels, true = draw(Q, 12_000, sharpness=4, seed=2)
    broken = collapse(true, probs, how)
    found = quality.find_collapsed_classes(broken, labels, Q)
    assert {(each.kind, each.classes) for each in found.findings} == expected
    assert found
    assert all(repr(name) in str(found) for _, names in expected for name in names)
    assert found.to_dict()["findings"][0]["message"] == str(found.findings[0])


@pytest.mark.unmeasured
@pytest.mark.parametrize("n", [60, 400, 6000])
@pytest.mark.parametrize("sharpness", [1.7, 4.0])
def test_healthy_predictions_raise_no_false_alarm(n, sharpness):
    rng = np.random.default_rng(8)
    Q = animals()
    alarms = [
        str(found)
        for _ in range(100)
        for probs, labels, _ in [draw(Q, n, sharpness=sharpness, seed=rng)]
        if (found := quality.find_collapsed_classes(probs, labels, Q))
    ]
    assert len(alarms) <= 5, alarms[:2]


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "make, n_classes, n, accuracy",
    [
        (TransitionMatrix.without_zeros, 10, 100, 0.9),
        (TransitionMatrix.without_zeros, 10, 1000, 0.9),
        (TransitionMatrix.with_zeros, 10, 100, 0.95),
        (TransitionMatrix.without_zeros, 30, 2000, 0.9),
        (TransitionMatrix.without_zeros, 5, 100, 0.9),
    ],
)
def test_a_badly_conditioned_matrix_raises_no_false_alarm(make, n_classes, n, accuracy):
    rng = np.random.default_rng(10)
    alarms = 0
    for seed in range(100):
        Q = make(n_classes, seed=seed)
        true = rng.integers(n_classes, size=n)
        others = (true + rng.integers(1, n_classes, size=n)) % n_classes
        predictions = np.where(rng.random(n) < accuracy, true, others)
        labels = Q.sample(true, seed=rng)
        found = quality.find_collapsed_classes(np.eye(n_classes)[predictions], labels, Q)
        alarms += bool(found)
    assert alarms <= 5


def test_one_label_raises_no_alarm():
    Q = TransitionMatrix.uniform(2)
    assert not quality.find_collapsed_classes([[1.0, 0.0]], [0], Q)
    many = np.arange(40) % 2
    assert quality.find_collapsed_classes(np.eye(2)[many], many, Q).findings[0].kind == "swapped"


@pytest.mark.unmeasured
def test_swapped_and_merged_classes_are_found_whatever_the_matrix():
    rng = np.random.default_rng(11)
    swapped = merged = 0
    for seed in range(50):
        Q = TransitionMatrix.without_zeros(5, seed=seed)
        true = rng.integers(5, size=2000)
        predictions = np.where(rng.random(2000) < 0.9, true, rng.integers(5, size=2000))
        labels = Q.sample(true, seed=rng)
        for names in ([1, 0, 2, 3, 4], [0, 0, 2, 3, 4]):
            probs = np.eye(5)[np.array(names)[predictions]]
            found = quality.find_collapsed_classes(probs, labels, Q)
            kinds = {each.kind for each in found.findings if "1" in each.classes}
            swapped += names[0] == 1 and bool(kinds & {"swapped", "misnamed"})
            merged += names[0] == 0 and bool(kinds & {"merged", "dead"})
    assert swapped >= 45
    assert merged >= 40


@pytest.mark.unmeasured
def test_a_class_lost_among_ten_is_found_with_few_labels():
    rng = np.random.default_rng(12)
    Q = TransitionMatrix.uniform(10)
    found = {"merged": 0, "absent": 0}
    for _ in range(12):
        true = rng.integers(10, size=3000)
        healthy = np.where(rng.random(3000) < 0.8, true, rng.integers(10, size=3000))
        probs, labels = np.eye(10)[np.where(healthy == 1, 0, healthy)], Q.sample(true, seed=rng)
        findings = quality.find_collapsed_classes(probs, labels, Q).findings
        found["merged"] += ("merged", ("1", "0")) in [(e.kind, e.classes) for e in findings]
        occurs = true != 1
        found["absent"] += bool(quality.find_collapsed_classes(probs[occurs], labels[occurs], Q))
    assert found["merged"] >= 10
    assert found["absent"] <= 1


def test_classes_that_are_mixed_at_random_are_found_with_few_labels():
    rng = np.random.default_rng(13)
    found = {"mixed": 0, "at the limit": 0}
    for seed in range(12):
        Q = TransitionMatrix.with_zeros(10, seed=seed)
        true = rng.integers(10, size=2000)
        labels = Q.sample(true, seed=rng)
        either = np.where(true < 2, rng.integers(2, size=2000), true)
        a_fifth = np.where(rng.random(2000) < 0.2, true ^ 1, true)  # in all five pairs
        for name, predictions in (("mixed", either), ("at the limit", a_fifth)):
            findings = quality.find_collapsed_classes(np.eye(10)[predictions], labels, Q).findings
            found[name] += any({*each.classes} == {"0", "1"} for each in findings)
    assert found["mixed"] >= 9
    assert found["at the limit"] == 0


def test_classes_whose_predictions_seem_right_cost_no_power():
    """One correction for all 15 pairs found two mixed classes in 5 of 60 cases, this one in 14."""
    Q, n_found, n_false = TransitionMatrix.uniform(6), 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        true = rng.integers(6, size=1000)
        others = (true + rng.integers(1, 6, size=1000)) % 6
        predicted = np.where(rng.random(1000) < 0.8, true, others)
        mixed = np.where(predicted < 2, rng.integers(2, size=1000), predicted)
        labels = Q.sample(true, seed=rng)
        findings = quality.find_collapsed_classes(np.eye(6)[mixed], labels, Q).findings
        n_found += any({*each.classes} == {"0", "1"} for each in findings)
        n_false += any({*each.classes} != {"0", "1"} for each in findings)
    assert n_found >= 12
    assert n_false <= 1


def test_the_figures_are_shares_of_the_true_classes():
    Q = animals(4)
    probs, labels, true = draw(Q, 200_000, sharpness=2, seed=4)
    found = quality.find_collapsed_classes(probs.astype(np.float32), labels, Q)
    predictions = probs.argmax(axis=1)
    for k in range(4):
        shares = np.bincount(true[predictions == k], minlength=4) / (predictions == k).sum()
        assert found.composition[k] == pytest.approx(shares, abs=0.03)
    assert found.prior == pytest.approx(np.full(4, 0.25), abs=0.01)
    assert found.mean_probs == pytest.approx(probs.mean(axis=0), abs=1e-5)
    assert str(found) == "No collapsed class among 4."


def test_a_singular_matrix_is_refused():
    Q = [[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0]]
    with pytest.raises(InvalidTransitionMatrix, match="invertible to find collapsed classes"):
        quality.find_collapsed_classes(np.eye(4), [2, 2, 0, 0], Q)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(InvalidLabels, match="one label per row of probs"):
        quality.find_collapsed_classes(np.eye(6), [0, 1], animals())
    with pytest.raises(InvalidInput, match="row 0 sums to 2"):
        quality.find_collapsed_classes(2 * np.eye(6), np.arange(6), animals())


def _estimated(seed, n_pairs=20, n_classes=5):
    """Draw a matrix, labels of 3,000 predictions, and an estimate from a few pairs per class."""
    rng = np.random.default_rng(seed)
    off = ~np.eye(n_classes, dtype=bool)
    values, estimate = np.zeros((2, n_classes, n_classes))
    samples = np.zeros((50, n_classes, n_classes))
    for row in range(n_classes):
        values[row, off[row]] = rng.dirichlet(np.full(n_classes - 1, 1.5))
        counts = 1.0 + rng.multinomial(n_pairs, values[row, off[row]])
        estimate[row, off[row]] = counts / counts.sum()
        samples[:, row, off[row]] = rng.dirichlet(counts, 50)
    true = rng.integers(n_classes, size=3000)
    wrong = (true + rng.integers(1, n_classes, size=3000)) % n_classes
    predicted = np.where(rng.random(3000) < 0.8, true, wrong)
    return predicted, TransitionMatrix(values).sample(true, seed=rng), estimate, samples


def test_the_error_of_an_estimated_matrix_is_no_finding():
    healthy = [_estimated(seed) for seed in range(16)]
    as_exact, as_estimate = (
        sum(
            bool(quality.find_collapsed_classes(np.eye(5)[predicted], labels, Q, Q_samples=known))
            for predicted, labels, Q, samples in healthy
            for known in [samples if are_given else None]
        )
        for are_given in (False, True)
    )
    assert as_exact >= 3  # the matrices are far enough off
    assert as_estimate <= 1


def test_swapped_classes_are_found_with_an_estimated_matrix():
    found = 0
    for seed in range(8):
        predicted, labels, Q, samples = _estimated(seed)
        swapped = np.array([1, 0, 2, 3, 4])[predicted]
        findings = quality.find_collapsed_classes(
            np.eye(5)[swapped], labels, Q, Q_samples=samples
        ).findings
        found += any({"0", "1"} == {*each.classes} for each in findings)
    assert found >= 5
