"""Read the user's tables (CSV, Parquet, data frames) into a pyarrow table with distinct columns.

Every error names the file and, where there is one, the line or row.
"""

import codecs
import contextlib
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
from naysay._base.files import check_memory, printable

pc: Any = pyarrow.compute  # its functions are created at import, so type checkers do not know them

# Characters of a class, annotator or category. A longer name is a sign of a damaged file.
LONGEST_NAME = 200

MOST_COLUMNS = 100_000  # each is converted on its own, in about 0.1 ms

# Cells of a feature column that mean "missing value". In label columns only an empty cell does,
# because a class may well be called "None" or "NA".
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?")

_CSV_SUFFIXES = (".csv", ".tsv", ".txt")
_PARQUET_SUFFIXES = (".parquet", ".pq")
# pandas saves a row index as a column without a name (CSV) or with one of these names (Parquet).
_INDEX_NAME = re.compile(r"__index_level_\d+__|unnamed column \d+|Unnamed: \d+")


def read_table(
    data: Any,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Read a CSV or Parquet file, standard input (``-``, as CSV) or a data frame.

    A row index that pandas saved as a column is removed, because it is not a feature. The columns
    in `text` stay text, so that class ``007`` stays ``007``; `naysay.datasets.own.read_own`
    describes the other parameters.
    """
    source = source_name(data)
    if is_frame(data):
        table = _from_frame(data, source)
    elif str(data) == "-" or Path(data).suffix.lower() in _CSV_SUFFIXES:
        content = sys.stdin.buffer.read() if str(data) == "-" else Path(data).read_bytes()
        table = parse_csv(content, source, text=text, delimiter=delimiter, decimal=decimal)
    elif Path(data).suffix.lower() in _PARQUET_SUFFIXES:
        table = _read_parquet(Path(data), source)
    else:
        raise InvalidInput(
            f"{source} must be a CSV file (.csv, .tsv, .txt), a Parquet file (.parquet, .pq), an "
            "array file (.npz) or a folder of images. Its name has none of these extensions: "
            "rename the file or convert it."
        )
    _check_width(table.num_columns, source)
    _refuse_repeated(table.column_names, source)
    if not table.num_rows:
        raise InvalidData(
            f"{source} must have rows. It has {table.num_columns} columns and no row."
        )
    return table.select([name for name in table.column_names if not _INDEX_NAME.fullmatch(name)])


def is_frame(data: Any) -> bool:
    """Check whether the data are a data frame of a library that supports Arrow."""
    return hasattr(data, "__arrow_c_stream__")


def source_name(data: Any) -> str:
    """Name the data for errors and summaries."""
    if is_frame(data):
        return "the data frame"
    return "standard input" if str(data) == "-" else printable(data)


def find_column(
    table: pa.Table, name: str, source: str, *, role: str | None = None
) -> pa.ChunkedArray:
    """Find a column by name, or raise an error that lists the columns there are.

    `role` is the parameter that names the column. Without it, the column is one that the model was
    trained on.
    """
    place = table.schema.get_field_index(name)  # a list of all names would take quadratic time
    if place >= 0:
        return table.column(place)
    names = table.column_names
    rule = f"{role} must name a column of {source}"
    if role is None:
        rule = f"{source} must have the columns that the model was trained on"
    hint = ""
    by_lower = {column.lower(): column for column in names}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=1)
    if close:
        hint = f" Did you mean {by_lower[close[0]]!r}?"
    elif all(_is_number(column) for column in names):
        hint = " These look like values. The first row must hold the column names: add a header."
    raise InvalidInput(
        f"{rule}. It has no column {shorten(name)}; its columns are {shorten(names)}.{hint}"
    )


def _from_frame(frame: Any, source: str) -> pa.Table:
    if isinstance(frame, pa.Table):
        return frame
    try:
        return pa.table(frame)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidData(
            f"{source} must have columns that each hold one type, text or numbers. Arrow cannot "
            f"convert it: {shorten(str(error))}."
        ) from None


def _read_parquet(path: Path, source: str) -> pa.Table:
    with path.open("rb") as file:  # raises the usual OSError if the file is missing
        try:
            facts = pq.read_metadata(file)
            names, n_bytes = _judge_parquet(facts)
            check_memory(n_bytes, source)
            # text stays encoded until it is known how much memory it takes
            reader = pq.ParquetFile(file, page_checksum_verification=True, read_dictionary=names)
            table = reader.read()
            check_memory(n_bytes + sum(map(_text_bytes, table.columns)), source)
            table.validate(full=True)  # finds text that is not UTF-8, among others
            _ = table.column_names  # raises an error if a name is not UTF-8
            return table
        except (InvalidData, InvalidInput):
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise InvalidData(
                f"{source} must be a Parquet file. It is damaged, truncated, or in another "
                f"format: {shorten(str(error))}."
            ) from None


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes; 8 for other types


def _judge_parquet(facts: pq.FileMetaData) -> tuple[list[str], int]:
    """List the columns of text, and compute how much memory all others take."""
    names: dict[str, None] = {}
    n_bytes = 0
    for group in map(facts.row_group, range(facts.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            n_bytes += chunk.num_values * _WIDTHS.get(chunk.physical_type, 8)
            if chunk.physical_type == "BYTE_ARRAY":
                names[chunk.path_in_schema] = None
    return list(names), n_bytes


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Compute how many bytes the text of an encoded column has."""
    if not pa.types.is_dictionary(column.type):
        return 0
    total = 0
    for chunk in column.chunks:
        lengths = np.asarray(pc.fill_null(pc.binary_length(chunk.dictionary), 0))
        total += int(lengths[np.asarray(chunk.indices.drop_null())].sum())
    return total


def _check_width(n_columns: int, source: str) -> None:
    if n_columns > MOST_COLUMNS:
        raise InvalidData(
            f"{source} must have at most {MOST_COLUMNS:,} columns. It has {n_columns:,}: is it "
            "transposed, with one column per example? Store wide data as an array file (.npz)."
        )


def _refuse_repeated(names: Sequence[str], source: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidData(
                f"{source} must have distinct column names. It has {count} columns named "
                f"{shorten(name)}: rename all but one."
            )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


# CSV files. Every cell is read as text first. A column is then converted to numbers only if all of
# its cells are numbers or missing, so that its type does not depend on which rows come first.

_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab"}
_LONGEST_ROW = 1 << 23  # bytes; also the block size of the parser, which cannot split a row


def parse_csv(
    data: bytes,
    source: str,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Parse the bytes of a CSV file in UTF-8, with the parameters of `read_table`."""
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
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    if re.search(rb"\S", data) is None:
        raise InvalidData(f"{source} must hold a table with a header. It is empty.")
    position = data.find(b"\0")
    if position >= 0:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InvalidData(
                f"{source} must be text in UTF-8. It is in UTF-16. Save it again as UTF-8 (in "
                "Excel, choose 'CSV UTF-8')."
            )
        raise InvalidData(
            f"{source} must be text in UTF-8. Line {_line(data, position)} holds a NUL byte: the "
            "file is damaged, or it is not a CSV file."
        )
    names, delimiter = _read_header(data, source, delimiter)
    table = _read_cells(data, source, names, delimiter)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows below its header. It has only the header.")
    _check_quotes(data, table, source)
    columns = [
        cells if name in text else _to_numbers_if_possible(cells, decimal)
        for name, cells in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


def _refuse_encoding(data: bytes, source: str, error: UnicodeDecodeError) -> NoReturn:
    raise InvalidData(
        f"{source} must be text in UTF-8. Line {_line(data, error.start)} holds the byte "
        f"0x{data[error.start]:02x}, which is not valid UTF-8.\n"
        "Save it again as UTF-8 (in Excel, choose 'CSV UTF-8')."
    ) from None


def _line(data: bytes, position: int) -> int:
    return data.count(b"\n", 0, position) + 1


def _read_header(data: bytes, source: str, delimiter: str | None) -> tuple[list[str], str]:
    decoder = codecs.getincrementaldecoder("utf-8")()  # accepts a character that the limit cuts
    try:
        start = decoder.decode(data[:_LONGEST_ROW], final=len(data) <= _LONGEST_ROW)
    except UnicodeDecodeError as error:
        _refuse_encoding(data, source, error)
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
    _check_width(len(header), source)
    names = [name.strip() for name in header]
    _refuse_repeated([name for name in names if name], source)
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
            raise InvalidData(
                f"{source} must have rows of at most {_LONGEST_ROW >> 20} MB. One row is longer, "
                "probably because a double quote is never closed."
            ) from None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_encoding(data, source, error)
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
    """Create a reader of the bytes that owns a copy of them if the file is small.

    If a thread of Arrow is the last to release the bytes, it calls Python, and this aborts the
    process if the interpreter is shutting down, as it does after an error in a small file.
    """
    if len(data) > _LONGEST_ROW:
        return pa.BufferReader(data)
    copy = pa.BufferOutputStream()
    copy.write(data)
    return pa.BufferReader(copy.getvalue())


def _check_quotes(data: bytes, table: pa.Table, source: str) -> None:
    """Refuse a quote that is never closed, which makes the rest of the file one cell."""
    if data.count(b'"') % 2 == 0:
        return
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    if any(cell is not None and "\n" in cell.rstrip("\n") for cell in last.values()):
        raise InvalidData(
            f"{source} must close every double quote. The quote that row {table.num_rows + 1} "
            "opens is never closed, and its cell runs to the end of the file: close or remove it."
        )


def _to_numbers_if_possible(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Convert a column to float64 or booleans, or leave it unchanged if a cell is neither."""
    with contextlib.suppress(pa.ArrowInvalid):
        return pc.cast(_with_point(column, decimal), pa.float64())
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=pa.array(MISSING_WORDS))
    cells = pc.if_else(missing, pa.scalar(None, pa.string()), trimmed)
    for kind in (pa.float64(), pa.bool_()):
        with contextlib.suppress(pa.ArrowInvalid):
            return pc.cast(_with_point(cells, decimal), kind)
    return column


def _with_point(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    return column if decimal == "." else pc.replace_substring(column, decimal, ".")


# Conversion of columns.


def is_text(kind: pa.DataType) -> bool:
    """Check whether a column of this type holds text."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def is_list(kind: pa.DataType) -> bool:
    """Check whether a column of this type holds lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def to_text(
    column: pa.ChunkedArray,
    name: str,
    source: str,
    *,
    longest: int = LONGEST_NAME,
    advice: str = "Check that it is the right column.",
) -> pa.Array:
    """Convert a column to one array of stripped text, with null for empty cells.

    Whole numbers are written without a decimal point, so that a column of integers with missing
    values, which pandas stores as floats, gives ``7`` and not ``7.0``. A cell of more than
    `longest` characters raises an error that ends with `advice`.
    """
    plain = to_array(column)
    kind = plain.type
    if pa.types.is_floating(kind):
        plain = pc.if_else(pc.is_nan(plain), pa.scalar(None, kind), plain)
        with contextlib.suppress(pa.ArrowInvalid):
            plain = pc.cast(plain, pa.int64())
    try:
        text = pc.utf8_trim_whitespace(pc.cast(plain, pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidData(
            f"Column {name!r} of {source} must hold text or numbers. Its type is {kind}."
        ) from None
    length = pc.utf8_length(text)
    most = pc.max(length).as_py() or 0
    if most > longest:
        row = pc.index(length, most).as_py() + 1
        raise InvalidData(
            f"Column {name!r} of {source} must have at most {longest} characters per cell. "
            f"Data row {row} has {most}.\n{advice}"
        )
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


def codes_of(text: pa.Array) -> tuple[NDArray[np.int64], list[str]]:
    """Encode the cells as positions in the list of distinct values, with -1 for null.

    The distinct values are in the order of their first occurrence.
    """
    encoded = pc.dictionary_encode(text)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Join the chunks of a column into one array, and decode dictionaries."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type):
        column = pc.cast(column, pa.large_string())  # one array of it can exceed 2 GB
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
