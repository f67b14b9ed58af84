"""The user's data as arrays: cells become answers, indices of examples, classes and annotators.

Nothing loops over rows in Python, so that a million rows take well under a second.
"""

import contextlib
import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.answers import CHOSEN, YES, check_has_acceptances, read_accepted
from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels, NaysayError
from naysay._base.mapped import Growing, compute, is_count, parts_of
from naysay.datasets.own.columns import (
    LONGEST_NAME,
    Encoded,
    codes_of,
    encode,
    is_list,
    pc,
    to_array,
)
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import Recipe

Indices = NDArray[np.int64]
_MOST_SHOWN = 300  # characters of a text


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnData:
    """The user's data: n examples with m answers about K classes.

    An answer is one complementary label, the statement that an example does not belong to a class,
    or yes or no to a class that was suggested. The arrays ``example``, ``label``, ``accepted``,
    ``offered`` and ``annotator`` have one entry per answer, in the order of the examples.
    """

    X: NDArray[Any]
    """Features: float32 of shape (n, d), or uint8 of shape (n, channels, height, width)."""
    classes: tuple[str, ...]
    """Names of the K classes."""
    example: NDArray[np.int64]
    """(m,) the example of each answer, from 0 to n - 1."""
    label: NDArray[np.int64]
    """(m,) the class that each answer excludes, or that was suggested, from 0 to K - 1."""
    annotator: NDArray[np.int64] | None
    """(m,) the annotator of each answer, -1 where unknown; None without an annotator column."""
    annotators: tuple[str, ...]
    """Names of the annotators."""
    answer_row: NDArray[np.int64]
    """(m,) the row of each answer in the source, counted from 0."""
    true_labels: NDArray[np.int64]
    """(n,) the true class of each example, -1 where it is unknown."""
    recipe: Recipe | ImageRecipe
    """The conversion of columns or images to features; `read_features` applies it to new data."""
    source: str
    """Name of the file or folder, as given by the user."""
    row: NDArray[np.int64]
    """(n,) the first row of each example in the source, counted from 0."""
    ids: tuple[str, ...] | None
    """(n,) the id or image path of each example; None for a table without ids."""
    n_rows: int
    """Number of rows of the table, or of image files."""
    n_dropped: int
    """Number of examples that were dropped: they have neither a label nor a true class."""
    accepted: NDArray[np.int8] | None = None
    """(m,) 1 for yes and 0 for no to a suggestion, -1 for a label; None without suggestions."""
    offered: NDArray[np.object_] | None = None
    """(m,) the classes that could be chosen, None where all could; None without such a column."""
    offered_at_random: bool = False
    """Whether the classes offered were drawn at random, so that answers are labels of one Q."""
    asked_at_random: NDArray[np.bool_] | None = None
    """(m,) whether the example was drawn at random; only such answers show the accuracy. None if
    all were."""
    skipped: tuple[str, ...] = ()
    """Images that were left out because their files are damaged."""
    text: pa.Table | None = None
    """The columns of text of the n examples, which cannot be restored from their features."""

    @property
    def is_label(self) -> NDArray[np.bool_]:
        """(m,) whether each answer is a complementary label, chosen out of all classes.

        Labels chosen out of some classes that were drawn at random also have one matrix Q.
        """
        return compute(self.label, len(self.label), bool, self._are_labels)

    def _are_labels(self, rows: slice) -> NDArray[np.bool_]:
        chosen = np.ones(len(self.label[rows]), dtype=bool)
        if self.accepted is not None:
            chosen &= self.accepted[rows] == CHOSEN
        if self.offered is not None and not self.offered_at_random:
            chosen &= np.array([listed is None for listed in self.offered[rows]], dtype=bool)
        return chosen

    @property
    def is_yes_no(self) -> NDArray[np.bool_]:
        """(m,) whether each answer is yes or no to a suggestion."""
        said = self.accepted
        return compute(
            self.label,
            len(self.label),
            bool,
            lambda rows: False if said is None else said[rows] != CHOSEN,
        )

    @property
    def excludes(self) -> NDArray[np.bool_]:
        """(m,) whether each answer excludes its class: a complementary label, or "no"."""
        said = self.accepted
        return compute(
            self.label,
            len(self.label),
            bool,
            lambda rows: True if said is None else said[rows] != YES,
        )

    @property
    def n_examples(self) -> int:
        """Number of examples, n."""
        return len(self.X)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X, empty for images."""
        return self.recipe.feature_names if isinstance(self.recipe, Recipe) else ()

    @property
    def labels_per_example(self) -> NDArray[np.int64]:
        """(n,) number of answers about each example."""
        return compute(self.label, self.n_examples, np.int64, self._count_answers)

    def _count_answers(self, examples: slice) -> NDArray[np.int64]:
        own = self.example[self.answers_about(examples)] - examples.start
        return np.bincount(own, minlength=examples.stop - examples.start)

    def answers_about(self, examples: slice) -> slice:
        """Find the answers about consecutive examples."""
        return slice(*np.searchsorted(self.example, (examples.start, examples.stop)).tolist())

    @property
    def comp_labels(self) -> NDArray[np.int64]:
        """(n,) the complementary label of each example, if each has exactly one.

        Otherwise, it raises `InvalidLabels`.
        """
        counts = np.bincount(self.example[self.is_label], minlength=self.n_examples)
        if (counts == 1).all() and self.is_label.all():
            return self.label  # answers are in the order of the examples
        first = int(np.argmax(counts != 1))
        raise InvalidLabels(
            f"comp_labels needs exactly one label per example. In {self.source}, "
            f"{int((counts != 1).sum())} of {self.n_examples} examples have none or several; the "
            f"first is {self.name_of(first)!r} with {counts[first]}.\n"
            "Use ruled_out, or the answers in example and label."
        )

    @property
    def ruled_out(self) -> NDArray[np.bool_]:
        """(n, K) whether an answer excludes the class; computed at each call."""
        matrix = np.zeros((self.n_examples, self.n_classes), dtype=bool)
        matrix[self.example[self.excludes], self.label[self.excludes]] = True
        return matrix

    @property
    def anchors(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Features and true classes of the anchors, the examples whose true class is known."""
        known = self.true_labels >= 0
        return self.X[known], self.true_labels[known]

    def name_of(self, example: int) -> str:
        """Name an example for a reader: by its id or image path, or by its row."""
        return f"data row {self.row[example] + 1}" if self.ids is None else self.ids[example]

    def describe(self, example: int) -> dict[str, str]:
        """Describe an example of a table by its cells; long texts are cut. Images have none."""
        if not isinstance(self.recipe, Recipe):
            return {}
        cells = self.recipe.describe(self.X[example])
        texts: dict[str, Any] = (
            {} if self.text is None else self.text.slice(example, 1).to_pylist()[0]
        )
        for name, cell in texts.items():
            words = " ".join(str(cell or "").split())
            cells[name] = words if len(words) <= _MOST_SHOWN else f"{words[:_MOST_SHOWN]}…"
        return cells

    def without_column(self, column: str) -> "OwnData":
        """Remove the features of a column.

        The data are returned unchanged if they have no such column, or no other one.
        """
        if not isinstance(self.recipe, Recipe):
            return self
        kept = tuple(each for each in self.recipe.columns if each.name != column)
        if len(kept) in (0, len(self.recipe.columns)):
            return self
        is_kept = np.repeat(
            [each.name != column for each in self.recipe.columns],
            [len(each.feature_names) for each in self.recipe.columns],
        )
        rest = replace(self.recipe, columns=kept)
        text = None if self.text is None else self.text.select(rest.text)
        return replace(self, X=self.X[:, is_kept], recipe=rest, text=text)

    def without_examples(self, skipped: Collection[int]) -> "OwnData":
        """Leave out examples whose images are damaged, with all answers about them."""
        is_kept = np.ones(self.n_examples, dtype=bool)
        is_kept[list(skipped)] = False
        answers = is_kept[self.example]
        return replace(
            self,
            X=self.X[is_kept],
            example=(np.cumsum(is_kept) - 1)[self.example[answers]],
            label=self.label[answers],
            annotator=None if self.annotator is None else self.annotator[answers],
            answer_row=self.answer_row[answers],
            accepted=None if self.accepted is None else self.accepted[answers],
            offered=None if self.offered is None else self.offered[answers],
            asked_at_random=None if self.asked_at_random is None else self.asked_at_random[answers],
            true_labels=self.true_labels[is_kept],
            row=self.row[is_kept],
            ids=None if self.ids is None else tuple(compress(self.ids, is_kept)),
            skipped=tuple(self.name_of(example) for example in sorted(skipped)),
        )

    def __repr__(self) -> str:
        return (
            f"OwnData({self.source!r}: {self.n_examples} examples of shape {self.X.shape[1:]}, "
            f"{len(self.label)} answers, {self.n_classes} classes: {shorten(self.classes, 3)})"
        )


