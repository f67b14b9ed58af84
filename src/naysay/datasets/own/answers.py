"""Turn the cells of a file into answers: examples, classes and annotators become indices here.

Nothing loops over rows in Python, so that a million rows take well under a second.
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

__all__ = ["Answers", "check_rows_agree", "class_indices", "gather_answers", "sort_names"]

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Answers as parallel arrays of indices, with the rows that the examples come from."""

    classes: tuple[str, ...]
    example: Indices  # (m,) the example of each answer, in ascending order
    label: Indices  # (m,) the class that each answer excludes
    annotator: Indices | None  # (m,) the annotator of each answer, -1 where unknown
    annotators: tuple[str, ...]
    true_labels: Indices  # (n,) the true class of each example, -1 where unknown
    row: Indices  # (n,) the first row of each example
    example_of_row: Indices  # (rows,) the example of each row, -1 where it was dropped
    n_dropped: int  # examples without an answer and without a true class


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
    """Turn cells into answers, and drop examples with neither an answer nor a true class.

    Parameters
    ----------
    label : pyarrow array
        One text per row with null for an empty cell, or a list of texts per row.
    true_label, annotator, example_id : pyarrow array, optional
        One text per row with null for an empty cell.
    classes : sequence of str, optional
        All classes in order. By default, the classes are the names in the cells, sorted.
    separator : str or None
        Text that separates several labels in a cell.
    source : str
        Name of the file in error messages.
    """
    n_rows = len(label)
    group, first_row = _group_rows(example_id, n_rows, source)
    row, codes, label_names = _split_labels(label, separator)
    _check_label_lengths(row, codes, label_names, source)
    if not len(row):
        raise InvalidLabels(
            f"{source} must have complementary labels. The label is empty in every row: check "
            "that label= (--label) names the right column."
        )
    true_codes, true_names = np.full(n_rows, -1), []
    if true_label is not None:
        true_codes, true_names = codes_of(true_label)
    names = _class_names(classes, label_names, true_names, source)
    excluded = class_indices(codes, label_names, names, "label", source)
    true_rows = class_indices(true_codes, true_names, names, "true_label", source)
    true_labels = _true_label_of_examples(true_rows, group, len(first_row), names, source)

    is_labelled = np.zeros(len(first_row), dtype=bool)
    is_labelled[group[row]] = True
    is_kept = is_labelled | (true_labels >= 0)
    renumbered = np.where(is_kept, np.cumsum(is_kept) - 1, -1)
    example = renumbered[group[row]]
    order = np.argsort(example, kind="stable")
    annotator_indices, annotators = None, ()
    if annotator is not None:
        annotator_codes, annotator_names = codes_of(annotator)
        annotators = sort_names(set(annotator_names))
        of_row = class_indices(annotator_codes, annotator_names, annotators, "annotator", source)
        annotator_indices = of_row[row[order]]
    return Answers(
        classes=names,
        example=example[order],
        label=excluded[order],
        annotator=annotator_indices,
        annotators=annotators,
        true_labels=true_labels[is_kept],
        row=first_row[is_kept],
        example_of_row=renumbered[group],
        n_dropped=int((~is_kept).sum()),
    )


def _group_rows(example_id: pa.Array | None, n_rows: int, source: str) -> tuple[Indices, Indices]:
    """Find the example of each row, and the first row of each example."""
    if example_id is None:
        return np.arange(n_rows), np.arange(n_rows)
    group, names = codes_of(example_id)
    if (group < 0).any():
        raise InvalidData(
            f"Every row of {source} must identify its example. The example id or image path in "
            f"data row {int(np.argmax(group < 0)) + 1} is empty: fill it in, or remove the row."
        )
    first_row = np.empty(len(names), dtype=np.int64)
    # In reversed order, the first row of an example is written last and stays.
    first_row[group[::-1]] = np.arange(n_rows)[::-1]
    return group, first_row


def _split_labels(label: pa.Array, separator: str | None) -> tuple[Indices, Indices, list[str]]:
    """Split cells into labels: the row and the code of each label, and the distinct names."""
    if pa.types.is_list(label.type) or pa.types.is_large_list(label.type):
        row, text = pc.list_parent_indices(label), pc.list_flatten(label)
    elif separator is None:
        row, text = pa.array(np.arange(len(label))), label
    else:
        if not separator.strip():
            raise InvalidInput(
                f"separator must contain visible characters, such as '|'. Got {separator!r}."
            )
        parts = pc.split_pattern(label, separator)
        row, text = pc.list_parent_indices(parts), pc.list_flatten(parts)
    text = pc.utf8_trim_whitespace(pc.cast(text, pa.large_string()))
    is_filled = pc.fill_null(pc.not_equal(text, ""), False)
    codes, names = codes_of(text.filter(is_filled))
    return row.filter(is_filled).to_numpy(zero_copy_only=False).astype(np.int64), codes, names


