"""The matrix, the bias and the mistakes of each annotator, in simulations."""

import tracemalloc

import numpy as np
import pytest

from naysay import InvalidInput, TransitionMatrix, quality
from naysay.observations import Observations
from naysay.quality import annotator
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


@pytest.mark.unmeasured
def test_the_standard_error_of_the_error_rate_is_that_of_repeated_samples():
    rng = np.random.default_rng(6)
    rates, errors = [], []
    for _ in range(16):
        answers, probs, _ = three_annotators(rng, n=900)
        each = quality.annotators(answers, probs, animals(5, 0.05)).listed[0]
        rates.append(each.error_rate)
        errors.append(each.standard_error)
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.4)
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
@pytest.mark.unmeasured
def test_rates_are_not_shrunk_and_their_intervals_contain_them(n, known):
    rng = np.random.default_rng(13)
    rates = {"never": 0.0, "seldom": 0.05, "often": 0.3, "always": 1.0}
    habit, found = animals(5), {name: [] for name in rates}
    for _ in range(8):
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
                assert 0 <= low < high <= 1
                if each.error_rate is None:
                    assert high - low > 0.5
                else:
                    assert low <= each.error_rate <= high
                    assert high - low <= 0.5
                value = np.nan if each.error_rate is None else each.error_rate
                found[each.name].append([value, low <= rates[each.name] <= high])
    for name, rate in rates.items():
        values, covered = np.array(found[name], dtype=float).T
        assert covered.mean() >= 0.75  # of 8
        if n == 100 or rate in (0, 1):
            assert np.nanmean(values) == pytest.approx(rate, abs=0.08)


@pytest.mark.parametrize("power", [1, 20])
def test_rates_are_right_where_the_model_is_weak_and_very_sure(power):
    rng = np.random.default_rng(16)
    rates, covered, figures = {"good": 0.05, "careless": 0.3, "always": 1.0}, [], []
    for _ in range(5):
        true = rng.integers(6, size=900)
        confused = np.where(rng.random(900) < 0.6, (true + 1) % 6, rng.integers(6, size=900))
        seen = np.where(rng.random(900) < 0.5, true, confused)  # right in about half of the cases
        probs = predict(seen, 6, rng, sharpness=3) ** power
        probs /= probs.sum(axis=1, keepdims=True)
        names = np.repeat(list(rates), 300)
        is_wrong = rng.random(900) < np.repeat(list(rates.values()), 300)
        labels = np.where(is_wrong, true, TransitionMatrix.uniform(6).sample(true, seed=rng))
        answers = Observations(example=np.arange(900), label=labels, annotator=names)
        for each in quality.annotators(answers, probs, TransitionMatrix.uniform(6)):
            low, high = each.interval
            covered.append(low <= rates[each.name] <= high)
            if each.name == "always":
                figures.append([each.error_rate, high - low])
    assert np.mean(covered) >= 0.85  # of 15
    rate, width = np.mean(figures, axis=0)
    assert rate > 0.8
    assert width < 0.3


@pytest.mark.parametrize("always", [False, True])
def test_an_annotator_who_prefers_a_label_does_not_bias_the_rates(always):
    rng = np.random.default_rng(19)
    true, which = rng.integers(10, size=3000), np.arange(3000) % 3
    labels = TransitionMatrix.uniform(10).sample(true, seed=rng)
    prefers = (rng.random(3000) < 0.9) & ((true != 0) | always)
    labels = np.where((which == 0) & prefers, 0, labels)
    predicted = np.where(rng.random(3000) < 0.9, true, rng.integers(10, size=3000))
    probs = 0.95 * np.eye(10)[predicted] + 0.05 / 10
    names = np.array(["prefers 0", "b", "c"])[which]
    answers = Observations(example=np.arange(3000), label=labels, annotator=names)
    Q = TransitionMatrix.uniform(10)
    found = {each.name: each for each in quality.annotators(answers, probs, Q)}
    for number, name in enumerate(["prefers 0", "b", "c"]):
        low, high = found[name].interval
        assert low <= (labels == true)[which == number].mean() <= high
        assert high < (0.3 if number == 0 else 0.05)

    alone = Observations(example=np.arange(1000), label=labels[which == 0], annotator=["a"] * 1000)
    (each,) = quality.annotators(alone, probs[which == 0], Q)
    assert each.error_rate is None
    assert each.interval == (0, 1)