def gather_answers(
    *,
    label: pa.Array | Encoded | None = None,
    suggested: pa.Array | Encoded | None = None,
    accepted: pa.Array | Encoded | None = None,
    true_label: pa.Array | Encoded | None = None,
    annotator: pa.Array | Encoded | None = None,
    offered: pa.Array | None = None,
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
    the example of each row (-1 if it is dropped), and the fields of `OwnData` for the answers.

    Encoded cells of rows that are examples become answers some rows at a time, and arrays that take
    more than their share of `most_bytes` are in temporary files. The example of each row is None
    then: no example has several.
    """
    cells = {"label": label, "suggested": suggested, "accepted": accepted}
    cells |= {"true_label": true_label, "annotator": annotator}
    options: dict[str, Any] = {"separator": separator, "ignore_case": ignore_case, "source": source}
    encoded = {role: each for role, each in cells.items() if isinstance(each, Encoded)}
    is_simple = example_id is None and offered is None and not (ignore_case and classes is None)
    if is_simple and len(encoded) == sum(each is not None for each in cells.values()):
        with contextlib.suppress(NaysayError):  # the error about all rows together says more
            return _gather_in_parts(encoded, classes, options, needs_acceptances, most_bytes)
    options |= {"classes": classes, "needs_acceptances": needs_acceptances}
    return _gather(**cells, offered=offered, example_id=example_id, **options)


def _gather_in_parts(
    cells: dict[str, Encoded],
    classes: Sequence[str] | None,
    options: dict[str, Any],
    needs_acceptances: bool,
    most_bytes: float,
) -> tuple[Indices, None, dict[str, Any]]:
    """Gather answers as `_gather` does, some rows at a time."""
    names = {role: codes_of(each)[1] for role, each in cells.items()}
    if "label" in cells:
        distinct = cells["label"].values
        every = Encoded(np.arange(len(distinct)), distinct)
        names["label"] = _split_labels(every, options["separator"], options["source"])[2]
    found = [*names.get("label", ()), *names.get("suggested", ())]
    classes = _class_names(classes, found, names.get("true_label", []), options["source"])
    options = options | {"classes": classes, "needs_acceptances": False}
    columns = ("row", "example", "answer_row", "label", "annotator", "true_labels", "accepted")
    kinds = {"accepted": np.int8}
    grown = {name: Growing(kinds.get(name, np.int64), most_bytes=most_bytes) for name in columns}
    fields, n_dropped, is_one_to_one = dict[str, Any](), 0, True
    for rows in parts_of(len(next(iter(cells.values())))):
        parts = {role: each.part(rows) for role, each in cells.items()}
        row, _, fields = _gather(**parts, **options)
        n_dropped += fields["n_dropped"]
        shifts = {"row": rows.start, "answer_row": rows.start, "example": len(grown["row"].array)}
        is_one_to_one &= len(row) == rows.stop - rows.start and is_count(fields["example"])
        for name, values in {**fields, "row": row}.items():
            if name in grown and values is not None:
                grown[name].append(values + shifts.get(name, 0))
    arrays = {name: each.array for name, each in grown.items()}
    if is_one_to_one:  # one array in place of three
        arrays |= dict.fromkeys(("example", "answer_row"), arrays["row"])
    if needs_acceptances and "suggested" in cells:
        check_has_acceptances(arrays["accepted"], options["source"])
    kept = {name: arrays[name] for name in arrays if fields.get(name) is not None}
    return arrays["row"], None, fields | kept | {"n_dropped": n_dropped}


def _gather(
    *,
    label: pa.Array | Encoded | None = None,
    suggested: pa.Array | Encoded | None = None,
    accepted: pa.Array | Encoded | None = None,
    true_label: pa.Array | Encoded | None = None,
    annotator: pa.Array | Encoded | None = None,
    offered: pa.Array | None = None,
    example_id: pa.Array | None = None,
    classes: Sequence[str] | None,
    separator: str | None,
    ignore_case: bool,
    needs_acceptances: bool,
    source: str,
) -> tuple[Indices, Indices, dict[str, Any]]:
    """Gather answers as `gather_answers` does, from all cells at once."""
    n_rows = next(len(each) for each in (label, suggested, accepted) if each is not None)
    group, first_row = _group_rows(example_id, n_rows, source)
    row, codes, label_names = np.zeros(0, np.int64), np.zeros(0, np.int64), []
    if label is not None:
        row, codes, label_names = _split_labels(label, separator, source)
        if not label_names and suggested is None:
            raise InvalidLabels(
                f"{source} must have complementary labels. The label is empty in every row: check "
                "that label= (--label) names the right column."
            )
    offered_row, offered_codes, offered_names = np.zeros(0, np.int64), codes, []
    if offered is not None:
        offered_row, offered_codes, offered_names = _split_labels(offered, separator, source)
    asked, asked_codes, asked_names, said = _read_suggestions(
        suggested, accepted, source, needs_acceptances=needs_acceptances
    )
    true_codes, true_names = np.zeros(0, np.int64), []
    if true_label is not None:
        true_codes, true_names = codes_of(true_label)
    if ignore_case:
        found = (label_names, asked_names, offered_names, true_names)
        counts: Counter[str] = Counter()
        for listed, of_rows in ((label_names, codes), (asked_names, asked_codes)):
            n_rows_of = np.bincount(of_rows[of_rows >= 0], minlength=len(listed)).tolist()
            counts.update(dict(zip(listed, n_rows_of, strict=True)))
        spellings = sorted(set(chain(*found)), key=lambda name: (-counts[name], name))
        chosen = spellings if classes is None else list(map(str, classes))
        label_names, asked_names, offered_names, true_names = (
            match_case(each, chosen) for each in found
        )
    found = [*label_names, *asked_names, *offered_names]
    names = _class_names(classes, found, true_names, source)
    excluded = class_indices(codes, label_names, names, "label", source)
    lists = None
    if offered is not None:
        choices = class_indices(offered_codes, offered_names, names, "offered", source)
        lists = _lists_of_offered(row, excluded, offered_row, choices, n_rows, source)
    if suggested is not None:
        row = np.concatenate([row, asked])
        of_class = class_indices(asked_codes, asked_names, names, "suggested", source)
        excluded = np.concatenate([excluded, of_class])
        said = np.concatenate([np.full(len(row) - len(said), CHOSEN, np.int8), said])
    if lists is not None:
        lists = np.concatenate([lists, np.full(len(row) - len(lists), None, dtype=object)])
    true_rows = class_indices(true_codes, true_names, names, "true_label", source)
    true_labels = _true_label_of_examples(true_rows, group, len(first_row), names, source)

    if example_id is None:
        row = _take(group, row)
    is_kept = true_labels >= 0
    is_kept[_take(group, row)] = True
    if is_kept.all():  # copies nothing
        example_of_row = group
    else:
        example_of_row = np.where(is_kept, np.cumsum(is_kept) - 1, -1)[group]
        first_row, true_labels = first_row[is_kept], true_labels[is_kept]
    example = _take(example_of_row, row)
    order = slice(None)
    if not _is_sorted(example, row):
        order = np.lexsort((row, example))
    annotator_indices, annotators = None, ()
    if annotator is not None:
        annotator_codes, annotator_names = codes_of(annotator)
        annotators = sort_names(set(annotator_names))
        of_row = class_indices(annotator_codes, annotator_names, annotators, "annotator", source)
        annotator_indices = of_row[row[order]]
    fields = {
        "classes": names,
        "example": example[order],
        "label": excluded[order],
        "annotator": annotator_indices,
        "annotators": annotators,
        "answer_row": row[order],
        "true_labels": true_labels,
        "n_dropped": int((~is_kept).sum()),
        "accepted": None if suggested is None else said[order],
        "offered": None if lists is None else lists[order],
    }
    return first_row, example_of_row, fields


def _take(values: Indices, rows: Indices) -> Indices:
    """Select rows; the array itself, without a copy, if they are all rows in their order."""
    return values if np.array_equal(rows, np.arange(len(values))) else values[rows]


def is_start(ordered: Indices, part: slice) -> NDArray[np.bool_]:
    """Mark, in a part, the first of each run of equal numbers."""
    found = np.ones(part.stop - part.start, dtype=bool)
    begin = max(part.start, 1)
    found[begin - part.start :] = ordered[begin : part.stop] != ordered[begin - 1 : part.stop - 1]
    return found


def count_runs(ordered: Indices) -> int:
    """Count the runs of equal numbers."""
    parts = parts_of(len(ordered))
    return sum(int(np.count_nonzero(is_start(ordered, part))) for part in parts)


def _is_sorted(first: Indices, second: Indices) -> bool:
    """Check whether pairs are in ascending order."""
    is_after = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (second[1:] >= second[:-1]))
    return bool(is_after.all())


def _group_rows(example_id: pa.Array | None, n_rows: int, source: str) -> tuple[Indices, Indices]:
    """Find the example of each row, and the first row of each example."""
    if example_id is None:
        every = np.arange(n_rows)
        return every, every
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


def _split_labels(
    label: pa.Array | Encoded, separator: str | None, source: str
) -> tuple[Indices, Indices, list[str]]:
    """Split cells into labels: the row and the code of each label, and the distinct names."""
    cells = None
    if not is_list(label.type):
        encoded = encode(label)
        cells, label = encoded.codes, encoded.values  # only distinct cells are split
        if separator is not None:
            if not separator.strip():
                raise InvalidInput(
                    f"separator must contain visible characters, such as '|'. Got {separator!r}."
                )
            label = pc.split_pattern(label, separator)
    if is_list(label.type):
        row, text = pc.list_parent_indices(label), pc.list_flatten(label)
    else:
        row, text = pa.array(np.arange(len(label))), label
    text = pc.utf8_trim_whitespace(pc.cast(text, pa.large_string()))
    is_filled = pc.fill_null(pc.not_equal(text, ""), False)
    codes, names = codes_of(text.filter(is_filled))
    rows = row.filter(is_filled).to_numpy(zero_copy_only=False).astype(np.int64)
    if cells is not None:
        rows, codes = _labels_of_rows(
            cells, np.searchsorted(rows, np.arange(len(label) + 1)), codes
        )
    for code, name in enumerate(names):
        if len(name) > LONGEST_NAME:
            raise InvalidLabels(
                f"A label of {source} must have at most {LONGEST_NAME} characters. The label "
                f"{shorten(name)} in data row {int(rows[np.argmax(codes == code)]) + 1} has "
                f"{len(name)}.\nCheck that it is the right column."
            )
    return rows, codes, names


def _labels_of_rows(
    cells: NDArray[np.integer[Any]], starts: Indices, codes: Indices
) -> tuple[Indices, Indices]:
    """Find row and code of each label; distinct cell c has ``codes[starts[c]:starts[c + 1]]``."""
    n_labels = np.append(np.diff(starts), 0)[cells]  # an empty cell has the number -1
    rows = np.repeat(np.arange(len(cells)), n_labels)
    place = starts[cells[rows]]
    if n_labels.max(initial=0) > 1:
        place += np.arange(len(rows)) - np.repeat(np.cumsum(n_labels) - n_labels, n_labels)
    return rows, codes[place]


def _read_suggestions(
    suggested: pa.Array | Encoded | None,
    accepted: pa.Array | Encoded | None,
    source: str,
    *,
    needs_acceptances: bool,
) -> tuple[Indices, Indices, list[str], NDArray[np.int8]]:
    """Read the suggestions that have an answer: rows, codes and names of classes, yes or no."""
    if suggested is None or accepted is None:
        if suggested is not None or accepted is not None:
            raise InvalidInput(
                "suggested (--suggested) and accepted (--accepted) must be given together: the "
                "column of the class that was suggested, and that of the answer."
            )
        return np.zeros(0, np.int64), np.zeros(0, np.int64), [], np.zeros(0, np.int8)
    codes, names = codes_of(suggested)
    answer_codes, words = codes_of(accepted)
    said = np.append(read_accepted(words, name=f"The accepted column of {source}"), CHOSEN)
    said = said.astype(np.int8)[answer_codes]
    alone = np.flatnonzero((said != CHOSEN) & (codes < 0))
    if len(alone):
        raise InvalidData(
            f"Every answer of {source} must be about a suggestion. Data row {alone[0] + 1} has "
            f"{words[answer_codes[alone[0]]]!r} as accepted, but no suggested class."
        )
    if needs_acceptances:
        check_has_acceptances(said, source)
    rows = np.flatnonzero(said != CHOSEN)
    return rows, codes[rows], names, said[rows]


def _lists_of_offered(
    row: Indices, label: Indices, offered_row: Indices, offered: Indices, n_rows: int, source: str
) -> NDArray[np.object_]:
    """Find the classes that each label was chosen from; None where they are not listed."""
    lists = np.empty(len(row), dtype=object)
    order = np.argsort(offered_row, kind="stable")
    of_row = np.split(offered[order], np.cumsum(np.bincount(offered_row, minlength=n_rows))[:-1])
    for place, (at, chosen) in enumerate(zip(row.tolist(), label.tolist(), strict=True)):
        listed: list[int] = cast("Any", of_row[at]).tolist()
        if listed and (chosen not in listed or len(listed) < 2):
            raise InvalidData(
                f"A label of {source} must be one of the classes that were offered, at least 2. "
                f"Data row {at + 1} has a label that is not among its {len(listed)} offered."
            )
        lists[place] = tuple(listed) or None
    return lists


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


def match_case(found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Write names as the first of `names` that is the same but for capitals, if there is one."""
    known = {name.casefold(): name for name in reversed(names)}
    return [known.get(name.casefold(), name) for name in found]


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
        remedy = (
            "Correct these labels, or add the classes where the list comes from: classes= "
            "(--classes), the matrix, or the training data."
        )
        if set(match_case(unknown, names)) <= set(names):
            remedy = "They differ only in capitals: read them with ignore_case= (--ignore-case)."
        raise InvalidLabels(
            f"The {role} column of {source} must only contain the classes {shorten(names)}. "
            f"It also contains {shorten(unknown)}.\n{remedy}"
        )
    table = np.array([*(index_of[name] for name in found), -1], dtype=np.int64)
    return table[codes]  # the code -1 selects the last entry


def _true_label_of_examples(
    true_rows: Indices, group: Indices, n_examples: int, names: tuple[str, ...], source: str
) -> Indices:
    true_labels = np.full(n_examples, -1)
    if not len(true_rows):
        return true_labels
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


def check_rows_agree(
    column: pa.ChunkedArray,
    name: str,
    first_row: Indices,
    example_of_row: Indices,
    source: str,
    *,
    is_feature: bool = True,
) -> None:
    """Check that all rows of an example have the same value in a column."""
    try:
        codes, _ = codes_of(to_array(column))
    except pa.ArrowNotImplementedError:
        raise InvalidData(
            f"Column {name!r} of {source} must contain text or numbers. Its type is {column.type}."
        ) from None
    rows = np.flatnonzero(example_of_row >= 0)
    first = first_row[example_of_row[rows]]
    differ = codes[rows] != codes[first]
    if differ.any():
        position = int(np.argmax(differ))
        remedy = "Check that example_id= (--id) names the right column."
        if is_feature:
            remedy += (
                " If the column describes the label and not the example, such as its annotator or "
                f"its date, name it in annotator= (--annotator), or leave it out: ignore=[{name!r}]"
                f" (--ignore {shlex.quote(name)})."
            )
        raise InvalidData(
            f"Rows of the same example must have the same features. In {source}, column {name!r} "
            f"differs between data rows {first[position] + 1} and {rows[position] + 1}.\n{remedy}"
        )
