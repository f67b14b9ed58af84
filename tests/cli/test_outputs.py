"""What a command cannot write is found before it reads anything, and any file name works."""

import contextlib
import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from typer.testing import CliRunner

from naysay.cli import app, main


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


# The inputs do not exist either, so that the error shows which is looked at first.
OUTPUTS = {
    "fit": ("fit", "none.csv", "--label", "not", "--out", "/proc/x"),
    "predict": ("predict", "none", "none.csv", "--out", "/proc/x.csv"),
    "check": ("check", "none", "none.csv", "--label", "not", "--out", "/proc/x.csv"),
    "estimate": ("estimate", "none.csv", "--label", "not", "--out", "/proc/x.csv"),
    "intervals": ("estimate", "none.csv", "--label", "not", "--intervals", "/proc/x.csv"),
    "matrices": (
        *("estimate", "none.csv", "--label", "not", "--annotator", "who"),
        *("--by-annotator", "/proc/x"),
    ),
    "export": ("export", "none", "--out", "/proc/x.onnx"),
    "design": ("design", "--classes", "4", "--prior", "none.csv", "--out", "/proc/x"),
    "demo": ("demo", "--out", "/proc/x.html"),
    "example": ("data", "example", "/proc/x.csv"),
    "report": ("report", "damaged.jsonl", "--out", "/proc/x.html"),
    "reproduce": ("reproduce", "table2", "--quick", "--out", "/proc/x.jsonl"),
}


@pytest.mark.skipif(sys.platform != "linux", reason="no /proc")
@pytest.mark.parametrize("command", OUTPUTS)
def test_an_output_that_cannot_be_written_is_found_first(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "damaged.jsonl").write_text("no record\n")
    result = run(*OUTPUTS[command])
    assert result.exit_code == 1, result.output
    assert result.output.startswith("error: /proc/x"), result.output
    assert "must be a path that can be written to" in result.output


