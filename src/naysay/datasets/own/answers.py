"""From the cells of a file to observations: one row per answer, examples and classes as indices.

All of it is array work, without a loop over rows: a million rows take well under a second.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels
from naysay.datasets.own.tables import LONGEST_NAME, codes_of, pc, to_array

__all__ = ["Answers", "check_same", "class_indices", "gather_answers", "in_order"]

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Observations as parallel indices, and which row of the file each example comes from."""

    classes: tuple[str, ...]
    example: Indices  # (m,) which example each answer is about, in ascending order
    label: Indices  # (m,) the class it excludes
    annotator: Indices | None  # (m,) who gave it; -1: not said
    annotators: tuple[str, ...]
    true_labels: Indices  # (n,) -1: unknown
    row: Indices  # (n,) first row of each example
    example_of_row: Indices  # (rows,) -1: the row was dropped
    n_dropped: int


def gather_answers(
    *,
    label: pa.Array,
    true_label: pa.Array | None = None,
    annotator: pa.Array | None = None,
    example_id: pa.Array | None = None,
    classes: Sequence[str] | None,
    separator: str | None,
    source: str,
) -> Answers:
    """Turn cells into answers; examples without answer and true class are dropped and counted.

    Parameters
    ----------
    label : pyarrow array
        One text per row, null where the cell is empty, or a list of texts where the file stores
        lists.
    true_label, annotator, example_id : pyarrow array, optional
        One text per row, null where the cell is empty.
    classes : sequence of str, optional
        All classes in order; those that the cells name when left out.
    separator : str or None
        What stands between several labels in a cell.
    source : str
        The name that errors give the file.
    """
    n_rows = len(label)
    group, first_row = _group_rows(example_id, n_rows, source)
    row, codes, label_names = _split_labels(label, separator)
    _check_lengths(row, codes, label_names, source)
    if not len(row):
        raise InvalidLabels(f"{source} must have complementary labels. No row has one.")
    true_codes, true_names = np.full(n_rows, -1), []
    if true_label is not None:
        true_codes, true_names = codes_of(true_label)
    names = _name_classes(classes, label_names, true_names, source)
    excluded = class_indices(codes, label_names, names, "label", source)
    true_rows = class_indices(true_codes, true_names, names, "true_label", source)
    true_labels = _one_true_label(true_rows, group, len(first_row), names, source)

    answered = np.zeros(len(first_row), dtype=bool)
    answered[group[row]] = True
    kept = answered | (true_labels >= 0)
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
    example = renumbered[group[row]]
    order = np.argsort(example, kind="stable")
    who, annotators = None, ()
    if annotator is not None:
        who_codes, who_names = codes_of(annotator)
        annotators = in_order(set(who_names))
        who = class_indices(who_codes, who_names, annotators, "annotator", source)[row[order]]
    return Answers(
        classes=names,
        example=example[order],
        label=excluded[order],
        annotator=who,
        annotators=annotators,
        true_labels=true_labels[kept],
        row=first_row[kept],
        example_of_row=renumbered[group],
        n_dropped=int((~kept).sum()),
    )


def _group_rows(example: pa.Array | None, n_rows: int, source: str) -> tuple[Indices, Indices]:
    """Return each row's example, and each example's first row."""
    if example is None:
        return np.arange(n_rows), np.arange(n_rows)
    group, names = codes_of(example)
    if (group < 0).any():
        raise InvalidData(
            f"Every row of {source} must say which example it is about. Data row "
            f"{int(np.argmax(group < 0)) + 1} has an empty example_id."
        )
    first_row = np.empty(len(names), dtype=np.int64)
    first_row[group[::-1]] = np.arange(n_rows)[::-1]  # the last one written is the first row
    return group, first_row


