"""Read a table of a million rows to arrays, against plain pandas in the same run.

The table has 20 numeric columns, 2 categorical ones and a label. pandas only reads; naysay also
fills gaps, encodes categories and gathers the labels. Appends one JSON line to
``results/tables.jsonl``, and one about tables of 100 rows and up to 20,000 columns; with the
argument ``wide``, only the latter.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from naysay.datasets.own import read_own
from naysay.datasets.own.summary import summarise
from record import write_record

N_ROWS = 1_000_000
N_REPEATS = 3
WIDTHS = (5_000, 20_000)
WHAT = f"{N_ROWS} rows, 20 numeric + 2 categorical columns + label to arrays"


def make_table(n_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=n_rows) for i in range(20)}
    columns["colour"] = np.array(["red", "green", "blue"])[rng.integers(3, size=n_rows)]
    columns["code"] = np.array([f"c{i}" for i in range(30)])[rng.integers(30, size=n_rows)]
    columns["not"] = np.array([f"class {i}" for i in range(10)])[rng.integers(10, size=n_rows)]
    return pa.table(columns)


def seconds(work: Callable[[], Any]) -> float:
    """Return the fastest of a few runs; the first one warms the file cache."""
    taken = []
    for _ in range(N_REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return round(min(taken), 3)


def read_wide() -> None:
    """Read CSV files that are far wider than long: the time must be linear in the columns."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.csv")
        for n_columns in WIDTHS:
            values = np.random.default_rng(0).normal(size=(100, n_columns)).round(4)
            columns: dict[str, Any] = {f"x{i}": column for i, column in enumerate(values.T)}
            columns["not"] = np.array(["a", "b", "c", "d"])[np.arange(100) % 4]
            pa_csv.write_csv(pa.table(columns), path)
            figures[str(n_columns)] = seconds(lambda: read_own(path, label="not"))
            print(f"{n_columns:>6} columns {figures[str(n_columns)]:>8.3f} s")
    what = "CSV of 100 rows to arrays, by the number of columns"
    write_record("tables", {"seconds": figures}, n_runs=N_REPEATS, statistic="fastest", what=what)


def main() -> None:
    read_wide()
    if "wide" in sys.argv[1:]:
        return
    table = make_table(N_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        parquet, csv = Path(folder, "t.parquet"), Path(folder, "t.csv")
        pq.write_table(table, parquet)
        pa_csv.write_csv(table, csv)
        del table
        figures = {
            "pandas.read_parquet": seconds(lambda: pd.read_parquet(parquet)),
            "read_own parquet": seconds(lambda: read_own(parquet, label="not")),
            "pandas.read_csv": seconds(lambda: pd.read_csv(csv)),
            "read_own csv": seconds(lambda: read_own(csv, label="not")),
        }
        own = read_own(parquet, label="not")
        figures["summarise"] = seconds(lambda: summarise(own))
    ratios = {
        kind: round(figures[f"read_own {kind}"] / figures[f"pandas.read_{kind}"], 2)
        for kind in ("parquet", "csv")
    }
    results = {"seconds": figures, "ratio_to_pandas": ratios}
    write_record("tables", results, n_runs=N_REPEATS, statistic="fastest", what=WHAT)
    for name, value in figures.items():
        print(f"{name:<22}{value:>8.3f} s")
    print(f"ratio to pandas       {ratios}")


if __name__ == "__main__":
    main()
