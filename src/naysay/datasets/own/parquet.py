"""Read Parquet files, and compute beforehand how much memory they take."""

import contextlib
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, NaysayError
from naysay._base.files import check_memory, check_ordinary
from naysay.datasets.own.columns import pc

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}  # bytes; 8 for other types


def read_parquet(path: Path, source: str, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read all rows of a Parquet file, if they fit into memory."""
    with open_parquet(path, source, encoded=True) as file:
        n_bytes = _number_bytes(file.metadata, columns)
        check_memory(n_bytes, source)
        groups = range(file.metadata.num_row_groups)
        parts = [file.read_row_group(each, columns=columns) for each in groups]  # lists need this
        table = pa.concat_tables(parts) if parts else file.read(columns=columns)
        check_memory(n_bytes + text_bytes(table.columns), source)
        table.validate(full=True)  # finds text that is not UTF-8, among others
        _ = table.column_names  # raises an error if a name is not UTF-8
        return table


def read_groups(path: Path, source: str, *, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read some columns of a Parquet file by its row groups, if each of them fits into memory."""
    with open_parquet(path, source, encoded=True) as file:
        for group in range(file.metadata.num_row_groups):
            table = file.read_row_group(group, columns=columns)
            check_memory(table.nbytes + text_bytes(table.columns), source)
            table.validate(full=True)
            yield table


@contextlib.contextmanager
def open_parquet(path: Path, source: str, *, encoded: bool = False) -> Generator[pq.ParquetFile]:
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
