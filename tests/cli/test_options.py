"""Options that several commands share, as people write them."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import naysay
from naysay.cli import app
from naysay.cli._shared import class_list, parse_size


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_classes_are_a_list_a_file_or_a_number(tmp_path):
    (tmp_path / "names.txt").write_text("cat\ndog, wild\nowl\n")
    (tmp_path / "a,b.txt").write_text("cat\ndog\n")
    assert class_list(str(tmp_path / "names.txt")) == ["cat", "dog, wild", "owl"]
    assert class_list(str(tmp_path / "a,b.txt")) == ["cat", "dog"]
    assert class_list('cat, "dog, wild",owl') == ["cat", "dog, wild", "owl"]
    assert class_list("3") == ["0", "1", "2"]


def test_every_command_with_classes_reads_them_alike(tmp_path):
    (tmp_path / "names.txt").write_text("cat\ndog, wild\nowl\n")
    (tmp_path / "t.csv").write_text('x,not\n1,cat\n2,"dog, wild"\n')
    for classes in (tmp_path / "names.txt", 'cat,"dog, wild",owl'):
        done = run("data", "info", tmp_path / "t.csv", "--label=not", f"--classes={classes}")
        assert "owl" in done.output, done.output
        done = run("design", f"--classes={classes}", "--offered=2")
        assert "dog, wild" in done.output, done.output
    done = run("data", "info", tmp_path / "t.csv", "--label=not", "--classes=none.txt")
    assert done.exit_code == 1
    assert "There is no file 'none.txt'" in done.output


@pytest.mark.parametrize("given, size", [("32", (32, 32)), ("32x48", (32, 48)), ("3×4", (3, 4))])
def test_a_size_is_one_number_or_two(given, size):
    assert parse_size(given) == size


@pytest.mark.parametrize("given", ["x", "32x", "32 48", "-3", "1.5", ""])
def test_another_size_is_misuse(given, tmp_path):
    done = run("data", "info", tmp_path, "--size", given)
    assert done.exit_code == 2
    assert "32x48" in done.output


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for index in range(40):
        path = tmp_path / "photos" / ("Cat", "dog", "cat")[index % 3] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(256, size=(5 + index % 2, 6, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(path)
    return tmp_path / "photos"


def test_one_damaged_image_does_not_stop_fit_and_predict(photos, tmp_path):
    damaged = photos / "dog/1.png"
    damaged.write_bytes(b"no image")
    options = ["--size=6", "--ignore-case", "--epochs=1", "--out", tmp_path / "model"]
    done = run("fit", photos, *options)
    assert done.exit_code == 0, done.output
    assert "'dog/1.png': left out, because these images are damaged" in done.output
    assert run("fit", photos, *options, "--strict").exit_code == 1
    done = run("predict", tmp_path / "model", photos)
    assert done.exit_code == 0, done.output
    assert "damaged images without a prediction: 1." in done.stderr
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("dog/1.png"))
    assert row == "dog/1.png,,,"
    assert len(done.stdout.splitlines()) == 41
    done = run("predict", tmp_path / "model", photos, "--strict")
    assert done.exit_code == 1
    assert "must be an image" in done.output
    done = run("check", tmp_path / "model", photos, "--ignore-case")
    assert "dog/1.png" in done.output, done.output


def escape_codes(*arguments, **environment):
    """Run naysay with a terminal as all of its streams, and tell whether it writes escape codes."""
    leader, follower = pty.openpty()
    source = str(Path(naysay.__file__).parents[1])
    variables = os.environ | {"PYTHONPATH": source, "TERM": "xterm-256color"} | environment
    process = subprocess.Popen(
        [sys.executable, "-m", "naysay", *map(str, arguments)],
        env=variables,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    written = b""
    while True:
        try:
            part = os.read(leader, 1 << 16)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(leader)
    assert process.wait() in (0, 1, 2)
    assert written
    return b"\x1b" in written


def test_no_color_means_no_escape_codes(tmp_path):
    (tmp_path / "t.csv").write_text("x,not\n" + "1,cat\n2,dog\n3,owl\n" * 20)
    info = ("data", "info", tmp_path / "t.csv", "--label=not")
    assert escape_codes(*info)
    for command in (info, ("--help",), ("fit", "--nonsense")):
        assert not escape_codes(*command, NO_COLOR="1")
