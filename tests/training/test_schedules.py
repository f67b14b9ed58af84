"""Schedules: factors between 0 and 1, without jumps but where they are asked for."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naysay.training.schedules import constant, cosine, one_cycle, steps

SHARES = st.floats(0, 1)
SMOOTH = [
    constant,
    cosine,
    partial(cosine, warm_up=0.5),
    one_cycle,
    partial(one_cycle, peak=0.5),
]


@pytest.mark.parametrize("schedule", [*SMOOTH, steps([0.3, 0.6])])
@given(share=SHARES)
def test_factors_lie_between_0_and_1(schedule, share):
    factor = schedule(share)
    assert isinstance(factor, float)
    assert 0 <= factor <= 1


@pytest.mark.parametrize("schedule", SMOOTH)
@given(share=SHARES)
def test_no_jumps(schedule, share):
    assert schedule(min(1, share + 1e-6)) == pytest.approx(schedule(share), abs=2e-5)


@pytest.mark.parametrize("schedule", SMOOTH[1:])
def test_training_starts_gently_but_moves_and_ends_at_rest(schedule):
    assert 0 < schedule(0) < 0.02
    assert schedule(1) == pytest.approx(0)
    shares = [n / 1000 for n in range(1001)]
    factors = [schedule(share) for share in shares]
    top = factors.index(max(factors))
    assert factors[: top + 1] == sorted(factors[: top + 1])  # up once, down once
    assert factors[top:] == sorted(factors[top:], reverse=True)


@pytest.mark.parametrize("peak", [0.1, 0.2, 0.5, 0.9])
def test_one_cycle_is_highest_at_its_peak(peak):
    assert one_cycle(peak, peak=peak) == pytest.approx(1)
    assert one_cycle((1 + peak) / 2, peak=peak) == pytest.approx(0.5)


def test_cosine_without_warm_up_is_half_a_cosine():
    assert cosine(0.25, warm_up=1e-9) == pytest.approx((1 + 2**-0.5) / 2)
    assert cosine(0.25) == pytest.approx((1 + 2**-0.5) / 2)  # the warm-up is over


@given(at=st.lists(st.floats(0, 1), max_size=4), share=SHARES, factor=st.floats(0.01, 1))
def test_steps_multiply_at_each_share(at, share, factor):
    expected = 1.0
    for each in at:
        if share >= each:
            expected *= factor
    assert steps(at, factor)(share) == pytest.approx(expected)
