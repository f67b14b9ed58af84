"""Read and write transition matrices as CSV, with class names or numbers only.

Class names are in the first row and column. Cells are separated by commas or, as spreadsheets
export them where numbers have a decimal comma, by semicolons or tabs.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidTransitionMatrix

# The first cell of a written matrix. The second form marks a matrix whose diagonal (labels that
# wrongly exclude the true class) was allowed on purpose, so that reading it back needs no flag.
_CORNER = "true class"
_CORNER_WITH_DIAGONAL = "true class (annotators err)"


@dataclass(frozen=True)
class MatrixTable:
    """Content of a CSV file: values, class names (None without a header), diagonal allowed."""

    values: NDArray[np.float64]
    names: list[str] | None
    allows_diagonal: bool


def read_matrix(path: str | Path) -> MatrixTable:
    """Read a CSV file; an error names the row that does not hold numbers."""
    try:
        # without newline="" line ends inside a quoted class name would change
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise InvalidTransitionMatrix(
            f"{path} must be a comma-separated text file in UTF-8. It is not text in UTF-8."
        ) from None
    return parse_matrix(text, str(path))


def write_matrix(
    target: str | Path | TextIO,
    names: Sequence[str],
    rows: Iterable[Sequence[float]],
    *,
    allows_diagonal: bool,
) -> None:
    """Write a matrix row by row, each number with all its digits."""
    if isinstance(target, str | Path):
        with Path(target).open("w", encoding="utf-8", newline="") as file:
            write_matrix(file, names, rows, allows_diagonal=allows_diagonal)
        return
    writer = csv.writer(target)
    writer.writerow([_CORNER_WITH_DIAGONAL if allows_diagonal else _CORNER, *names])
    writer.writerows([name, *row] for name, row in zip(names, rows, strict=True))


def parse_matrix(text: str, source: str) -> MatrixTable:
    """Parse CSV text; error messages call it `source`."""
    rows = _rows(text, source)
    has_header = not _is_number(rows[0][0])
    body = rows[1:] if has_header else rows
    width = len(rows[0]) - has_header
    values = np.empty((len(body), width))
    for number, row in enumerate(body, start=1 + has_header):
        values[number - 1 - has_header] = _numbers(
            row[1:] if has_header else row, width, f"{source}, row {number},"
        )
    if not has_header:
        return MatrixTable(values, None, allows_diagonal=False)
    header, first_column = rows[0][1:], [row[0] for row in body]
    if header != first_column:
        raise InvalidTransitionMatrix(
            f"{source} must name the same classes in its first row and first column, in the same "
            f"order. Got {shorten(header)} and {shorten(first_column)}."
        )
    return MatrixTable(values, header, allows_diagonal=rows[0][0] == _CORNER_WITH_DIAGONAL)


def _rows(text: str, source: str, delimiter: str = ",") -> list[list[str]]:
    try:
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [row for row in lines if any(row)]
    except csv.Error as error:
        raise InvalidTransitionMatrix(f"{source} must be a CSV file: {error}.") from None
    if not rows:
        raise InvalidTransitionMatrix(f"{source} must hold a matrix. It is empty.")
    if delimiter != ",":
        return rows
    # Class names may contain a semicolon; the first cell and numbers cannot.
    start = "".join(rows[0] if _is_number(rows[0][0]) else rows[0][:1])
    other = next((mark for mark in ";\t" if mark in start), None)
    return rows if other is None else _rows(text, source, other)


def _numbers(cells: Sequence[str], width: int, where: str) -> list[float]:
    if len(cells) != width:
        raise InvalidTransitionMatrix(f"{where} must have {width} values. Got {len(cells)}.")
    bad = next((cell for cell in cells if not _is_number(cell)), None)
    if bad is not None:
        raise InvalidTransitionMatrix(f"{where} must hold numbers. Got {shorten(bad)}.")
    return [_number(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except ValueError:
        return False
    return True


def _number(cell: str) -> float:
    return float(cell.replace(",", "."))  # entries are at most 1: a comma cannot separate thousands
