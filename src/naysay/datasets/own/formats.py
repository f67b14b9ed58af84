"""Parse formats of tables other than CSV and Parquet: JSON Lines and Excel."""

import codecs
import datetime
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.files import check_memory, check_ordinary


def parse_json_lines(data: bytes, source: str, *, longest: int) -> pa.Table:
    """Parse one JSON object per line; a key that a line lacks is a missing value."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse_encoding(data, source, error)
    if _depth(data) > _DEEPEST and _depth(_STRING.sub(b"", data)) > _DEEPEST:
        raise InvalidData(
            f"{source} must have one JSON object per line. Its brackets are nested more than "
            f"{_DEEPEST} deep: the file is damaged, or it is not a table."
        )
    try:
        return pa_json.read_json(
            text_reader(data.removeprefix(codecs.BOM_UTF8), longest=longest),
            read_options=pa_json.ReadOptions(block_size=longest),
        )
    except pa.ArrowException as error:
        if "straddl" in str(error):
            refuse_long_row(source, longest)
        raise InvalidData(
            f"{source} must have one JSON object per line, with values of one type for each key. "
            f"It cannot be read: {shorten(str(error))}."
        ) from None


_DEEPEST = 100  # brackets in brackets; with very many, the parser of Arrow ends the process
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def _depth(data: bytes) -> int:
    """Compute how deep brackets are nested, at most; those in strings count too."""
    brackets = np.frombuffer(data.translate(None, _OTHERS), np.uint8)
    steps = np.where(np.isin(brackets, list(b"[{")), 1, -1)
    return int(steps.cumsum().max(initial=0))


_MOST_ROWS = 1 << 20  # of a sheet
_CELL_BYTES = 64  # of a text in Python, with its place in a list


def read_excel(path: Path, source: str) -> pa.Table:
    """Read the first sheet of an Excel file. All cells are text, as in a CSV file."""
    try:
        import openpyxl  # an extra
    except ModuleNotFoundError:
        raise InvalidInput(
            f"{source} is an Excel file. To read it, install openpyxl: pip install "
            '"naysay[excel]". Or save the sheet as CSV.'
        ) from None
    with check_ordinary(path).open("rb") as file:  # raises the usual OSError if it is missing
        try:
            with zipfile.ZipFile(file) as archive:
                check_memory(sum(each.file_size for each in archive.infolist()), source)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # the stated ones may include any number of empty cells
            columns, n_rows = _read_columns(sheet.values, source)
        except NaysayError:
            raise
        except Exception as error:  # zipfile and parsers of XML raise many types for damaged files
            raise InvalidData(
                f"{source} must be an Excel file (.xlsx). It is damaged or in another format: "
                f"{shorten(str(error))}."
            ) from None
    if not columns:
        raise InvalidData(f"The first sheet of {source} must contain a table. It is empty.")
    # the text of a cell may be stored once for many cells
    check_memory(sum(len(cell) for column in columns for cell in column if cell), source)
    names = [column[0] or f"unnamed column {n}" for n, column in enumerate(columns, start=1)]
    cells = [column[1:] + [None] * (n_rows - len(column)) for column in columns]
    return pa.table([pa.array(column, pa.string()) for column in cells], names=names)


def _read_columns(rows: Iterable[Sequence[Any]], source: str) -> tuple[list[list[str | None]], int]:
    """Read the columns and the rows that are not empty, and count these rows.

    A column ends with its last cell. A few cells far apart make a sheet huge, so all are counted.
    """
    columns: dict[int, list[str | None]] = {}
    n_rows = n_cells = 0
    for number, row in enumerate(rows, start=1):
        if number > _MOST_ROWS:
            raise InvalidData(
                f"{source} must have at most {_MOST_ROWS:,} rows, as many as Excel writes. It has "
                "more."
            )
        n_cells += len(row)
        check_memory(_CELL_BYTES * n_cells, source)
        cells = [
            (place, text)
            for place, cell in enumerate(row)
            if cell is not None and (text := _as_text(cell))
        ]
        for place, text in cells:
            column = columns.setdefault(place, [])
            column += [None] * (n_rows - len(column))
            column.append(text)
        n_rows += bool(cells)
    return [columns[place] for place in sorted(columns)], n_rows


def _as_text(value: Any) -> str | None:
    """Write the value of a cell as text; None for an empty cell."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime | datetime.date):
        return value.isoformat()
    return None if value is None else str(value).strip() or None


def line_of(data: bytes, position: int) -> int:
    """Count the line of a position, from 1."""
    return data.count(b"\n", 0, position) + 1


def refuse_encoding(
    data: bytes, source: str, error: UnicodeDecodeError, advice: str = ""
) -> NoReturn:
    """Refuse text that is not UTF-8."""
    raise InvalidData(
        f"{source} must be text in UTF-8. Line {line_of(data, error.start)} holds the byte "
        f"0x{data[error.start]:02x}, which is not valid UTF-8.{advice}"
    ) from None


def refuse_long_row(source: str, longest: int) -> NoReturn:
    """Refuse a row that is longer than a block of the parser."""
    raise InvalidData(
        f"{source} must have rows of at most {longest >> 20} MB. One row is longer, probably "
        "because a double quote is never closed."
    ) from None


def text_reader(data: bytes, *, longest: int) -> pa.BufferReader:
    """Create a reader of the bytes that owns a copy of them if the file is small.

    If a thread of Arrow is the last to release the bytes, it calls Python, and this aborts the
    process if the interpreter is shutting down, as it does after an error in a small file.
    """
    if len(data) > longest:
        return pa.BufferReader(data)
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())
