"""Means, differences and verdicts, against figures computed by hand."""

from dataclasses import replace
from statistics import stdev

import pytest
from scipy.stats import t, ttest_ind_from_stats

from naysay.experiments.records import RunRecord
from naysay.experiments.suite import Published
from naysay.experiments.suites import SUITES
from naysay.experiments.tables import compare, latex, markdown, summarise_records


def make_records(name="table2", recipe="paper", **accuracies):
    """Make records of cells: by ``row, column``, the accuracy of each trial."""
    suite = SUITES[name]
    return [
        RunRecord(spec=spec, accuracy=accuracies[cell.name][spec.trial], seconds=2.0, device="x")
        for cell, spec in suite.specs(recipe)
        if spec.trial < len(accuracies.get(cell.name, []))
    ]


def summarise_one(*args, **accuracies):
    results = summarise_records([SUITES["table2"]], make_records(*args, **accuracies))
    assert len(results) == 1
    return results[0]


def test_mean_and_standard_deviation_are_of_the_trials():
    result = summarise_one(**{"LM/T, uniform": [0.97, 0.98, 0.99]})
    cell = result.at("LM/T", "uniform")
    assert cell.mean == pytest.approx(98)
    assert cell.sd == pytest.approx(1)  # of a sample: n - 1
    assert cell.n_trials == 3
    assert cell.comparison.difference == pytest.approx(98 - 97.18)
    assert cell.text == "98.00 ± 1.00"
    assert cell.seconds == 2
    assert len(result.missing) == 11
    assert result.short == [cell]


def test_true_labels_stand_in_every_column():
    result = summarise_one(**{"TL, uniform": [0.991] * 5})
    assert [result.at("TL", column).mean for column in result.suite.columns] == [
        pytest.approx(99.1)
    ] * 3
    assert len(result.records) == 5


def test_a_run_on_file_twice_counts_once_and_foreign_runs_do_not_count():
    records = make_records(**{"LM/T, with0": [0.98, 0.98]})
    (result,) = summarise_records([SUITES["table2"]], [*records, *records])
    assert result.at("LM/T", "with0").n_trials == 2
    assert summarise_records([SUITES["table3"]], records) == []


def test_recipes_are_kept_apart():
    records = make_records(**{"LM/T, with0": [0.5]}) + make_records(
        recipe="best", **{"LM/T, with0": [0.9]}
    )
    results = summarise_records([SUITES["table2"]], records)
    assert {r.recipe: r.at("LM/T", "with0").mean for r in results} == {"best": 90, "paper": 50}


def test_trials_that_were_developed_on_do_not_count():
    suite = SUITES["table3"]
    (_, first), (_, second) = suite.specs("best", trials=2, only="LM/T, with0")
    found = {0: 0.99, first.trial: 0.95, second.trial: 0.96}
    records = [
        RunRecord(spec=replace(first, trial=trial), accuracy=accuracy, seconds=2.0, device="x")
        for trial, accuracy in found.items()
    ]
    (result,) = summarise_records([suite], records)
    assert result.at("LM/T", "with0").mean == pytest.approx(95.5)
    assert result.records == records[1:]


@pytest.mark.parametrize(
    "accuracies, printed, expected",
    [
        ([97.0, 97.0, 97.2, 97.2], "97.18 ± 0.45", "equal"),
        ([97.9, 97.9, 98.1, 98.1], "97.18 ± 0.45", "better"),
        ([96.3, 96.3, 96.5, 96.5], "97.18 ± 0.45", "worse"),
        # a few trials failed: that the interval contains 0 is no success
        ([98.3, 98.4, 98.3, 88.5, 88.7], "98.60 ± 0.01", "unclear"),
        # 0 is inside, but so are differences of a point
        ([97.2, 97.2, 98.2, 98.2], "97.18 ± 0.45", "unclear"),
        # theirs varies as ours do
        ([99.0, 99.1, 99.2, 99.3], "99.12", "equal"),
        ([99.4, 99.5, 99.5, 99.6], "99.12", "better"),
        ([99.12], "99.12", "unclear"),  # one trial cannot tell
        ([85.84, 85.84], "85.8 (0.0)", "equal"),  # the same in the digits printed
    ],
)
def test_verdict(accuracies, printed, expected):
    compared = compare(accuracies, Published(printed), published_trials=5)
    assert compared.verdict == expected
    assert (compared.interval is None) == (len(accuracies) == 1)


