"""Wrong labels, found in simulations whose truth is known."""

import json
import tracemalloc
from pathlib import Path

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
from naysay.estimation import MistakeRate
from naysay.quality import wrong_labels
from simulated import ANIMALS, animals, draw


def plain(p, label, Q):
    return Q[label, label] * p[label] / sum(Q[k, label] * p[k] for k in range(len(p)))


def scaled(Q, factor):
    """Return Q with all rates of mistakes multiplied by a factor."""
    rates = np.asarray(Q).diagonal()
    others = (np.asarray(Q) - np.diag(rates)) / (1 - rates)[:, None]
    values = others * (1 - factor * rates)[:, None] + np.diag(factor * rates)
    return TransitionMatrix(values, Q.classes, allow_diagonal=True)


def test_the_probability_of_a_wrong_label_is_that_of_plain_loops(monkeypatch):
    monkeypatch.setattr(wrong_labels, "_SCALES", np.array([0.5, 1, 2]))
    monkeypatch.setattr(wrong_labels, "_ONE", 1)
    monkeypatch.setattr(wrong_labels, "_NEGLIGIBLE", 0)
    Q = animals(mistakes=0.1)
    probs, labels, _ = draw(Q, 30, sharpness=2)
    expected, total = np.zeros(30), 0
    for temperature in wrong_labels._TEMPERATURES:
        powers = probs ** (1 / temperature)
        sharper = powers / powers.sum(axis=1, keepdims=True)
        for share in wrong_labels._SHARES:
            mixed = (1 - share) * sharper + share * sharper.mean(axis=0)
            for factor in (0.5, 1, 2):
                values = np.asarray(scaled(Q, factor))
                weight = np.exp(
                    sum(np.log(p @ values[:, j]) for p, j in zip(mixed, labels, strict=True)) / 3
                    - (np.log(temperature) / 0.7) ** 2 / 2
                    - (np.log(factor) / 0.5) ** 2 / 2
                )
                each = [plain(p, j, values) for p, j in zip(mixed, labels, strict=True)]
                expected, total = expected + weight * np.array(each), total + weight
    expected /= total
    found = quality.find_wrong_labels(probs, labels, Q)
    assert found.probabilities == pytest.approx(np.sort(expected)[::-1])
    assert 1 - found.weights == pytest.approx(expected)
    assert found.keep.tolist() == [p < 0.5 for p in expected]
    assert (labels[found.indices] == found.labels).all()
    again = quality.find_wrong_labels(probs.astype(np.float32), np.array(ANIMALS)[labels], Q)
    assert again.probabilities == pytest.approx(found.probabilities, abs=1e-5)


@pytest.mark.unmeasured
@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_an_overconfident_model_and_a_wrong_rate_do_not_inflate_the_probabilities(factor):
    """The plain formula claims 98 % of labels of which 53 to 64 % are wrong."""
    Q = animals(mistakes=0.04)
    probs, labels, true = draw(Q, 6000, sharpness=2, confidence=4, seed=2)
    is_wrong = labels == true
    stated = scaled(Q, factor)
    naive = np.array([plain(p, j, np.asarray(stated)) for p, j in zip(probs, labels, strict=True)])
    assert naive[naive >= 0.9].mean() - is_wrong[naive >= 0.9].mean() > 0.3
    found = quality.find_wrong_labels(probs, labels, stated)
    order = np.argsort(-naive, kind="stable")
    n = int(is_wrong.sum())
    assert found.precision_at(is_wrong, n) >= is_wrong[order[:n]].mean()
    flagged = found.probabilities >= 0.5
    assert flagged.sum() > 50
    claimed = found.probabilities[flagged].mean()
    assert claimed == pytest.approx(is_wrong[found.indices[flagged]].mean(), abs=0.12)
    low, high = found.n_expected_interval
    assert low < n < high
    assert high < 2.5 * low


@pytest.mark.unmeasured
def test_the_interval_of_the_number_of_wrong_labels_covers_it():
    covered = []
    for seed in range(20):
        Q = animals(mistakes=0.05, seed=seed)
        probs, labels, true = draw(Q, 500, sharpness=2.5, confidence=2, seed=seed)
        low, high = quality.find_wrong_labels(probs, labels, Q).n_expected_interval
        covered.append(low <= (labels == true).sum() <= high)
    assert sum(covered) >= 18


def test_more_labels_than_the_posterior_uses_are_all_ranked():
    Q = animals(mistakes=0.05)
    probs, labels, true = draw(Q, 12_000, seed=3)
    found = quality.find_wrong_labels(probs, labels, Q)
    assert sorted(found.indices.tolist()) == list(range(12_000))
    low, high = found.n_expected_interval
    assert low < (labels == true).sum() < high


