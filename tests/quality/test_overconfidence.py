"""Error rates and calibrations by the answers of annotators, against plain formulas."""

import numpy as np
import pytest

from naysay.estimation.mixture import Calibration
from naysay.quality.overconfidence import Sample, fit_rates, shrink
from simulated import animals, predict


@pytest.mark.parametrize("n", [1, 7, 400])
def test_rates_and_their_likelihoods_are_those_of_a_fine_grid(n):
    rng = np.random.default_rng(n)
    wrong, correct = rng.random((2, 3, 2 * n)) ** 3
    wrong[1], correct[2] = 0, 1e-9  # rates of 0 and 1
    rates, largest = fit_rates(wrong, correct, np.array([0, n]), 20)
    grid = np.linspace(0, 1, 20_001)[:, None]
    with np.errstate(divide="ignore"):
        for row in range(3):
            for part, own in enumerate((slice(n), slice(n, 2 * n))):
                values = np.log(grid * wrong[row, own] + (1 - grid) * correct[row, own]).sum(axis=1)
                assert rates[row, part] == pytest.approx(grid[values.argmax(), 0], abs=1e-4)
                assert largest[row, part] == pytest.approx(values.max(), abs=1e-3)


def test_the_first_calibration_restores_overconfident_probabilities():
    rng = np.random.default_rng(0)
    true, which = rng.integers(6, size=4000), np.arange(4000) % 4
    probs = predict(true, 6, rng, sharpness=2.2)
    is_wrong = rng.random(4000) < np.array([0, 0.02, 0.3, 1])[which]
    labels = np.where(is_wrong, true, animals(6).sample(true, seed=rng))
    others = np.asarray(animals(6)).T
    accuracy = (probs.argmax(axis=1) == true).mean()
    for power in (1, 4):
        given = Calibration(1 / power)(probs)
        sample = Sample.of(given, labels, np.arange(4000), which)
        found = sample.calibrate([others] * 4, 2.0)
        assert sample.common_matrix(found, others) is others
        calibrated = found.apply(given)
        assert calibrated.sum(axis=1) == pytest.approx(1)
        assert calibrated.max(axis=1).mean() == pytest.approx(accuracy, abs=0.05)
        assert np.abs(calibrated - probs).mean() < 0.03


def test_calibrations_span_the_accuracies_that_uniform_labels_leave_open():
    rng = np.random.default_rng(3)
    true, n = rng.integers(100, size=4000), 4000
    best = np.where(rng.random(n) < 0.8, true, rng.integers(100, size=n))
    probs = np.full((n, 100), 0.2 / 99)
    probs[np.arange(n), best] = 0.8
    others = (1 - np.eye(100)) / 99
    is_wrong = rng.random(n) < 0.03
    labels = np.where(is_wrong, true, (true + rng.integers(1, 100, size=n)) % 100)
    found = Sample.of(probs, labels, np.arange(n), np.arange(n) % 100).calibrate([others] * 100, 2)
    accuracies = [
        found.select([each]).apply(probs).max(axis=1).mean()
        for each in range(len(found.temperatures))
    ]
    assert accuracies[0] == pytest.approx(0.8, abs=0.15)  # about as good as it says
    assert min(accuracies) < 0.5


def test_confusions_show_a_class_that_a_model_never_predicts():
    rng = np.random.default_rng(1)
    true, which = rng.integers(5, size=4000), np.arange(4000) % 4
    probs = predict(true, 5, rng, sharpness=2.5)
    biased = Calibration(1, np.array([1, 1, 1, 1, 1e-9]))(probs)
    assert biased.mean(axis=0)[4] < 0.01
    labels = animals(5, 0.05).sample(true, seed=rng)
    others = np.asarray(animals(5)).T
    found = Sample.of(biased, labels, np.arange(4000), which).calibrate([others] * 4, 2.0)
    assert found.apply(biased).mean(axis=0)[4] > 0.07


def test_counts_are_shrunk_unless_they_refute_the_given_distributions():
    rng = np.random.default_rng(2)
    given, other = (np.asarray(animals(5, seed=seed)).T for seed in (0, 9))
    agreeing = np.stack([rng.multinomial(60, column) for column in given.T], axis=1)
    assert shrink(agreeing, given) is given
    differing = np.stack([rng.multinomial(2000, column) for column in other.T], axis=1)
    assert shrink(differing, given) == pytest.approx(other, abs=0.03)
