"""Run the blocks of docs/data.md with real data."""

import re

import pytest
from typer.testing import CliRunner

from naysay import datasets
from naysay.cli.data import app
from places import ROOT

PAGE = (ROOT / "docs" / "data.md").read_text("utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_python_blocks_run_in_order(official_data, monkeypatch, capsys):
    monkeypatch.setenv("NAYSAY_DATA", str(official_data))
    names = {}
    for block in blocks("python"):
        exec(compile(block, "docs/data.md", "exec"), names)
    assert "(2934, 1, 16, 16) (326,)" in capsys.readouterr().out


@pytest.mark.parametrize("line", "".join(blocks("sh")).splitlines())
def test_the_commands_run(official_data, monkeypatch, line):
    monkeypatch.setenv("NAYSAY_DATA", str(official_data))
    program, group, *arguments = line.split()
    assert (program, group) == ("naysay", "data")
    assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_table_has_a_row_for_every_data_set():
    for name in datasets.names():
        info = datasets.describe(name)
        test = f"{info.n_test:,}" if info.n_test else "none"
        start = f"| `{name}` | {info.n_classes} | {info.n_train:,} | {test} |"
        assert start in PAGE
