"""Find, check and convert the columns of tables."""

import contextlib
import difflib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.mapped import Growing, compute

if TYPE_CHECKING:
    from naysay.datasets.own.partitions import Partitioned

pc: Any = pyarrow.compute  # its functions are created at import, so type checkers do not know them

# Characters of a class, annotator or category. A longer name is a sign of a damaged file.
LONGEST_NAME = 200

MOST_COLUMNS = 100_000  # each is converted on its own, in about 0.1 ms

# Cells of a feature column that mean "missing value". In label columns only an empty cell does,
# because a class may well be called "None" or "NA".
MISSING_WORDS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A", "?")

# pandas saves a row index as a column without a name (CSV) or with one of these names (Parquet).
_INDEX_NAME = re.compile(r"__index_level_\d+__|unnamed column \d+|Unnamed: \d+")

_MOST_HINTS = 5  # columns for which an error lists the nearest names
_OPTIONS = {"example_id": "--id"}  # whose name is not that of the parameter


def find_column(
    table: pa.Table, name: str, source: str, *, role: str | None = None
) -> pa.ChunkedArray:
    """Find a column by name, or raise the error of `check_columns`."""
    place = table.schema.get_field_index(name)  # a list of all names would take quadratic time
    if place < 0:
        check_columns(table, [(name, role)], source)
    return table.column(place)


def check_columns(
    table: "pa.Table | Partitioned", named: Iterable[tuple[str, str | None]], source: str
) -> None:
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
    hints: list[str] = []
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


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def without_index(names: Iterable[str]) -> list[str]:
    """Leave out the columns in which pandas saves a row index."""
    return [name for name in names if not _INDEX_NAME.fullmatch(name)]


def check_width(n_columns: int, source: str) -> None:
    """Check that a table does not have far more columns than can be meant."""
    if n_columns > MOST_COLUMNS:
        raise InvalidData(
            f"{source} must have at most {MOST_COLUMNS:,} columns. It has {n_columns:,}: is it "
            "transposed, with one column per example? Store wide data as an array file (.npz)."
        )


