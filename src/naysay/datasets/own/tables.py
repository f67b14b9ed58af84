"""Read the user's tables (CSV, Parquet, JSON Lines, Excel, data frames) as pyarrow tables.

Every error names the file and, where there is one, the line or row.
"""

import codecs
import contextlib
import csv
import difflib
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, NaysayError
from naysay._base.files import (
    DATABASE_URLS,
    SQLITE_MAGIC,
    check_memory,
    check_ordinary,
    printable,
)
from naysay.datasets.own.formats import parse_json_lines, read_excel, refuse_long_row, text_reader

pc: Any = pyarrow.compute  # its functions are created at import, so type checkers do not know them

# Characters of a class, annotator or category. A longer name is a sign of a damaged file.
LONGEST_NAME = 200

MOST_COLUMNS = 100_000  # each is converted on its own, in about 0.1 ms

# Cells of a feature column that mean "missing value". In label columns only an empty cell does,
# because a class may well be called "None" or "NA".
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?")

# The format of a file by its suffix; those of text may be compressed and then also end in .gz.
_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".xlsx": "excel",
}
# pandas saves a row index as a column without a name (CSV) or with one of these names (Parquet).
_INDEX_NAME = re.compile(r"__index_level_\d+__|unnamed column \d+|Unnamed: \d+")

_MOST_HINTS = 5  # columns for which an error lists the nearest names
_OPTIONS = {"example_id": "--id"}  # whose name is not that of the parameter


