"""Parse the formats of tables other than Parquet: CSV, JSON Lines and Excel.

Every cell of a CSV file is read as text first. A column is then converted to numbers only if all of
its cells are numbers or missing, so that its type does not depend on which rows come first.
"""

import codecs
import csv
import datetime
import io
import re
import zipfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.files import check_memory, check_ordinary
from naysay.datasets.own.columns import check_width, refuse_repeated, with_numbers

_SAVE_AS_UTF8 = "\nSave it again as UTF-8 (in Excel, choose 'CSV UTF-8')."
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
LONGEST_ROW = 1 << 23  # bytes; also the block size of the parser, which cannot split a row


def check_csv_options(delimiter: str | None, decimal: str) -> None:
    """Check the delimiter and the decimal mark of a CSV file."""
    if delimiter is not None and (
        len(delimiter) != 1 or delimiter in '"\r\n\0' or not delimiter.isascii()
    ):
        raise InvalidInput(
            f"delimiter must be one character of ASCII, such as ';'. Got {delimiter!r}."
        )
    if decimal not in (".", ",") or decimal == delimiter:
        raise InvalidInput(
            "decimal must be '.' or ',', and it must differ from the delimiter. "
            f"Got decimal {decimal!r} and delimiter {delimiter!r}."
        )


def parse_csv(
    data: bytes,
    source: str,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Parse the bytes of a CSV file in UTF-8, with the parameters of `read_table`."""
    check_csv_options(delimiter, decimal)
    data = data.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
    if re.search(rb"\S", data) is None:
        raise InvalidData(f"{source} must contain a table with a header. It is empty.")
    position = data.find(b"\0")
    if position >= 0:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InvalidData(
                f"{source} must be text in UTF-8. It is in UTF-16. Save it again as UTF-8 (in "
                "Excel, choose 'CSV UTF-8')."
            )
        raise InvalidData(
            f"{source} must be text in UTF-8. Line {_line_of(data, position)} holds a NUL byte: "
            "the file is damaged, or it is not a CSV file."
        )
    names, delimiter = read_header(data, source, delimiter)
    table = _read_cells(data, source, names, delimiter)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows below its header. It has only the header.")
    _check_quotes(data, table.num_rows, source, delimiter)
    return with_numbers(table, text, decimal)


def read_header(data: bytes, source: str, delimiter: str | None) -> tuple[list[str], str]:
    """Read the column names of a CSV file, and find its delimiter."""
    decoder = codecs.getincrementaldecoder("utf-8")()  # accepts a character that the limit cuts
    try:
        start = decoder.decode(data[:LONGEST_ROW], final=len(data) <= LONGEST_ROW)
    except UnicodeDecodeError as error:
        _refuse_encoding(data, source, error, _SAVE_AS_UTF8)
    if delimiter is None:
        first_line = re.sub(r'"[^"]*"', "", start).splitlines()[:1]
        counts = {mark: "".join(first_line).count(mark) for mark in _DELIMITERS}
        delimiter = max(counts, key=lambda mark: counts[mark])
    try:
        header = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise InvalidData(
            f"{source} must begin with a row of column names. Its first row cannot be read: "
            f"{error}."
        ) from None
    check_width(len(header), source)
    names = [name.strip() for name in header]
    refuse_repeated([name for name in names if name], source)
    # A row index that pandas saved has no name. `read_table` removes it by the one given here.
    unnamed = iter(range(1, len(names) + 1))
    return [name or f"unnamed column {next(unnamed)}" for name in names], delimiter


def _read_cells(data: bytes, source: str, names: list[str], delimiter: str) -> pa.Table:
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"  # the parser regards a header without a line end as a truncated row
    try:
        return _parse(data, names, delimiter, use_threads=True)
    except pa.ArrowInvalid as error:
        if "straddl" in str(error):
            refuse_long_row(source)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_encoding(data, source, error, _SAVE_AS_UTF8)
    try:
        # Without threads, the parser counts rows, and the error can name the row.
        return _parse(data, names, delimiter, use_threads=False)
    except pa.ArrowInvalid as error:
        found = re.search(r"Row #(\d+): Expected \d+ columns, got (\d+)", str(error))
        if found is None:
            raise InvalidData(
                f"{source}: this must be a CSV table, and it cannot be parsed: "
                f"{shorten(str(error))}."
            ) from None
        row, n_cells = found.groups()
        mark = f"{_DELIMITERS.get(delimiter, 'character')} {delimiter!r}"
        raise InvalidData(
            f"{source}: every row must have {len(names)} cells, like the header. Row {row} (the "
            f"header is row 1) has {n_cells}.\nThe delimiter is the {mark}. Put cells that contain "
            "it in double quotes, or pass another delimiter= (--delimiter)."
        ) from None


def _parse(data: bytes, names: list[str], delimiter: str, *, use_threads: bool) -> pa.Table:
    return pa_csv.read_csv(
        _reader(data),
        read_options=pa_csv.ReadOptions(
            use_threads=use_threads,
            block_size=LONGEST_ROW,
            column_names=names,
            skip_rows_after_names=1,
        ),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def quoted_cell(delimiter: str) -> bytes:
    """Write a pattern for a quoted cell, which may be cut off; 5" pipe is not a quoted cell."""
    return rb'(?<![^%b\r\n])"[^"]*+(?:""[^"]*+)*+"?' % re.escape(delimiter.encode())


def _check_quotes(data: bytes, n_rows: int, source: str, delimiter: str) -> None:
    """Refuse a quote that is never closed, which makes the rest of the file one cell."""
    if data.count(b'"') % 2 == 0:
        return
    last = b""
    for cell in re.finditer(quoted_cell(delimiter), data):
        last = cell[0]
    if last.count(b'"') % 2 and b"\n" in last.rstrip(b"\r\n"):
        raise InvalidData(
            f"{source} must close every double quote. The quote that row {n_rows + 1} opens is "
            "never closed, and its cell runs to the end of the file: close or remove it."
        )


def parse_json_lines(data: bytes, source: str) -> pa.Table:
    """Parse one JSON object per line; a key that a line lacks is a missing value."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_encoding(data, source, error)
    if _depth(data) > _DEEPEST and _depth(_STRING.sub(b"", data)) > _DEEPEST:
        raise InvalidData(
            f"{source} must have one JSON object per line. Its brackets are nested more than "
            f"{_DEEPEST} deep: the file is damaged, or it is not a table."
        )
    try:
        return pa_json.read_json(
            _reader(data.removeprefix(codecs.BOM_UTF8)),
            read_options=pa_json.ReadOptions(block_size=LONGEST_ROW),
        )
    except pa.ArrowException as error:
        if "straddl" in str(error):
            refuse_long_row(source)
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


def _line_of(data: bytes, position: int) -> int:
    """Count the line of a position, from 1."""
    return data.count(b"\n", 0, position) + 1


def _refuse_encoding(
    data: bytes, source: str, error: UnicodeDecodeError, advice: str = ""
) -> NoReturn:
    """Refuse text that is not UTF-8."""
    raise InvalidData(
        f"{source} must be text in UTF-8. Line {_line_of(data, error.start)} holds the byte "
        f"0x{data[error.start]:02x}, which is not valid UTF-8.{advice}"
    ) from None


def refuse_long_row(source: str) -> NoReturn:
    """Refuse a row that is longer than a block of the parser."""
    raise InvalidData(
        f"{source} must have rows of at most {LONGEST_ROW >> 20} MB. One row is longer, probably "
        "because a double quote is never closed."
    ) from None


def _reader(data: bytes) -> pa.BufferReader:
    """Create a reader of the bytes that owns a copy of them if the file is small.

    If a thread of Arrow is the last to release the bytes, it calls Python, and this aborts the
    process if the interpreter is shutting down, as it does after an error in a small file.
    """
    if len(data) > LONGEST_ROW:
        return pa.BufferReader(data)
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())
