"""Read the user's tables (CSV, Parquet, JSON Lines, Excel, data frames) as pyarrow tables.

Every error names the file and, where there is one, the line or row.
"""

import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Collection, Generator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import DATABASE_URLS, SQLITE_MAGIC, check_memory, printable
from naysay.datasets.own.columns import check_width, refuse_repeated, with_numbers, without_index
from naysay.datasets.own.formats import (
    check_csv_options,
    parse_csv,
    parse_json_lines,
    read_excel,
)
from naysay.datasets.own.parquet import read_parquet

# The format of a file by its suffix; those of text may be compressed and then also end in .gz.
_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    ".xlsx": "excel",
}


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
    check_csv_options(delimiter, decimal)
    if kind == "parquet":
        return check_table(read_parquet(Path(data), source), source)
    if kind == "excel":
        table = with_numbers(read_excel(Path(data), source), text, decimal)
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
        return parse_json_lines(content, source)
    return parse_csv(content, source, text=text, delimiter=delimiter, decimal=decimal)


def check_table(table: pa.Table, source: str) -> pa.Table:
    """Check that a table has rows and distinct columns, and remove the index of pandas."""
    check_width(table.num_columns, source)
    refuse_repeated(table.column_names, source)
    if not table.num_rows:
        raise InvalidData(
            f"{source} must have rows. It has {table.num_columns} columns and no row."
        )
    return table.select(without_index(table.column_names))


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
def open_text(data: Any, source: str) -> Generator[BinaryIO]:
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
