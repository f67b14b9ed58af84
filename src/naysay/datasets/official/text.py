"""Read tables of numbers in text files, one example per line: USPS and the UCI data sets."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import named, shorten
from naysay._base.errors import InvalidData
from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    SourceFile,
    Split,
    read_checked,
)

__all__ = ["TextLayout", "read_tables", "values_checksum"]

_MOST_BYTES = 1 << 28  # ten times the largest of these files


@dataclass(frozen=True)
class TextLayout:
    """Layout of the lines of a table.

    Parameters
    ----------
    n_features : int
    labels : tuple of float, or str
        The label of each class as it is written in the file: numbers, or one letter per class.
    label_first : bool, default=False
        Whether the label is the first cell of the line; otherwise it is the last.
    delimiter : str, optional
        Text between the cells. The default is white space.
    image : tuple of int, optional
        Shape of an example that is an image. Images are returned as float32.
    """

    n_features: int
    labels: tuple[float, ...] | str
    label_first: bool = False
    delimiter: str | None = None
    image: tuple[int, ...] | None = None


def read_tables(entry: Entry, files: Sequence[FoundFile], *, layout: TextLayout) -> Contents:
    """Read the training table and, where there is one, the test table.

    Returns
    -------
    Contents
        Tables float64 (n_samples, n_features), images float32 (n_samples, *image).
    """
    parts = [_read_table(entry, file, layout) for file in files]
    splits = [split for split, _ in parts]
    test = splits[1] if len(splits) > 1 else None
    return Contents(splits[0], test, tuple(record for _, record in parts), entry.classes)


def _read_table(entry: Entry, file: FoundFile, layout: TextLayout) -> tuple[Split, SourceFile]:
    content, record = read_checked(file, at_most=_MOST_BYTES)
    table = _parse(file, _decode(file, content), layout)
    X, y = _separate(file, table, layout)
    _check_counts(entry, file, y)
    published = file.official.values_sha256
    if published is not None:
        if values_checksum(X, y) != published:
            raise file.invalid(
                "must hold the published values", "At least one of its numbers was altered"
            )
        record = replace(record, checked="values")
    if layout.image is not None:
        X = X.astype(np.float32).reshape(-1, *layout.image)
    return Split(X, y), record


def values_checksum(X: NDArray[Any], y: NDArray[Any]) -> str:
    """Compute a checksum of the numbers of a table that does not depend on their spacing."""
    digest = hashlib.sha256()
    digest.update(np.ascontiguousarray(X + 0.0, dtype="<f8").tobytes())  # + 0.0 removes minus zero
    digest.update(np.ascontiguousarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()


def _decode(file: FoundFile, content: bytes) -> list[str]:
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise file.invalid(
            "must be plain text in ASCII",
            f"Byte {error.start:,} is 0x{content[error.start]:02x}",
        ) from None
    lines = [line for line in text.splitlines() if not line.isspace() and line]
    if not lines:
        raise file.invalid("must hold a table of numbers", "It holds no line with a number")
    return lines


def _parse(file: FoundFile, lines: list[str], layout: TextLayout) -> NDArray[np.float64]:
    converters: dict[int | str, Callable[[str], float]] | None = None
    if isinstance(layout.labels, str):
        number_of = {letter: float(index) for index, letter in enumerate(layout.labels)}
        converters = {0 if layout.label_first else layout.n_features: number_of.__getitem__}
    try:
        table = np.loadtxt(
            lines, delimiter=layout.delimiter, comments=None, converters=converters, ndmin=2
        )
    except (ValueError, KeyError):
        raise _explain(file, lines, layout) from None
    if table.shape[1] != layout.n_features + 1 or not np.isfinite(table).all():
        raise _explain(file, lines, layout)
    return table


def _explain(file: FoundFile, lines: list[str], layout: TextLayout) -> InvalidData:
    """Find the first line and cell that are wrong, and make the error that names them."""
    width = layout.n_features + 1
    label_column = 0 if layout.label_first else width - 1
    for number, line in enumerate(lines, start=1):
        cells = line.split(layout.delimiter)
        if len(cells) != width:
            return file.invalid(
                f"must have {width} cells in every line", f"Line {number} has {len(cells)}"
            )
        for column, cell in enumerate(cells):
            if column == label_column and isinstance(layout.labels, str):
                good = len(cell) == 1 and cell in layout.labels
            else:
                good = _is_finite_number(cell)
            if not good:
                what = "label" if column == label_column else "number"
                return file.invalid(
                    f"must have a {what} in cell {column + 1} of line {number}",
                    f"Got {shorten(cell)}",
                )
    # Python parses some numbers that numpy does not, such as 1_000.
    return file.invalid("must be a table of plain numbers", "It holds something else")


def _is_finite_number(cell: str) -> bool:
    try:
        return bool(np.isfinite(float(cell)))
    except ValueError:
        return False


def _separate(
    file: FoundFile, table: NDArray[np.float64], layout: TextLayout
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    label_column = 0 if layout.label_first else layout.n_features
    written = table[:, label_column]
    if isinstance(layout.labels, str):
        y = written.astype(np.int64)  # letters were converted to indices
    else:
        labels = np.asarray(layout.labels, dtype=np.float64)
        y = np.minimum(np.searchsorted(labels, written), len(labels) - 1)
        wrong = labels[y] != written
        if wrong.any():
            line = int(np.argmax(wrong))
            raise file.invalid(
                f"must have labels {shorten(tuple(f'{label:g}' for label in labels), 12)}",
                f"Line {line + 1} has {written[line]:g}",
            )
    X = np.ascontiguousarray(np.delete(table, label_column, axis=1))
    return X, y.astype(np.int64)


def _check_counts(entry: Entry, file: FoundFile, y: NDArray[np.int64]) -> None:
    expected = np.asarray(file.official.per_class)
    counts = np.bincount(y, minlength=entry.n_classes)
    wrong = counts != expected
    if wrong.any():
        label = int(np.argmax(wrong))
        raise file.invalid(
            f"must hold {int(expected.sum()):,} examples, {expected[label]:,} of class "
            f"{named(label, entry.classes)}",
            f"It holds {len(y):,}, {counts[label]:,} of that class",
        )
