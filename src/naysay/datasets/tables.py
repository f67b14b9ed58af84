"""Tables that users bring: CSV, Parquet and data frames, as one pyarrow table.

Whatever the file, errors name it, and the table that comes out has named, distinct columns.
"""

import difflib
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay.datasets._csv_table import parse_csv

__all__ = ["find_column", "is_frame", "read_table", "source_name"]

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
    _check_names(table, source)
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


def _check_names(table: pa.Table, source: str) -> None:
    names: Sequence[str] = table.column_names
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidData(
                f"{source} must have column names that differ; {shorten(name)} is there "
                f"{names.count(name)} times. Rename all but one."
            )
        seen.add(name)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
