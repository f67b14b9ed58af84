"""The matrix, the bias and the mistakes of each annotator, in simulations."""

import numpy as np
import pytest

from naysay import InvalidInput, quality
from naysay.observations import Observations
from simulated import animals, predict


def three_annotators(rng, n=6000):
    """Answers of a careful annotator, one with another matrix, and one with 25 % mistakes."""
    careful, other = animals(5, 0.02), animals(5, 0.02, seed=9)
    careless = animals(5, 0.25)
    true = rng.integers(5, size=n)
    who = np.arange(n) % 3
    labels = np.empty(n, dtype=int)
    for number, Q in enumerate((careful, other, careless)):
        labels[who == number] = Q.sample(true[who == number], seed=rng)
    answers = Observations(
        example=np.arange(n), label=labels, annotator=np.array(["ann", "bob", "cy"])[who]
    )
    matrices = {"ann": careful, "bob": other, "cy": careless}
    return answers, predict(true, 5, rng), matrices


def test_matrix_and_error_rate_of_each_annotator_are_recovered():
    answers, probs, truth = three_annotators(np.random.default_rng(5), n=30_000)
    found = quality.annotators(answers, probs, animals(5))
    assert found.listed[0].name == "cy"
    assert len(found) == 3
    for each in found:
        assert each.n_answers == 10_000
        assert np.asarray(each.transition) == pytest.approx(np.asarray(truth[each.name]), abs=0.05)
        rate = 0.25 if each.name == "cy" else 0.02
        assert each.error_rate == pytest.approx(rate, abs=4 * each.standard_error)
        assert each.standard_error < 0.01
    by_name = {each.name: each for each in found}
    assert by_name["bob"].bias > by_name["ann"].bias
    assert found.transitions["bob"] == by_name["bob"].transition
    assert found.pooled.allow_diagonal
    lines = str(found).splitlines()
    assert lines[0].split("  ")[-2:] == ["wrong answers (95 % interval)", "bias"]
    assert lines[1].startswith("cy")
    assert f"{by_name['cy'].interval[0]:.1%} to " in lines[1]


def test_the_standard_error_of_the_error_rate_is_that_of_repeated_samples():
    rng = np.random.default_rng(6)
    rates, errors = [], []
    for _ in range(40):
        answers, probs, _ = three_annotators(rng, n=900)
        each = quality.annotators(answers, probs, animals(5, 0.05)).listed[0]
        rates.append(each.error_rate)
        errors.append(each.standard_error)
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.3)
    assert np.mean(rates) == pytest.approx(0.25, abs=0.02)


def test_matrices_from_few_answers_are_shrunk_towards_the_common_one():
    rng = np.random.default_rng(7)
    answers, probs, _ = three_annotators(rng)
    few = Observations(
        example=np.r_[answers.example, 0],
        label=np.r_[answers.label, 3],
        annotator=[*answers.annotator, "new"],
        n_examples=answers.n_examples,
    )
    by_name = {each.name: each for each in quality.annotators(few, probs, animals(5))}
    assert by_name["new"].bias < 0.1
    loose = {e.name: e for e in quality.annotators(few, probs, animals(5), strength=0.01)}
    assert loose["new"].bias > by_name["new"].bias


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize("known", [True, False])
def test_rates_are_not_shrunk_and_their_intervals_contain_them(n, known):
    rng = np.random.default_rng(13)
    rates = {"never": 0.0, "seldom": 0.05, "often": 0.3, "always": 1.0}
    habit, found = animals(5), {name: [] for name in rates}
    for _ in range(60):
        true = rng.integers(5, size=4 * n + 1000)
        names = np.repeat([*rates, "others"], [n] * 4 + [1000])
        is_wrong = rng.random(len(true)) < [rates.get(name, 0.05) for name in names]
        answers = Observations(
            example=np.arange(len(true)),
            label=np.where(is_wrong, true, habit.sample(true, seed=rng)),
            annotator=names,
        )
        probs = np.eye(5)[true] if known else predict(true, 5, rng, sharpness=2.2)
        for each in quality.annotators(answers, probs, habit):
            if each.name in rates:
                low, high = each.interval
                assert 0 <= low <= each.error_rate <= high <= 1
                assert low < high
                covered = low <= rates[each.name] <= high
                found[each.name].append([each.error_rate, covered])
    for name, rate in rates.items():
        mean, covered = np.mean(found[name], axis=0)
        assert mean == pytest.approx(rate, abs=0.05)
        assert covered >= 0.85  # of 60


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
def test_the_standard_error_from_few_answers_is_not_too_small(n, known):
    rng = np.random.default_rng(12)
    truth, covered = animals(5, 0.1), 0
    for _ in range(40):
        true = rng.integers(5, size=500)
        answers = Observations(
            example=np.arange(500),
            label=truth.sample(true, seed=rng),
            annotator=np.where(np.arange(500) < n, "few", "all"),
        )
        probs = np.eye(5)[true] if known else predict(true, 5, rng, sharpness=2.5)
        found = quality.annotators(answers, probs, animals(5))
        few = next(each for each in found if each.name == "few")
        assert 0.1 < few.standard_error <= 1
        covered += abs(few.error_rate - 0.1) <= 1.96 * few.standard_error
    assert covered >= 32


def test_many_correct_answers_have_a_small_standard_error():
    true = np.arange(3000) % 3
    answers = Observations(
        example=np.arange(3000), label=animals(3).sample(true, seed=0), annotator=["a"] * 3000
    )
    (each,) = quality.annotators(answers, np.eye(3)[true], animals(3))
    assert each.error_rate == 0
    assert 0 < each.standard_error < 0.001
    (each,) = quality.annotators(answers, np.eye(3)[true], animals(3), allow_diagonal=False)
    assert each.standard_error == 0  # zero by Q
    assert each.interval == (0, 0)


@pytest.mark.parametrize("allow_diagonal", [True, False])
def test_an_annotator_with_impossible_answers_only_gets_the_common_matrix(allow_diagonal):
    Q = [[0, 1.0, 0], [0, 0, 1.0], [0, 1.0, 0]]
    answers = Observations(example=[0, 1, 2, 3], label=[0, 0, 1, 1], annotator=["a", "a", "b", "b"])
    found = quality.annotators(answers, np.eye(3)[[1, 1, 0, 0]], Q, allow_diagonal=allow_diagonal)
    by_name = {each.name: each for each in found}
    assert by_name["a"].bias == pytest.approx(0)
    assert 0 < by_name["a"].distance_from_uniform < 1
    assert by_name["a"].error_rate == 0
    assert by_name["a"].standard_error == allow_diagonal  # no information, or zero by Q


def test_input_that_does_not_fit_is_refused():
    Q = animals(3)
    nameless = Observations(example=[0], label=[1])
    with pytest.raises(InvalidInput, match="with annotator="):
        quality.annotators(nameless, np.eye(3)[:1], Q)
    answers = Observations(example=[0, 1], label=["ape", "bat"], annotator=["a", "a"])
    with pytest.raises(InvalidInput, match=r"one row per example, 2\. Got 3"):
        quality.annotators(answers, np.eye(3), Q)
    with pytest.raises(InvalidInput, match="strength must be above 0"):
        quality.annotators(answers, np.eye(3)[:2], Q, strength=0)
