"""Tables that users bring: CSV, Parquet and data frames, as one pyarrow table.

Whatever the file, errors name it, and the table that comes out has named, distinct columns.
"""

import codecs
import csv
import difflib
import io
import re
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput

__all__ = [
    "LONGEST_NAME",
    "MISSING_WORDS",
    "codes_of",
    "find_column",
    "is_frame",
    "is_text",
    "parse_csv",
    "pc",
    "read_table",
    "source_name",
    "to_array",
    "to_text",
]

pc: Any = pyarrow.compute  # its functions are made at import time, where type checkers see none

LONGEST_NAME = 200  # characters of a class, annotator or category; longer is a damaged file

# Cells of a feature column that stand for "no value". In label columns only an empty cell does:
# a class may well be called "None" or "NA".
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?")

_CSV_SUFFIXES = (".csv", ".tsv", ".txt")
_PARQUET_SUFFIXES = (".parquet", ".pq")
# pandas saves a row index as a column without a name (CSV) or under this one (Parquet).
_INDEX_NAME = re.compile(r"__index_level_\d+__|unnamed column \d+|Unnamed: \d+")


def read_table(
    data: Any,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Read a CSV or Parquet file, standard input (``-``, as CSV) or a data frame.

    A row index that pandas saved as a column is set aside: it is no feature.

    Parameters
    ----------
    data : path or data frame
        A pandas or polars data frame or a pyarrow table is taken as it is.
    text : collection of str
        Columns of a CSV file to leave as text: class ``007`` stays ``007``.
    delimiter, decimal : str
        For CSV: comma, semicolon or tab, found from the header when left out; the decimal mark.

    Raises
    ------
    InvalidData
        If the file is damaged, empty, or not of its format.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> import pandas
    >>> read_table(pandas.DataFrame({"age": [31, 47], "not": ["cat", "dog"]})).column_names
    ['age', 'not']
    """
    source = source_name(data)
    if is_frame(data):
        table = _from_frame(data, source)
    elif str(data) == "-":
        table = parse_csv(
            sys.stdin.buffer.read(), source, text=text, delimiter=delimiter, decimal=decimal
        )
    elif Path(data).suffix.lower() in _CSV_SUFFIXES:
        content = Path(data).read_bytes()
        table = parse_csv(content, source, text=text, delimiter=delimiter, decimal=decimal)
    elif Path(data).suffix.lower() in _PARQUET_SUFFIXES:
        table = _read_parquet(Path(data), source)
    else:
        raise InvalidInput(
            f"{source} must be a CSV file (.csv, .tsv, .txt), a Parquet file (.parquet, .pq), an "
            "array file (.npz) or a folder of images. Its name ends in none of these."
        )
    _refuse_repeated(table.column_names, source)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows. It has {table.num_columns} columns, no row.")
    return table.select([name for name in table.column_names if not _INDEX_NAME.fullmatch(name)])


def is_frame(data: Any) -> bool:
    """Answer whether the data are a data frame, of any library that speaks Arrow."""
    return hasattr(data, "__arrow_c_stream__")


def source_name(data: Any) -> str:
    """Return how errors and summaries name the data."""
    if is_frame(data):
        return "the data frame"
    return "standard input" if str(data) == "-" else str(data)


def find_column(
    table: pa.Table, name: str, source: str, *, role: str | None = None
) -> pa.ChunkedArray:
    """Return a column by name; an unknown name is answered with those there are.

    `role` is the parameter that names the column; None if training fixed the name.
    """
    names = table.column_names
    if name in names:
        return table[name]
    rule = (
        f"{source} must have the columns that the model was trained on"
        if role is None
        else f"{role} must name a column of {source}"
    )
    hint = ""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    if close:
        hint = f" Did you mean {by_lower[close[0]]!r}?"
    elif all(_is_number(known) for known in names):
        hint = " These look like values: the first row must hold the column names."
    raise InvalidInput(f"{rule}. It has no {shorten(name)}; it has {shorten(names)}.{hint}")


def _from_frame(frame: Any, source: str) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidData(
            f"{source} must have columns of one kind each, text or numbers: {shorten(str(error))}."
        ) from None


def _read_parquet(path: Path, source: str) -> pa.Table:
    with path.open("rb") as file:  # a missing file or a folder is the operating system's error
        try:
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
            table.validate(full=True)  # such as text that is not UTF-8
            _ = table.column_names
            return table
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise InvalidData(
                f"{source} must be a Parquet file. It is damaged, cut short, or of another "
                f"format: {shorten(str(error))}."
            ) from None


def _refuse_repeated(names: Sequence[str], source: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidData(
                f"{source} must have column names that differ; {shorten(name)} is there {count} "
                "times. Rename all but one."
            )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


# CSV text to a table: every cell is read as text, then whole columns become numbers.
#
# A column becomes numbers only if every filled cell is one, so that the kind of a column does not
# depend on which rows come first. Columns named in `text` are left as they are written: class
# ``007`` stays ``007``.

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
    _refuse_repeated([name for name in names if name], source)
    # A row index saved by pandas has no name; it is no feature, and `read_table` sets it aside.
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


# Columns of a table as arrays.


def is_text(kind: pa.DataType) -> bool:
    """Answer whether a column of this type holds text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def to_text(
    column: pa.ChunkedArray,
    name: str,
    source: str,
    *,
    longest: int = LONGEST_NAME,
    advice: str = "Is it the right column?",
) -> pa.Array:
    """Return the cells as trimmed text in one array; empty cells are null.

    Whole numbers are written without a decimal point: a column of integers with gaps, which
    pandas stores as floats, still gives ``7`` and not ``7.0``.
    """
    plain = to_array(column)
    kind = plain.type
    if pa.types.is_floating(kind):
        plain = _whole_numbers(plain)
    try:
        text = pc.utf8_trim_whitespace(pc.cast(plain, pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidData(
            f"Column {name!r} of {source} must hold text or numbers. It holds {kind}."
        ) from None
    length = pc.utf8_length(text)
    found = pc.max(length).as_py() or 0
    if found > longest:
        row = pc.index(length, found).as_py() + 1
        raise InvalidData(
            f"Column {name!r} of {source} must hold at most {longest} characters per cell. "
            f"Data row {row} holds {found}.\n{advice}"
        )
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


def codes_of(text: pa.Array) -> tuple[NDArray[np.int64], list[str]]:
    """Return each cell's position among the distinct values (-1: null), and these, first first."""
    encoded = pc.dictionary_encode(text)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array that is no dictionary."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type):
        column = pc.cast(column, pa.large_string())  # more than 2 GB of text fits in one array
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _whole_numbers(numbers: pa.Array) -> pa.Array:
    numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
    try:
        return pc.cast(numbers, pa.int64())
    except pa.ArrowInvalid:
        return numbers
