"""Randomly damaged files: one line, no traceback, no hang, no file left behind."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from naysay import TransitionMatrix
from naysay.cli import app
from naysay.example_data import write_example

MARKS = [b",", b'"', b"\n", b"|", b"\0", b"1e999", b"nan", b";", b"\r", b"\xff"]
N_DAMAGES = int(os.environ.get("NAYSAY_DAMAGES", "75"))  # of each kind of file
HOSTILE = [
    None, True, -1, 0, 1e400, float("nan"), 10**30, "", "x" * 1000, "\0", "../../etc/passwd", [],
    {}, [[]], [None], {"a": 1}, [1e9, 1e9], [10**12], ["a", "a"], {"kind": "table", "columns": []},
]  # fmt: skip


def damage_bytes(content, rng):
    """Return the content cut, flipped, doubled, filled or with a piece of it elsewhere."""
    content = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, length = rng.integers(len(content) + 1), rng.integers(1, 40)
        match rng.integers(6):
            case 0:
                del content[at:]
            case 1:
                del content[at : at + length]
            case 2:
                content[at:at] = rng.bytes(length)
            case 3:
                content[at:at] = content[at : at + length]
            case 4:
                content[at:at] = MARKS[rng.integers(len(MARKS))]
            case _:
                for place in rng.integers(max(len(content), 1), size=1 + length // 10):
                    if place < len(content):
                        content[place] ^= 1 << rng.integers(8)
    return bytes(content)


def damage_json(content, rng):
    """Return the same JSON with one value somewhere in it replaced, or left out."""
    facts = json.loads(content)
    place = facts
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = keys[rng.integers(len(keys))]
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            break
        place = inner
    if rng.random() < 0.2:
        del place[key]
    else:
        place[key] = HOSTILE[rng.integers(len(HOSTILE))]
    return json.dumps(facts).encode()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    write_example(folder / "flowers.csv")
    TransitionMatrix.uniform(3, classes=["a", "b", "c"]).write(folder / "Q.csv")
    arguments = ["fit", folder / "flowers.csv", "--label=not", "--epochs=1", "--out"]
    done = CliRunner().invoke(app, [*map(str, arguments), str(folder / "model")])
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize(
    "file, damage, arguments",
    [
        ("model/model.json", damage_json, ["predict", "model", "flowers.csv"]),
        ("model/model.json", damage_bytes, ["predict", "model", "flowers.csv"]),
        ("model/model.safetensors", damage_bytes, ["predict", "model", "flowers.csv"]),
        ("flowers.csv", damage_bytes, ["predict", "model", "flowers.csv"]),
        ("flowers.csv", damage_bytes, ["data", "info", "flowers.csv", "--label=not"]),
        ("Q.csv", damage_bytes, ["inspect", "Q.csv"]),
    ],
)
def test_damage_is_one_line_or_no_matter(whole, tmp_path, monkeypatch, file, damage, arguments):
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    content = (whole / file).read_bytes()
    n_refused = 0
    for seed in range(N_DAMAGES):
        (tmp_path / file).write_bytes(damage(content, np.random.default_rng(seed)))
        start = time.perf_counter()
        done = CliRunner().invoke(app, arguments)
        assert time.perf_counter() - start < 20
        assert done.exception is None or isinstance(done.exception, SystemExit), (
            seed,
            done.exc_info,
        )
        if done.exit_code:
            n_refused += 1
            assert done.exit_code == 1
            assert done.stderr.startswith("error: "), seed
            assert done.stderr.count("\n") == 1, seed
    assert n_refused > 0
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_damaged_tables_leave_nothing_but_the_model(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = (whole / "flowers.csv").read_bytes()
    for seed in range(15):
        (tmp_path / "t.csv").write_bytes(damage_bytes(content, np.random.default_rng(seed)))
        done = CliRunner().invoke(app, ["fit", "t.csv", "--label=not", "--epochs=1", "--out=m"])
        assert done.exception is None or isinstance(done.exception, SystemExit), (
            seed,
            done.exc_info,
        )
        assert set(os.listdir(tmp_path)) <= {"t.csv", "m"}
        if done.exit_code:
            assert "m" not in os.listdir(tmp_path)
        shutil.rmtree("m", ignore_errors=True)
