"""Randomly damaged files, and what each command makes of them."""

import gzip
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from PIL import Image
from pyarrow import csv
from typer.testing import CliRunner

from naysay import TransitionMatrix
from naysay.cli import app
from naysay.transition.folder import write_matrices
from naysay.workflows.files import write_example

SECONDS = 20  # more than this is a hang
MARKS = [b",", b'"', b"\n", b"|", b"\0", b"1e999", b"nan", b";", b"\r", b"\xff"]
HOSTILE = [
    None, True, -1, 0, 1e400, float("nan"), 10**30, "", "x" * 1000, "\0", "../../etc/passwd", [],
    {}, [[]], [None], {"a": 1}, [1e9, 1e9], [10**12], ["a", "a"], {"kind": "table", "columns": []},
]  # fmt: skip


def damage_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content cut, flipped, doubled, filled or with a piece of it elsewhere."""
    damaged = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        at, length = rng.integers(len(damaged) + 1), rng.integers(1, 40)
        match rng.integers(6):
            case 0:
                del damaged[at:]
            case 1:
                del damaged[at : at + length]
            case 2:
                damaged[at:at] = rng.bytes(length)
            case 3:
                damaged[at:at] = damaged[at : at + length]
            case 4:
                damaged[at:at] = MARKS[rng.integers(len(MARKS))]
            case _:
                for place in rng.integers(max(len(damaged), 1), size=1 + length // 10):
                    if place < len(damaged):
                        damaged[place] ^= 1 << rng.integers(8)
    return bytes(damaged)


def damage_values(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the same JSON with one value somewhere in it replaced, or left out."""
    facts = json.loads(content)
    place: Any = facts
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


class Kind(NamedTuple):
    """A file, a way to damage it, and the command that reads it."""

    file: str
    damage: Callable[[bytes, np.random.Generator], bytes]
    arguments: str
    out: str | None = None
    """The only path that the command may add."""


_PREDICT = "predict model flowers.csv --out out.csv"
_FIT = "fit flowers.csv --label not --epochs 1 --out new"
KINDS = {
    "model.json, a value of it: predict": Kind(
        "model/model.json", damage_values, _PREDICT, "out.csv"
    ),
    "model.json: predict": Kind("model/model.json", damage_bytes, _PREDICT, "out.csv"),
    "model.safetensors: predict": Kind(
        "model/model.safetensors", damage_bytes, _PREDICT, "out.csv"
    ),
    "CSV: predict": Kind("flowers.csv", damage_bytes, _PREDICT, "out.csv"),
    "CSV: data info": Kind("flowers.csv", damage_bytes, "data info flowers.csv --label not"),
    "CSV: check": Kind("flowers.csv", damage_bytes, "check model flowers.csv --label not"),
    "CSV: fit": Kind("flowers.csv", damage_bytes, _FIT, "new"),
    "Parquet: data info": Kind(
        "flowers.parquet", damage_bytes, "data info flowers.parquet --label not"
    ),
    "Arrays (.npz): data info": Kind("arrays.npz", damage_bytes, "data info arrays.npz"),
    "Image: data info": Kind("photos/cat/1.png", damage_bytes, "data info photos --strict"),
    "JSON Lines: data info": Kind(
        "flowers.jsonl", damage_bytes, "data info flowers.jsonl --label not"
    ),
    "Excel: data info": Kind("flowers.xlsx", damage_bytes, "data info flowers.xlsx --label not"),
    "Compressed CSV: data info": Kind(
        "flowers.csv.gz", damage_bytes, "data info flowers.csv.gz --label not"
    ),
    "Q.csv: inspect": Kind("Q.csv", damage_bytes, "inspect Q.csv"),
    "Q.csv: check": Kind(
        "Q.csv", damage_bytes, "check model flowers.csv --label not --transition Q.csv"
    ),
    "Q.csv of an annotator: fit": Kind(
        "habits/ann.csv",
        damage_bytes,
        "fit answers.csv --label not --annotator who --id flower --epochs 1 --transition habits "
        "--out new",
        "new",
    ),
    "Q.csv: fit": Kind("Q.csv", damage_bytes, f"{_FIT} --transition Q.csv", "new"),
}


def write_whole(folder: Path) -> None:
    """Write the undamaged files: tables, arrays, images, matrices, and a model."""
    write_example(folder / "flowers.csv")
    write_example(folder / "answers.csv", annotators=True)
    table = csv.read_csv(folder / "flowers.csv")
    pq.write_table(table, folder / "flowers.parquet")
    frame = table.to_pandas()
    frame.to_json(folder / "flowers.jsonl", orient="records", lines=True)
    frame.to_excel(folder / "flowers.xlsx", index=False)
    (folder / "flowers.csv.gz").write_bytes(gzip.compress((folder / "flowers.csv").read_bytes()))
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    np.savez(folder / "arrays.npz", X=rng.normal(size=(60, 4)), labels=labels)
    for number in range(12):
        path = folder / "photos" / ("cat", "dog", "owl")[number % 3] / f"{number // 3}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(256, size=(8, 8, 3)).astype(np.uint8)).save(path)
    Q = TransitionMatrix.uniform(3, classes=["setosa", "versicolor", "virginica"])
    Q.write(folder / "Q.csv")
    write_matrices(dict.fromkeys(["ann", "bob", "cho"], Q), folder / "habits")
    arguments = ["fit", folder / "flowers.csv", "--label=not", "--epochs=1", "--out"]
    done = CliRunner().invoke(app, [*map(str, arguments), str(folder / "model")])
    if done.exit_code:
        raise AssertionError(done.output)


class Outcome(NamedTuple):
    """What a command made of one damaged file."""

    is_refused: bool
    seconds: float
    faults: list[str]
    """What it must not do: a traceback, a hang, more than one line, a file where none belongs."""


def try_damage(whole: Path, folder: Path, kind: Kind, seed: int) -> Outcome:
    """Damage one file of a folder that holds a copy of the whole ones, run, and put it back."""
    content = (whole / kind.file).read_bytes()
    (folder / kind.file).write_bytes(kind.damage(content, np.random.default_rng(seed)))
    before = _paths(folder)
    faults: list[str] = []
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(SECONDS)
    start = time.perf_counter()
    try:
        done = CliRunner().invoke(app, kind.arguments.split())
    finally:
        signal.alarm(0)
    seconds = time.perf_counter() - start
    if isinstance(done.exception, TimeoutError):
        faults.append("hang")
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        faults.append(f"traceback: {done.exception!r}")
    elif done.exit_code and not (
        done.exit_code == 1 and done.stderr.count("\n") == 1 and done.stderr.startswith("error: ")
    ):
        faults.append(f"not one line of an error: {done.stderr!r}")
    added = _paths(folder) - before
    wanted = set() if done.exit_code or kind.out is None else {kind.out}
    if {path.split(os.sep)[0] for path in added} != wanted:
        faults.append(f"files: {sorted(added)}")
    for path in {path.split(os.sep)[0] for path in added}:
        remove(folder / path)
    (folder / kind.file).write_bytes(content)
    return Outcome(done.exit_code != 0, seconds, faults)


def _stop(signal_number: int, frame: Any) -> None:
    raise TimeoutError


def _paths(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def remove(path: Path) -> None:
    """Remove a file, or a folder with all in it."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
