"""CSV text to a table: every cell is read as text, then whole columns become numbers.

A column becomes numbers only if every filled cell is one, so that the kind of a column does not
depend on which rows come first. Columns named in `text` are left as they are written: class
``007`` stays ``007``.
"""

import codecs
import csv
import io
import re
from collections.abc import Collection
from typing import NoReturn

import pyarrow as pa
import pyarrow.csv as pa_csv

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay.datasets._arrow import pc

__all__ = ["MISSING_WORDS", "parse_csv"]

# Cells of a feature column that stand for "no value". In label columns only an empty cell does:
# a class may well be called "None" or "NA".
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?")

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_LONGEST_ROW = 1 << 23  # bytes: the block that the parser holds at once; no row may be longer
_LONGEST_HEADER = 1 << 20


def parse_csv(
    data: bytes,
    source: str,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Parse CSV bytes in UTF-8; `source` is the name that errors give them.

    Parameters
    ----------
    data : bytes
    source : str
    text : collection of str
        Columns to leave as text, whatever they hold.
    delimiter : str, optional
        Comma, semicolon or tab; found from the header when left out.
    decimal : str, default="."
        The decimal mark, ``.`` or ``,``.
    """
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InvalidInput(f"delimiter must be one character, such as ';'. Got {delimiter!r}.")
    if decimal not in (".", ",") or decimal == delimiter:
        raise InvalidInput(f"decimal must be '.' or ',', and not the delimiter. Got {decimal!r}.")
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if re.search(rb"\S", data) is None:
        raise InvalidData(f"{source} must be a table with a header. It is empty.")
    _refuse_nul(data, source)
    names, delimiter = _read_header(data, source, delimiter)
    table = _read_cells(data, source, names, delimiter)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows below its header. It has only the header.")
    _check_quotes(data, table, source)
    columns = [
        table[name] if name in text else _numbers_if_all_are(table[name], decimal)
        for name in table.column_names
    ]
    return pa.table(columns, names=table.column_names)


def _refuse_nul(data: bytes, source: str) -> None:
    at = data.find(b"\0")
    if at >= 0:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InvalidData(
                f"{source} must be text in UTF-8. It is in UTF-16. Save it again as UTF-8 (in "
                "Excel: 'CSV UTF-8')."
            )
        raise InvalidData(
            f"{source} must be text. Line {_line(data, at)} holds a NUL byte: the file is damaged, "
            "or not a CSV file in UTF-8."
        )


def _refuse_bytes(data: bytes, source: str, error: UnicodeDecodeError) -> NoReturn:
    raise InvalidData(
        f"{source} must be text in UTF-8. Line {_line(data, error.start)} holds the byte "
        f"0x{data[error.start]:02x}, which is not.\n"
        "Save it again as UTF-8 (in Excel: 'CSV UTF-8')."
    ) from None


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


def _read_header(data: bytes, source: str, delimiter: str | None) -> tuple[list[str], str]:
    decoder = codecs.getincrementaldecoder("utf-8")()  # a character cut by the limit is no error
    try:
        start = decoder.decode(data[:_LONGEST_HEADER], final=len(data) <= _LONGEST_HEADER)
    except UnicodeDecodeError as error:
        _refuse_bytes(data, source, error)
    if delimiter is None:
        first_line = re.sub(r'"[^"]*"', "", start).splitlines()[:1]
        counts = {mark: "".join(first_line).count(mark) for mark in _DELIMITERS}
        delimiter = max(counts, key=lambda mark: counts[mark])
    try:
        header = next(csv.reader(io.StringIO(start, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise InvalidData(f"{source} must begin with a row of column names: {error}.") from None
    names = [name.strip() for name in header]
    twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if twice:
        raise InvalidData(
            f"{source} must have column names that differ; {shorten(twice[0])} is there "
            f"{names.count(twice[0])} times. Rename all but one."
        )
    # A row index saved by pandas has no name; it is no feature, and `tables` sets it aside.
    unnamed = iter(range(1, len(names) + 1))
    return [name or f"unnamed column {next(unnamed)}" for name in names], delimiter


def _read_cells(data: bytes, source: str, names: list[str], delimiter: str) -> pa.Table:
    if not data.endswith((b"\n", b"\r")):
        data += b"\n"  # the parser takes a header without line end for a cut row
    try:
        return _parse(data, names, delimiter, use_threads=True)
    except pa.ArrowInvalid as error:
        if "straddl" in str(error):
            raise InvalidData(
                f"{source} must have rows of at most {_LONGEST_ROW >> 20} MB. One is longer: a "
                "quote that is never closed looks like this."
            ) from None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_bytes(data, source, error)
    try:
        return _parse(data, names, delimiter, use_threads=False)  # counts rows, for the message
    except pa.ArrowInvalid as error:
        raise InvalidData(f"{source}: {_explain(str(error), len(names), delimiter)}") from None


def _parse(data: bytes, names: list[str], delimiter: str, *, use_threads: bool) -> pa.Table:
    return pa_csv.read_csv(
        _reader(data),
        read_options=pa_csv.ReadOptions(
            use_threads=use_threads,
            block_size=_LONGEST_ROW,
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


def _reader(data: bytes) -> pa.BufferReader:
    """Return a reader of the bytes; of few bytes, one that owns a copy.

    A thread of Arrow may drop the bytes last. It needs Python for that, and aborts the process if
    Python is just ending: after an error in a small file, it is.
    """
    if len(data) > _LONGEST_ROW:
        return pa.BufferReader(data)
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())


def _explain(problem: str, n_columns: int, delimiter: str) -> str:
    found = re.search(r"Row #(\d+): Expected \d+ columns, got (\d+)", problem)
    if found is None:
        return f"this is no CSV table: {shorten(problem)}."
    row, n_cells = found.groups()
    mark = f"{_DELIMITERS.get(delimiter, 'character')} {delimiter!r}"
    return (
        f"every row must have {n_columns} cells, as the header has. Row {row} (the header is row "
        f"1) has {n_cells}.\nThe delimiter was taken to be the {mark}; cells that hold it must be "
        "in double quotes."
    )


def _check_quotes(data: bytes, table: pa.Table, source: str) -> None:
    """Refuse a quote that is never closed: it swallows the rest of the file into one cell."""
    if data.count(b'"') % 2 == 0:
        return
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    if any(cell is not None and "\n" in cell.rstrip("\n") for cell in last.values()):
        raise InvalidData(
            f'{source} must close every double quote. Row {table.num_rows + 1} opens a cell with " '
            "that runs to the end of the file."
        )


def _numbers_if_all_are(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Return the column as float64 or booleans, or unchanged if some cell is neither."""
    try:
        return pc.cast(_with_point(column, decimal), pa.float64())
    except pa.ArrowInvalid:
        pass
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING_WORDS))
    cells = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
    for kind in (pa.float64(), pa.bool_()):
        try:
            return pc.cast(_with_point(cells, decimal), kind)
        except pa.ArrowInvalid:
            continue
    return column


def _with_point(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    return column if decimal == "." else pc.replace_substring(column, decimal, ".")