def test_a_rate_that_nothing_determines_is_unknown():
    rng = np.random.default_rng(17)
    true = rng.integers(6, size=300)
    labels = TransitionMatrix.uniform(6).sample(true, seed=rng)
    answers = Observations(example=np.arange(300), label=labels, annotator=["one"] * 300)
    useless = rng.dirichlet(np.ones(6), size=300)
    found = quality.annotators(answers, useless, TransitionMatrix.uniform(6))
    (each,) = found
    assert each.error_rate is None
    assert each.interval[1] - each.interval[0] > 0.5
    assert each.to_dict()["error_rate"] is None
    assert "unknown (" in str(found)
    assert found.to_frame("pandas")["error_rate"].isna().all()


def test_errors_of_an_overconfident_model_are_not_those_of_the_annotators():
    rng = np.random.default_rng(14)
    rates, habit, figures = {"good": 0.03, "always": 1.0}, animals(6), []
    for _ in range(4):
        true = rng.integers(6, size=1300)
        names = np.repeat([*rates, "others"], [300, 200, 800])
        is_wrong = rng.random(len(true)) < [rates.get(name, 0.03) for name in names]
        answers = Observations(
            example=np.arange(len(true)),
            label=np.where(is_wrong, true, habit.sample(true, seed=rng)),
            annotator=names,
        )
        probs = predict(true, 6, rng, sharpness=2.2) ** 5  # wrong about 1 in 4, and too sure
        probs /= probs.sum(axis=1, keepdims=True)
        found = {each.name: each for each in quality.annotators(answers, probs, habit)}
        figures.append([found[name].error_rate for name in rates])
        for name, rate in rates.items():
            low, high = found[name].interval
            assert low <= rate <= high
            assert high - low < 0.15
    assert np.mean(figures, axis=0) == pytest.approx([0.03, 1], abs=0.02)


def test_the_confidence_of_the_model_does_not_matter():
    rng = np.random.default_rng(15)
    true = rng.integers(6, size=900)
    names = np.repeat(["good", "careless", "always"], 300)
    is_wrong = rng.random(900) < np.repeat([0.03, 0.3, 1], 300)
    labels = np.where(is_wrong, true, animals(6).sample(true, seed=rng))
    answers = Observations(example=np.arange(900), label=labels, annotator=names)
    probs, rates = predict(true, 6, rng, sharpness=2.2), []
    for power in (0.5, 1, 2, 4):  # steps of the grid of temperatures
        powers = probs**power
        found = quality.annotators(answers, powers / powers.sum(axis=1, keepdims=True), animals(6))
        rates.append([each.error_rate for each in found])
    assert np.ptp(rates, axis=0) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.unmeasured
def test_the_standard_error_from_few_answers_is_not_too_small(n, known):
    rng = np.random.default_rng(12)
    truth, covered = animals(5, 0.1), 0
    for _ in range(15):
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
        if few.error_rate is None:
            covered += few.interval[0] <= 0.1 <= few.interval[1]
        else:
            covered += abs(few.error_rate - 0.1) <= 1.96 * few.standard_error
    assert covered >= 12


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


@pytest.fixture
def uncalibrated(monkeypatch):
    """Take the probabilities as they are, as with many classes."""
    monkeypatch.setattr(annotator, "_MANY_CLASSES", 1)
    monkeypatch.setattr(annotator, "_FEWER_STEPS", 20)


@pytest.mark.parametrize("allow_diagonal", [True, False])
@pytest.mark.usefixtures("uncalibrated")
def test_an_annotator_with_impossible_answers_only_gets_the_common_matrix(allow_diagonal):
    Q = [[0, 1.0, 0], [0, 0, 1.0], [0, 1.0, 0]]
    answers = Observations(example=[0, 1, 2, 3], label=[0, 0, 1, 1], annotator=["a", "a", "b", "b"])
    found = quality.annotators(answers, np.eye(3)[[1, 1, 0, 0]], Q, allow_diagonal=allow_diagonal)
    by_name = {each.name: each for each in found}
    assert by_name["a"].bias == pytest.approx(0)
    assert 0 < by_name["a"].distance_from_uniform < 1
    assert by_name["a"].error_rate == (None if allow_diagonal else 0)
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


