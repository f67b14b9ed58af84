"""Tables that are larger than memory: Parquet files in a folder, and arrays in separate files.

Columns are read one at a time, to fit a recipe, and rows in batches, to apply it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData
from naysay._base.files import printable
from naysay._base.mapped import new_array, parts_of, trim_pages
from naysay.datasets.own.batches import counting_from, parquet_batches
from naysay.datasets.own.columns import refuse_repeated, without_index
from naysay.datasets.own.parquet import (
    open_parquet,
    read_groups,
)
from naysay.datasets.own.recipe import NumericColumn, Recipe
from naysay.datasets.own.tables import is_frame

_SUFFIXES = (".parquet", ".pq")
_BATCH_BYTES = 1 << 22  # of the features of a batch
_ROWS = 1 << 17  # of one column that are read together


def kind_of_data(data: Any) -> str | None:
    """Find the kind of data: ``"parquet"``, ``"arrays"`` or ``"images"``; None for one table."""
    if is_frame(data) or str(data) == "-":
        return None
    if not Path(data).is_dir():
        return "arrays" if Path(data).suffix.lower() in (".npz", ".npy") else None
    if any(Path(data).glob("*.npy")):
        return "arrays"
    return "parquet" if find_parts(Path(data)) else "images"


def find_parts(folder: Path) -> list[Path]:
    """List the Parquet files of a folder, sorted by name; hidden ones are left out.

    Parquet files in its sub-folders are an error, because their rows would be missing.
    """
    seen = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
    folders = [path for path in seen if path.is_dir()]
    for path in folders:
        inner = (each for each in islice(path.rglob("*"), 100) if _is_parquet(each))
        if (found := next(inner, None)) is not None:
            raise InvalidData(
                f"All Parquet files of {printable(folder)} must be in the folder itself. "
                f"{printable(found.relative_to(folder))} is in a sub-folder: name that folder, or "
                "move its files."
            )
    return sorted(path for path in seen if _is_parquet(path) and path not in folders)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES


class Partitioned(ABC):
    """A table that is read in parts. What it shares with a pyarrow table has the same names."""

    column_names: list[str]
    source: str
    n_rows: int
    chosen: NDArray[np.int64] | None = None  # rows that were taken, in ascending order

    @property
    @abstractmethod
    def head(self) -> pa.Table:
        """A table with the same columns, and no row."""

    @abstractmethod
    def batches(self, n_rows: int) -> Iterator[tuple[int, pa.Table]]:
        """Read all columns in batches, each with the number of rows before it."""

    def __len__(self) -> int:
        return self.n_rows if self.chosen is None else len(self.chosen)

    def parts(self, name: str) -> Iterator[tuple[int, pa.ChunkedArray]]:
        """Read a column in parts, each with the number of rows of the source before it."""
        for first, part in self.tables(name):
            cells = part.column(0)
            if self.chosen is not None:
                where = slice(*np.searchsorted(self.chosen, (first, first + len(cells))))
                cells = cells.take(pa.array(self.chosen[where] - first))
            yield first, cells

    @abstractmethod
    def tables(self, name: str) -> Iterator[tuple[int, pa.Table]]:
        """Read a column of all rows in parts, each with the number of rows before it."""

    def select(self, names: Sequence[str]) -> Self:
        """Select columns."""
        other = copy(self)
        other.column_names = list(names)
        return other

    def take(self, rows: NDArray[np.int64]) -> Self:
        """Select rows, in ascending order."""
        other = copy(self)
        other.chosen = rows
        return other

    def apply(self, recipe: Recipe, *, most_bytes: float) -> NDArray[np.float32]:
        """Convert the rows to features, in a temporary file if they take more than `most_bytes`."""
        X = new_array((len(self), *recipe.shape), np.float32, most_bytes=most_bytes)
        n_rows = max(1, _BATCH_BYTES // (4 * recipe.shape[0]))
        for first, batch in self.select([each.name for each in recipe.columns]).batches(n_rows):
            where = slice(first, first + len(batch))
            if self.chosen is not None:
                where = slice(*np.searchsorted(self.chosen, (where.start, where.stop)))
                batch = batch.take(pa.array(self.chosen[where] - first))
            with counting_from(first):
                X[where] = recipe.apply(batch, source=self.source)
            trim_pages()
        return X


class ParquetFolder(Partitioned):
    """The Parquet files of a folder as one table, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        self.source = printable(folder)
        self.files: list[Path] = []  # without those that have no row
        self.n_rows = 0
        schemas: list[Any] = []
        for path in find_parts(folder):
            with open_parquet(path, printable(path), encoded=True) as file:
                if not file.metadata.num_rows:
                    continue
                schemas.append(file.schema_arrow.remove_metadata())
                self.n_rows += file.metadata.num_rows
            self.files.append(path)
        if not self.n_rows:
            raise InvalidData(f"{self.source} must have rows. Its Parquet files have none.")
        self._schema = schemas[0]
        self.column_names = without_index(self._schema.names)
        refuse_repeated(self.column_names, printable(self.files[0]))
        for path, schema in zip(self.files, schemas, strict=True):
            if schema != self._schema:
                odd = [each.name for each in schema if each not in self._schema]
                odd += [name for name in self._schema.names if name not in schema.names]
                raise InvalidData(
                    f"All Parquet files of {self.source} must have the same columns, of the same "
                    f"types. {path.name} differs from {self.files[0].name} in "
                    f"{shorten(odd or schema.names)}."
                )

    @property
    def head(self) -> pa.Table:
        """A table with the same columns, and no row."""
        return self._schema.empty_table().select(self.column_names)

    def convert(self, name: str, to_text: Callable[[pa.Table], pa.Array]) -> Iterator[pa.Array]:
        """Convert a column to text in parts, with errors about rows of the folder."""
        for first, part in self.tables(name):
            with counting_from(first):
                yield to_text(part)

    def tables(self, name: str) -> Iterator[tuple[int, pa.Table]]:
        """Read a column of all rows in parts, each with the number of rows before it."""
        first = 0
        for path in self.files:
            for group in read_groups(path, printable(path), columns=[name]):
                for start in range(0, len(group), _ROWS):
                    yield first + start, group.slice(start, _ROWS)
                first += len(group)

    def batches(self, n_rows: int) -> Iterator[tuple[int, pa.Table]]:
        """Read all columns in batches, each with the number of rows before it."""
        first = 0
        for path in self.files:
            for batch in parquet_batches(path, printable(path), n_rows, self.column_names):
                yield first, batch
                first += len(batch)