def test_interval_is_that_of_welch():
    ours, rounding = [97.4, 97.1, 97.9, 97.8], 0.005
    compared = compare(ours, Published("97.18 ± 0.45"), published_trials=5)
    assert compared.difference == pytest.approx(97.55 - 97.18)
    for bound, width in zip(compared.interval, (rounding, -rounding), strict=True):
        test = ttest_ind_from_stats(
            97.55, stdev(ours), 4, 97.18 + bound + width, 0.45, 5, equal_var=False
        )
        assert test.pvalue == pytest.approx(0.05)
    # one published trial that varies as ours: the interval of a further one
    low, high = compare(ours, Published("97.18"), published_trials=5).interval
    half = t.ppf(0.975, 3) * stdev(ours) * (1 + 1 / 4) ** 0.5 + rounding
    assert (low, high) == pytest.approx((0.37 - half, 0.37 + half))


def test_what_was_never_printed_or_is_scaled_down_is_not_judged():
    assert compare([50.0], None, published_trials=None) is None
    assert compare([50.0], Published("N/A"), published_trials=5) is None
    assert compare([], Published("99.12"), published_trials=5) is None
    records = make_records(recipe="quick", **{"LM/T, with0": [0.5]})
    (result,) = summarise_records([SUITES["table2"]], records)
    assert result.at("LM/T", "with0").comparison is None


def test_trials_that_are_shown_although_developed_on_are_marked():
    records = make_records("table3", **{"LM/T, with0": [0.5]})
    results = summarise_records([SUITES["table3"]], records)
    assert "**50.00** (n = 1†) ? -35.32; published" in markdown(results)
    assert r"$50.00$$^\dagger$" in latex(results)
    suite = SUITES["table3"]
    (_, later), *_ = suite.specs("best", trials=1, only="LM/T, with0")
    (result,) = summarise_records(
        [suite], [RunRecord(spec=later, accuracy=0.9, seconds=1.0, device="x")]
    )
    assert "†" not in markdown([result])


def test_error_of_q_is_the_mean_over_trials():
    suite = SUITES["table2"]
    records = [
        RunRecord(
            spec=spec,
            accuracy=0.9,
            seconds=1.0,
            device="x",
            q_error={"estimated": 0.1 * (1 + spec.trial), "refined": 0.05},
        )
        for cell, spec in suite.specs("paper", trials=3, only="LM/E, with0")
    ]
    (result,) = summarise_records([suite], records)
    errors = result.at("LM/E", "with0").q_errors
    assert errors == {"estimated": pytest.approx(0.2), "refined": pytest.approx(0.05)}


def test_markdown_has_ours_the_difference_and_published():
    text = markdown([summarise_one(**{"LM/T, uniform": [0.99, 0.991]})])
    ours = "| LM/T | **99.05 ± 0.07** (n = 2) ▲ +1.87 [+1.31, +2.43]; published 97.18 ± 0.45 |"
    assert ours in text
    assert "not run; published 86.59 ± 3.99" in text
    n_columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    assert n_columns == {5}


def test_latex_escapes_and_has_three_lines_for_each_row():
    records = make_records("table1", **{"USPS even #, LM": [0.8, 0.82]})
    text = latex(summarise_records([SUITES["table1"]], records))
    assert r"USPS even \# & \textit{not run}" in text
    assert r"$81.00 \pm 1.41$ \\" in text
    assert r"\quad published & $67.4 (5.4)$" in text
    assert r"\quad difference &  &  &  & $+1.50 [-2.49, +5.49]$ unclear" in text
    assert "WAVEFORM1 1 -- 3" in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in rows} == {4}
