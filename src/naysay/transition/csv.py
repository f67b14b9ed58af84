"""Read and write transition matrices as CSV, with class names or numbers only.

Class names are in the first row and column. Cells are separated by commas or, as spreadsheets
export them where numbers have a decimal comma, by semicolons or tabs.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidTransitionMatrix
from naysay._base.files import replacing

# The first cell of a written matrix. The second form marks a matrix whose diagonal (labels that
# wrongly exclude the true class) was allowed on purpose, so that reading it back needs no flag.
_CORNER = "true class"
_CORNER_WITH_DIAGONAL = "true class (annotators err)"


class MatrixTable(NamedTuple):
    """Content of a CSV file; the names are None without a header."""

    values: NDArray[np.float64]
    names: list[str] | None
    allows_diagonal: bool


def read_matrix(path: str | Path) -> MatrixTable:
    """Read a CSV file; an error names the row that does not hold numbers."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")  # line ends in quoted names stay
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
        with (
            replacing(target, usual="Q.csv") as new,
            new.open("w", encoding="utf-8", newline="") as file,
        ):
            write_matrix(file, names, rows, allows_diagonal=allows_diagonal)
        return
    writer = csv.writer(target)
    writer.writerow([_CORNER_WITH_DIAGONAL if allows_diagonal else _CORNER, *names])
    writer.writerows([name, *row] for name, row in zip(names, rows, strict=True))


def parse_matrix(text: str, source: str) -> MatrixTable:
    """Parse CSV text; error messages call it `source`."""
    rows = _rows(text, source)
    has_header = _number(rows[0][0]) is None
    body = rows[has_header:]
    width = len(rows[0]) - has_header
    values = np.empty((len(body), width))
    for index, row in enumerate(body):
        cells = row[has_header:]
        where = f"{source}, row {index + 1 + has_header},"
        if len(cells) != width:
            raise InvalidTransitionMatrix(f"{where} must have {width} values. Got {len(cells)}.")
        numbers = [_number(cell) for cell in cells]
        if None in numbers:
            bad = shorten(cells[numbers.index(None)])
            raise InvalidTransitionMatrix(f"{where} must contain numbers. Got {bad}.")
        values[index] = numbers
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
        raise InvalidTransitionMatrix(f"{source} must contain a matrix. It is empty.")
    if delimiter != ",":
        return rows
    # Class names may contain a semicolon; the first cell and numbers cannot.
    start = rows[0][0] if _number(rows[0][0]) is None else "".join(rows[0])
    other = next((mark for mark in ";\t" if mark in start), None)
    return rows if other is None else _rows(text, source, other)


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "."))  # at most 1: a comma cannot separate thousands
    except ValueError:
        return None