def test_labels_that_a_model_was_trained_on_do_not_say_how_far_it_is_trusted():
    """A model that has memorised half of the labels contradicts only the others."""
    Q = animals(mistakes=0.05)
    probs, labels, true = draw(Q, 4000, sharpness=1.5, confidence=3, seed=5)
    held_out = np.arange(4000) < 2000
    memorised = ~held_out & (labels != true)
    probs[memorised] = np.where(np.arange(6) == true[memorised, None], 0.95, 0.01)
    each = np.zeros(4000, dtype=int)
    trusting, doubting = (
        1 - wrong_labels.rank_labels(probs, labels, [Q], each, which).weights
        for which in (None, held_out)
    )
    flagged = held_out & (trusting >= 0.5)
    is_wrong = (labels == true)[flagged].mean()
    assert trusting[flagged].mean() - is_wrong > 0.15
    assert abs(doubting[flagged].mean() - is_wrong) < 0.1


def test_the_figures_in_the_docs_are_those_of_the_record():
    root = Path(__file__).parents[2]
    lines = (root / "benchmarks" / "results" / "wrong_labels.jsonl").read_text("utf-8").splitlines()
    results = json.loads(lines[-1])["results"]
    found, trained_on = results["all models"], results["own training labels"]["calibrated"]["0.9"]
    text = " ".join((root / "docs" / "no-true-labels.md").read_text("utf-8").split())
    new, old = found["calibrated"], found["plain"]
    for said in (
        f"{new['0.9']['claimed']} % was stated on average",
        f"{new['0.9']['true']} % of them were wrong",
        f"stated {old['0.9']['claimed']} % where {old['0.9']['true']} % were wrong",
        f"{new['0.5']['claimed']:.1f} % was stated and {new['0.5']['true']} % were wrong",
        f"(without: {old['0.5']['claimed']} and {old['0.5']['true']} %)",
        f"in {found['interval_covers']} % of {found['settings']} settings",
        f"differ by {new['0.5']['mean_gap']:.0f} points above 0.5",
        f"by {new['0.9']['mean_gap']:.0f} points above 0.9",
        "the worst statements were {:.0f} and {:.0f} points".format(
            *(new[least]["most_overclaimed"] for least in ("0.5", "0.9"))
        ),
        f"{trained_on['claimed']} % was stated where {trained_on['true']} % were wrong",
    ):
        assert said in text, said
    assert new["precision_of_first"] == pytest.approx(old["precision_of_first"], abs=0.2)


def test_labels_with_different_matrices_are_ranked_together():
    """An annotator who never errs is never suspected."""
    careful, careless = animals(), animals(mistakes=0.2)
    probs, _, true = draw(careful, 2000, seed=4)
    which = np.arange(2000) % 2
    labels = np.where(which, careless.sample(true, seed=1), careful.sample(true, seed=2))
    found = wrong_labels.rank_labels(probs, labels, [careful, careless], which)
    stated = 1 - found.weights
    assert not stated[which == 0].any()
    assert found.n_expected == pytest.approx((labels == true).sum(), rel=0.15)


def test_wrong_labels_come_first_and_their_probabilities_are_calibrated():
    Q = animals(mistakes=0.1)
    probs, labels, true = draw(Q, 40_000, sharpness=4, seed=1)
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


@pytest.mark.unmeasured
@given(seed=st.integers(0, 10_000), mistakes=st.floats(0.001, 0.9))
@settings(max_examples=30)
def test_property_probabilities_are_ordered_and_between_0_and_1(seed, mistakes):
    Q = animals(mistakes=mistakes)
    probs, labels, _ = draw(Q, 20, sharpness=20, seed=seed)
    found = quality.find_wrong_labels(probs, labels, Q)
    assert (found.probabilities >= 0).all()
    assert (found.probabilities <= 1).all()
    assert (np.diff(found.probabilities) <= 0).all()
    assert sorted(found.indices.tolist()) == list(range(20))


def test_wrong_labels_read_well():
    Q = animals(3, mistakes=0.1)
    found = quality.find_wrong_labels([[0.1, 0.8, 0.1], [0.98, 0.01, 0.01]], [0, 0], Q)
    assert str(found).splitlines()[0] == (
        "1 of 2 labels is more likely wrong than right. The expected number of wrong labels is 1 "
        "(95 % interval 0 to 2)."
    )
    assert "example 1: 'not ape' is wrong with probability 0.6" in str(found)
    frame = found.to_frame()
    assert frame.columns.tolist() == ["example", "not", "probability"]
    assert frame["example"].tolist() == [1, 0]
    assert frame["not"].tolist() == ["ape", "ape"]
    assert frame["probability"].tolist() == found.probabilities.tolist()


