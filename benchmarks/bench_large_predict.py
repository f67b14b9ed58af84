"""Predict for a folder of Parquet files, and fit to one: rows per second, time and peak memory.

    python benchmarks/bench_large_predict.py FOLDER [--rows 20000000] [--ray] [--stages]
    python benchmarks/bench_large_predict.py FOLDER --fit [--check]
    python benchmarks/bench_large_predict.py FOLDER --anchors [estimate fit check]
    python benchmarks/bench_large_predict.py FOLDER --growth [fit-ids info-lists …]

The data, 20 columns of float64 and 4 classes (--fit: 50 columns and half of the rows, about 4 GB;
--anchors: a tenth of the rows, 10 classes, about 150 true labels), are written to FOLDER first,
unless they are there. Appends one JSON line to ``results/large_predict.jsonl``. The peak is
the resident memory of the process of the command, with the pages of files that it has mapped, and
``anonymous_gb`` is that without them; with --ray, also the sum over its workers is recorded. With
--check, the fitted model is also checked with the same data. With --anchors, the matrix is
estimated, a model is fitted with such an estimate and checked, all with --memory 0.1. --stages
records what each step of predict takes, in one thread. --growth runs commands with --memory 0.1 for
one and three million rows of 3 columns (with texts a half and one), and records in
``results/large_growth.jsonl`` the memory that is no page of a file for each further row, where
there are ids, lists, texts, annotators whose matrices are estimated, and so on.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import torch

from naysay import ComplementaryClassifier
from naysay.datasets.own import read_own
from naysay.datasets.own.batches import read_batches
from naysay.workflows.fit import fit_own
from naysay.workflows.predict import predict_file, write_tables
from record import run_naysay, write_record

PART = 500_000
pc: Any = pyarrow.compute


def make_table(n: int, seed: int, n_columns: int, n_classes: int = 4, known: float = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(n_columns, n_classes))
    X = rng.normal(size=(n, n_columns))
    y, names = (X @ weights).argmax(axis=1), np.array(list("abcdefghij"))
    not_y = (y + rng.integers(1, n_classes, size=n)) % n_classes
    columns = {f"x{place}": X[:, place] for place in range(n_columns)}
    columns |= {"not": names[not_y]}
    if known:
        columns |= {"is": pa.array(np.where(rng.random(n) < known, names[y], None))}
    return pa.table(columns)


def make_various(n: int, seed: int) -> pa.Table:
    """Make 3 columns and 10 classes, and a column of each kind that answers may come in."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.normal(size=(n // 2, 3)), (2, 1))  # each example has two rows
    names = np.array(list("abcdefghij"))
    weights = np.random.default_rng(0).normal(size=(3, 10))
    y = (X @ (weights / np.linalg.norm(weights, axis=0))).argmax(axis=1)  # each class occurs
    not_y = (y + rng.integers(1, 10, size=n)) % 10
    order = rng.random((n, 10))
    order[np.arange(n), not_y] = 0  # the class that is chosen was offered
    offered = np.sort(np.argsort(order, axis=1)[:, :4], axis=1)
    two = np.stack([not_y, not_y], axis=1)
    known = np.arange(n) < 75
    known[np.unique(y, return_index=True)[1]] = True  # some classes are rare
    words = pa.array([f"word{number}" for number in range(3000)])
    note = [words.take(pa.array(rng.integers(3000, size=n))) for _ in range(6)]
    number = np.arange(n) + seed * n
    columns = {f"x{place}": X[:, place] for place in range(3)}
    columns |= {
        "not": names[not_y],
        "id": np.char.add("e", np.char.zfill(number.astype("U9"), 9)),
        "pair": np.char.add("e", np.char.zfill((number % (n // 2) + seed * n).astype("U9"), 9)),
        "offered": pa.FixedSizeListArray.from_arrays(names[offered].ravel(), 4).cast(
            pa.list_(pa.string())
        ),
        "listed": pa.FixedSizeListArray.from_arrays(names[two].ravel(), 2).cast(
            pa.list_(pa.string())
        ),
        "number": not_y + 0.5,
        "cased": np.where(rng.random(n) < 0.1, np.char.upper(names[not_y]), names[not_y]),
        "note": pc.binary_join_element_wise(*note, " "),
        "who": np.array(["ann", "ben", "cem", "dua", "eva"])[rng.integers(5, size=n)],
        "is": pa.array(np.where(known, names[y], None)),
    }
    return pa.table(columns)


KINDS = {
    "plain": ("--label", "not"),
    "ids": ("--label", "not", "--id", "id"),
    "pairs": ("--label", "not", "--id", "pair"),
    "offered": ("--label", "not", "--offered", "offered"),
    "lists": ("--label", "listed"),
    "floats": ("--label", "number"),
    "ignore-case": ("--label", "cased", "--ignore-case"),
    "texts": ("--label", "not"),
    "annotators": ("--label", "not", "--annotator", "who", "--true-label", "is"),
}


def growth(folder: Path, kinds: list[str]) -> dict[str, Any]:
    """Measure the memory that is no page of a file for each further row."""
    found: dict[str, Any] = {}
    for name in kinds or [f"{command}-{kind}" for kind in KINDS for command in ("fit", "check")]:
        command, _, kind = name.partition("-")
        training = ("--epochs", "1", "--learner", "network", "--batch-size", "4096")
        features = ("--features", "x0,note" if kind == "texts" else "x0,x1,x2")
        sizes = (500_000, 1_000_000) if kind == "texts" else (1_000_000, 3_000_000)
        figures = {}
        for n_rows in sizes:
            data, model = folder / f"various-{n_rows}", folder / f"model-{kind}"
            write_folder(data, n_rows, make=make_various)
            start, more = {
                "info": (("data", "info", str(data)), features),
                "check": (("check", str(model), str(data)), ()),
                "fit": (
                    ("fit", str(data)),
                    (*features, *training, "--out", str(model), "--force"),
                ),
            }[command]
            figures[str(n_rows)] = run(*start, *KINDS[kind], "--memory", "0.1", *more)
            print(name, n_rows, figures[str(n_rows)], flush=True)
        first, last = (each["anonymous_gb"] for each in figures.values())
        bytes_per_row = round((last - first) * 1e9 / (sizes[1] - sizes[0]))
        found[name] = {"bytes_per_row": bytes_per_row} | figures
    return found


def write_folder(
    folder: Path, n_rows: int, *columns: int, make: Any = make_table, **more: Any
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-n_rows // PART)):
        path = folder / f"part-{number:03}.parquet"
        if not path.exists():
            pq.write_table(make(PART, number + 1, *columns, **more), path)


def size_gb(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.iterdir()) / 1e9, 2)


def anonymous_bytes(process: int) -> int:
    """Look up the memory of a process that is no page of a file; 0 once it has ended."""
    found = Path(f"/proc/{process}/status").read_text().partition("RssAnon:")[2].split()
    return int(found[0]) * 1024 if found else 0


def run(*command: str) -> dict[str, float]:
    """Measure a command as `run_naysay` does, with the workers of Ray if there are any."""
    most, anonymous, seconds_of = 0, 0, {}

    def watch(process: int) -> None:
        nonlocal most, anonymous
        total = 0
        anonymous = max(anonymous, anonymous_bytes(process))
        for each in psutil.Process(process).children(recursive=True):
            try:
                if each.cmdline()[:1] == ["ray::call"]:
                    total += each.memory_info().rss
                    seconds_of[each.pid] = sum(each.cpu_times()[:2])
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
        most = max(most, total)

    found = run_naysay(*command, watch=watch)
    seconds = found.pop("processor_seconds")
    cpu_seconds = round(sum(seconds_of.values()), 1) if seconds_of else seconds
    measured = {
        "cpu_seconds": cpu_seconds,
        "anonymous_gb": round(anonymous / 1e9, 3),
        "peak_of_workers_gb": round(most / 1e9, 3),
    }
    return {**found, **measured}


def stages(model: Path, part: Path) -> dict[str, float]:
    """Time the steps of predict for one file: seconds of one core per million rows."""
    torch.set_num_threads(1)
    clf = ComplementaryClassifier.load(model)
    names = [column.name for column in clf.recipe_.columns]
    clocks = [time.process_time()]
    tables = [table for _, table in read_batches(part, n_rows=1 << 16, columns=names)]
    clocks.append(time.process_time())
    inputs = [clf.recipe_.apply(table) for table in tables]
    clocks.append(time.process_time())
    for X in inputs:
        clf.predict_proba(X)
    clocks.append(time.process_time())
    write_tables(predict_file(clf, part), model / "predictions.parquet")
    whole = time.process_time() - clocks[-1]
    (model / "predictions.parquet").unlink()
    million = sum(map(len, tables)) / 1e6
    steps = np.diff(clocks) / million
    named = dict(zip(("decode", "features", "network"), steps.round(3).tolist(), strict=True))
    return named | {"write": round(whole / million - steps.sum(), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--networks", nargs="*", default=["linear", "mlp"])
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--stages", action="store_true")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--anchors", nargs="*", metavar="COMMAND")
    parser.add_argument("--growth", nargs="*", metavar="COMMAND-KIND")
    parser.add_argument("--version", help="of the code, for the record")
    given = parser.parse_args()
    if given.growth is not None:
        figures = growth(given.folder, given.growth)
        print({name: each["bytes_per_row"] for name, each in figures.items()})
        write_record("large_growth", figures, n_runs=1, memory_gb=0.1, version=given.version)
        return
    kind = "fit" if given.fit else "predict" if given.anchors is None else "anchors"
    data, out = given.folder / kind, given.folder / "out"
    rows = given.rows // {"fit": 2, "anchors": 10, "predict": 1}[kind]
    classes_and_known = {"n_classes": 10, "known": 150 / rows} if kind == "anchors" else {}
    write_folder(data, rows, 50 if given.fit else 20, **classes_and_known)
    figures: dict[str, object] = {"data_gb": size_gb(data)}
    if kind == "anchors":
        read = (str(data), "--label", "not", "--memory", "0.1")
        commands = {
            "estimate": (*read, "--true-label", "is", "--out", f"{out}-Q.csv"),
            "fit": (*read, "--true-label", "is", "--out", f"{out}-model", "--force"),
            "check": (f"{out}-model", *read),
        }
        for name in given.anchors or commands:
            figures[name] = run(name, *commands[name])
    if given.fit:
        options = ("--learner", "network", "--epochs", "1", "--batch-size", "4096")
        options += ("--memory", "0.3", "--out", f"{out}-model", "--force")
        figures["fit"] = run("fit", str(data), "--label", "not", *options)
        if given.check:
            read = ("--label", "not", "--memory", "0.3")
            figures["check"] = run("check", f"{out}-model", str(data), *read)
    for network in given.networks if kind == "predict" else ():
        own = read_own(make_table(5000, 0, 20), label="not")
        fit_own(own, network=network, epochs=5)[0].save(given.folder / network)
        if given.stages:
            figures[network] = stages(given.folder / network, next(data.iterdir()))
            continue
        shutil.rmtree(out, ignore_errors=True)
        more = ("--ray",) if given.ray else ()
        found = run("predict", str(given.folder / network), str(data), "--out", str(out), *more)
        found["rows_per_second"] = round(rows / found["seconds"])
        found["rows_per_cpu_second"] = round(rows / found["cpu_seconds"])
        figures[network] = found | {"out_gb": size_gb(out)}
    print(json.dumps(figures), flush=True)
    write_record("large_predict", figures, n_runs=1, rows=rows, ray=given.ray)


if __name__ == "__main__":
    main()