def read_table(
    data: Any,
    *,
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Read a file in one of the formats, standard input (``-``, as CSV) or a data frame.

    A row index that pandas saved as a column is removed, because it is not a feature. The columns
    in `text` stay text, so that class ``007`` stays ``007``; `naysay.datasets.own.read_own`
    describes the other parameters.
    """
    source = source_name(data)
    if is_frame(data):
        return check_table(_from_frame(data, source), source)
    kind, delimiter = find_format(data, delimiter)
    if kind == "parquet":
        return check_table(read_parquet(Path(data), source), source)
    if kind == "excel":
        table = _with_numbers(read_excel(Path(data), source), text, decimal)
        return check_table(table, source)
    with open_text(data, source) as file:
        is_file = not isinstance(file, gzip.GzipFile) and Path(data).is_file()
        content = file.read() if is_file else _read_on(file, source)
    return check_table(parse_text(kind, content, source, text, delimiter, decimal), source)


def parse_text(
    kind: str,
    content: bytes,
    source: str,
    text: Collection[str],
    delimiter: str | None,
    decimal: str,
) -> pa.Table:
    """Parse the content of a file in one of the formats of text."""
    if kind == "json":
        return parse_json_lines(content, source, longest=LONGEST_ROW)
    return parse_csv(content, source, text=text, delimiter=delimiter, decimal=decimal)


def check_table(table: pa.Table, source: str) -> pa.Table:
    """Check that a table has rows and distinct columns, and remove the index of pandas."""
    _check_width(table.num_columns, source)
    _refuse_repeated(table.column_names, source)
    if not table.num_rows:
        raise InvalidData(
            f"{source} must have rows. It has {table.num_columns} columns and no row."
        )
    return table.select(without_index(table.column_names))


def without_index(names: Iterable[str]) -> list[str]:
    """Leave out the columns in which pandas saves a row index."""
    return [name for name in names if not _INDEX_NAME.fullmatch(name)]


def find_format(data: Any, delimiter: str | None) -> tuple[str, str | None]:
    """Find the format of a file by its name, and its delimiter, None if it is to be detected."""
    if str(data) == "-" or str(data).startswith("/dev/"):  # such as /dev/stdin, and <(…) in bash
        return "csv", delimiter
    suffixes = [suffix.lower() for suffix in Path(data).suffixes[-2:]]
    is_compressed = suffixes[-1:] == [".gz"]
    suffix = (suffixes[-2:-1] if is_compressed else suffixes[-1:]) or [""]
    kind = _FORMATS.get(suffix[0])
    if kind is None or (is_compressed and kind not in ("csv", "json")):
        raise InvalidInput(
            f"{source_name(data)} must be a CSV file (.csv, .tsv, .txt), JSON Lines (.jsonl, "
            ".ndjson), either of them compressed (.gz), a Parquet file (.parquet, .pq), an Excel "
            "file (.xlsx), an array file (.npz) or a folder of images. Its name has none of these "
            "extensions: rename the file or convert it."
        )
    return kind, "\t" if suffix[0] == ".tsv" and delimiter is None else delimiter


def _read_on(file: BinaryIO, source: str) -> bytes:
    """Read a compressed file, a pipe or a device, but no more of it than memory may hold."""
    content = io.BytesIO()
    while part := file.read(1 << 20):
        content.write(part)
        check_memory(content.tell(), source)
    return content.getvalue()


@contextlib.contextmanager
def open_text(data: Any, source: str) -> Iterator[BinaryIO]:
    """Open a text file, which may be compressed, or standard input."""
    if str(data) == "-":
        yield sys.stdin.buffer
    elif Path(data).suffix.lower() != ".gz":
        with Path(data).open("rb") as file:
            yield file
    else:
        with Path(data).open("rb") as file:
            try:
                with gzip.GzipFile(fileobj=file) as content:
                    yield content  # pyright: ignore[reportReturnType] - it is a binary file
            except (gzip.BadGzipFile, EOFError, zlib.error) as error:
                raise InvalidData(
                    f"{source} must be a file compressed by gzip. It is damaged or truncated: "
                    f"{error}."
                ) from None


def is_frame(data: Any) -> bool:
    """Check whether the data are a data frame of a library that supports Arrow."""
    return hasattr(data, "__arrow_c_stream__")


def is_database(data: Any) -> bool:
    """Check whether data are a database: its URL, or the path of an SQLite file."""
    if is_frame(data) or str(data) == "-":
        return False
    if str(data).startswith(DATABASE_URLS) or Path(data).suffix.lower() in (".db", ".sqlite"):
        return True
    if not Path(data).is_file():
        return False
    with Path(data).open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


def refuse_pipe(data: Any, role: str) -> None:
    """Refuse a pipe and standard input where a table is read more than once."""
    if not is_frame(data) and (str(data) == "-" or Path(data).is_fifo()):
        raise InvalidInput(
            f"{role} must be a file, because it is read more than once. Got {source_name(data)}, "
            "which can be read only once: save it as a file first."
        )


def source_name(data: Any) -> str:
    """Name the data for errors and summaries."""
    if is_frame(data):
        return "the data frame"
    return "standard input" if str(data) == "-" else printable(data)


def find_column(
    table: pa.Table, name: str, source: str, *, role: str | None = None
) -> pa.ChunkedArray:
    """Find a column by name, or raise the error of `check_columns`."""
    place = table.schema.get_field_index(name)  # a list of all names would take quadratic time
    if place < 0:
        check_columns(table, [(name, role)], source)
    return table.column(place)


def check_columns(table: pa.Table, named: Iterable[tuple[str, str | None]], source: str) -> None:
    """Check that a table has columns, or raise one error about all that it lacks.

    Each name comes with the parameter that gives it. Without one, the column is one that the model
    was trained on. The error lists the nearest names.
    """
    names = table.column_names
    known = set(names)
    missing = {name: role for name, role in named if name not in known}
    if not missing:
        return
    roles = " and ".join(dict.fromkeys(_describe_role(role) for role in missing.values() if role))
    rule = f"{source} must have the columns that the model was trained on"
    if roles:
        number = "a column" if len(missing) == 1 else "columns"
        rule = f"{roles} must name {number} of {source}"
    by_lower = {column.lower(): column for column in names}
    hints = []
    for name in list(missing)[:_MOST_HINTS]:
        lower = str(name).lower()
        close = [lower] if lower in by_lower else difflib.get_close_matches(lower, by_lower)
        if close:
            listed = " or ".join(repr(by_lower[each]) for each in close)
            hints.append(f" Did you mean {listed}{f' for {name!r}' if len(missing) > 1 else ''}?")
    if not hints and all(_is_number(column) for column in names):
        hints = [" These look like values. The first row must have the column names: add a header."]
    lacked = shorten(list(missing) if len(missing) > 1 else next(iter(missing)))
    raise InvalidInput(
        f"{rule}. It has no column {lacked}; its columns are {shorten(names)}.{''.join(hints)}"
    )


def _describe_role(role: str) -> str:
    """Write a parameter with its option on the command line."""
    if role.startswith("--"):
        return role
    return f"{role} ({_OPTIONS.get(role, '--' + role.replace('_', '-'))})"


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


def read_parquet(
    path: Path, source: str, *, columns: Sequence[str] | None = None, n_bytes: int = 0
) -> pa.Table:
    """Read all rows of a Parquet file, if they fit into memory besides `n_bytes`."""
    with open_parquet(path, source, encoded=True) as file:
        n_bytes += _number_bytes(file.metadata, columns)
        check_memory(n_bytes, source)
        table = file.read(columns=columns)
        check_memory(n_bytes + text_bytes(table.columns), source)
        table.validate(full=True)  # finds text that is not UTF-8, among others
        _ = table.column_names  # raises an error if a name is not UTF-8
        return table


@contextlib.contextmanager
def open_parquet(path: Path, source: str, *, encoded: bool = False) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, with a clear error if it turns out to be damaged while it is read.

    `encoded` text is read as dictionaries, which show how much memory it takes; batches of them
    would keep those of earlier batches.
    """
    with check_ordinary(path).open("rb") as file:  # raises the usual OSError if it is missing
        try:
            text = _text_columns(pq.read_metadata(file)) if encoded else None
            # With a buffer, a row group is not read as a whole.
            yield pq.ParquetFile(
                file,
                page_checksum_verification=True,
                pre_buffer=False,
                buffer_size=1 << 16,
                read_dictionary=text,
            )
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            if isinstance(error, NaysayError):
                raise
            raise InvalidData(
                f"{source} must be a Parquet file. It is damaged, truncated, or in another "
                f"format: {shorten(str(error))}."
            ) from None


_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes; 8 for other types


def longest_row(facts: pq.FileMetaData, names: Collection[str]) -> int:
    """Compute how many bytes the text of a row in some columns can have, at most.

    One long text may be stored once for many rows, but it is never longer than its column is in the
    file, before compression.
    """
    places = [
        place
        for place in _places_of(facts, names)
        if facts.schema.column(place).physical_type.endswith("BYTE_ARRAY")
    ]
    return max(
        sum(facts.row_group(group).column(place).total_uncompressed_size for place in places)
        for group in range(facts.num_row_groups)
    )


def _places_of(facts: pq.FileMetaData, names: Collection[str]) -> list[int]:
    """Find the parts of columns: a list, for instance, is stored as ``name.list.element``."""
    known = set(names)
    paths = [facts.schema.column(place).path.split(".") for place in range(facts.num_columns)]
    return [
        place
        for place, path in enumerate(paths)
        if any(".".join(path[:end]) in known for end in range(1, len(path) + 1))
    ]


def _text_columns(facts: pq.FileMetaData) -> list[str]:
    columns = map(facts.schema.column, range(facts.num_columns))
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _number_bytes(facts: pq.FileMetaData, names: Sequence[str] | None) -> int:
    """Compute how much memory columns of a Parquet file take, by default all, without the text."""
    columns = map(facts.schema.column, range(facts.num_columns))
    widths = [  # values of one length, such as decimals, state it
        column.length if column.length > 0 else _WIDTHS.get(column.physical_type, 8)
        for column in columns
    ]
    places = range(facts.num_columns) if names is None else _places_of(facts, names)
    return sum(
        facts.row_group(group).column(place).num_values * widths[place]
        for group in range(facts.num_row_groups)
        for place in places
    )


def text_bytes(arrays: Iterable[Any]) -> int:
    """Compute how many bytes the text of encoded columns has, also inside lists and structures."""
    total = 0
    for array in arrays:
        kind = array.type
        if isinstance(array, pa.ChunkedArray):
            total += text_bytes(array.chunks)
        elif pa.types.is_dictionary(kind):
            lengths = np.asarray(pc.fill_null(pc.binary_length(array.dictionary), 0))
            total += int(lengths[np.asarray(array.indices.drop_null())].sum())
        elif pa.types.is_map(kind):
            total += text_bytes([array.keys, array.items])
        elif pa.types.is_struct(kind):
            total += text_bytes(array.flatten())
        elif pa.types.is_nested(kind):  # lists of any kind
            total += text_bytes([array.flatten()])
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
    data = data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
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
            f"{source} must be text in UTF-8. Line {_line(data, position)} holds a NUL byte: the "
            "file is damaged, or it is not a CSV file."
        )
    names, delimiter = read_header(data, source, delimiter)
    table = _read_cells(data, source, names, delimiter)
    if not table.num_rows:
        raise InvalidData(f"{source} must have rows below its header. It has only the header.")
    _check_quotes(data, table.num_rows, source, delimiter)
    return _with_numbers(table, text, decimal)


def _with_numbers(table: pa.Table, text: Collection[str], decimal: str) -> pa.Table:
    """Convert the columns of a table of text to numbers where this is possible."""
    columns = [
        cells if name in text else to_numbers_if_possible(cells, decimal)
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


def read_header(data: bytes, source: str, delimiter: str | None) -> tuple[list[str], str]:
    """Read the column names of a CSV file, and find its delimiter."""
    decoder = codecs.getincrementaldecoder("utf-8")()  # accepts a character that the limit cuts
    try:
        start = decoder.decode(data[:LONGEST_ROW], final=len(data) <= LONGEST_ROW)
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
            refuse_long_row(source, LONGEST_ROW)
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
        text_reader(data, longest=LONGEST_ROW),
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


def to_numbers_if_possible(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
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
            f"Column {name!r} of {source} must contain text or numbers. Its type is {kind}."
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
    codes, values = encode(text)
    return codes, values.to_pylist()


def encode(text: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Encode the cells as `codes_of` does, and leave the distinct values in an array."""
    encoded = pc.dictionary_encode(text)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Join the chunks of a column into one array, and decode dictionaries."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type):
        column = pc.cast(column, pa.large_string())  # one array of it can exceed 2 GB
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
