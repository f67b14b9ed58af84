"""Read a table in batches, so that memory does not grow with the number of rows."""

import codecs
import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from naysay._base.errors import InvalidData
from naysay.datasets.own.formats import refuse_long_row
from naysay.datasets.own.tables import (
    LONGEST_ROW,
    check_csv_options,
    check_table,
    find_format,
    is_frame,
    open_parquet,
    open_text,
    parse_text,
    quoted_cell,
    read_header,
    read_table,
    source_name,
)

_BATCH_BYTES = 1 << 23  # of a text file; more only if one row is longer
_PLACE = re.compile(
    r"(?P<what>Data row|Row|that row|Line) (?P<number>\d+)(?= has| holds| \(| opens)"
)


def read_batches(
    data: Any,
    *,
    n_rows: int,
    columns: Collection[str] = (),
    text: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> Iterator[tuple[int, pa.Table]]:
    """Read a table in batches of at most `n_rows` rows, so that memory does not grow with rows.

    Each batch comes with the number of rows before it, and is as `read_table` would read it if it
    were a file; only Excel files and data frames are read as a whole. A Parquet file is read in
    `columns` only, if it has them all.
    """
    first = 0
    for table in _read_parts(data, n_rows, columns, text, delimiter, decimal):
        for start in range(0, len(table), n_rows):
            yield first + start, table.slice(start, n_rows)
        first += len(table)


def _read_parts(
    data: Any,
    n_rows: int,
    columns: Collection[str],
    text: Collection[str],
    delimiter: str | None,
    decimal: str,
) -> Iterator[pa.Table]:
    source = source_name(data)
    kind, delimiter = ("frame", None) if is_frame(data) else find_format(data, delimiter)
    check_csv_options(delimiter, decimal)
    if kind == "parquet":
        yield from parquet_batches(Path(data), source, n_rows, columns)
    elif kind in ("csv", "json"):
        row = 0
        with open_text(data, source) as file:
            for content, line in _split_text(file, source, kind, delimiter):
                with counting_from(row, line):
                    parsed = parse_text(kind, content, source, text, delimiter, decimal)
                    yield check_table(parsed, source)
                row += len(parsed)
    else:
        yield read_table(data, text=text, decimal=decimal)


@contextlib.contextmanager
def counting_from(row: int, line: int = 0) -> Iterator[None]:
    """Count rows and lines from those before a part of a file in the errors about this part."""

    def shift(found: re.Match[str]) -> str:
        before = line if found["what"] == "Line" else row
        return f"{found['what']} {int(found['number']) + before}"

    try:
        yield
    except InvalidData as error:
        raise InvalidData(_PLACE.sub(shift, str(error))) from None


def _split_text(
    file: BinaryIO, source: str, kind: str, delimiter: str | None
) -> Iterator[tuple[bytes, int]]:
    """Split a file at the ends of rows, and repeat the header of a CSV file in front of each part.

    Each part comes with the number that its line numbers must be raised by.
    """
    header = quoted = rest = b""
    line, is_first, more = 0, True, b"any"
    while more:
        more = file.read(_BATCH_BYTES)
        rest += more
        if is_first and kind == "csv":
            rest = rest.removeprefix(codecs.BOM_UTF8).lstrip(b"\r\n")
            quoted = _quoted_cell(rest, source, delimiter)
        first, last = _row_ends(rest, quoted)
        end = last if more else len(rest)
        if more and (not end or (is_first and kind == "csv" and end == first)):
            if len(rest) > LONGEST_ROW + _BATCH_BYTES:
                refuse_long_row(source, LONGEST_ROW)
            continue  # one row, which goes on, or only the header
        content, rest = rest[:end], rest[end:]
        if is_first or content.strip(b"\r\n"):
            yield header + content, line - header.count(b"\n")
        if is_first and kind == "csv":
            header = content[:first]
        is_first = False
        line += content.count(b"\n")


def _quoted_cell(start: bytes, source: str, delimiter: str | None) -> bytes:
    """Find the delimiter of a file, and write the pattern of its quoted cells."""
    with contextlib.suppress(InvalidData):  # for which the parser finds a better reason
        if start.strip():
            delimiter = read_header(start, source, delimiter)[1]
    return quoted_cell(delimiter or ",")


def _row_ends(data: bytes, quoted: bytes) -> tuple[int, int]:
    """Find the ends of the first and the last complete row; 0 if there is none."""
    newline = b"\n" if b"\n" in data else b"\r"
    first = last = position = 0
    cells = re.finditer(quoted, data) if quoted and b'"' in data else ()
    for start, stop in (*(cell.span() for cell in cells), (len(data), len(data))):
        first = first or data.find(newline, position, start) + 1
        last = data.rfind(newline, position, start) + 1 or last
        position = stop
    return first, last


def parquet_batches(
    path: Path, source: str, n_rows: int, columns: Collection[str]
) -> Iterator[pa.Table]:
    """Read some columns of a Parquet file in batches, or all if it lacks one of them."""
    with open_parquet(path, source) as file:
        names = file.schema_arrow.names
        if not file.metadata.num_rows or len(set(names)) != len(names):
            check_table(file.read(), source)
        chosen = [name for name in names if name in columns]
        whole = set(columns) - set(names)  # an error will list all columns
        batches = file.iter_batches(n_rows, columns=None if whole or not chosen else chosen)
        for batch in batches:
            batch.validate(full=True)
            if len(batch):
                yield check_table(pa.Table.from_batches([batch]), source)
