"""The accuracy from yes and no to suggestions: exact, bounded, or unknown."""

import numpy as np
import pytest

from naysay import InvalidInput
from naysay.metrics import accuracy_from_log


def simulate(rng, n, accuracy, agreement, mistakes, n_classes=6):
    true = rng.integers(n_classes, size=n)
    wrong = (true + rng.integers(1, n_classes, size=n)) % n_classes
    predicted = np.where(rng.random(n) < accuracy, true, wrong)
    suggested = np.where(rng.random(n) < agreement, predicted, rng.integers(n_classes, size=n))
    return predicted, suggested, (suggested == true) ^ (rng.random(n) < mistakes)


@pytest.mark.parametrize("mistakes", [0, 0.05])
@pytest.mark.parametrize("agreement", [1, 0.5])
@pytest.mark.parametrize("accuracy", [0.6, 0.95])
def test_intervals_cover_the_accuracy(accuracy, agreement, mistakes):
    rng = np.random.default_rng(0)
    found = [
        accuracy_from_log(
            *simulate(rng, 200, accuracy, agreement, mistakes), n_classes=6, mistakes=mistakes
        )
        for _ in range(300)
    ]
    covered = np.mean([each.interval[0] <= accuracy <= each.interval[1] for each in found])
    assert covered >= 0.92
    if agreement == 1:  # predictions were suggested: the mean of the estimates is the accuracy
        values = np.array([each.value for each in found])
        assert values.mean() == pytest.approx(accuracy, abs=0.01)
        assert values.std() == pytest.approx(np.mean([e.standard_error for e in found]), rel=0.2)
        assert covered < 0.99
    else:
        assert all(each.value is None for each in found)


def test_bounds_are_those_of_the_best_and_the_worst_case():
    # 60 predictions confirmed, 10 refuted, 20 where another class was rejected, 10 accepted
    predicted = np.zeros(100, int)
    suggested = np.array([0] * 70 + [1] * 30)
    said = [1] * 60 + [0] * 10 + [0] * 20 + [1] * 10
    many = 1000
    found = accuracy_from_log(*(np.repeat(each, many) for each in (predicted, suggested, said)))
    assert found.interval == pytest.approx((0.6, 0.8), abs=0.005)


def test_two_classes_need_no_bounds():
    found = accuracy_from_log([0, 0, 1, 1], [1, 0, 0, 1], ["no", "yes", "yes", "yes"], n_classes=2)
    assert found.value == pytest.approx(0.75)


def test_several_answers_about_an_example_are_combined():
    # other classes were suggested for the first, its own class twice for the second
    found = accuracy_from_log(
        [0, 0, 2, 2], [1, 2, 2, 2], ["no", "no", 1, 1], n_classes=3, examples=["a", "a", "b", "b"]
    )
    assert (found.value, found.n_answers) == (1.0, 4)


def test_fewer_mistakes_than_given_are_noticed():
    found = accuracy_from_log([0] * 500, [0] * 500, [1] * 500, mistakes=0.1)
    assert found.unknown is not None
    assert "lower" in found.unknown


def test_shapes_are_checked():
    with pytest.raises(InvalidInput, match="predictions must have one entry per suggestion"):
        accuracy_from_log([0], [0, 1], [1, 1])
