"""Columns and priors that several commands read from files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput


def read_column(path: Path, column: str | None) -> NDArray[np.str_]:
    """Return a column of a table as text; empty cells are left out."""
    from naysay.datasets.own.tables import find_column, read_table

    names = read_table(path).column_names
    if column is None and len(names) > 1:
        raise InvalidInput(
            f"--column must say which column of {path} has the labels. It has {shorten(names)}."
        )
    name = names[0] if column is None else column
    values = find_column(read_table(path, text=[name]), name, str(path), role="--column")
    cells = [str(cell) for cell in values.to_pylist() if cell is not None]
    return np.array([cell for cell in cells if cell.strip()], dtype=str)


def read_prior(path: Path | None, classes: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the share of each class from a table with the columns class and share."""
    from naysay.datasets.own.tables import find_column, read_table

    if path is None:
        return None
    table = read_table(path, text=["class", "share"])
    named, share = (
        find_column(table, name, str(path), role="--prior").to_pylist()
        for name in ("class", "share")
    )
    listed = {
        str(name): _as_share(value, f"Data row {row} ({name!r}) of {path}")
        for row, (name, value) in enumerate(zip(named, share, strict=True), start=1)
    }
    if len(listed) != len(named) or set(listed) != set(classes):
        odd = sorted(set(listed) ^ set(classes)) or list(named)
        raise InvalidInput(
            f"{path} must give each of the {len(classes)} classes one share. "
            f"Missing, unknown or repeated: {shorten(odd)}."
        )
    return np.array([listed[name] for name in classes])


def _as_share(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        got = "an empty cell" if value is None or value == "" else shorten(value)
        raise InvalidInput(f"{where} must give a share such as 0.25. Got {got}.") from None
