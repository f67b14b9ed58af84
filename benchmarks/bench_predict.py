"""Predict for millions of rows from the command line: peak memory and time.

The table has 10 numeric columns, a categorical one and an id. Appends one JSON line to
``results/predict.jsonl``. The peak is that of the process, of which torch alone takes about 0.3 GB.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from naysay.datasets.own import read_own
from naysay.workflows.fit import fit_own
from record import run_naysay, write_record

N_ROWS = 5_000_000
CHUNK = 250_000


def make_table(n_rows: int, first: int = 0) -> pa.Table:
    rng = np.random.default_rng(first)
    columns: dict[str, Any] = {"id": np.arange(first, first + n_rows)}
    columns |= {f"x{i}": rng.normal(size=n_rows).round(4) for i in range(10)}
    columns["colour"] = np.array(["red", "green", "blue"])[rng.integers(3, size=n_rows)]
    return pa.table(columns)


def write_files(folder: Path, n_rows: int) -> None:
    schema = make_table(1).schema
    with (
        pq.ParquetWriter(folder / "t.parquet", schema) as parquet,
        pa_csv.CSVWriter(folder / "t.csv", schema) as text,
    ):
        for first in range(0, n_rows, CHUNK):
            table = make_table(min(CHUNK, n_rows - first), first)
            parquet.write_table(table)
            text.write_table(table)


def main(n_rows: int = N_ROWS) -> None:
    small = make_table(600)
    labels = np.random.default_rng(1).choice(["cat", "dog", "owl"], size=600)
    own = read_own(small.append_column("not", [labels]), label="not", ignore=["id"])
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit_own(own, epochs=2)[0].save(folder / "model")
        write_files(folder, 10)
        figures["10 rows, csv"] = run_naysay(
            "predict", f"{folder}/model", f"{folder}/t.csv", "--out", f"{folder}/out.csv"
        )
        write_files(folder, n_rows)
        for kind in ("parquet", "csv"):
            for more in ((), ("--id", "id")):
                out = f"{folder}/out.{kind}"
                command = ("predict", f"{folder}/model", f"{folder}/t.{kind}", "--out", out, *more)
                title = f"{n_rows} rows, {' '.join((kind, *more[:1]))}"
                figures[title] = run_naysay(*command)
                print(title, figures[title], flush=True)
    write_record("predict", figures, n_runs=1, statistic="single", what="naysay predict FILE")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
