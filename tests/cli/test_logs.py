"""Logs of suggestions on the command line."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from naysay.cli import app

COLUMNS = ["--suggested", "suggested", "--accepted", "accepted"]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    assert run("data", "example", folder / "log.csv", "--log").exit_code == 0
    model = folder / "model"
    done = run("fit", folder / "log.csv", *COLUMNS, "--out", model, "--epochs", 30)
    assert done.exit_code == 0, done.output
    return folder, done.output


def test_fit_says_what_it_learned_from_and_bounds_the_accuracy(fitted):
    _, output = fitted
    assert "Learned from suggestions: 112 accepted, 38 rejected." in output
    assert "95 % bounds)" in output
    assert "from 30 held-out answers, without a true label" in output


def test_answers_to_predictions_show_the_accuracy(fitted):
    folder, _ = fitted
    run("predict", folder / "model", folder / "log.csv", "--out", folder / "predictions.csv")
    log = pd.read_csv(folder / "log.csv")
    log["suggested"] = pd.read_csv(folder / "predictions.csv")["prediction"]
    log["accepted"] = [0] * 5 + [1] * 145
    log.to_csv(folder / "answers.csv", index=False)
    options = [*COLUMNS, "--mistakes", "0.01", "--json"]
    done = run("check", folder / "model", folder / "answers.csv", *options)
    found = json.loads(done.output)["accuracy"]
    assert found["value"] == pytest.approx((145 / 150 - 0.01) / 0.98)
    assert found["n_answers"] == 150


def test_rejections_alone_are_refused_and_odd_answers_are_listed(fitted):
    folder, _ = fitted
    log = pd.read_csv(folder / "log.csv")
    log[log["accepted"] == "no"].to_csv(folder / "no.csv", index=False)
    done = run("fit", folder / "no.csv", *COLUMNS, "--out", folder / "other")
    assert done.exit_code == 1
    assert "must have accepted suggestions too; none of its 38" in done.output
    log.replace({"accepted": {"no": "later"}}).to_csv(folder / "odd.csv", index=False)
    done = run("data", "info", folder / "odd.csv", *COLUMNS)
    assert done.exit_code == 1
    assert "Got also 'later'" in done.output
    assert run("data", "example", folder / "x.csv", "--log", "--annotators").exit_code == 2
