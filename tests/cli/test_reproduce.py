"""`naysay reproduce` and `naysay report`, from the command line."""

import json

import pytest
from typer.testing import CliRunner

from naysay.cli import app
from naysay.experiments import tasks
from naysay.experiments.records import RecordFile
from naysay.experiments.suites import SUITES
from small_sets import make_digits


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def digits(monkeypatch):
    """Let every data set be scikit-learn's digits."""
    small = make_digits()
    monkeypatch.setattr(tasks, "_load", lambda name, folder: small)


@pytest.mark.parametrize("command", ["reproduce", "report"])
def test_help_has_an_example(command):
    assert f"Example: naysay {command}" in invoke(command, "--help").output


def test_a_dry_run_counts_runs_and_trains_nothing(tmp_path):
    out = tmp_path / "records.jsonl"
    done = invoke("reproduce", "all", "--dry-run", "--json", "--out", out)
    assert done.exit_code == 0, done.output
    rows = {row["suite"]: row for row in json.loads(done.stdout)}
    assert list(rows) == [name for name, suite in SUITES.items() if suite.in_paper]
    assert rows["table1"]["to_do"] == 24 * 4 * 20
    assert rows["table2"]["to_do"] == 5 * (1 + 3 * 3)
    assert rows["figure-q"]["to_do"] == 0  # all of its runs are in the tables
    assert rows["figure-q"]["in_another_table"] == 30
    assert not out.exists()
    shown = invoke("reproduce", "table2", "--quick", "--trials", "1", "--dry-run", "--out", out)
    assert "Recipe quick: 10 runs to do" in shown.output


def test_runs_are_recorded_skipped_and_reported(tmp_path, digits):
    out, page = tmp_path / "records.jsonl", tmp_path / "page.html"
    command = ("reproduce", "table2", "--quick", "--trials", 1, "--only", "LM/*with0", "--out", out)
    done = invoke(*command, "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "table2: LM/T, with0, trial 1: " in done.output
    assert "2 runs done, 0 were on file. Now: naysay report" in done.output.replace("\n", " ")
    records = RecordFile(out).read()
    assert [record.spec.knows for record in records] == ["true Q", "estimated Q"]
    again = json.loads(invoke(*command, "--json").stdout)
    assert (again["done"], again["on_file"]) == (0, 2)
    rows = json.loads(invoke(*command, "--dry-run", "--json").stdout)
    assert rows[0]["to_do"] == 0
    assert rows[0]["seconds_each"] > 0

    done = invoke("report", out, "--out", page)
    assert done.exit_code == 0, done.output
    assert done.output == f"2 runs. The page: {page}\n"
    assert "scaled down" in page.read_text("utf-8")
    markdown = invoke("report", out, "--markdown").stdout
    assert f"**{100 * records[0].accuracy:.2f}** (n = 1); published 98.63 ± 0.05" in markdown
    assert r"\begin{tabular}" in invoke("report", out, "--latex").stdout


def test_missing_data_are_said_and_the_exit_code_is_1_if_nothing_could_be_run(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("NAYSAY_DATA", str(tmp_path))
    done = invoke("reproduce", "table4", "--quick", "--only", "tiny", "--out", tmp_path / "r.jsonl")
    assert done.exit_code == 1
    assert "Not run (4): " in done.stderr
    assert "naysay data fetch tiny-imagenet. Or set NAYSAY_DATA" in done.stderr
    assert done.stdout == "0 runs done, 0 were on file.\n"  # and no file to report on


def test_the_exit_code_is_1_if_all_that_is_new_was_refused(tmp_path, monkeypatch):
    out = tmp_path / "records.jsonl"
    command = ("reproduce", "table1", "table2", "--quick", "--device=cpu", "--out", out)
    small = make_digits()
    with monkeypatch.context() as patch:
        patch.setattr(tasks, "_load", lambda name, folder: small)
        assert invoke(*command, "--only=LM/T, with*", "--trials=1").exit_code == 0
    missing = ("--data-dir", tmp_path / "none")
    done = invoke(*command, "--only=LM/T, with*", "--trials=2", *missing)
    assert done.exit_code == 1
    assert f"Now: naysay report {out}" in done.stdout.replace("\n", " ")
    done = invoke(*command, "--only=[LD][MR]*[T5], [wL]*", "--trials=1", *missing)
    assert "drive needs" in done.stderr
    assert done.exit_code == 0  # it is known not to be available, and nothing else is left to do


def test_a_device_that_is_not_there_is_one_line(tmp_path, digits):
    command = ("reproduce", "table2", "--quick", "--only=LM/T*", "--out", tmp_path / "r.jsonl")
    done = invoke(*command, "--device=cuda:99")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: device must be one that this machine has. Got 'cuda:99'")
    assert done.stderr.endswith("use device='cpu' (--device cpu).\n")


def test_misuse_is_one_line(tmp_path):
    done = invoke("reproduce", "table8")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: Unknown table or figure 'table8'. Known: table1,")
    done = invoke("reproduce", "table2", "--only", "LM/X", "--out", tmp_path / "r.jsonl")
    assert done.stderr.startswith("error: No run matches --only 'LM/X'. Runs are named by row and")
    assert "such as 'TL, uniform'." in done.stderr
    assert invoke("reproduce", "table2", "--quick", "--recipe", "best").exit_code == 2
    assert invoke("reproduce", "table2", "--trials", "0").exit_code == 2
    assert "There is no file" in invoke("report", tmp_path / "none.jsonl").stderr
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "0 records were read" in invoke("report", empty).stderr
    assert invoke("report", empty, "--markdown", "--latex").exit_code == 2
