"""Convert the columns of a table to a float32 matrix, by a recipe that is fitted once and saved.

A numeric column gives one feature, and a second one that indicates missing values if the training
data have any. A categorical column gives one feature with values 0 and 1 per category, and a column
of text the features of `naysay.datasets.own.text`. The recipe keeps the medians, categories and
words of the training data, so that new rows get the same features in the same order.
"""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import csv
import io
import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidModelFile
from naysay._base.mapped import Growing, parts_of
from naysay.datasets.own.batches import counting_from
from naysay.datasets.own.columns import (
    LONGEST_NAME,
    MISSING_WORDS,
    check_columns,
    codes_of,
    column_parts,
    find_column,
    is_text,
    pc,
    to_array,
    to_text,
)
from naysay.datasets.own.tables import read_table
from naysay.datasets.own.text import (
    EmbeddingColumn,
    TextColumn,
    fit_text,
    read_texts,
    reads_as_text,
)

if TYPE_CHECKING:
    from naysay.datasets.own.partitions import Partitioned

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """The conversion of numbers: missing values become the median, then all are standardised."""

    kind: ClassVar[str] = "numeric"
    arrays: ClassVar[Mapping[str, NDArray[np.float32]]] = {}
    name: str
    median: float
    n_missing: int = 0  # in the training data; a column without any gets no indicator feature
    center: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        numbers = (self.median, self.center, self.scale)
        if not np.isfinite(numbers).all() or self.scale <= 0 or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has numbers that are out of range")

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

    to_dict = asdict

    def describe(self, features: NDArray[np.float32]) -> str:
        """Restore the cell that these features come from, as text."""
        if self.n_missing and features[1]:
            return ""
        return f"{float(features[0]) * self.scale + self.center:.6g}"


@dataclass(frozen=True, kw_only=True)
class CategoricalColumn:
    """The conversion of text: one feature per category, which is 1 where a row has it.

    An unknown value sets the feature "other" if the recipe has it, and leaves all features 0
    otherwise. The same holds for a missing value if the training data have none.
    """

    kind: ClassVar[str] = "categorical"
    arrays: ClassVar[Mapping[str, NDArray[np.float32]]] = {}
    name: str
    categories: tuple[str, ...]
    n_missing: int = 0
    has_other: bool = False  # some values of the training data are too rare to be categories

    def __post_init__(self) -> None:
        if len(set(self.categories)) != len(self.categories) or self.n_missing < 0:
            raise ValueError(f"column {self.name!r} has repeated categories")
        if not all(isinstance(category, str) for category in self.categories):
            raise TypeError(f"column {self.name!r} has a category that is not text")

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
        index_of = {category: index for index, category in enumerate(self.categories)}
        indices = np.array([*(index_of.get(value, other) for value in values), missing])[codes]
        features[:] = 0
        rows = np.flatnonzero(indices >= 0)
        features[rows, indices[rows]] = 1

    to_dict = asdict

    def describe(self, features: NDArray[np.float32]) -> str:
        """Restore the cell that these features come from, as text."""
        names = (*self.categories, *["other"] * self.has_other, "")
        return names[int(np.argmax(features))] if features.any() else ""


