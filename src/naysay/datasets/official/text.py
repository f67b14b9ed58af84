"""Read tables of numbers in text files, one example per line: USPS and the UCI data sets."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import named, shorten
from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    SourceFile,
    Split,
    read_text,
)


@dataclass(frozen=True)
class TextLayout:
    """Layout of the lines of a table."""

    n_features: int
    labels: tuple[float, ...] | str  # of each class as written: ascending numbers, or letters
    label_column: int = -1  # the label is the last cell of a line
    delimiter: str | None = None  # the default is white space
    image: tuple[int, ...] | None = None  # shape of an image, which is then returned as float32


def read_tables(entry: Entry, files: Sequence[FoundFile], *, layout: TextLayout) -> Contents:
    """Read the training table and, if there is one, the test table, as float64 (float32 images)."""
    parts = [_read_table(entry, file, layout) for file in files]
    test = parts[1][0] if len(parts) > 1 else None
    return Contents(parts[0][0], test, tuple(record for _, record in parts), entry.classes)


def _read_table(entry: Entry, file: FoundFile, layout: TextLayout) -> tuple[Split, SourceFile]:
    content, record = read_text(file, encoding="ASCII")
    lines = [line for line in content.splitlines() if line.strip()]
    if not lines:
        raise file.invalid("must contain a table of numbers", "It has no line with a number")
    X, y = _parse(file, lines, layout)
    expected, counts = file.official.per_class, np.bincount(y, minlength=entry.n_classes)
    wrong = np.flatnonzero(counts != expected)
    if len(wrong):
        label = int(wrong[0])
        raise file.invalid(
            f"must contain {sum(expected):,} examples, {expected[label]:,} of class "
            f"{named(label, entry.classes)}",
            f"It has {len(y):,}, {counts[label]:,} of that class",
        )
    published = file.official.values_sha256
    if published is not None:
        if values_checksum(X, y) != published:
            raise file.invalid(
                "must contain the published values", "At least one of its numbers was altered"
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


def _parse(
    file: FoundFile, lines: list[str], layout: TextLayout
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    labels = layout.labels
    converters: dict[int | str, Callable[[str], float]] | None = None
    if isinstance(labels, str):  # letters are converted to the indices of the classes
        index_of = {letter: float(index) for index, letter in enumerate(labels)}
        converters = {layout.label_column: index_of.__getitem__}
        labels = tuple(index_of.values())
    try:
        table = np.loadtxt(
            lines, delimiter=layout.delimiter, comments=None, converters=converters, ndmin=2
        )
    except (ValueError, KeyError) as error:
        raise file.invalid(
            "must be a table of numbers, as published",
            f"Its {len(lines):,} lines cannot be read: {shorten(str(error))}",
        ) from None
    if table.shape[1] != layout.n_features + 1 or not np.isfinite(table).all():
        raise file.invalid(
            f"must have {layout.n_features + 1} finite numbers in every line",
            f"It has {table.shape[1]}, or some that are not finite",
        )
    written = table[:, layout.label_column]
    y = np.minimum(np.searchsorted(labels, written), len(labels) - 1)
    wrong = np.flatnonzero(np.take(labels, y) != written)
    if len(wrong):
        raise file.invalid(
            f"must have labels {shorten(tuple(f'{label:g}' for label in labels), 12)}",
            f"Line {wrong[0] + 1} has {written[wrong[0]]:g}",
        )
    X = np.ascontiguousarray(np.delete(table, layout.label_column, axis=1))
    return X, y.astype(np.int64)
