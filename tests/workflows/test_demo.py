"""The demo: its figures, its page and its command line."""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from demo_results import NAMES, make_result
from naysay import ComplementaryClassifier, InvalidInput
from naysay.cli import app
from naysay.workflows import demo
from naysay.workflows.demo import run_demo


def test_demo_shows_that_bias_needs_q_and_that_q_can_be_estimated(monkeypatch):
    X, y = load_digits(return_X_y=True)
    monkeypatch.setattr(demo, "load_digits", lambda **options: (X[:400], y[:400]))
    monkeypatch.setattr(demo, "ComplementaryClassifier", partial(ComplementaryClassifier, epochs=3))
    titles = []
    result = run_demo("with0", seed=3, on_run=lambda *_, title: titles.append(title))
    runs = {run.name: run for run in result.runs}
    accuracy = {name: run.accuracy for name, run in runs.items()}
    assert titles == [run.title for run in result.runs]
    assert tuple(runs) == NAMES == demo.SHOWN
    assert accuracy["TL"] > 0.95
    assert accuracy["PC/S"] < 0.5
    assert accuracy["LM/T"] > 0.9
    assert accuracy["LM/E"] > accuracy["anchors alone"] > 0.8
    assert runs["LM/E"].q_error < 0.4
    assert [name for name, run in runs.items() if run.candidates] == ["TL", "LM/T", "LM/E"]
    assert np.isfinite(np.asarray(result.estimated_transition)).all()
    figures = json.loads(json.dumps(result.to_dict()))
    assert [run["method"] for run in figures["runs"]] == list(NAMES)


def test_demo_refuses_an_unknown_setting():
    with pytest.raises(InvalidInput, match=r"uniform, without0, with0. Got 'with1'"):
        run_demo("with1")


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Replace the training by a result that is made by hand, with the options of the command."""

    def make(setting, *, seed, on_run):
        result = make_result(setting=setting, seed=seed)
        for number, run in enumerate(result.runs):
            on_run(number, len(result.runs), title=run.title)
        return result

    monkeypatch.setattr(demo, "run_demo", make)
    return tmp_path / "demo.html"


def test_demo_command_prints_a_table_and_writes_a_page(page):
    done = CliRunner().invoke(app, ["demo", "--seed", "1", "--out", str(page)])
    assert done.exit_code == 0
    for text in (*NAMES, "setting with0, seed 1", "accuracy", "97.6%", "The page:"):
        assert text in done.output
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_demo_command_gives_its_figures_as_json(page):
    done = CliRunner().invoke(app, ["demo", "--setting", "uniform", "--json", "--out", str(page)])
    figures = json.loads(done.stdout)
    assert figures["setting"] == "uniform"
    assert [run["method"] for run in figures["runs"]] == list(NAMES)
    assert Path(figures["page"]).is_file()


def test_page_that_cannot_be_written_is_one_line_before_any_work(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "no" / "demo.html")])
    assert done.exit_code == 1
    assert re.fullmatch(r"error: .*\n", done.stderr)


def test_unknown_setting_on_the_command_line_is_misuse():
    assert CliRunner().invoke(app, ["demo", "--setting", "with1"]).exit_code == 2
