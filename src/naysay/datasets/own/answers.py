"""Turn the cells of a table into answers: indices of examples, classes and annotators.

Names are compared once for each distinct cell, and rows become answers some at a time. Nothing
loops over rows in Python, so that a million rows take well under a second.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.answers import CHOSEN, check_has_acceptances, read_accepted
from naysay._base.checks import shorten
from naysay._base.choices import Choices
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels
from naysay._base.mapped import (
    Growing,
    argsort,
    compute,
    count_up,
    count_values,
    find_rows,
    is_sorted,
    parts_of,
    places_of,
    take,
)
from naysay.datasets.own.columns import LONGEST_NAME, Encoded, codes_of, encode, is_list, pc
from naysay.datasets.own.data import class_indices, class_names, is_start, match_case, sort_names

Indices = NDArray[np.int64]


def gather_answers(
    *,
    label: pa.Array | Encoded | None = None,
    suggested: pa.Array | Encoded | None = None,
    accepted: pa.Array | Encoded | None = None,
    true_label: pa.Array | Encoded | None = None,
    annotator: pa.Array | Encoded | None = None,
    offered: pa.Array | Encoded | None = None,
    example_id: pa.Array | None = None,
    classes: Sequence[str] | None,
    separator: str | None,
    ignore_case: bool = False,
    needs_acceptances: bool = True,
    source: str,
    most_bytes: float = math.inf,
) -> tuple[Indices, Indices | None, dict[str, Any]]:
    """Turn cells into answers, and drop examples with neither an answer nor a true class.

    A cell is text or null; a cell of `label` or `offered` may also be a list of texts. Either
    `label` or both `suggested` and `accepted` are given, or all of them. With `needs_acceptances`,
    suggestions that were all rejected are an error. The result is the first row of each example,
    the example of each row (-1 if it is dropped; None if no example has several rows), and the
    fields of `OwnData` for the answers.

    Arrays are in temporary files if the codes of the cells are, and those of answers if they take
    more than their share of `most_bytes`.
    """
    if (suggested is None) != (accepted is None):
        raise InvalidInput(
            "suggested (--suggested) and accepted (--accepted) must be given together: the "
            "column of the class that was suggested, and that of the answer."
        )
    given = {"label": label, "offered": offered, "suggested": suggested, "true_label": true_label}
    cells = {role: encode(each) for role, each in given.items() if each is not None}
    like = next(iter(cells.values())).codes
    group, first_row = _group_rows(example_id, like, source)
    several = {
        role: _Labels(cells[role], separator, source)
        for role in ("label", "offered")
        if role in cells
    }
    named = {
        role: several[role].names if role in several else each.values.to_pylist()
        for role, each in cells.items()
    }
    if suggested is None and not named["label"]:
        raise InvalidLabels(
            f"{source} must have complementary labels. The label is empty in every row: check "
            "that label= (--label) names the right column."
        )
    said = asked = None
    if accepted is not None:
        said, asked = _read_accepted(cells["suggested"], encode(accepted), source)
        if needs_acceptances:
            check_has_acceptances(said, source)
    if ignore_case:
        counts = Counter[str]()
        if label is not None:
            counts.update(dict(zip(named["label"], several["label"].count(), strict=True)))
        if asked is not None:
            n_asked = count_values(asked, len(named["suggested"]), least=-1)[1:].tolist()
            counts.update(dict(zip(named["suggested"], n_asked, strict=True)))
        spellings = sorted(set(chain(*named.values())), key=lambda name: (-counts[name], name))
        chosen = spellings if classes is None else list(map(str, classes))
        named = {role: match_case(each, chosen) for role, each in named.items()}
    labels = [name for role in ("label", "suggested", "offered") for name in named.get(role, ())]
    names = class_names(classes, labels, named.get("true_label", []), source)
    class_of = {role: _indices(each, names, role, source) for role, each in named.items()}

    grown = [Growing(kind, most_bytes=most_bytes) for kind in (np.int64, np.int64, np.int8)]
    for rows in parts_of(len(like)):  # each answer has a row, a class, and yes or no to it
        parts: list[NDArray[Any]] = [np.zeros((3, 0), np.int64)]
        if label is not None:
            row, codes = several["label"].of(rows)
            parts.append(np.stack([row, class_of["label"][codes], np.full(len(row), CHOSEN)]))
        if said is not None and asked is not None:
            row = np.flatnonzero(asked[rows] >= 0)
            about = class_of["suggested"][asked[rows][row]]
            parts.append(np.stack([row, about, said[rows][row]]))
        found = np.concatenate(parts, axis=1)
        found = found[:, np.argsort(found[0], kind="stable")]
        found[0] += rows.start
        for each, part in zip(grown, found, strict=True):
            each.append(part)
    row, of_class, answer = (each.array for each in grown)
    lists = None
    if offered is not None:
        lists = several["offered"].choices(class_of["offered"])
        _check_offered(lists, row, of_class, answer, source)

    true_labels = compute(like, len(first_row), np.int64, lambda _: -1)
    if true_label is not None:
        codes = cells["true_label"].codes
        _write_true_labels(true_labels, codes, class_of["true_label"], group, names, source)
    is_kept = compute(like, len(first_row), bool, lambda part: true_labels[part] >= 0)
    for part in parts_of(len(row)):
        is_kept[group[row[part]]] = True
    kept = find_rows(is_kept, len(is_kept), is_kept.__getitem__)
    example_of_row, has_several = group, len(first_row) < len(like)
    if len(kept) < len(first_row):
        number = places_of(kept, len(first_row))
        example_of_row = take(number, group)
        first_row, true_labels = take(first_row, kept), take(true_labels, kept)
    example = take(example_of_row, row)
    if not is_sorted(example):
        order = argsort(example)
        example, row, of_class, answer = (
            take(each, order) for each in (example, row, of_class, answer)
        )
    annotators, annotator_of_answer = (), None
    if annotator is not None:
        who, everyone = codes_of(annotator)
        annotators = sort_names(set(everyone))
        index_of = _indices(everyone, annotators, "annotator", source)
        annotator_of_answer = compute(
            row, len(row), np.int64, lambda part: index_of[who[row[part]]]
        )
    if lists is not None:
        of_row = lists.codes
        listed = compute(
            row,
            len(row),
            np.int32,
            lambda part: np.where(answer[part] == CHOSEN, of_row[row[part]], -1),
        )
        lists = Choices(listed, lists.lists)
    fields = {
        "classes": names,
        "example": example,
        "label": of_class,
        "annotator": annotator_of_answer,
        "annotators": annotators,
        "answer_row": row,
        "true_labels": true_labels,
        "n_dropped": len(is_kept) - len(kept),
        "accepted": None if said is None else answer,
        "offered": lists,
    }
    return first_row, example_of_row if has_several else None, fields


def _group_rows(
    example_id: pa.Array | None, like: NDArray[Any], source: str
) -> tuple[Indices, Indices]:
    """Find the example of each row, and the first row of each example.

    Rows are sorted by a hash of their id, so that those of the same example are neighbours.
    """
    n_rows = len(like)
    every = count_up(like, n_rows)
    if example_id is None:
        return every, every
    if example_id.null_count:
        raise InvalidData(
            f"Every row of {source} must identify its example. The example id or image path in "
            f"data row {pc.index(example_id.is_null(), True).as_py() + 1} is empty: fill it in, or "
            "remove the row."
        )

    def hashes_of(rows: slice) -> NDArray[np.int64]:
        texts = example_id[rows.start : rows.stop].to_numpy(zero_copy_only=False)
        return np.fromiter(map(hash, texts), np.int64, len(texts)) >> n_rows.bit_length()

    hashes = compute(like, n_rows, np.int64, hashes_of)
    order = argsort(hashes)
    hashes = take(hashes, order)
    first = compute(like, n_rows, np.int64, lambda _: 0)  # row of the same example
    others, last = dict[str, int](), np.zeros(1, np.int64)
    for part in parts_of(n_rows):
        rows, is_new = order[part], is_start(hashes, part)
        found = np.append(last, rows[is_new])[np.cumsum(is_new)]
        last, again = found[-1:].copy(), np.flatnonzero(~is_new)
        ids, expected = (example_id.take(pa.array(each[again])) for each in (rows, found))
        for place in again[np.asarray(pc.not_equal(ids, expected))]:  # ids with the same hash
            row = int(rows[place])
            found[place] = others.setdefault(example_id[row].as_py(), row)
        first[rows] = found
    first_row = find_rows(
        first, n_rows, lambda part: first[part] == np.arange(part.start, part.stop)
    )
    if len(first_row) == n_rows:
        return every, every
    return take(places_of(first_row, n_rows), first), first_row


class _Labels:
    """The labels of cells, of which each may have several.

    Distinct cell c has ``codes[starts[c]:starts[c + 1]]``, which are positions in ``names``.
    """

    def __init__(self, cells: Encoded, separator: str | None, source: str) -> None:
        values = cells.values
        if not is_list(values.type) and separator is not None:
            if not separator.strip():
                raise InvalidInput(
                    f"separator must contain visible characters, such as '|'. Got {separator!r}."
                )
            values = pc.split_pattern(values, separator)
        if is_list(values.type):
            cell, text = pc.list_parent_indices(values), pc.list_flatten(values)
        else:
            cell, text = pa.array(np.arange(len(values))), values
        text = pc.utf8_trim_whitespace(pc.cast(text, pa.large_string()))
        is_filled = pc.fill_null(pc.not_equal(text, ""), False)
        of_label = cell.filter(is_filled).to_numpy(zero_copy_only=False).astype(np.int64)
        self.cells = cells.codes
        self.starts = np.searchsorted(of_label, np.arange(len(values) + 1))
        self.codes, self.names = codes_of(text.filter(is_filled))
        for code, name in enumerate(self.names):
            if len(name) > LONGEST_NAME:
                first = of_label[np.argmax(self.codes == code)]
                row = np.flatnonzero(self.cells == first)[0]
                raise InvalidLabels(
                    f"A label of {source} must have at most {LONGEST_NAME} characters. The label "
                    f"{shorten(name)} in data row {row + 1} has {len(name)}.\n"
                    "Check that it is the right column."
                )

    def of(self, rows: slice) -> tuple[Indices, Indices]:
        """Find the row, counted from the first of these, and the code of each label."""
        cells = self.cells[rows]
        n_labels = np.append(np.diff(self.starts), 0)[cells]  # an empty cell has the number -1
        row = np.repeat(np.arange(len(cells)), n_labels)
        place = self.starts[cells[row]]
        if n_labels.max(initial=0) > 1:
            place += np.arange(len(row)) - np.repeat(np.cumsum(n_labels) - n_labels, n_labels)
        return row, self.codes[place]

    def count(self) -> list[int]:
        """Count the labels with each code."""
        n_cells = len(self.starts) - 1
        n_rows = np.repeat(count_values(self.cells, n_cells, least=-1)[1:], np.diff(self.starts))
        return np.bincount(self.codes, n_rows, len(self.names)).astype(np.int64).tolist()

    def choices(self, class_of: Indices) -> Choices:
        """Make the lists of the classes that are offered in each row."""
        classes, starts = class_of[self.codes].tolist(), self.starts.tolist()
        lists = [tuple(classes[start:stop]) for start, stop in pairwise(starts)]
        of_cell = np.where(np.diff(self.starts), np.arange(len(lists)), -1)
        of_cell = np.append(of_cell, -1)
        codes = compute(
            self.cells, len(self.cells), np.int32, lambda part: of_cell[self.cells[part]]
        )
        return Choices(codes, lists)


def _read_accepted(
    suggested: Encoded, accepted: Encoded, source: str
) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Read the answer to the suggestion of each row, and its code; -1 where there is no answer."""
    words, codes = accepted.values.to_pylist(), accepted.codes
    table = np.append(read_accepted(words, name=f"The accepted column of {source}"), CHOSEN)
    said = compute(codes, len(codes), np.int8, lambda rows: table[codes[rows]])
    alone = find_rows(
        said, len(said), lambda rows: (said[rows] != CHOSEN) & (suggested.codes[rows] < 0)
    )
    if len(alone):
        raise InvalidData(
            f"Every answer of {source} must be about a suggestion. Data row {alone[0] + 1} has "
            f"{words[codes[alone[0]]]!r} as accepted, but no suggested class."
        )

    def asked(rows: slice) -> NDArray[np.int64]:
        return np.where(said[rows] != CHOSEN, suggested.codes[rows], -1)

    return said, compute(said, len(said), np.int32, asked)


