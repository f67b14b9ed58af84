"""Names and cells of the user's files never steer the terminal, whichever command prints them."""

import csv
import json

import pytest
from typer.testing import CliRunner

from naysay.cli import app
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.spec import RunSpec

RED = "\x1b[31m"
SHOWN = r"\x1b[31m"


def run(*arguments, code=0):
    """Run a command as on a terminal, where Typer prints escape codes."""
    done = CliRunner().invoke(app, list(map(str, arguments)), color=True)
    assert done.exit_code == code, done.output
    assert "\x1b" not in done.output
    return done.output


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "t.csv"
    classes = [f"{name}{RED}[/b]" for name in ("ash", "elm", "fir")]
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([f"x{RED}", f"all equal{RED}", "not", "is", "who"])
        for n in range(60):
            true, offset, who = n % 3, 1 + n // 3 % 2, f"{'ann' if n % 2 else 'bob'}{RED}"
            known = classes[true] if n < 20 else ""
            rows.writerow([true + n / 100, 7, classes[(true + offset) % 3], known, who])
    return path


def test_no_command_prints_the_codes_in_a_table(table, tmp_path):
    labels = ("--label", "not", "--true-label", "is", "--annotator", "who")
    assert run("data", "info", table, *labels).count(SHOWN) >= 3
    training = ("--learner", "network", "--epochs", 1)
    said = run("fit", table, *labels, *training, "--out", tmp_path / "m")
    assert f"ash{SHOWN}[/b]" in said
    assert SHOWN in run("check", tmp_path / "m", table, *labels)
    assert SHOWN in run("estimate", table, *labels, "--epochs", 1, "--out", tmp_path / "Q.csv")
    assert SHOWN in run("design", "--classes", f"ash{RED},elm,fir")


def test_json_keeps_the_codes_as_escapes(tmp_path):
    name = f"ash\x9b{RED}"
    (tmp_path / "t.csv").write_text(f"x,not\n1,{name}\n2,é\n")
    said = run("data", "info", tmp_path / "t.csv", "--label", "not", "--json")
    assert json.loads(said)["classes"] == [name, "é"]
    assert "\x9b" not in said


def test_no_error_prints_codes(table, tmp_path):
    assert SHOWN in run("data", "info", table, "--label", f"not{RED}", code=1)
    assert SHOWN in run("inspect", f"{tmp_path}/gone{RED}.csv", code=1)
    assert SHOWN in run(f"gone{RED}", code=2)
    assert SHOWN in run("inspect", "a", f"gone{RED}", code=2)


def test_a_long_name_in_a_damaged_file_is_cut_in_the_error(tmp_path):
    record = RunRecord(
        spec=RunSpec(
            dataset="mnist",
            setting="with0",
            method="forward",
            knows="true Q",
            recipe="quick",
            trial=0,
        ),
        accuracy=0.9,
        seconds=1.5,
        device="a processor",
    )
    RecordFile(tmp_path / "r.jsonl").append(record)
    damaged = json.loads((tmp_path / "r.jsonl").read_text())
    damaged["spec"]["x" * 20_000] = 1
    del damaged["checksum"]
    (tmp_path / "r.jsonl").write_text(json.dumps(damaged) + "\n")
    said = run("report", tmp_path / "r.jsonl", "--out", tmp_path / "r.html", code=1)
    assert said.startswith(f"error: {tmp_path}")
    assert len(said) < 2100