class MappedArray(Partitioned):
    """A memory-mapped array of numbers, shape (n, features), as columns x0, x1, and so on."""

    def __init__(self, X: NDArray[Any], source: str) -> None:
        self.X, self.source, self.n_rows = X, source, len(X)
        self.column_names = [f"x{index}" for index in range(X.shape[1])]

    @property
    def head(self) -> pa.Table:
        """A table with the same columns, and no row."""
        return self._table(slice(0), self.column_names)

    def batches(self, n_rows: int) -> Iterator[tuple[int, pa.Table]]:
        """Read all columns in batches, each with the number of rows before it."""
        for first in range(0, self.n_rows, n_rows):
            yield first, self._table(slice(first, first + n_rows), self.column_names)

    def tables(self, name: str) -> Iterator[tuple[int, pa.Table]]:
        """Read a column of all rows in parts, each with the number of rows before it."""
        for rows in parts_of(self.n_rows):
            yield rows.start, self._table(rows, [name])
            trim_pages()

    def apply(self, recipe: Recipe, *, most_bytes: float) -> NDArray[np.float32]:
        """Convert the rows to features; the array itself, if there is nothing to convert."""
        plain = [NumericColumn(name=name, median=0) for name in self.column_names]
        found = [
            NumericColumn(name=each.name, median=0, center=each.center, scale=each.scale)
            for each in recipe.columns
            if isinstance(each, NumericColumn) and not each.n_missing
        ]
        is_same = found == plain and len(plain) == self.X.shape[1] and self.chosen is None
        if is_same and self.X.dtype == np.float32 and _is_finite(self.X):
            return self.X
        return super().apply(recipe, most_bytes=most_bytes)

    def _table(self, rows: slice, names: Collection[str]) -> pa.Table:
        places = [int(name[1:]) for name in names]
        part = as_columns(self.X[rows][:, places])
        return pa.table(dict(zip(names, part, strict=True)))


def as_columns(X: NDArray[Any]) -> NDArray[Any]:
    """Transpose an array for Arrow, which lacks long doubles and other machines' byte order."""
    kind = np.dtype(np.float64) if X.dtype.kind == "f" else X.dtype
    return np.ascontiguousarray(X.T, dtype=kind.newbyteorder("="))


def _is_finite(X: NDArray[Any]) -> bool:
    step = max(1, _BATCH_BYTES // X[:1].nbytes)
    return all(np.isfinite(X[start : start + step]).all() for start in range(0, len(X), step))