def em_by_loops(probs, answers, start, prior):
    """EM with one answer after the other, and the expected counts under the result."""

    def expect(Q):
        counts = np.zeros_like(Q)
        for example, label in answers:
            joint = [probs[example, k] * Q[k, label] for k in range(len(Q))]
            for k in range(len(Q)):
                counts[k, label] += joint[k] / sum(joint)
        return counts

    Q = start
    for _ in range(20):
        counts = expect(Q) + prior
        before, Q = Q, counts / counts.sum(axis=1, keepdims=True)
        if np.abs(Q - before).max() < 1e-4:
            break
    return Q, expect(Q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("copied", [0, 2**23])
@pytest.mark.usefixtures("uncalibrated")
def test_slices_of_answers_give_what_plain_loops_give(monkeypatch, dtype, copied):
    monkeypatch.setattr(annotator, "_SLICE", 40)  # 10 answers
    monkeypatch.setattr(annotator, "_COPIED", copied)
    rng = np.random.default_rng(3)
    Q, n = np.asarray(animals(4, 0.1)), 60
    true = rng.integers(4, size=n)
    probs = (0.6 * np.eye(4)[true] + 0.4 * rng.dirichlet(np.ones(4), size=n)).astype(dtype)
    example, who = rng.integers(n, size=200), rng.integers(3, size=200)
    label = animals(4, 0.1).sample(true[example], seed=rng)
    found = quality.annotators(
        Observations(example=example, label=label, annotator=who, n_examples=n), probs, Q
    )
    exact, pairs = probs.astype(np.float64), np.stack([example, label], axis=1)
    pooled, counts = em_by_loops(exact, pairs, Q, 0)
    near = 1e-12 if dtype == np.float64 else 1e-5
    assert np.asarray(found.pooled) == pytest.approx(pooled, abs=near)
    common = (counts + 10 * Q) * (1 - np.eye(4))
    common /= common.sum(axis=1, keepdims=True)
    for each in found:
        theirs = pairs[who == int(each.name)]
        matrix, counts = em_by_loops(exact, theirs, pooled, 10 * pooled)
        assert each.n_answers == len(theirs)
        assert np.asarray(each.transition) == pytest.approx(matrix, abs=near)
        weights = counts.sum(axis=1) / counts.sum()
        for figure, other in (
            (each.bias, pooled),
            (each.distance_from_uniform, (1 - np.eye(4)) / 3),
        ):
            distance = weights @ np.abs(matrix - other).sum(axis=1) / 2
            assert figure == pytest.approx(distance, abs=near)
        wrong = np.array([exact[i, j] for i, j in theirs])
        correct = np.array([exact[i] @ common[:, j] for i, j in theirs])
        grid = np.linspace(0, 1, 20_001)[1:-1, None]
        values = np.log(grid * wrong + (1 - grid) * correct).sum(axis=1)
        rate = float(grid[values.argmax(), 0])
        likely = grid[values >= values.max() - 4.3 / 2]
        assert each.interval == pytest.approx((likely.min(), likely.max()), abs=1e-4)
        assert each.error_rate == pytest.approx(rate, abs=1e-4)


@pytest.mark.unmeasured
def test_many_answers_about_many_classes_take_little_memory():
    rng = np.random.default_rng(0)
    n_classes, n_examples, n = 300, 2_000, 20_000
    probs = rng.random((n_examples, n_classes), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    answers = Observations(
        example=rng.integers(n_examples, size=n),
        label=rng.integers(n_classes, size=n),
        annotator=rng.integers(200, size=n),
        n_examples=n_examples,
    )
    tracemalloc.start()
    found = quality.annotators(answers, probs, TransitionMatrix.uniform(n_classes))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 200
    # a row for each answer takes 24 MB, and a matrix for each annotator 200 MB
    assert peak < 40e6


def test_calibrated_probabilities_remain_calibrated():
    """They became overconfident, 0.98 in place of 0.90, and the rate 0.92 in place of 1."""
    rng = np.random.default_rng(5)
    true = rng.integers(10, size=3600)
    who = np.repeat(np.arange(12), 300)  # the first one is always wrong
    others = (true + rng.integers(1, 10, size=3600)) % 10
    is_wrong = rng.random(3600) < np.where(who == 0, 1, 0.03)
    sure = rng.uniform(0.8, 1, size=3600)
    confused = (true + rng.integers(1, 10, size=3600)) % 10
    predicted = np.where(rng.random(3600) < sure, true, confused)
    probs = np.repeat((1 - sure)[:, None] / 9, 10, axis=1)
    probs[np.arange(3600), predicted] = sure
    answers = Observations(
        example=np.arange(3600), label=np.where(is_wrong, true, others), annotator=who.astype(str)
    )
    worst = quality.annotators(answers, probs, TransitionMatrix.uniform(10)).listed[0]
    assert worst.name == "0"
    assert worst.interval[1] == 1
    assert worst.error_rate > 0.97