def test_no_number_is_stated_where_the_rate_of_mistakes_is_hardly_known():
    Q = animals(3, mistakes=0.18)
    given = [[0.1, 0.8, 0.1], [0.98, 0.01, 0.01]], [0, 0], Q
    rough = MistakeRate(value=0.18, interval=(0.035, 0.254), level=0.95)
    found = quality.find_wrong_labels(*given, rate=rough)
    assert str(found).splitlines() == [
        "How many of 2 labels are wrong is unknown: the rate of mistakes is only known to be "
        "between 3.5 and 25.4 %. The most doubtful ones:",
        "  example 1: 'not ape'",
        "  example 0: 'not ape'",
    ]
    clear = MistakeRate(value=0.09, interval=(0.055, 0.139), level=0.95)
    assert quality.find_wrong_labels(*given, rate=clear).unknown is None


def test_a_label_with_probability_zero_under_the_model_is_not_suspect():
    Q = TransitionMatrix([[0.1, 0.9, 0], [0.5, 0, 0.5], [1, 0, 0]], allow_diagonal=True)
    found = quality.find_wrong_labels([[0, 1.0, 0], [1.0, 0, 0]], [1, 0], Q)
    assert found.indices.tolist() == [1, 0]
    assert found.probabilities[0] > 0.5
    assert found.probabilities[1] == 0


def test_a_zero_diagonal_and_a_truth_that_does_not_fit_are_refused():
    Q = animals()
    probs, labels, true = draw(Q, 20, sharpness=2)
    with pytest.raises(InvalidTransitionMatrix, match="allow_diagonal=True"):
        quality.find_wrong_labels(probs, labels, Q)
    found = quality.find_wrong_labels(probs, labels, animals(mistakes=0.1))
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
def test_input_that_does_not_fit_is_refused(probs, labels, error, message):
    with pytest.raises(error, match=message):
        quality.find_wrong_labels(probs, labels, animals(mistakes=0.05))


def test_the_row_that_is_no_distribution_is_named_far_down_too():
    probs = np.full((400_000, 6), 1 / 6, dtype=np.float32)
    probs[390_000] *= 2
    with pytest.raises(InvalidInput, match="row 390000 sums to 2"):
        quality.find_wrong_labels(probs, np.zeros(400_000, int), animals(mistakes=0.05))


@pytest.mark.unmeasured
@pytest.mark.parametrize("with_log", [False, True])
def test_labels_about_shared_rows_are_ranked_like_labels_with_rows_of_their_own(with_log):
    rng = np.random.default_rng(4)
    Q, other = animals(mistakes=0.05), animals(mistakes=0.2, seed=8)
    probs, _, true = draw(Q, 800, seed=4)
    example, which = rng.integers(800, size=3000), rng.integers(3, size=3000)
    labels = Q.sample(true[example], seed=5)
    accepted = rng.integers(-1, 2, size=3000).astype(np.int8) if with_log else None
    more = {"accepted": accepted, "mistakes": 0.02}
    copied = wrong_labels.rank_labels(probs[example], labels, [Q, other, Q], which, **more)
    twins = [Q, other, TransitionMatrix(np.asarray(Q), Q.classes, allow_diagonal=True)]
    for matrices in ([Q, other, Q], twins):
        shared = wrong_labels.rank_labels(probs, labels, matrices, which, example=example, **more)
        assert shared.weights == pytest.approx(copied.weights, abs=1e-12)
    single = wrong_labels.rank_labels(
        probs.astype(np.float32), labels, twins, which, example=example, **more
    )
    assert single.weights == pytest.approx(copied.weights, abs=1e-4)


@pytest.mark.unmeasured
def test_many_labels_of_few_examples_take_little_memory(monkeypatch):
    monkeypatch.setattr(wrong_labels, "_MAX_ROWS", 500)
    rng = np.random.default_rng(0)
    probs = rng.random((500, 1000), dtype=np.float32)
    probs /= probs.sum(axis=1, keepdims=True)
    uniform = np.asarray(TransitionMatrix.uniform(1000))
    Q = TransitionMatrix(0.95 * uniform + 0.05 * np.eye(1000), allow_diagonal=True)
    labels, example = rng.integers(1000, size=20_000), rng.integers(500, size=20_000)
    tracemalloc.start()
    wrong_labels.rank_labels(
        probs, labels, [Q] * 100, rng.integers(100, size=20_000), example=example
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # a row for each label takes 80 MB, and a matrix for each annotator 800 MB
    assert peak < 70e6


def test_memory_holds_few_numbers_for_each_label(monkeypatch):
    monkeypatch.setattr(wrong_labels, "_MAX_ROWS", 500)
    monkeypatch.setattr(wrong_labels, "_NEGLIGIBLE", 0.9)
    n, Q = 50_000, animals(mistakes=0.1)
    labels = np.random.default_rng(0).integers(len(Q.classes), size=n)
    probs = np.full((n, len(Q.classes)), 1 / len(Q.classes), dtype=np.float32)
    tracemalloc.start()
    wrong_labels.rank_labels(probs, labels, [Q], np.zeros(n, dtype=np.int8))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * n