def naysay(*arguments, cwd, encoding="utf-8"):
    """Run the command line in this process, with bytes as arguments and output."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    argv = ["naysay", *map(os.fsdecode, arguments)]
    with (
        contextlib.chdir(cwd),
        mock.patch.multiple(sys, argv=argv, stdout=out, stderr=err),
        mock.patch.dict(os.environ, COLUMNS="200"),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    written = [(stream.flush(), stream.buffer.getvalue())[1] for stream in (out, err)]
    return SimpleNamespace(returncode=ended.value.code, stdout=written[0], stderr=written[1])


def naysay_process(*arguments, cwd, **variables):
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "naysay", *arguments],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = os.fsencode(tmp_path_factory.mktemp("work"))
    made = naysay_process(b"data", b"example", b"caf\xe9.csv", cwd=folder)
    assert made.returncode == 0, made.stderr
    fitted = naysay(
        *(b"fit", b"caf\xe9.csv", b"--label", b"not", b"--true-label", b"is", b"--epochs", b"2"),
        *(b"--learner", b"network", b"--out", b"mod\xe8l"),
        cwd=folder,
    )
    assert fitted.returncode == 0, fitted.stderr.decode("latin-1")
    return folder


def test_names_that_are_not_utf_8_work_in_every_command(workspace):
    for arguments in (
        (b"predict", b"mod\xe8l", b"caf\xe9.csv", b"--out", b"pr\xe9.csv"),
        (b"check", b"mod\xe8l", b"caf\xe9.csv", b"--label", b"not", b"--out", b"iss\xfc.csv"),
        (b"data", b"info", b"caf\xe9.csv", b"--label", b"not"),
        (b"design", b"--classes", b"4", b"--out", b"t\xe2sk"),
    ):
        result = naysay(*arguments, cwd=workspace)
        assert result.returncode == 0, result.stderr.decode("latin-1")
        assert b"Traceback" not in result.stderr
    assert {b"pr\xe9.csv", b"iss\xfc.csv", b"t\xe2sk"} <= set(os.listdir(workspace))
    with open(os.path.join(workspace, b"mod\xe8l", b"model.json"), encoding="utf-8") as file:
        assert r"caf\xe9.csv" in json.load(file)["provenance"]["command"]


def test_an_error_about_such_a_name_is_one_line(workspace):
    result = naysay(b"predict", b"n\xe9", b"caf\xe9.csv", cwd=workspace)
    assert result.returncode == 1
    assert result.stderr.startswith(b"error: ")
    assert result.stderr.count(b"\n") == 1


def test_an_ascii_terminal_loses_nothing(workspace):
    """Symbols are replaced by letters on the screen; data for programs are as elsewhere."""
    info = ("data", "info", b"caf\xe9.csv", "--label", "not")
    shown = naysay_process(*info, cwd=workspace, PYTHONIOENCODING="ascii")
    assert shown.returncode == 0, shown.stderr
    assert b"####" in shown.stdout
    assert shown.stdout.isascii()
    names = naysay(
        "design", "--classes", "café,thé,lait", "--json", cwd=workspace, encoding="ascii"
    )
    assert names.returncode == 0, names.stderr
    assert "café" in str(json.loads(names.stdout)["groups"])
    with open(os.path.join(workspace, b"Q.csv"), "w", encoding="utf-8") as file:
        file.write("x,café,thé,lait\ncafé,0,1,0\nthé,0,0,1\nlait,1,0,0\n")
    table = naysay("inspect", "Q.csv", cwd=workspace, encoding="ascii")
    assert table.returncode == 0, table.stderr
    assert "café" in table.stdout.decode()


def test_rows_as_json_are_valid_on_an_ascii_terminal(workspace):
    path = os.path.join(workspace, b"names.csv")
    with (
        open(os.path.join(workspace, b"caf\xe9.csv"), encoding="utf-8") as old,
        open(path, "w", encoding="utf-8") as new,
    ):
        header, first, *_ = old.read().splitlines()
        new.write(f"name,{header}\n=café,{first}\n")
    predict = ("predict", b"mod\xe8l", "names.csv", "--id", "name")
    row = naysay(*predict, "--json", cwd=workspace, encoding="ascii")
    assert row.returncode == 0, row.stderr
    assert json.loads(row.stdout)["name"] == "=café"
    for out in ("-", "p.csv"):
        table = naysay(*predict, "--safe-csv", "--out", out, cwd=workspace, encoding="ascii")
        assert table.returncode == 0, table.stderr
        written = table.stdout
        if out != "-":
            with open(os.path.join(workspace, b"p.csv"), "rb") as file:
                written = file.read()
        assert written.decode("utf-8").splitlines()[1].startswith("'=café,")


def test_images_whose_names_are_not_utf_8_can_be_predicted(tmp_path):
    from PIL import Image

    folder = os.fsencode(tmp_path)
    for label in (b"cat", b"dog"):
        os.makedirs(os.path.join(folder, b"photos", label))
        for number in range(12):
            name = b"%d-\xe9.png" % number
            colour = 20 * number if label == b"cat" else 255 - 20 * number
            path = os.path.join(folder, b"photos", label, name)
            with open(path, "wb") as file:
                Image.new("L", (8, 8), colour).save(file, "PNG")
    fitted = naysay("fit", "photos", "--epochs", "1", "--out", "model", cwd=folder)
    assert fitted.returncode == 0, fitted.stderr
    for out in ("-", "p.csv", "p.parquet"):
        result = naysay("predict", "model", "photos", "--out", out, cwd=folder)
        assert result.returncode == 0, result.stderr
    assert r"cat/0-\xe9.png" in (tmp_path / "p.csv").read_text("utf-8")


@pytest.mark.skipif(sys.platform != "linux", reason="closes and fills streams as a shell does")
def test_output_that_goes_nowhere_is_an_error(tmp_path):
    def shell(redirection, arguments="design --classes 3"):
        command = f'"{sys.executable}" -m naysay {arguments} {redirection}'
        return subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, check=False)

    closed = shell(">&-")
    assert (closed.returncode, closed.stderr) == (
        1,
        b"error: standard output must not be closed.\n",
    )
    for full in (shell("> /dev/full"), shell("> /dev/full", "--version")):
        assert full.returncode == 1
        assert full.stderr.startswith(b"error: ")
        assert full.stderr.count(b"\n") == 1
        assert b"Traceback" not in full.stderr
    assert shell("2>&-").returncode == 0


_WHILE_IMPORTING = """
import sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
"""
_WHILE_BUILDING = """
import typer.main
def interrupt(app):
    raise KeyboardInterrupt
typer.main.get_command = interrupt
"""


@pytest.mark.parametrize("interrupt", [_WHILE_IMPORTING, _WHILE_BUILDING])
def test_ctrl_c_while_the_command_line_loads_ends_it_like_later(interrupt):
    program = f"{interrupt}\nfrom naysay.__main__ import main\nmain()"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (130, b"")