def _check_label_lengths(row: Indices, codes: Indices, names: list[str], source: str) -> None:
    for code, name in enumerate(names):
        if len(name) > LONGEST_NAME:
            raise InvalidLabels(
                f"A label of {source} must have at most {LONGEST_NAME} characters. The label "
                f"{shorten(name)} in data row {int(row[np.argmax(codes == code)]) + 1} has "
                f"{len(name)}.\nCheck that it is the right column."
            )


def _class_names(
    classes: Sequence[str] | None, labels: list[str], true_labels: list[str], source: str
) -> tuple[str, ...]:
    """Check the class names that are given, or collect them from the cells."""
    if isinstance(classes, str):
        raise InvalidInput(f"classes must be a list of names. Got the text {shorten(classes)}.")
    if classes is None:
        names = sort_names({*labels, *true_labels})
    else:
        names = tuple(map(str, classes))
        if not all(name.strip() for name in names):
            raise InvalidInput(f"classes must not contain empty names. Got {shorten(names)}.")
        if len(set(names)) != len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise InvalidInput(
                f"classes must be distinct names. Got {repeated!r} {names.count(repeated)} times."
            )
    if len(names) < 2:
        raise InvalidLabels(
            f"There must be at least 2 classes. {source} names only {shorten(names)}.\n"
            "If there are classes that no label names, list all classes in classes= (--classes)."
        )
    return names


def sort_names(names: set[str]) -> tuple[str, ...]:
    """Sort names alphabetically, or by value if all are integers, so that 10 follows 9."""
    if all(re.fullmatch(r"-?[0-9]{1,18}", name) for name in names):
        return tuple(sorted(names, key=lambda name: (int(name), name)))
    return tuple(sorted(names))


def class_indices(
    codes: Indices, found: Sequence[str], names: Sequence[str], role: str, source: str
) -> Indices:
    """Convert codes, positions in the list `found`, to positions in the list `names`.

    The code -1 of an empty cell stays -1.
    """
    index_of = {name: index for index, name in enumerate(names)}
    unknown = [name for name in found if name not in index_of]
    if unknown:
        raise InvalidLabels(
            f"The {role} column of {source} must only contain the classes {shorten(names)}. "
            f"It also contains {shorten(unknown)}.\nCorrect these labels, or add the classes "
            "where the list comes from: classes= (--classes), the matrix, or the training data."
        )
    table = np.array([*(index_of[name] for name in found), -1], dtype=np.int64)
    return table[codes]  # the code -1 selects the last entry


def _true_label_of_examples(
    true_rows: Indices, group: Indices, n_examples: int, names: tuple[str, ...], source: str
) -> Indices:
    true_labels = np.full(n_examples, -1)
    known = np.flatnonzero(true_rows >= 0)
    true_labels[group[known]] = true_rows[known]
    differing = known[true_labels[group[known]] != true_rows[known]]
    if len(differing):
        row = int(differing[0])
        other = names[true_labels[group[row]]]
        raise InvalidData(
            f"Each example of {source} must have one true class. Data row {row + 1} has the true "
            f"class {names[true_rows[row]]!r}, and another row of the same example has {other!r}.\n"
            "Correct one of them, or check that example_id= (--id) names the right column."
        )
    return true_labels


def check_rows_agree(column: pa.ChunkedArray, name: str, answers: Answers, source: str) -> None:
    """Check that all rows of an example have the same value in a column."""
    codes, _ = codes_of(to_array(column))
    rows = np.flatnonzero(answers.example_of_row >= 0)
    first = answers.row[answers.example_of_row[rows]]
    differ = codes[rows] != codes[first]
    if differ.any():
        position = int(np.argmax(differ))
        raise InvalidData(
            f"Rows of the same example must have the same features. In {source}, column {name!r} "
            f"differs between data rows {first[position] + 1} and {rows[position] + 1}.\n"
            "Check that example_id= (--id) names the right column. Without it, each row is an "
            "example."
        )
