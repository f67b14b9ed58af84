"""The rate of mistakes, and whether its interval covers it."""

import numpy as np
import pytest

from naysay import InvalidInput, TransitionMatrix
from naysay.estimation import MistakeRate, rate_of_mistakes, refine, uncertainty
from simulated import draw, predict


def erring(Q, rate):
    values = (1 - rate) * np.asarray(Q) + rate * np.eye(Q.n_classes)
    return TransitionMatrix(values, allow_diagonal=True)


def estimate(Q, seed, **options):
    """Return the estimated rate and the true share of mistakes."""
    probs, comp_labels, labels = draw(Q, 1500, seed=seed)
    found = refine(probs, comp_labels, Q, allow_diagonal=True, seed=seed)
    samples = uncertainty(probs, comp_labels, found, allow_diagonal=True, seed=seed).samples
    return rate_of_mistakes(probs, found, samples, **options), (comp_labels == labels).mean()


@pytest.mark.parametrize("habit", ["uniform", "with0"])
@pytest.mark.unmeasured
def test_the_interval_covers_the_rate(habit):
    Q = TransitionMatrix.uniform(5) if habit == "uniform" else TransitionMatrix.with_zeros(5, 3)
    n_inside = 0
    for seed in range(4):
        found, true = estimate(erring(Q, 0.05), seed)
        low, high = found.interval
        assert low <= found.value <= high
        assert high - low < 0.05
        n_inside += low <= true <= high
    assert n_inside >= 3


def test_anchors_widen_the_interval_if_the_model_is_wrong_about_them():
    Q = erring(TransitionMatrix.uniform(5), 0.05)
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(5), 10)
    right, wrong = (predict((true + shift) % 5, 5, rng, sharpness=6) for shift in (0, 1))
    plain, _ = estimate(Q, 0)
    same, _ = estimate(Q, 0, anchor_probs=right, anchor_labels=true)
    wider, _ = estimate(Q, 0, anchor_probs=wrong, anchor_labels=true)
    assert plain.value == same.value == wider.value
    np.testing.assert_allclose(same.interval, plain.interval, atol=0.003)
    assert wider.interval[1] > plain.interval[1] + 0.1
    assert wider.interval[0] == 0
    assert wider.is_rough
    assert not plain.is_rough


def test_a_rate_reads_well_and_its_level_is_checked():
    rate = MistakeRate(value=0.031, interval=(0.01, 0.062), level=0.9)
    assert str(rate) == "rate of mistakes 3.1 % (90 % interval 1.0 to 6.2 %)"
    with pytest.raises(InvalidInput, match="level must be"):
        estimate(TransitionMatrix.uniform(3), 0, level=1.5)


def test_anchors_without_their_classes_are_refused():
    Q = TransitionMatrix.uniform(3)
    with pytest.raises(InvalidInput, match="must be given together"):
        rate_of_mistakes(np.eye(3), Q, [np.asarray(Q)] * 2, anchor_probs=np.eye(3))
