"""Mixed columns to one float32 matrix, by a recipe that can be saved and applied again.

A numeric column gives one feature, and a second one that says where a value was missing if any
was. A categorical column gives one feature of 0 and 1 per category. What the recipe learned from
the first table (medians, categories) is all it uses later, so new rows meet the same features in
the same order.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidModelFile
from naysay.datasets._arrow import codes_of, to_numbers, to_text
from naysay.datasets._csv_table import MISSING_WORDS
from naysay.datasets.tables import find_column, read_table

__all__ = ["CategoricalColumn", "NumericColumn", "Recipe"]

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """How numbers become features: the gaps filled with the median, then centred and scaled."""

    name: str
    median: float
    n_missing: int = 0  # in the first table; only a column that had gaps gets an indicator
    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        numbers = (self.median, self.center, self.scale)
        if not np.isfinite(numbers).all() or self.scale <= 0 or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has numbers out of range")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features this column gives."""
        return (self.name, f"{self.name} missing") if self.n_missing else (self.name,)

    def write(self, column: pa.ChunkedArray, features: NDArray[np.float32], source: str) -> None:
        """Write the features of the column into a matrix of shape (rows, features)."""
        numbers = finite_numbers(column, self.name, source)
        missing = np.isnan(numbers)
        numbers[missing] = self.median
        features[:, 0] = (numbers - self.center) / self.scale
        if self.n_missing:
            features[:, 1] = missing

    def describe(self, features: NDArray[np.float32]) -> str:
        """Return the cell that gave these features, as a person would write it."""
        if self.n_missing and features[1]:
            return ""
        return f"{float(features[0]) * self.scale + self.center:.6g}"


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn:
    """How text becomes features: one per category, 1 where a row has it.

    A value that is not listed counts as "other" if the recipe keeps such a feature, and is all
    zeros if not; the same holds for a missing value where the first table had none.
    """

    name: str
    categories: tuple[str, ...]
    n_missing: int = 0
    has_other: bool = False  # some values of the first table were too rare to be listed

    def __post_init__(self) -> None:
        if len(set(self.categories)) != len(self.categories) or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has a category twice")
        if not all(isinstance(category, str) for category in self.categories):
            raise TypeError(f"column {self.name!r} has a category that is no text")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features this column gives."""
        names = [f"{self.name}={category}" for category in self.categories]
        names += [f"{self.name} other"] * self.has_other
        names += [f"{self.name} missing"] * (self.n_missing > 0)
        return tuple(names)

    def write(self, column: pa.ChunkedArray, features: NDArray[np.float32], source: str) -> None:
        """Write the features of the column into a matrix of shape (rows, features)."""
        codes, values = categories_of(column, self.name, source)
        other = len(self.categories) if self.has_other else -1
        missing = len(self.feature_names) - 1 if self.n_missing else other
        place = {category: index for index, category in enumerate(self.categories)}
        places = np.array([*(place.get(value, other) for value in values), missing])[codes]
        features[:] = 0
        rows = np.flatnonzero(places >= 0)
        features[rows, places[rows]] = 1

    def describe(self, features: NDArray[np.float32]) -> str:
        """Return the cell that gave these features, as a person would write it."""
        names = (*self.categories, *["other"] * self.has_other, "")
        return names[int(np.argmax(features))] if features.any() else ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the columns of a table become a float32 matrix; immutable, and saved as JSON.

    ``dropped`` holds the columns set aside, each with the reason.
    """

    columns: tuple[NumericColumn | CategoricalColumn, ...]
    dropped: tuple[tuple[str, str], ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, in the order of the matrix."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def shape(self) -> tuple[int]:
        """Shape of one example."""
        return (len(self.feature_names),)

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the categorical columns, which a CSV file must give as text."""
        return tuple(
            column.name for column in self.columns if isinstance(column, CategoricalColumn)
        )

    def apply(self, table: Any, *, source: str = "the table") -> NDArray[np.float32]:
        """Return the matrix of a table, shape (rows, features).

        Parameters
        ----------
        table : pyarrow table or data frame
            Must have the columns of the recipe; others are ignored.
        source : str
            The name that errors give the table.

        Raises
        ------
        InvalidInput
            If a column is not there.
        InvalidData
            If a column holds something else than in the first table.
        """
        if not isinstance(table, pa.Table):
            table = read_table(table)
        features = np.empty((table.num_rows, len(self.feature_names)), dtype=np.float32)
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            cells = find_column(table, column.name, source)
            column.write(cells, features[:, start:stop], source)
            start = stop
        return features

    def describe(self, features: NDArray[np.float32]) -> dict[str, str]:
        """Return the row of the table that gave these features; a gap is empty."""
        cells: dict[str, str] = {}
        start = 0
        for column in self.columns:
            stop = start + len(column.feature_names)
            cells[column.name] = column.describe(features[start:stop])
            start = stop
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values for JSON."""
        columns = [
            {"kind": "numeric" if isinstance(column, NumericColumn) else "categorical"}
            | asdict(column)
            for column in self.columns
        ]
        return {"kind": "table", "columns": columns, "dropped": [list(d) for d in self.dropped]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a recipe; anything but what `to_dict` gives is refused."""
        try:
            columns = tuple(_column_from_dict(column) for column in values["columns"])
            dropped = tuple((str(name), str(why)) for name, why in values["dropped"])
            if values["kind"] != "table" or not columns:
                raise ValueError("not a recipe for tables")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidModelFile(
                f"A recipe must be what Recipe.to_dict gives. This one is damaged: {error}."
            ) from None
        return cls(columns=columns, dropped=dropped)


def finite_numbers(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.float64]:
    """Return the numbers of a column in an array of its own, NaN where one is missing."""
    numbers = to_numbers(column, name, source)
    too_large = np.abs(numbers) > _LARGEST
    if too_large.any():
        row = int(np.argmax(too_large))
        raise InvalidData(
            f"Column {name!r} of {source} must hold finite numbers up to 3.4e38. Data row "
            f"{row + 1} holds {numbers[row]:g}.\n"
            "Leave the cell empty if the value is unknown, or rescale the column."
        )
    return numbers if numbers.flags.writeable else numbers.copy()


def categories_of(
    column: pa.ChunkedArray, name: str, source: str
) -> tuple[NDArray[np.int64], list[str]]:
    """Return each cell's position among the distinct values (-1: missing), and these."""
    advice = "It is free text, no category: leave the column out with ignore= (--ignore)."
    codes, values = codes_of(to_text(column, name, source, advice=advice))
    missing = [index for index, value in enumerate(values) if value in MISSING_WORDS]
    codes[np.isin(codes, missing)] = -1
    return codes, values


def _column_from_dict(values: Mapping[str, Any]) -> NumericColumn | CategoricalColumn:
    rest = {key: value for key, value in values.items() if key != "kind"}
    if not isinstance(rest["name"], str):
        raise TypeError(f"a column is named {shorten(rest['name'])}")
    if values["kind"] == "numeric":
        return NumericColumn(**rest)
    if values["kind"] == "categorical":
        if isinstance(rest["categories"], str):
            raise TypeError("categories must be a list")
        rest["categories"] = tuple(rest["categories"])
        return CategoricalColumn(**rest)
    raise ValueError(f"unknown kind of column {shorten(values['kind'])}")
