"""Every command's help has an example that works as pasted."""

import inspect
import itertools
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from naysay.cli import app

NEEDS_DOWNLOAD = {"data fetch", "data verify"}
# the slowest, and those that need data or what another command wrote
TESTED_ELSEWHERE = {"demo", "reproduce", "report"}
TESTED_ELSEWHERE |= {f"annotate {name}" for name in ("start", "invite", "export", "import")}
TESTED_ELSEWHERE |= {"annotate copy", "annotate learn"}


def commands(group, *path):
    """Yield (name, command) of every command below a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


ALL = dict(commands(typer.main.get_command(app)))


def examples(command):
    """Extract the shell lines of a command's help, after the word Example."""
    doc = inspect.getdoc(command.callback) or ""
    text = doc.partition("Example:")[2]
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize("name", ALL)
def test_help_ends_in_an_example_of_the_command(name):
    lines = examples(ALL[name])
    assert lines
    assert re.search(rf"\bnaysay {name}\b", lines[-1])
    shown = CliRunner().invoke(app, [*name.split(), "--help"]).output
    assert "Example" in shown


def test_paragraphs_of_the_help_are_wrapped_at_the_width_of_the_terminal():
    shown = CliRunner().invoke(app, ["fit", "--help"], terminal_width=80).output
    about = shown.partition("Example")[0].split("\n")
    start = next(place for place, line in enumerate(about) if "The accuracy" in line)
    words = " ".join(about[start:]).split()
    lines = [line.strip() for line in about[start:] if line.strip()]
    for line, following in itertools.pairwise(lines):  # no line ends before it is full
        assert len(line) + 1 + len(following.split()[0]) > 77
    assert words[-1] == "--accepted."
    assert {"DATA", "{DATA}"} & set(shown.split())  # as older versions of typer write it, or newer


@pytest.fixture(scope="module")
def pasted(tmp_path_factory):
    """A folder, and the lines that were run in it: several examples begin with the same lines."""
    return tmp_path_factory.mktemp("examples"), set()


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", sorted(set(ALL) - NEEDS_DOWNLOAD - TESTED_ELSEWHERE))
def test_the_example_works_as_pasted(name, pasted, monkeypatch):
    folder, lines_done = pasted
    monkeypatch.chdir(folder)
    for line in examples(ALL[name]):
        if "|" in line or line in lines_done:
            continue  # a pipe needs a shell: see test_data_info.py
        program, *arguments = shlex.split(line)
        assert program == "naysay"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        lines_done.add(line)


@pytest.mark.parametrize("name", ALL)
def test_every_command_speaks_json(name):
    assert "--json" in {flag for each in ALL[name].params for flag in each.opts}


@pytest.mark.unmeasured
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell):
    words = {"COMP_WORDS": "naysay ex", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "naysay ex"}
    done = subprocess.run(
        [sys.executable, "-m", "naysay"],
        env=os.environ
        | words
        | {"_NAYSAY_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "export" in done.stdout
