"""Read a table in batches, so that memory does not grow with the number of rows."""

import codecs
import contextlib
import re
from collections.abc import Collection, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from naysay._base.errors import InvalidData
from naysay.datasets.own.columns import is_text, pc
from naysay.datasets.own.formats import (
    LONGEST_ROW,
    check_csv_options,
    quoted_cell,
    read_header,
    refuse_long_row,
)
from naysay.datasets.own.parquet import longest_row, open_parquet, read_parquet
from naysay.datasets.own.tables import (
    check_table,
    find_format,
    is_frame,
    open_text,
    parse_text,
    read_table,
    source_name,
)

_BATCH_BYTES = 1 << 23  # of a text file; more only if one row is longer
_MOST_TEXT = 1 << 28  # bytes of text that rows of a Parquet file which are read at once may have
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
    source = source_name(data)
    kind, delimiter = ("frame", None) if is_frame(data) else find_format(data, delimiter)
    check_csv_options(delimiter, decimal)

    def read_parts() -> Iterator[pa.Table]:
        if kind == "parquet":
            yield from parquet_batches(Path(data), source, n_rows, columns)
        elif kind in ("csv", "json"):
            with open_text(data, source) as file:
                for content, line in _split_text(file, source, kind, delimiter):
                    with counting_from(first, line):
                        parsed = parse_text(kind, content, source, text, delimiter, decimal)
                        yield check_table(parsed, source)
        else:
            yield read_table(data, text=text, decimal=decimal)

    first = 0
    for table in read_parts():
        for start in range(0, len(table), n_rows):
            yield first + start, table.slice(start, n_rows)
        first += len(table)


@contextlib.contextmanager
def counting_from(row: int, line: int = 0) -> Generator[None]:
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
                refuse_long_row(source)
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
            check_table(file.schema_arrow.empty_table(), source)
        chosen = [name for name in names if name in columns]
        if set(columns) - set(names) or not chosen:  # an error will list all columns
            chosen = names
        kinds = {name: file.schema_arrow.field(name).type for name in chosen}
        if any(map(pa.types.is_nested, kinds.values())):
            yield check_table(read_parquet(path, source, columns=chosen), source)
            return
        plain = [name for name, kind in kinds.items() if not pa.types.is_dictionary(kind)]
        n_at_once = _MOST_TEXT // max(1, longest_row(file.metadata, plain))
        batches = file.iter_batches(max(1, min(n_rows, n_at_once)), columns=chosen)
        for table in _joined(batches, n_rows):
            table.validate(full=True)
            n_at_once = _MOST_TEXT // max(1, _longest_encoded(table))
            for start in range(0, len(table), max(1, n_at_once)):
                yield check_table(table.slice(start, max(1, n_at_once)), source)


def _joined(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[pa.Table]:
    """Join small batches to tables of at most `n_rows` rows, as long as they take little memory."""
    parts: list[pa.RecordBatch] = []
    n_joined = n_bytes = 0
    for batch in batches:
        if parts and (n_joined + len(batch) > n_rows or n_bytes > _BATCH_BYTES):
            yield pa.Table.from_batches(parts)
            parts, n_joined, n_bytes = [], 0, 0
        if len(batch):
            parts.append(batch)
            n_joined += len(batch)
            n_bytes += sum(
                cells.nbytes for cells in batch.columns if not pa.types.is_dictionary(cells.type)
            )
    if parts:
        yield pa.Table.from_batches(parts)


def _longest_encoded(table: pa.Table) -> int:
    """Compute how many bytes the text of a row can have in columns that are encoded."""
    total = 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type) and is_text(column.type):
            lengths = [pc.max(pc.binary_length(each.dictionary)).as_py() for each in column.chunks]
            total += max(length or 0 for length in lengths)
    return total
