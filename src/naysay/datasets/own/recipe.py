"""Mixed columns to one float32 matrix, by a recipe that can be saved and applied again.

A numeric column gives one feature, and a second one that says where a value was missing if any
was. A categorical column gives one feature of 0 and 1 per category. What the recipe learned from
the first table (medians, categories) is all it uses later, so new rows meet the same features in
the same order.
"""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidModelFile
from naysay.datasets.own.tables import (
    MISSING_WORDS,
    codes_of,
    find_column,
    is_text,
    pc,
    read_table,
    to_array,
    to_text,
)

__all__ = ["CategoricalColumn", "NumericColumn", "Recipe", "find_odd_cells", "fit_recipe"]

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
    plain = to_array(column)
    try:
        if pa.types.is_boolean(plain.type):
            plain = pc.cast(plain, pa.uint8())
        numbers = pc.cast(plain, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = " If it has numbers like 1,5 pass decimal=',' (--decimal ,)."
        raise InvalidData(
            f"Column {name!r} of {source} must hold numbers. It holds {plain.type}: "
            f"{shorten(str(error))}.{hint if is_text(plain.type) else ''}"
        ) from None
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


MOST_CATEGORIES = 100
_FEW = 20  # so many distinct values are categories even where most rows have their own
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d|$)|\d{1,2}([./-])\d{1,2}\2\d{4}([T ,]|$)")
_WHOLE = re.compile(r"\s*[-+]?\d+\s*")
_WITH_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
_NEARLY_ALL = 0.9


def fit_recipe(
    table: pa.Table,
    names: Sequence[str],
    *,
    categorical: Collection[str] = (),
    standardise: bool = False,
    source: str = "the table",
) -> Recipe:
    """Learn how the named columns become features.

    Numbers and booleans are numeric, text is categorical. Text with more than 100 distinct
    values, or mostly distinct ones, is refused; listed in `categorical`, its 100 most frequent
    values are kept and the rest become "other".

    Parameters
    ----------
    table : pyarrow.Table
    names : sequence of str
        The feature columns, in the order of the features.
    categorical : collection of str
        Columns to take as categories whatever they hold, such as codes written as numbers.
    standardise : bool, default=False
        Bring numeric columns to mean 0 and standard deviation 1.
    source : str
        The name that errors give the table.
    """
    for name in categorical:
        find_column(table, name, source, role="categorical")
    columns: list[NumericColumn | CategoricalColumn] = []
    dropped: list[tuple[str, str]] = []
    for name in names:
        cells = find_column(table, name, source, role="features")
        if cells.null_count == len(cells):
            column = None
        elif name in categorical or is_text(cells.type):
            column = _fit_categorical(cells, name, name in categorical, source)
        else:
            column = _fit_numeric(cells, name, standardise, source)
        if column is None:
            dropped.append((name, "every value is missing"))
        else:
            columns.append(column)
    if not columns:
        raise InvalidData(
            f"{source} must have at least one feature column with values. "
            f"Set aside: {shorten([name for name, _ in dropped]) or 'none; there is no other'}."
        )
    return Recipe(columns=tuple(columns), dropped=tuple(dropped))


def find_odd_cells(counts: Mapping[str, int]) -> tuple[list[str], bool] | None:
    """Find the values that keep a column of text from being numbers.

    Parameters
    ----------
    counts : mapping
        How often each value occurs.

    Returns
    -------
    odd, has_comma : list of str, bool
        The values that are no numbers, and whether the others have a decimal comma; None if
        fewer than 90 % are numbers.
    """
    with_comma = {value for value in counts if _WITH_COMMA.fullmatch(value)}
    plain = {value for value in counts if _NUMBER.fullmatch(value)}
    whole = {value for value in plain if _WHOLE.fullmatch(value)}
    # 1,234 alone may be a thousand and more
    has_comma = not all(map(_THOUSANDS.fullmatch, with_comma))
    for numbers, comma in ((with_comma | whole, True), (plain, False)):
        n_numbers = sum(counts[value] for value in numbers)
        if (has_comma or not comma) and n_numbers >= _NEARLY_ALL * sum(counts.values()):
            return [value for value in counts if value not in numbers], comma
    return None


def _ignoring(name: str) -> str:
    """Return how to leave a column out, in Python and on the command line."""
    return f"ignore=[{name!r}] (--ignore {shlex.quote(name)})"


def _refuse_dates(such_as: str, name: str, source: str) -> NoReturn:
    raise InvalidData(
        f"Column {name!r} of {source} holds dates or times ({such_as}), which are no features "
        "yet.\nTurn it into numbers, such as days since a fixed date, or leave it out: "
        f"{_ignoring(name)}."
    )


def _fit_numeric(
    cells: pa.ChunkedArray, name: str, standardise: bool, source: str
) -> NumericColumn | None:
    if pa.types.is_temporal(cells.type):
        _refuse_dates(str(cells.type), name, source)
    numbers = finite_numbers(cells, name, source)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return None
    deviation = float(known.std()) if standardise else 0.0
    return NumericColumn(
        name=name,
        median=float(np.median(known)),
        n_missing=len(numbers) - len(known),
        center=float(known.mean()) if standardise else 0.0,
        scale=deviation if deviation > 0 else 1.0,
    )


def _fit_categorical(
    cells: pa.ChunkedArray, name: str, is_wanted: bool, source: str
) -> CategoricalColumn | None:
    codes, values = categories_of(cells, name, source)
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    seen = np.flatnonzero(counts)
    if not len(seen):
        return None
    if not is_wanted and all(_DATE.match(values[index]) for index in seen):
        _refuse_dates(values[seen[0]], name, source)
    n_known = int(counts.sum())
    is_free_text = len(seen) > MOST_CATEGORIES or (len(seen) > _FEW and len(seen) > n_known / 2)
    if is_free_text and not is_wanted:
        _refuse_free_text([values[index] for index in seen], n_known, name, source)
    frequent = seen[np.argsort(-counts[seen], kind="stable")][:MOST_CATEGORIES]
    return CategoricalColumn(
        name=name,
        categories=tuple(sorted(values[index] for index in frequent)),
        n_missing=len(codes) - n_known,
        has_other=len(seen) > len(frequent),
    )


def _refuse_free_text(values: list[str], n_known: int, name: str, source: str) -> NoReturn:
    """Say what is wrong with a text column, and what to do in the most likely case."""
    sample = values[:1000]
    odd, has_comma = find_odd_cells(dict.fromkeys(sample, 1)) or (None, False)
    if odd:
        comma = " with a decimal comma (--decimal ,)" if has_comma else ""
        raise InvalidData(
            f"Column {name!r} of {source} must be numbers or categories. Nearly all cells are "
            f"numbers{comma}, but not {shorten(odd, 3)}.\nMend these cells, or leave them empty."
        )
    if has_comma:
        raise InvalidData(
            f"Column {name!r} of {source} must be numbers or categories. Its cells look like "
            f"numbers with a decimal comma, such as {sample[0]!r}: pass decimal=',' (--decimal ,)."
        )
    if odd is not None:
        raise InvalidData(
            f"Column {name!r} of {source} must be numbers or categories. It holds numbers stored "
            f"as text, such as {sample[0]!r}: store it as numbers."
        )
    raise InvalidData(
        f"Column {name!r} of {source} must be numbers or a few categories. It is text with "
        f"{len(values)} distinct values in {n_known} rows, such as {shorten(values[0])}.\n"
        f"Leave it out: {_ignoring(name)}. Or keep its {MOST_CATEGORIES} most frequent values: "
        f"categorical=[{name!r}] (--categorical)."
    )