def _check_offered(
    offered: Choices, row: Indices, label: Indices, answer: NDArray[np.int8], source: str
) -> None:
    """Check that each label is one of at least two classes that were offered."""
    n_listed = np.array([*map(len, offered.lists), 0])
    pairs = {(code, each) for code, listed in enumerate(offered.lists) for each in listed}
    n_classes = 1 + max((each for _, each in pairs), default=0)
    known = np.array(sorted(code * n_classes + each for code, each in pairs), dtype=np.int64)
    for part in parts_of(len(row)):
        codes = offered.codes[row[part]].astype(np.int64)
        is_in = np.isin(codes * n_classes + label[part], known) & (label[part] < n_classes)
        is_wrong = (codes >= 0) & (answer[part] == CHOSEN) & (~is_in | (n_listed[codes] < 2))
        if is_wrong.any():
            place = int(np.argmax(is_wrong))
            raise InvalidData(
                f"A label of {source} must be one of the classes that were offered, at least 2. "
                f"Data row {row[part][place] + 1} has a label that is not among its "
                f"{n_listed[codes[place]]} offered."
            )


def _write_true_labels(
    true_labels: Indices,
    codes: NDArray[Any],
    class_of: Indices,
    group: Indices,
    names: Sequence[str],
    source: str,
) -> None:
    """Write the true class of each example, and check that its rows do not differ."""
    for rows in parts_of(len(codes)):
        known = codes[rows] >= 0
        true_labels[group[rows][known]] = class_of[codes[rows][known]]

    def differs(rows: slice) -> NDArray[np.bool_]:
        return (codes[rows] >= 0) & (true_labels[group[rows]] != class_of[codes[rows]])

    differing = find_rows(codes, len(codes), differs)
    if len(differing):
        row = int(differing[0])
        own, other = int(class_of[codes[row]]), int(true_labels[group[row]])
        raise InvalidData(
            f"Each example of {source} must have one true class. Data row {row + 1} has the true "
            f"class {names[own]!r}, and another row of the same example has {names[other]!r}.\n"
            "Correct one of them, or check that example_id= (--id) names the right column."
        )


def _indices(found: Sequence[str], names: Sequence[str], role: str, source: str) -> Indices:
    """Find the index of each name; the last entry, which the code -1 selects, is -1."""
    return class_indices(np.append(np.arange(len(found)), -1), found, names, role, source)