Column = NumericColumn | CategoricalColumn | TextColumn | EmbeddingColumn
_KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (NumericColumn, CategoricalColumn, TextColumn, EmbeddingColumn)
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The conversion of the columns of a table to a float32 matrix.

    A recipe is immutable and can be saved as JSON, with the arrays of its text columns beside it.
    ``dropped`` lists the columns that give no features, each with the reason.
    """

    columns: tuple[Column, ...]
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
    def read_as_text(self) -> tuple[str, ...]:
        """Names of the columns that must be read from CSV files as text: all but numeric ones."""
        return tuple(
            column.name for column in self.columns if not isinstance(column, NumericColumn)
        )

    @property
    def text(self) -> tuple[str, ...]:
        """Names of the columns of text."""
        return tuple(
            column.name
            for column in self.columns
            if isinstance(column, TextColumn | EmbeddingColumn)
        )

    def with_text_model(self, folder: str | Path | None) -> Self:
        """Replace the folder of the model of sentence embeddings, if one is given."""
        if folder is None:
            return self
        columns = tuple(
            replace(column, model=str(folder)) if isinstance(column, EmbeddingColumn) else column
            for column in self.columns
        )
        return replace(self, columns=columns)

    def apply(self, table: Any, *, source: str = "the table") -> NDArray[np.float32]:
        """Convert a table to a matrix of shape (rows, features).

        Parameters
        ----------
        table : pyarrow table or data frame
            A table with the columns of the recipe; other columns are ignored.
        source : str
            Name of the table in error messages.
        """
        if not isinstance(table, pa.Table):
            table = read_table(table)
        check_columns(table, ((column.name, None) for column in self.columns), source)
        features = np.empty((table.num_rows, len(self.feature_names)), dtype=np.float32)
        for column, where in self.spans():
            column.write(find_column(table, column.name, source), features[:, where], source)
        return features

    def spans(self) -> Iterator[tuple[Column, slice]]:
        """Iterate over the columns and the positions of their features in the matrix."""
        stop = 0
        for column in self.columns:
            start, stop = stop, stop + len(column.feature_names)
            yield column, slice(start, stop)

    def describe(self, features: NDArray[np.float32]) -> dict[str, str]:
        """Restore the row that these features come from, as text; missing values are empty."""
        return {column.name: column.describe(features[where]) for column, where in self.spans()}

    def to_dict(self) -> dict[str, Any]:
        """Convert the recipe to plain values for JSON, without `arrays`."""
        columns = [{"kind": column.kind} | column.to_dict() for column in self.columns]
        return {"kind": "table", "columns": columns, "dropped": [list(d) for d in self.dropped]}

    @property
    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """The arrays that `from_dict` needs beside the values of `to_dict`; of text columns."""
        return {
            f"{index}.{name}": array
            for index, column in enumerate(self.columns)
            for name, array in column.arrays.items()
        }

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], arrays: Mapping[str, NDArray[np.float32]] | None = None
    ) -> Self:
        """Restore a recipe from the values of `to_dict` and its `arrays`; others are an error."""
        try:
            columns = tuple(
                _column_from_dict(column, _of_column(arrays or {}, index))
                for index, column in enumerate(values["columns"])
            )
            dropped = tuple((str(name), str(why)) for name, why in values["dropped"])
            if values["kind"] != "table" or not columns:
                raise ValueError("not a recipe for tables")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidModelFile(
                f"A recipe for tables must be as Recipe.to_dict writes it. This one is damaged: "
                f"{error}."
            ) from None
        return cls(columns=columns, dropped=dropped)


def finite_numbers(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.float64]:
    """Convert a column to a new array of finite float64 numbers, with NaN for missing values."""
    plain = to_array(column)
    try:
        if pa.types.is_boolean(plain.type):
            plain = pc.cast(plain, pa.uint8())
        if plain.type != pa.float64():
            plain = pc.cast(plain, pa.float64(), safe=False)
        numbers = plain.to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = " If numbers are written like 1,5, pass decimal=',' (--decimal ,)."
        raise InvalidData(
            f"Column {name!r} of {source} must contain numbers. Its type is {plain.type}: "
            f"{shorten(str(error))}.{hint if is_text(plain.type) else ''}"
        ) from None
    too_large = np.abs(numbers) > _LARGEST
    if too_large.any():
        row = int(np.argmax(too_large))
        raise InvalidData(
            f"Column {name!r} of {source} must contain finite numbers up to 3.4e38 in size. Data "
            f"row {row + 1} has {numbers[row]:g}.\n"
            "Leave the cell empty if the value is unknown, or rescale the column."
        )
    return numbers if numbers.flags.writeable else numbers.copy()


def categories_of(
    column: pa.ChunkedArray, name: str, source: str
) -> tuple[NDArray[np.int64], list[str]]:
    """Encode a column as positions in the list of its distinct values, with -1 for missing."""
    advice = f"It is free text and not a category: text=[{name!r}] (--text {shlex.quote(name)})."
    codes, values = codes_of(to_text(column, name, source, advice=advice))
    missing = [index for index, value in enumerate(values) if value in MISSING_WORDS]
    codes[np.isin(codes, missing)] = -1
    return codes, values


def _of_column(arrays: Mapping[str, NDArray[Any]], index: int) -> dict[str, NDArray[Any]]:
    prefix = f"{index}."
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _column_from_dict(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Column:
    rest: dict[str, Any] = {key: value for key, value in values.items() if key != "kind"}
    rest |= arrays
    if not isinstance(rest["name"], str):
        raise TypeError(f"the name of a column is {shorten(rest['name'])} and not text")
    kind = _KINDS.get(values["kind"])
    if kind is None:
        raise ValueError(f"the kind of column {shorten(values['kind'])} is unknown")
    for listed in ("categories", "terms"):
        if isinstance(rest.get(listed), str):
            raise TypeError(f"{listed} must be a list")
        if listed in rest:
            rest[listed] = tuple(rest[listed])
    return kind(**rest)


MOST_CATEGORIES = 100
_FEW_CATEGORIES = 20  # up to this number, even values that are mostly distinct are categories
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d|$)|\d{1,2}([./-])\d{1,2}\2\d{4}([T ,]|$)")
_WHOLE = re.compile(r"\s*[-+]?\d+\s*")
_WITH_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")
_NEARLY_ALL = 0.9
_MOST_REFUSED = 10  # columns that one error is about


def fit_recipe(
    table: "pa.Table | Partitioned",
    *,
    categorical: Collection[str] = (),
    text: Collection[str] = (),
    text_model: str | Path | None = None,
    standardise: bool = False,
    source: str = "the table",
    most_bytes: float = math.inf,
) -> Recipe:
    """Fit a recipe that converts the columns of a table to features.

    Numbers and booleans are numeric, and words are categories. A column is text if it is in `text`,
    or if most of its values are distinct and have several words, or one has more than 200
    characters. Other columns with more than 100 distinct values, or with mostly distinct values,
    are refused, unless they are in `categorical`: then the 100 most frequent values are the
    categories and the rest are "other".

    Numbers or texts of a column that take more than their share of `most_bytes` are in a temporary
    file.
    """
    roles = (("categorical", categorical), ("text", text))
    check_columns(table, ((name, role) for role, names in roles for name in names), source)
    for name in set(categorical) & set(text):
        raise InvalidInput(f"Column {name!r} must not be in both categorical and text.")
    columns: list[Column] = []
    dropped: list[tuple[str, str]] = []
    bad: dict[str, str] = {}
    for name in table.column_names:
        kind = (table if isinstance(table, pa.Table) else table.head).schema.field(name).type
        read = partial(column_parts, table, name)
        is_named, counted = name in (*text, *categorical), None
        try:
            if not (is_named or is_text(kind) or pa.types.is_null(kind)):
                column = _fit_numeric(read(), kind, name, standardise, source, most_bytes)
            else:
                column = None
                if name not in text:
                    counted = _count_texts(read(), name, source, any_number=name in categorical)
                if counted is None:
                    texts = read_texts(read(), name, source, most_bytes=most_bytes)
                    if name in text or reads_as_text(texts):
                        column = fit_text(texts, name, text_model=text_model)
                    else:
                        counted = _count_texts(read(), name, source, any_number=True)
                if counted is not None:
                    column = _fit_categorical(*counted, name, name in categorical, source)
        except InvalidData as error:
            bad[name] = str(error)
            continue
        if column is None:
            dropped.append((name, "every value is missing"))
        else:
            columns.append(column)
    if bad:
        _refuse_columns(bad, source)
    if not columns:
        empty = shorten([name for name, _ in dropped])
        found = f"These columns are empty: {empty}." if dropped else "It has no feature column."
        raise InvalidData(f"{source} must have at least one feature column with values. {found}")
    recipe = Recipe(columns=tuple(columns), dropped=tuple(dropped))
    if text_model is not None and not recipe.text:
        raise InvalidInput(
            f"text_model (--text-model) needs a column of text, and {source} has none. Name it in "
            "text= (--text)."
        )
    return recipe


def find_odd_cells(counts: Mapping[str, int]) -> tuple[list[str], bool] | None:
    """Find the few values that prevent a column of text from being numeric.

    The result is the list of values that are not numbers, and whether the others have a decimal
    comma. It is None if fewer than 90 % of the cells are numbers. `counts` maps values to cells.
    """
    with_comma = {value for value in counts if _WITH_COMMA.fullmatch(value)}
    plain = {value for value in counts if _NUMBER.fullmatch(value)}
    whole = {value for value in plain if _WHOLE.fullmatch(value)}
    # If all are like 1,234, the comma may separate thousands.
    has_comma = not all(map(_THOUSANDS.fullmatch, with_comma))
    for numbers, comma in ((with_comma | whole, True), (plain, False)):
        n_numbers = sum(counts[value] for value in numbers)
        if (has_comma or not comma) and n_numbers >= _NEARLY_ALL * sum(counts.values()):
            return [value for value in counts if value not in numbers], comma
    return None


def _ignoring(name: str) -> str:
    """Write how to leave a column out, in Python and on the command line."""
    return f"ignore=[{name!r}] (--ignore {shlex.quote(name)})"


def _refuse_columns(bad: Mapping[str, str], source: str) -> NoReturn:
    """Raise one error for all columns that cannot be features, with the reason for each."""
    if len(bad) == 1:
        raise InvalidData(*bad.values())
    shown = list(bad.values())[:_MOST_REFUSED]
    if len(bad) > len(shown):
        shown.append(f"And {len(bad) - len(shown)} more columns.")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(bad)
    option = f"--ignore {shlex.quote(line.getvalue())}"
    shown.append(f"To leave all of them out: ignore={list(bad)!r} ({option}).")
    raise InvalidData("\n".join([f"{len(bad)} columns of {source} cannot be features.", *shown]))


def _refuse_dates(example: str, name: str, source: str) -> NoReturn:
    raise InvalidData(
        f"Column {name!r} of {source} must be numbers or categories. It has dates or times "
        f"({example}).\nConvert them to numbers, such as days since a fixed date, or leave the "
        f"column out: {_ignoring(name)}."
    )


def _fit_numeric(
    parts: Iterable[tuple[int, pa.ChunkedArray]],
    kind: pa.DataType,
    name: str,
    standardise: bool,
    source: str,
    most_bytes: float,
) -> NumericColumn | None:
    grown, n_rows = Growing(np.float64, most_bytes=most_bytes), 0
    for first, cells in parts:
        if pa.types.is_temporal(kind) and cells.null_count < len(cells):
            _refuse_dates(str(kind), name, source)
        if cells.null_count < len(cells):
            with counting_from(first):
                numbers = finite_numbers(cells, name, source)
            grown.append(numbers[~np.isnan(numbers)])
        n_rows += len(cells)
    known = grown.array
    n = len(known)
    if not n:
        return None
    center = float(known.mean()) if standardise else 0.0
    squares = 0.0
    for rows in parts_of(n if standardise else 0):
        squares += float(((known[rows] - center) ** 2).sum())
    deviation = (squares / n) ** 0.5
    middle = slice((n - 1) // 2, n // 2 + 1)  # two of an even number
    known.partition((middle.start, middle.stop - 1))  # where it is
    return NumericColumn(
        name=name,
        median=float(known[middle].mean()),
        n_missing=n_rows - n,
        center=center,
        scale=deviation if deviation > 0 else 1.0,
    )


def _count_texts(
    parts: Iterable[tuple[int, pa.ChunkedArray]], name: str, source: str, *, any_number: bool
) -> tuple[list[str], NDArray[np.int64], int] | None:
    """Count the values of a column in parts, and the rows.

    The result is None if it may be a column of text, unless there may be any number of values.
    """
    counts, n_rows = Counter[str](), 0
    for first, cells in parts:
        lengths = None if any_number else pc.utf8_length(pc.cast(cells, pa.large_string()))
        if lengths is not None and (pc.max(lengths).as_py() or 0) > LONGEST_NAME:
            return None
        with counting_from(first):
            codes, values = categories_of(cells, name, source)
        found = np.bincount(codes + 1, minlength=len(values) + 1)[1:]
        counts.update(dict(zip(values, found.tolist(), strict=True)))
        n_rows += len(cells)
        if len(counts) > MOST_CATEGORIES and not any_number:
            return None
    if len(+counts) > counts.total() / 2 and not any_number:
        return None
    return list(counts), np.array(list(counts.values()), dtype=np.int64), n_rows


def _fit_categorical(
    values: list[str],
    counts: NDArray[np.int64],
    n_rows: int,
    name: str,
    is_requested: bool,
    source: str,
) -> CategoricalColumn | None:
    seen = np.flatnonzero(counts)
    if not len(seen):
        return None
    if not is_requested and all(_DATE.match(values[int(index)]) for index in seen):
        _refuse_dates(values[int(seen[0])], name, source)
    n_known = int(counts.sum())
    is_free_text = len(seen) > MOST_CATEGORIES or (
        len(seen) > _FEW_CATEGORIES and len(seen) > n_known / 2
    )
    if is_free_text and not is_requested:
        _refuse_free_text([values[int(index)] for index in seen], n_known, name, source)
    frequent = seen[np.argsort(-counts[seen], kind="stable")][:MOST_CATEGORIES]
    return CategoricalColumn(
        name=name,
        categories=tuple(sorted(values[int(index)] for index in frequent)),
        n_missing=n_rows - n_known,
        has_other=len(seen) > len(frequent),
    )


def _refuse_free_text(values: list[str], n_known: int, name: str, source: str) -> NoReturn:
    """Refuse a column of free text, with the remedy for the most likely cause."""
    sample = values[:1000]
    if (found := find_odd_cells(dict.fromkeys(sample, 1))) is not None:
        odd, has_comma = found
        got = (
            f"It has numbers that are stored as text, such as {sample[0]!r}: store them as numbers."
        )
        if odd:
            comma = " with a decimal comma (--decimal ,)" if has_comma else ""
            got = f"Nearly all cells are numbers{comma}, but not {shorten(odd, 3)}.\n"
            got += "Correct these cells, or leave them empty."
        elif has_comma:
            got = f"Its cells look like numbers with a decimal comma, such as {sample[0]!r}: "
            got += "pass decimal=',' (--decimal ,)."
        raise InvalidData(f"Column {name!r} of {source} must be numbers or categories. {got}")
    raise InvalidData(
        f"Column {name!r} of {source} must be numbers or a few categories. It is text with "
        f"{len(values)} distinct values in {n_known} rows, such as {shorten(values[0])}.\n"
        f"Leave it out: {_ignoring(name)}. Or use its words as features: text=[{name!r}] (--text "
        f"{shlex.quote(name)}), or its {MOST_CATEGORIES} most frequent values as categories: "
        f"categorical=[{name!r}] (--categorical {shlex.quote(name)})."
    )
