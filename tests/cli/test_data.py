import json

import pytest
from typer.testing import CliRunner

from naysay import InvalidInput
from naysay.cli.data import app

pytestmark = pytest.mark.usefixtures("no_data_of_the_user")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_list_shows_every_data_set_and_the_folder(official_data):
    result = run("list", "--data-dir", official_data)
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.output.splitlines() if line.strip()}
    assert rows["mnist"].split()[:5] == ["mnist", "10", "60,000", "10,000", "yes"]
    assert rows["letter"].split()[:5] == ["letter", "26", "20,000", "none", "yes"]
    assert rows["drive"].split()[4] == "part"
    assert rows["cifar-10"].split()[4] == "no"
    assert str(official_data) in result.output


def test_list_as_json(tmp_path):
    result = run("list", "--data-dir", tmp_path, "--json")
    infos = {info["name"]: info for info in json.loads(result.stdout)}
    assert len(infos) == 12
    assert infos["usps"]["n_train"] == 7291
    assert infos["letter"]["n_test"] is None
    assert infos["cifar-10"]["on_disk"] is False


def test_verify_checks_what_is_on_disk(official_data):
    result = run("verify", "--data-dir", official_data)
    assert result.exit_code == 0
    assert "usps: ok. 7,291 training and 2,007 test examples of 10 classes" in result.output
    assert "mnist: ok." in result.output
    assert "Only 2,200 of the 58,509 rows" in result.output
    assert "cifar-10" not in result.output


def test_verify_fails_on_a_damaged_file_and_names_it(official_data, tmp_path):
    (tmp_path / "uci").mkdir()
    content = (official_data / "uci" / "waveform.data").read_bytes()
    (tmp_path / "uci" / "waveform.data").write_bytes(content[:-40])
    result = run("verify", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "waveform1: damaged." in result.output
    assert "waveform.data must" in result.output
    result = run("verify", "--data-dir", tmp_path, "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)[0]["status"] == "damaged"


def test_verify_fails_when_a_named_data_set_is_missing(tmp_path):
    result = run("verify", "mnist", "--data-dir", tmp_path)
    assert result.exit_code == 1
    assert "mnist: missing." in result.output


def test_verify_of_an_empty_folder_says_so(tmp_path):
    result = run("verify", "--data-dir", tmp_path)
    assert result.exit_code == 0
    assert "No data set is in" in result.output


def test_fetch_keeps_what_is_there(official_data):
    result = run("fetch", "usps", "letter", "--data-dir", official_data)
    assert result.exit_code == 0
    assert "usps: 7,291 training" in result.output
    result = run("fetch", "usps", "--data-dir", official_data, "--json")
    (summary,) = json.loads(result.stdout)
    assert summary["n_test"] == 2007
    assert [file["checked"] for file in summary["files"]] == ["values", "values"]


def test_fetch_refuses_an_unknown_name_before_any_download(tmp_path):
    result = run("fetch", "mnist", "minst", "--data-dir", tmp_path)
    assert isinstance(result.exception, InvalidInput)
    assert list(tmp_path.iterdir()) == []


def test_misuse_is_exit_code_2():
    assert run("fetch").exit_code == 2
    assert run("list", "--no-such-option").exit_code == 2
