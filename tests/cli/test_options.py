"""Options that several commands share, as people write them."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

import naysay
from naysay import ComplementaryClassifier, InvalidInput
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.workflows.files import write_example
from naysay.workflows.fit import explain_learner

fit_command = import_module("naysay.cli.fit")  # naysay.cli.fit is the function
reproduce_command = import_module("naysay.cli.reproduce")


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_classes_are_a_list_a_file_or_a_number(tmp_path):
    (tmp_path / "names.txt").write_text("cat\ndog, wild\nowl\n")
    (tmp_path / "a,b.txt").write_text("cat\ndog\nowl\n")

    def read(classes):
        done = run("design", f"--classes={classes}", "--offered=2", "--json")
        return sorted(
            {name for group in json.loads(done.stdout)["groups"] for name in group["offered"]}
        )

    assert read(tmp_path / "names.txt") == ["cat", "dog, wild", "owl"]
    assert read(tmp_path / "a,b.txt") == ["cat", "dog", "owl"]
    assert read('cat, "dog, wild",owl') == ["cat", "dog, wild", "owl"]
    assert read("3") == ["0", "1", "2"]


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


def test_names_add_up_and_other_options_are_given_once(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c,d,not\n" + "1,2,3,4,x\n5,6,7,8,y\n" * 3)
    info = ["data", "info", tmp_path / "t.csv", "--label=not"]
    done = run(*info, "--ignore=a,b", "--ignore", "c")
    assert re.search(r"features +1\n", done.output)
    for option, command in (
        ("--label", [*info, "--label=a"]),
        ("--anchors", ["fit", *info[2:], "--out=m", "--anchors=1.csv", "--anchors=2.csv"]),
        ("--task", ["annotate", "invite", "Ann", "--task=a.db", "--task=b.db"]),
    ):
        done = run(*command)
        assert done.exit_code == 2
        assert f"{option} was given 2 times" in done.output


@pytest.mark.parametrize(
    "option, code", [("--ignore=a\nb", 2), ("--text=a\rb", 2), ("--classes=a,b\nc", 1)]
)
def test_a_line_end_in_names_needs_quotes(option, code, tmp_path):
    (tmp_path / "t.csv").write_text("a,not\n1,x\n5,y\n")
    done = run("data", "info", tmp_path / "t.csv", "--label=not", option)
    assert done.exit_code == code
    assert "in double" in done.output


@pytest.mark.parametrize("given, size", [("32", (32, 32)), ("32x48", (32, 48)), ("3×4", (3, 4))])
def test_a_size_is_one_number_or_two(given, size, tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / label / "1.png")
    found = json.loads(run("data", "info", tmp_path, "--size", given, "--json").stdout)
    assert tuple(found["shape"][-2:]) == size


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
    assert run("fit", photos, *options, "--strict", "--force").exit_code == 1
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


@pytest.mark.unmeasured
def test_no_color_means_no_escape_codes(tmp_path):
    (tmp_path / "t.csv").write_text("x,not\n" + "1,cat\n2,dog\n3,owl\n" * 20)
    info = ("data", "info", tmp_path / "t.csv", "--label=not")
    assert escape_codes(*info)
    for command in (info, ("--help",), ("fit", "--nonsense")):
        assert not escape_codes(*command, NO_COLOR="1")


@pytest.fixture
def flowers(tmp_path):
    write_example(tmp_path / "flowers.csv")
    return tmp_path / "flowers.csv"


def test_fit_has_the_cures_for_troubles_as_options(flowers, tmp_path):
    options = {"lr": 0.01, "batch_size": 16, "max_norm": 1.0, "match_prior": 0.1, "restarts": 1}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    done = run("fit", flowers, "--label=not", "--epochs=2", *flags, "--out", tmp_path / "model")
    assert done.exit_code == 0, done.output
    saved = ComplementaryClassifier.load(tmp_path / "model").get_params()
    assert {name: saved[name] for name in options} == options
    about = "because of restarts (--restarts) and match_prior (--match-prior), only networks are"
    assert about in done.stderr
    done = run("fit", flowers, "--label=not", "--lr=0", "--out", tmp_path / "other")
    assert done.exit_code == 1
    assert "lr must" in done.output


def test_estimate_trains_with_the_options(flowers, tmp_path):
    estimate = ("estimate", flowers, "--label=not", "--true-label=is", "--epochs=1")
    state = tmp_path / "state"
    done = run(*estimate, "--lr=0.1", "--batch-size=8", "--max-norm=1", "--checkpoint", state)
    assert done.exit_code == 0, done.output
    assert list(state.glob("*.safetensors"))
    assert "because of checkpoint (--checkpoint), only networks are trained" in done.stderr
    for wrong in ("lr", "max_norm"):
        done = run(*estimate, f"--{wrong.replace('_', '-')}=0")
        assert done.exit_code == 1
        assert f"{wrong} must" in done.output


@pytest.mark.parametrize(
    "options", [{}, {"learner": "network"}, {"network": "mlp"}, {"method": "pc"}]
)
def test_that_a_network_is_the_learner_is_said_only_if_it_may_be_unexpected(flowers, options):
    own = read_own(flowers, label="not", features=["petal_length"])
    if options:
        options["checkpoint"] = "state"
    assert explain_learner(own, **options) == ()


def test_labels_that_are_nearly_all_distinct_give_no_warning_of_scikit_learn(tmp_path):
    rows = [f"{n / 7:.2f},c{n},c{n * 7 % 20}" for n in range(20)]
    (tmp_path / "t.csv").write_text("\n".join(["a,not,is", *rows]))
    done = run("estimate", tmp_path / "t.csv", "--label=not", "--true-label=is", "--epochs=1")
    assert done.exit_code == 0, done.exception  # warnings are errors in tests


def test_an_earlier_model_is_replaced_only_by_force(flowers, tmp_path):
    fit = ("fit", flowers, "--label=not", "--epochs=1", "--out", tmp_path / "model")
    assert run(*fit).exit_code == 0
    before = (tmp_path / "model/model.json").read_bytes()
    done = run(*fit, "--seed=1")
    assert done.exit_code == 1
    assert "--force" in done.output
    assert (tmp_path / "model/model.json").read_bytes() == before
    assert run(*fit, "--seed=1", "--force").exit_code == 0
    assert (tmp_path / "model/model.json").read_bytes() != before


@pytest.mark.parametrize("answer, is_replaced", [(True, True), (False, False)])
def test_on_a_terminal_fit_asks_before_it_replaces_a_model(
    answer, is_replaced, monkeypatch, tmp_path
):
    (tmp_path / "model.json").write_text('{"format": "naysay model"}')
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(fit_command, "sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    asked = []

    def confirm(question, *, abort, err):
        asked.append(question)
        if abort and not answer:
            raise typer.Abort

    monkeypatch.setattr(typer, "confirm", confirm)
    with nullcontext() if is_replaced else pytest.raises(typer.Abort):
        fit_command.check_model_target(tmp_path, force=False)
    assert asked == [f"{tmp_path} already contains a model. Replace it?"]


@pytest.mark.unmeasured
def test_a_killed_fit_goes_on_from_its_checkpoint(flowers, tmp_path):
    fit = ["fit", flowers, "--label=not", "--epochs=50", "--batch-size=8", "--learner=network"]
    resumed = [*fit, "--checkpoint", tmp_path / "state", "--out", tmp_path / "resumed"]
    source = str(Path(naysay.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "naysay", *map(str, resumed)],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.DEVNULL,
    )
    while not list((tmp_path / "state").glob("*.safetensors")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() != 0, "it was to be killed before it ended"
    assert not (tmp_path / "resumed").exists()
    assert run(*resumed).exit_code == 0
    assert run(*fit, "--out", tmp_path / "whole").exit_code == 0
    written = [tmp_path / name / "model.safetensors" for name in ("resumed", "whole")]
    assert written[0].read_bytes() == written[1].read_bytes()


@pytest.mark.parametrize(
    "arguments, address",
    [
        (["reproduce", "table1", "--ray"], "local"),
        (["reproduce", "--ray", "table1", "--quick"], "local"),
        (["reproduce", "table1", "--ray", "--quick"], "local"),
        (["reproduce", "table1", "--ray", "local"], "local"),
        (["reproduce", "--ray", "auto", "table1"], "auto"),
        (["reproduce", "table1", "--ray=head:6379"], "head:6379"),
        (["reproduce", "table1", "--ray", "ray://head:10001", "--quick"], "ray://head:10001"),
        (["reproduce", "table1", "--", "--ray"], None),
    ],
)
def test_the_address_of_ray_is_optional(arguments, address, monkeypatch, tmp_path):
    def refuse(address):
        raise InvalidInput(f"no cluster at {address}")

    monkeypatch.setattr(reproduce_command, "connect", refuse)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert (f"no cluster at {address}." in done.output) == (address is not None)