def _split_labels(label: pa.Array, separator: str | None) -> tuple[Indices, Indices, list[str]]:
    """Return for each answer its row and its position among the distinct names, and these."""
    if pa.types.is_list(label.type) or pa.types.is_large_list(label.type):
        row, text = pc.list_parent_indices(label), pc.list_flatten(label)
    elif separator is None:
        row, text = pa.array(np.arange(len(label))), label
    else:
        if not separator.strip():
            raise InvalidInput(f"separator must be visible text, such as '|'. Got {separator!r}.")
        parts = pc.split_pattern(label, separator)
        row, text = pc.list_parent_indices(parts), pc.list_flatten(parts)
    text = pc.utf8_trim_whitespace(pc.cast(text, pa.large_string()))
    filled = pc.fill_null(pc.not_equal(text, ""), False)
    codes, names = codes_of(text.filter(filled))
    return row.filter(filled).to_numpy(zero_copy_only=False).astype(np.int64), codes, names


def _check_lengths(row: Indices, label: Indices, names: list[str], source: str) -> None:
    for index, name in enumerate(names):
        if len(name) > LONGEST_NAME:
            at = int(row[np.argmax(label == index)]) + 1
            raise InvalidLabels(
                f"A label of {source} must have at most {LONGEST_NAME} characters. Data row {at} "
                f"holds {shorten(name)} of {len(name)}.\nIs it the right column?"
            )


def _name_classes(
    classes: Sequence[str] | None, labels: list[str], true_labels: list[str], source: str
) -> tuple[str, ...]:
    if isinstance(classes, str):
        raise InvalidInput(f"classes must be a list of names. Got the text {shorten(classes)}.")
    if classes is None:
        names = in_order({*labels, *true_labels})
    else:
        names = tuple(map(str, classes))
        if not all(name.strip() for name in names):
            raise InvalidInput(f"classes must not have empty names. Got {shorten(names)}.")
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(f"classes must differ from each other; {twice!r} is twice.")
    if len(names) < 2:
        raise InvalidLabels(
            f"There must be at least 2 classes. {source} names only {shorten(names)}.\n"
            "If there are classes that no label names, list all of them in classes= (--classes)."
        )
    return names


def in_order(names: set[str]) -> tuple[str, ...]:
    """Sort names; whole numbers by value, so that 10 comes after 9."""
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def class_indices(
    codes: Indices, found: Sequence[str], names: Sequence[str], role: str, source: str
) -> Indices:
    """Translate positions among the names found into class indices; -1 stays -1."""
    index_of = {name: index for index, name in enumerate(names)}
    unknown = [name for name in found if name not in index_of]
    if unknown:
        raise InvalidLabels(
            f"The {role} column of {source} must name the classes {shorten(names)}. "
            f"It also names {shorten(unknown)}.\nMend the labels, or add these where the classes "
            "come from: classes= (--classes), the matrix, or the data that the model learned from."
        )
    table = np.array([*(index_of[name] for name in found), -1], dtype=np.int64)
    return table[codes]  # the last entry answers for -1


def _one_true_label(
    true_rows: Indices, group: Indices, n_examples: int, names: tuple[str, ...], source: str
) -> Indices:
    true_labels = np.full(n_examples, -1)
    known = np.flatnonzero(true_rows >= 0)
    true_labels[group[known]] = true_rows[known]
    other = known[true_labels[group[known]] != true_rows[known]]
    if len(other):
        here = int(other[0])
        also = names[true_labels[group[here]]]
        raise InvalidData(
            f"An example of {source} must have one true class. Data row {here + 1} says "
            f"{names[true_rows[here]]!r}, another row of the same example {also!r}."
        )
    return true_labels


def check_same(column: pa.ChunkedArray, name: str, answers: Answers, source: str) -> None:
    """All rows of one example must agree in a column."""
    codes, _ = codes_of(to_array(column))
    rows = np.flatnonzero(answers.example_of_row >= 0)
    first = answers.row[answers.example_of_row[rows]]
    differ = codes[rows] != codes[first]
    if differ.any():
        at = int(np.argmax(differ))
        raise InvalidData(
            f"Rows of one example must agree in their features. In {source}, column {name!r} "
            f"differs between data rows {first[at] + 1} and {rows[at] + 1}.\n"
            "Is example_id the right column? Without it, each row is an example of its own."
        )