def refuse_repeated(names: Sequence[str], source: str) -> None:
    """Check that the names of columns are distinct."""
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidData(
                f"{source} must have distinct column names. It has {count} columns named "
                f"{shorten(name)}: rename all but one."
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


def with_numbers(table: pa.Table, text: Collection[str], decimal: str) -> pa.Table:
    """Convert the columns of a table of text to numbers where this is possible."""
    columns = [
        cells if name in text else to_numbers_if_possible(cells, decimal)
        for name, cells in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names)


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

    Whole numbers are written as integers, so that a column of integers with missing values, which
    pandas stores as floats, gives ``7`` and not ``7.0``. The text of a cell does not depend on
    other cells, so that a column can be read in parts. A cell of more than `longest` characters
    raises an error that ends with `advice`.
    """
    plain = to_array(column)
    kind = plain.type
    whole = None
    if pa.types.is_floating(kind):  # Arrow writes 1e10 as 1e+10
        numbers = pc.cast(plain, pa.float64())
        is_whole = pc.and_(pc.equal(numbers, pc.trunc(numbers)), pc.less(pc.abs(numbers), 2.0**63))
        whole = pc.cast(pc.if_else(is_whole, numbers, None), pa.int64())
        plain = pc.if_else(pc.or_(is_whole, pc.is_nan(numbers)), pa.scalar(None, kind), plain)
    try:
        text = pc.utf8_trim_whitespace(pc.cast(plain, pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidData(
            f"Column {name!r} of {source} must contain text or numbers. Its type is {kind}."
        ) from None
    if whole is not None:
        text = pc.coalesce(pc.cast(whole, pa.large_string()), text)
    length = pc.utf8_length(text)
    most = pc.max(length).as_py() or 0
    if most > longest:
        row = pc.index(length, most).as_py() + 1
        raise InvalidData(
            f"Column {name!r} of {source} must have at most {longest} characters per cell. "
            f"Data row {row} has {most}.\n{advice}"
        )
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


@dataclass(frozen=True)
class Encoded:
    """Cells of text as codes, positions in an array of distinct values, with -1 for null.

    A value may also be a list of texts.
    """

    codes: NDArray[np.integer[Any]]
    values: pa.Array

    def __len__(self) -> int:
        return len(self.codes)


def encode_parts(parts: Iterable[pa.Array], *, most_bytes: float = math.inf) -> Encoded:
    """Encode the cells of a column that is read in parts; codes may be in a temporary file."""
    codes, kind = Growing(np.int32, most_bytes=most_bytes), pa.large_string()
    place_of: dict[Any, int] = {}
    for part in parts:
        own = encode(part)
        kind, values = own.values.type, own.values.to_pylist()
        keys = (tuple(each or ()) for each in values) if is_list(kind) else values
        places = [place_of.setdefault(key, len(place_of)) for key in keys]
        codes.append(np.array([*places, -1])[own.codes])  # the code -1 selects the last entry
    return Encoded(codes.array, pa.array(list(place_of), kind))


def codes_of(text: pa.Array | Encoded) -> tuple[NDArray[Any], list[str]]:
    """Encode the cells as positions in the list of distinct values, with -1 for null.

    The distinct values are in the order of their first occurrence.
    """
    encoded = encode(text)
    return encoded.codes, encoded.values.to_pylist()


def encode(cells: pa.Array | Encoded) -> Encoded:
    """Encode the cells as `codes_of` does, and leave the distinct values in an array."""
    if isinstance(cells, Encoded):
        return cells
    keys = cells
    if is_list(cells.type):  # as text, by the codes of its values
        numbers = pc.fill_null(pc.dictionary_encode(pc.list_flatten(cells)).indices, -1)
        ends = np.cumsum(pc.fill_null(pc.list_value_length(cells), 0), dtype=np.int32)
        lists = pa.ListArray.from_arrays(
            np.append(np.int32(0), ends), pc.cast(numbers, pa.string())
        )
        keys = pc.binary_join(lists, " ")
    encoded = pc.dictionary_encode(keys)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    if keys is cells:
        return Encoded(codes, encoded.dictionary)
    first = np.flatnonzero(np.diff(np.maximum.accumulate(codes), prepend=-1))
    return Encoded(codes, cells.take(pa.array(first)))


def join_texts(parts: Iterable[pa.Array], *, most_bytes: float) -> pa.Array:
    """Join parts of a column of text, in which no cell is empty, in temporary files if large."""
    ends = Growing(np.int64, most_bytes=most_bytes)
    characters = Growing(np.uint8, most_bytes=most_bytes)
    ends.append([0])
    for part in parts:
        text, n_before = pc.fill_null(part, ""), len(characters.array)
        own_ends = np.frombuffer(text.buffers()[1], np.int64)[text.offset :][: len(text) + 1]
        ends.append(own_ends[1:] - own_ends[0] + n_before)
        characters.append(np.frombuffer(text.buffers()[2], np.uint8)[own_ends[0] : own_ends[-1]])
    every, n = ends.array, len(ends.array) - 1
    is_filled = compute(every, n, bool, lambda rows: np.diff(every[rows.start : rows.stop + 1]) > 0)
    buffers = [np.packbits(is_filled, bitorder="little"), every, characters.array]
    return pa.LargeStringArray.from_buffers(n, *map(pa.py_buffer, (*buffers[1:], buffers[0])))


class Texts(Sequence[str]):
    """The texts of some rows of a column, which are read from it when they are needed."""

    def __init__(self, column: pa.Array, rows: NDArray[np.int64]) -> None:
        self._column, self._rows = column, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        """Look up a text, or select texts as numpy does."""
        rows = self._rows[place]
        return self._column[int(rows)].as_py() if np.ndim(rows) == 0 else Texts(self._column, rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(cast("Sequence[Any]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"<{len(self)} texts>"


def column_parts(
    table: "pa.Table | Partitioned", name: str
) -> Iterable[tuple[int, pa.ChunkedArray]]:
    """Read a column in parts, each with the number of rows before it; of a table, in one."""
    return [(0, table[name])] if isinstance(table, pa.Table) else table.parts(name)


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Join the chunks of a column into one array, and decode dictionaries."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type):
        column = pc.cast(column, pa.large_string())  # one array of it can exceed 2 GB
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
