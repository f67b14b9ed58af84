"""A plan has each run once and estimates the time of those that are not recorded."""

import pytest

from naysay import InvalidInput
from naysay.experiments.records import RunRecord
from naysay.experiments.suite import make_plan
from naysay.experiments.suites import SUITES


def test_a_run_that_tables_share_is_done_for_the_first():
    plan = make_plan([SUITES["table2"], SUITES["figure-q"]], "quick", only="LM/E")
    first, second = plan.estimate_work([])
    assert (first["runs"], first["to_do"], first["in_another_table"]) == (6, 6, 0)
    assert (second["runs"], second["to_do"], second["in_another_table"]) == (12, 6, 6)
    assert len(plan.cells) == 12
    assert [suite.name for suite, _ in plan.cells.values()] == 6 * ["table2"] + 6 * ["figure-q"]


def test_time_is_that_of_runs_on_file_or_else_that_of_the_recipe():
    suite = SUITES["table2"]
    plan = make_plan([suite], "quick", trials=1, only="LM/*with0")
    (work,) = plan.estimate_work([])
    assert (work["seconds_each"], work["measured_on"]) == (5, suite.recipe("quick").measured_on)
    assert work["seconds"] == 10
    record = RunRecord(spec=next(iter(plan.cells)), accuracy=0.9, seconds=30.04, device="x")
    (work,) = plan.estimate_work([record])
    assert (work["on_file"], work["to_do"], work["seconds_each"], work["seconds"]) == (1, 1, 30, 30)
    assert work["measured_on"] == ""
    (work,) = make_plan([suite], "best", trials=1).estimate_work([])
    assert (work["seconds_each"], work["seconds"]) == (None, None)


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(InvalidInput, match=r"No run matches --only 'LM/X'\. .* 'TL, uniform'\."):
        make_plan([SUITES["table2"]], "quick", only="LM/X")
