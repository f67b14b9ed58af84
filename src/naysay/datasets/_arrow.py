"""Columns of a pyarrow table as what the readers need: text, numbers, codes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData

__all__ = ["LONGEST_NAME", "codes_of", "is_text", "pc", "to_array", "to_numbers", "to_text"]

pc: Any = pyarrow.compute  # its functions are made at import time, where type checkers see none

LONGEST_NAME = 200  # characters of a class, annotator or category; longer is a damaged file


def is_text(kind: pa.DataType) -> bool:
    """Answer whether a column of this type holds text."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def to_text(
    column: pa.ChunkedArray,
    name: str,
    source: str,
    *,
    longest: int = LONGEST_NAME,
    advice: str = "Is it the right column?",
) -> pa.Array:
    """Return the cells as trimmed text in one array; empty cells are null.

    Whole numbers are written without a decimal point: a column of integers with gaps, which
    pandas stores as floats, still gives ``7`` and not ``7.0``.
    """
    plain = to_array(column)
    kind = plain.type
    if pa.types.is_floating(kind):
        plain = _whole_numbers(plain)
    try:
        text = pc.utf8_trim_whitespace(pc.cast(plain, pa.large_string()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidData(
            f"Column {name!r} of {source} must hold text or numbers. It holds {kind}."
        ) from None
    length = pc.utf8_length(text)
    found = pc.max(length).as_py() or 0
    if found > longest:
        row = pc.index(length, found).as_py() + 1
        raise InvalidData(
            f"Column {name!r} of {source} must hold at most {longest} characters per cell. "
            f"Data row {row} holds {found}.\n{advice}"
        )
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.large_string()), text)


def to_numbers(column: pa.ChunkedArray, name: str, source: str) -> NDArray[np.float64]:
    """Return the cells as float64, NaN where a cell is missing."""
    plain = to_array(column)
    try:
        if pa.types.is_boolean(plain.type):
            plain = pc.cast(plain, pa.uint8())
        numbers = pc.cast(plain, pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = " If it has numbers like 1,5 pass decimal=',' (--decimal ,)."
        raise InvalidData(
            f"Column {name!r} of {source} must hold numbers. It holds {plain.type}: "
            f"{shorten(str(error))}.{hint if is_text(plain.type) else ''}"
        ) from None
    return numbers.to_numpy(zero_copy_only=False)


def codes_of(text: pa.Array) -> tuple[NDArray[np.int64], list[str]]:
    """Return each cell's position among the distinct values (-1: null), and these, first first."""
    encoded = pc.dictionary_encode(text)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, encoded.dictionary.to_pylist()


def to_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array that is no dictionary."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    if is_text(column.type):
        column = pc.cast(column, pa.large_string())  # more than 2 GB of text fits in one array
    joined = column.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _whole_numbers(numbers: pa.Array) -> pa.Array:
    numbers = pc.if_else(pc.is_nan(numbers), pa.scalar(None, numbers.type), numbers)
    try:
        return pc.cast(numbers, pa.int64())
    except pa.ArrowInvalid:
        return numbers
