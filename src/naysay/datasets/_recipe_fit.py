"""Learn a recipe from the first table: which columns are numbers, which categories, what fills."""

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData
from naysay.datasets._arrow import is_text
from naysay.datasets._preprocess import (
    CategoricalColumn,
    NumericColumn,
    Recipe,
    categories_of,
    finite_numbers,
)
from naysay.datasets.tables import find_column

__all__ = ["find_odd_cells", "fit_recipe"]

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
