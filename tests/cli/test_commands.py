"""The command line as a whole, and the commands that have no test file of their own."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from naysay import InvalidTransitionMatrix, TransitionMatrix, __version__
from naysay.cli import app, main
from naysay.methods import METHODS, markdown_references, markdown_table


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_version_and_help_are_shown():
    assert run("--version").output == f"naysay {__version__}\n"
    assert "demo" in run("--help").output
    assert run().exit_code == 2


def test_inspect_prints_the_diagnosis(tmp_path):
    Q = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], classes=["cat", "dog", "owl"])
    Q.write(tmp_path / "Q.csv")
    assert run("inspect", str(tmp_path / "Q.csv")).output.startswith(f"{Q.diagnose()}\n")
    figures = json.loads(run("inspect", str(tmp_path / "Q.csv"), "--json").stdout)
    assert figures["unused_labels"] == ["owl"]
    assert figures["condition_number"] is None
    assert figures["rank"] == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_inspect_refuses_labels_from_a_pipe_because_they_are_read_again(tmp_path):
    TransitionMatrix.uniform(3).write(tmp_path / "Q.csv")
    os.mkfifo(tmp_path / "labels.csv")
    done = run("inspect", str(tmp_path / "Q.csv"), "--labels", str(tmp_path / "labels.csv"))
    assert done.exit_code == 1
    assert "--labels must be a file, because it is read more than once" in done.output


def test_methods_are_listed_as_a_table_as_json_and_as_markdown():
    shown = run("methods").output
    assert all(name in shown for name in METHODS)
    listed = json.loads(run("methods", "--json").stdout)
    assert [each["name"] for each in listed] == list(METHODS)
    assert listed[0]["needs_transition"] is True
    assert "doi.org/10.1007/978-3-030-01246-5_5" in listed[0]["references"][0]
    assert run("methods", "--markdown").stdout == f"{markdown_table()}\n{markdown_references()}"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("malloc of size 9 failed"),
        RuntimeError(
            "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"
        ),
        RuntimeError("CUDA out of memory. Tried 9\nmore lines"),
        RuntimeError("a mistake in the program"),
    ],
)
def test_a_lack_of_memory_is_one_line_but_other_errors_of_the_program_are_not(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("naysay.transition.TransitionMatrix.read", fail)
    done = run("inspect", "Q.csv")
    if "mistake" in str(error):
        assert done.exception is error
    else:
        text = str(error).splitlines()[0]
        assert done.stderr.rstrip(".\n") == f"error: There is not enough memory. {text}".rstrip(".")


def test_a_warning_of_a_library_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr("naysay.cli.app", lambda: warnings.warn("of\na library", stacklevel=1))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main()
    assert capsys.readouterr().err == "warning: of. a library.\n"


def test_numbers_that_overflow_in_a_library_are_no_warning(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    huge = np.array([3e38, -3e38], dtype=np.float32)
    monkeypatch.setattr("naysay.cli.app", lambda: np.diff(huge))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        main()
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(sys.platform != "linux", reason="removes the current folder")
def test_a_current_folder_that_is_gone_is_one_line(monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit, match="error: the current folder no longer exists"):
        main()


def test_error_is_one_line_and_exit_code_1_and_a_traceback_only_with_debug(tmp_path):
    bad = tmp_path / "Q.csv"
    bad.write_text("0,1\n0.5,0.5\n")
    done = run("inspect", str(bad))
    assert done.exit_code == 1
    assert done.stderr.startswith("error: Q must have a zero diagonal")
    assert done.stderr.count("\n") == 1
    assert isinstance(run("--debug", "inspect", str(bad)).exception, InvalidTransitionMatrix)
    assert run("inspect", str(bad), "--allow-diagonal").exit_code == 0


def test_missing_file_is_one_line(tmp_path):
    done = run("inspect", str(tmp_path / "missing.csv"))
    assert done.exit_code == 1
    assert "No such file" in done.stderr


def test_module_runs_as_a_program():
    out = subprocess.run(
        [sys.executable, "-m", "naysay", "--version"], capture_output=True, text=True, check=True
    )
    assert out.stdout == f"naysay {__version__}\n"
