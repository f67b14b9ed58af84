"""Wrong labels, collapsed classes and annotators, found in simulations whose truth is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    TransitionMatrix,
    quality,
)
from naysay.observations import Observations

NAMES = ["ape", "bat", "cat", "dog", "emu", "fox"]


def make_Q(n_classes=6, mistakes=0.0, seed=0):
    shares = (0.6, 0.3, 0.1) if n_classes > 3 else (0.7, 0.3)
    rows = TransitionMatrix.without_zeros(n_classes, shares, seed=seed)
    values = (1 - mistakes) * np.asarray(rows)
    values += mistakes * np.eye(n_classes)
    return TransitionMatrix(values, NAMES[:n_classes], allow_diagonal=bool(mistakes))


def make_probs(true, n_classes, rng, sharpness=4.0):
    """Return calibrated probabilities: what is known of a class after one noisy look at it."""
    seen = rng.normal(size=(len(true), n_classes)) + np.sqrt(sharpness) * np.eye(n_classes)[true]
    scores = np.exp(np.sqrt(sharpness) * seen)
    return scores / scores.sum(axis=1, keepdims=True)


def simulate(n, rng, *, n_classes=6, mistakes=0.0, sharpness=4.0):
    Q = make_Q(n_classes, mistakes)
    true = rng.integers(n_classes, size=n)
    return Q, true, make_probs(true, n_classes, rng, sharpness), Q.sample(true, seed=rng)


# wrong labels


def test_the_probability_of_a_wrong_label_is_that_of_a_plain_loop():
    Q, _, probs, labels = simulate(50, np.random.default_rng(0), mistakes=0.1)
    values = np.asarray(Q)
    expected = [
        values[j, j] * p[j] / sum(values[k, j] * p[k] for k in range(6))
        for p, j in zip(probs, labels, strict=True)
    ]
    found = quality.find_wrong_labels(probs, labels, Q)
    assert found.probabilities == pytest.approx(sorted(expected, reverse=True))
    assert 1 - found.weights == pytest.approx(expected)
    assert found.keep.tolist() == [p < 0.5 for p in expected]
    assert (labels[found.indices] == found.labels).all()
    again = quality.find_wrong_labels(probs.astype(np.float32), np.array(NAMES)[labels], Q)
    assert again.probabilities == pytest.approx(found.probabilities, abs=1e-5)


def test_wrong_labels_come_first_and_their_probabilities_are_calibrated():
    Q, true, probs, labels = simulate(
        40_000, np.random.default_rng(1), mistakes=0.1, sharpness=16.0
    )
    found = quality.find_wrong_labels(probs, labels, Q)
    is_wrong = labels == true
    assert found.n_expected == pytest.approx(is_wrong.sum(), rel=0.05)
    assert found.precision_at(is_wrong, 2000) > 0.95
    assert found.recall_at(is_wrong, 4000) > 0.85
    assert found.recall_at(is_wrong, 40_000) == 1
    middle = (found.probabilities > 0.2) & (found.probabilities < 0.8)
    assert middle.sum() > 150
    share = is_wrong[found.indices[middle]].mean()
    assert share == pytest.approx(found.probabilities[middle].mean(), abs=0.08)


@given(seed=st.integers(0, 10_000), mistakes=st.floats(0.001, 0.9))
@settings(max_examples=30, deadline=None)
def test_property_probabilities_are_ordered_and_between_0_and_1(seed, mistakes):
    rng = np.random.default_rng(seed)
    Q, _, probs, labels = simulate(20, rng, mistakes=mistakes, sharpness=400.0)
    found = quality.find_wrong_labels(probs, labels, Q)
    assert (found.probabilities >= 0).all()
    assert (found.probabilities <= 1).all()
    assert (np.diff(found.probabilities) <= 0).all()
    assert sorted(found.indices.tolist()) == list(range(20))


def test_wrong_labels_read_well():
    Q = make_Q(3, mistakes=0.1)
    found = quality.find_wrong_labels([[0.1, 0.8, 0.1], [0.98, 0.01, 0.01]], [0, 0], Q)
    assert str(found).splitlines()[0] == (
        "1 of 2 labels are more likely wrong than right (1 wrong ones expected)."
    )
    assert "example 1: 'not ape' is wrong with probability 0.8" in str(found)


def test_a_label_the_model_holds_for_impossible_is_not_suspect():
    Q = TransitionMatrix([[0.1, 0.9, 0], [0.5, 0, 0.5], [1, 0, 0]], allow_diagonal=True)
    found = quality.find_wrong_labels([[0, 1.0, 0], [1.0, 0, 0]], [1, 0], Q)
    assert found.indices.tolist() == [1, 0]
    assert found.probabilities.tolist() == [1, 0]


def test_a_zero_diagonal_and_a_truth_that_does_not_fit_are_refused():
    Q, true, probs, labels = simulate(20, np.random.default_rng(0))
    with pytest.raises(InvalidTransitionMatrix, match="allow_diagonal=True"):
        quality.find_wrong_labels(probs, labels, Q)
    found = quality.find_wrong_labels(probs, labels, make_Q(mistakes=0.1))
    with pytest.raises(InvalidLabels, match="is_wrong must be a boolean array"):
        found.precision_at(true, 5)
    with pytest.raises(InvalidInput, match="n must be an integer of at least 1"):
        found.precision_at(labels == true, 0)


@pytest.mark.parametrize(
    "probs, labels, error, message",
    [
        (np.eye(6)[:2] * 2, [0, 1], InvalidInput, "row 0 sums to 2"),
        (np.eye(6)[0], [0], InvalidInput, r"shape \(n, 6\)\. Got shape \(6,\)"),
        (np.eye(5), [0], InvalidInput, r"shape \(n, 6\)"),
        ("many", [0], InvalidInput, "probs must be an array"),
        (np.eye(6), [0, 1], InvalidLabels, "one label per row of probs"),
        (np.zeros((0, 6)), [], InvalidLabels, "at least one"),
        (np.eye(6)[:1], [9], InvalidLabels, r"integers 0\.\.5"),
    ],
)
@pytest.mark.parametrize("find", [quality.find_wrong_labels, quality.find_collapsed_classes])
def test_input_that_does_not_fit_is_refused(find, probs, labels, error, message):
    with pytest.raises(error, match=message):
        find(probs, labels, make_Q(mistakes=0.05))


def test_the_row_that_is_no_distribution_is_named_far_down_too():
    probs = np.full((400_000, 6), 1 / 6, dtype=np.float32)
    probs[390_000] *= 2
    with pytest.raises(InvalidInput, match="row 390000 sums to 2"):
        quality.find_wrong_labels(probs, np.zeros(400_000, int), make_Q(mistakes=0.05))


# collapsed classes


def collapse(true, probs, how):
    """Return probabilities of a model that is broken in one way."""
    broken = probs.copy()
    if how == "merged":  # every bat is taken for an ape
        broken[:, 0] += broken[:, 1]
        broken[:, 1] = 0
    elif how == "swapped":
        broken[:, [1, 2]] = broken[:, [2, 1]]
    elif how == "cycle":
        broken[:, [1, 2, 3]] = broken[:, [2, 3, 1]]
    elif how == "mixed":  # apes and bats are told apart by chance
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
    Q, true, probs, labels = simulate(12_000, np.random.default_rng(2), sharpness=16.0)
    broken = collapse(true, probs, how)
    found = quality.find_collapsed_classes(broken, labels, Q)
    assert {(each.kind, each.classes) for each in found.findings} == expected
    assert found
    assert all(repr(name) in str(found) for _, names in expected for name in names)
    assert found.to_dict()["findings"][0]["message"] == str(found.findings[0])


@pytest.mark.parametrize("n", [60, 400, 6000])
@pytest.mark.parametrize("sharpness", [3.0, 16.0])
def test_healthy_predictions_raise_no_alarm(n, sharpness):
    rng = np.random.default_rng(8)
    alarms = [
        str(found)
        for _ in range(100)
        for Q, _, probs, labels in [simulate(n, rng, sharpness=sharpness)]
        if (found := quality.find_collapsed_classes(probs, labels, Q))
    ]
    assert len(alarms) <= 5, alarms[:2]


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
def test_a_matrix_that_hardly_tells_classes_apart_raises_no_alarm(make, n_classes, n, accuracy):
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


def test_the_figures_are_shares_of_the_true_classes():
    Q, true, probs, labels = simulate(200_000, np.random.default_rng(4), n_classes=4)
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


# annotators


def three_annotators(rng, n=6000, sharpness=9.0):
    """Answers of a careful annotator, one with other habits, and one who errs 25 % of the time."""
    careful, other = make_Q(5, 0.02), make_Q(5, 0.02, seed=9)
    careless = make_Q(5, 0.25)
    true = rng.integers(5, size=n)
    who = np.arange(n) % 3
    labels = np.empty(n, dtype=int)
    for number, Q in enumerate((careful, other, careless)):
        labels[who == number] = Q.sample(true[who == number], seed=rng)
    answers = Observations(
        example=np.arange(n), label=labels, annotator=np.array(["ann", "bob", "cy"])[who]
    )
    matrices = {"ann": careful, "bob": other, "cy": careless}
    return answers, make_probs(true, 5, rng, sharpness), matrices


def test_each_annotator_is_known_by_habit_and_mistakes():
    answers, probs, truth = three_annotators(np.random.default_rng(5), n=30_000)
    found = quality.annotators(answers, probs, make_Q(5))
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
    assert lines[0].split() == ["annotator", "answers", "wrong", "answers", "bias"]
    assert lines[1].startswith("cy")


def test_the_standard_error_of_the_error_rate_is_that_of_repeated_samples():
    rng = np.random.default_rng(6)
    rates, errors = [], []
    for _ in range(60):
        answers, probs, _ = three_annotators(rng, n=1500)
        each = quality.annotators(answers, probs, make_Q(5, 0.05)).listed[0]
        rates.append(each.error_rate)
        errors.append(each.standard_error)
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.3)
    assert np.mean(rates) == pytest.approx(0.25, abs=0.02)


def test_few_answers_stay_near_the_habits_of_all():
    rng = np.random.default_rng(7)
    answers, probs, _ = three_annotators(rng)
    few = Observations(
        example=np.r_[answers.example, 0],
        label=np.r_[answers.label, 3],
        annotator=[*answers.annotator, "new"],
        n_examples=answers.n_examples,
    )
    by_name = {each.name: each for each in quality.annotators(few, probs, make_Q(5))}
    assert by_name["new"].bias < 0.1
    loose = {e.name: e for e in quality.annotators(few, probs, make_Q(5), strength=0.01)}
    assert loose["new"].bias > by_name["new"].bias


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
def test_a_few_answers_do_not_look_certain(n, known):
    rng = np.random.default_rng(12)
    truth, covered = make_Q(5, 0.1), 0
    for _ in range(40):
        true = rng.integers(5, size=500)
        answers = Observations(
            example=np.arange(500),
            label=truth.sample(true, seed=rng),
            annotator=np.where(np.arange(500) < n, "few", "all"),
        )
        probs = np.eye(5)[true] if known else make_probs(true, 5, rng, 6.0)
        found = quality.annotators(answers, probs, make_Q(5))
        few = next(each for each in found if each.name == "few")
        assert 0.1 < few.standard_error <= 1
        covered += abs(few.error_rate - 0.1) <= 1.96 * few.standard_error
    assert covered >= 32


def test_many_answers_known_to_be_right_are_nearly_certain():
    true = np.arange(3000) % 3
    answers = Observations(
        example=np.arange(3000), label=make_Q(3).sample(true, seed=0), annotator=["a"] * 3000
    )
    (each,) = quality.annotators(answers, np.eye(3)[true], make_Q(3))
    assert each.error_rate == 0
    assert 0 < each.standard_error < 0.001
    (each,) = quality.annotators(answers, np.eye(3)[true], make_Q(3), allow_diagonal=False)
    assert each.standard_error == 0  # Q says so


@pytest.mark.parametrize("allow_diagonal", [True, False])
def test_an_annotator_whose_answers_are_all_impossible_is_like_all(allow_diagonal):
    Q = [[0, 1.0, 0], [0, 0, 1.0], [0, 1.0, 0]]
    answers = Observations(example=[0, 1, 2, 3], label=[0, 0, 1, 1], annotator=["a", "a", "b", "b"])
    found = quality.annotators(answers, np.eye(3)[[1, 1, 0, 0]], Q, allow_diagonal=allow_diagonal)
    by_name = {each.name: each for each in found}
    assert by_name["a"].bias == pytest.approx(0)
    assert 0 < by_name["a"].distance_from_uniform < 1
    assert by_name["a"].error_rate == 0
    assert by_name["a"].standard_error == allow_diagonal  # nothing is known, or Q says so


def test_annotators_that_cannot_be_told_are_refused():
    Q = make_Q(3)
    nameless = Observations(example=[0], label=[1])
    with pytest.raises(InvalidInput, match="with annotator="):
        quality.annotators(nameless, np.eye(3)[:1], Q)
    answers = Observations(example=[0, 1], label=["ape", "bat"], annotator=["a", "a"])
    with pytest.raises(InvalidInput, match=r"one row per example, 2\. Got 3"):
        quality.annotators(answers, np.eye(3), Q)
    with pytest.raises(InvalidInput, match="strength must be above 0"):
        quality.annotators(answers, np.eye(3)[:2], Q, strength=0)
