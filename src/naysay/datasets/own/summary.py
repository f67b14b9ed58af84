"""Summarise the user's data: counts, missing values, and problems to look at before training."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from naysay._base.answers import CHOSEN, NO, YES
from naysay._base.checks import row_slices, shorten
from naysay._base.mapped import compute, count_values, parts_of, trim_pages
from naysay.datasets.own.columns import MISSING_WORDS
from naysay.datasets.own.data import OwnData, is_start
from naysay.datasets.own.recipe import CategoricalColumn, NumericColumn, Recipe, find_odd_cells

__all__ = ["Summary", "summarise"]

_FRACTION = re.compile(r"-?[0-9]*[.,][0-9]*[1-9]")
_FEWEST_ROWS = 10  # fewer consecutive numbers may be a coincidence and are not reported as ids
_MOST_COLUMNS = 3  # columns that are explained one by one in warnings
_MOST_LINES = 20  # classes or annotators that are listed before the rest is only counted
# Attributes of a summary that name what is wrong, with the warnings about them.
_PROBLEMS = {
    "never_named": "never named as complementary, so these classes cannot be learned",
    "skipped": "left out, because these images are damaged; to stop at them, pass --strict",
    "look_alikes": "these classes differ only in capitals or spaces; check whether they are the "
    "same (--ignore-case merges capitals)",
    "looks_missing": "this class name usually means a missing value; leave the cell empty if it "
    "does",
    "fractions": "class names that are numbers with decimals; check that --label names the right "
    "column",
    "all_excluded": "every class is excluded, so at least one answer is wrong",
    "true_excluded": "the known true class is excluded, or another one accepted, so the answer or "
    "the true class is wrong",
    "class_columns": "a feature that holds class names; if these are the true classes, name the "
    "column in --true-label",
    "comma_columns": "categories that look like numbers with a decimal comma; pass decimal=',' "
    "(--decimal ,)",
    "id_columns": "a feature that counts the rows, like an id; leave it out (--ignore), or group "
    "rows by it (--id)",
    "constant_features": "the same value in all examples, which carries no information",
    "dropped_columns": "not used as a feature, because every value is missing",
}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of the user's data, as text with ``print`` and for JSON with `to_dict`."""

    source: str
    n_rows: int
    n_examples: int
    n_dropped: int
    """Number of examples that were dropped: they have neither a label nor a true class."""
    n_answers: int
    shape: tuple[int, ...]
    """Shape of one example: (features,), or (channels, height, width)."""
    labels_per_class: Mapping[str, int]
    """Number of complementary labels per class."""
    accepted_per_class: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of suggestions of each class that were accepted; empty without suggestions."""
    rejected_per_class: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of suggestions of each class that were rejected; empty without suggestions."""
    labels_per_example: Mapping[int, int]
    """Number of examples by their number of answers."""
    n_true_labels: int
    annotators: Mapping[str, int]
    """Number of answers per annotator."""
    n_unattributed: int
    """Number of answers without an annotator, in data with an annotator column."""
    n_duplicates: int
    """Number of examples with the same features as an earlier one."""
    n_repeated: int
    """Number of answers that repeat an earlier one by the same annotator."""
    missing_values: Mapping[str, int]
    """Number of missing values per feature column, without columns that have none."""
    constant_features: tuple[str, ...]
    """Features with the same value in all examples."""
    dropped_columns: Mapping[str, str]
    """Columns that give no features, each with the reason."""
    all_excluded: tuple[str, ...]
    """Examples for which every class is excluded."""
    true_excluded: tuple[str, ...]
    """Examples whose known true class is excluded."""
    skipped: tuple[str, ...] = ()
    """Images that were left out because their files are damaged."""
    class_columns: tuple[str, ...] = ()
    """Feature columns that hold class names and may be the true classes."""
    id_columns: tuple[str, ...] = ()
    """Feature columns that count the rows, like an id."""
    comma_columns: tuple[str, ...] = ()
    """Columns of categories that look like numbers with a decimal comma."""
    text_columns: tuple[str, ...] = ()
    """Columns of text, whose words are the features."""
    odd_cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """For each categorical column with mostly numbers, an explanation of why it is categorical."""

    @property
    def never_named(self) -> tuple[str, ...]:
        """Classes that no answer names, which cannot be learned.

        Acceptances and rejections of all other classes show a single one, so it is not listed.
        """
        named = {name for counts in self.counts.values() for name, n in counts.items() if n}
        never = tuple(name for name in self.labels_per_class if name not in named)
        return () if self.accepted_per_class and len(never) == 1 else never

    @property
    def counts(self) -> dict[str, Mapping[str, int]]:
        """Counts by class of each kind of answer that there is, by a title."""
        counts = {
            "excluded class": self.labels_per_class,
            "class that was suggested and accepted": self.accepted_per_class,
            "class that was suggested and rejected": self.rejected_per_class,
        }
        return {title: each for title, each in counts.items() if any(each.values())}

    @property
    def look_alikes(self) -> tuple[str, ...]:
        """Classes that differ from another class only in capitals or spaces."""
        plain = Counter("".join(name.split()).casefold() for name in self.labels_per_class)
        return tuple(
            name for name in self.labels_per_class if plain["".join(name.split()).casefold()] > 1
        )

    @property
    def looks_missing(self) -> tuple[str, ...]:
        """Classes with a name that usually means a missing value, such as ``NaN``."""
        return tuple(name for name in self.labels_per_class if name in MISSING_WORDS)

    @property
    def fractions(self) -> tuple[str, ...]:
        """Classes with a number with decimals as a name, which suggests a wrong column."""
        return tuple(name for name in self.labels_per_class if _FRACTION.fullmatch(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems in the data, one sentence each; empty if there are none."""
        found = [(tuple(getattr(self, name)), meaning) for name, meaning in _PROBLEMS.items()]
        odd = list(self.odd_cells)
        found += [((name,), self.odd_cells[name]) for name in odd[:_MOST_COLUMNS]]
        rest = tuple(odd[_MOST_COLUMNS:])
        found += [(rest, "these columns are categories too, although nearly all cells are numbers")]
        return tuple(f"{shorten(names)}: {meaning}" for names, meaning in found if names)

    def to_dict(self) -> dict[str, Any]:
        """Convert the summary to plain values for JSON."""
        figures: dict[str, Any] = {}
        for name, value in vars(self).items():
            key = name.removeprefix("n_") if name != "n_repeated" else "repeated_answers"
            if isinstance(value, Mapping):
                mapping = cast("Mapping[Any, Any]", value)
                figures[key] = {str(each): mapping[each] for each in mapping}
            else:
                is_tuple = isinstance(value, tuple)
                figures[key] = list(cast("tuple[Any, ...]", value)) if is_tuple else value
        return {
            **figures,
            "classes": list(self.labels_per_class),
            "never_named": list(self.never_named),
            "warnings": list(self.warnings),
        }

    def facts(self) -> dict[str, str]:
        """Format the single figures as text, in reading order."""
        spread = [f"{count:,} with {n}" for n, count in sorted(self.labels_per_example.items())]
        missing = [f"{name} {count:,}" for name, count in self.missing_values.items()]
        facts = {
            "rows": f"{self.n_rows:,}",
            "examples": f"{self.n_examples:,}"
            + (f" ({self.n_dropped:,} without a label dropped)" if self.n_dropped else ""),
            "features" if len(self.shape) == 1 else "images": "x".join(map(str, self.shape)),
            "classes": f"{len(self.labels_per_class):,}",
            "answers": f"{self.n_answers:,}",
            "answers per example": _listed(spread),
            "true classes known": f"{self.n_true_labels:,}",
            "duplicate examples": f"{self.n_duplicates:,}",
            "repeated answers": f"{self.n_repeated:,}",
            "missing values": _listed(missing) or "none",
        }
        if self.accepted_per_class:
            n_accepted, n_rejected = (
                sum(each.values()) for each in (self.accepted_per_class, self.rejected_per_class)
            )
            facts["suggestions"] = f"{n_accepted:,} accepted, {n_rejected:,} rejected"
        if self.text_columns:
            facts["read as text"] = _listed(self.text_columns)
        if self.n_unattributed:
            facts["without annotator"] = f"{self.n_unattributed:,} answers"
        return facts

    def __str__(self) -> str:
        parts = [self.source, *(f"  {key:<22}{value}" for key, value in self.facts().items())]
        for title, counts in self.counts.items():
            parts += [f"  answers by {title}:", *_bars(counts)]
        if self.annotators:
            parts += ["  answers by annotator:", *_bars(self.annotators)]
        parts += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(parts)


def summarise(own: OwnData) -> Summary:
    """Summarise data that `read_own` has read.

    Examples
    --------
    >>> import pandas
    >>> from naysay.datasets.own import read_own
    >>> frame = pandas.DataFrame({"age": [3, 9], "not": ["cat", "cat"], "is": ["owl", None]})
    >>> summarise(read_own(frame, label="not", true_label="is")).never_named
    ('owl',)
    """
    per_example = own.labels_per_example
    examples_by_number = count_values(per_example, int(per_example.max(initial=0)) + 1)
    recipe = own.recipe if isinstance(own.recipe, Recipe) else Recipe(columns=())
    per_annotator = [0]
    if own.annotator is not None:
        per_annotator = count_values(own.annotator, len(own.annotators), least=-1).tolist()
    comma_columns, odd_cells = _almost_numbers(own, recipe)
    return Summary(
        source=own.source,
        n_rows=own.n_rows,
        n_examples=own.n_examples,
        n_dropped=own.n_dropped,
        n_answers=len(own.label),
        shape=own.X.shape[1:],
        labels_per_class=_count_labels(own, CHOSEN),
        labels_per_example={
            n: count for n, count in enumerate(examples_by_number.tolist()) if count
        },
        n_true_labels=int(count_values(own.true_labels, own.n_classes, least=-1)[1:].sum()),
        accepted_per_class=_count_suggestions(own, YES),
        rejected_per_class=_count_suggestions(own, NO),
        annotators=dict(zip(own.annotators, per_annotator[1:], strict=True)),
        n_unattributed=per_annotator[0],
        n_duplicates=_count_duplicates(own),
        n_repeated=_count_repeated(own),
        missing_values={each.name: each.n_missing for each in recipe.columns if each.n_missing},
        constant_features=_constant_features(own),
        dropped_columns=dict(recipe.dropped),
        all_excluded=_names(own, find_all_excluded(own)),
        true_excluded=_names(own, _find_true_excluded(own)),
        class_columns=tuple(
            column.name
            for column in recipe.columns
            if isinstance(column, CategoricalColumn)
            and len(column.categories) > 1
            and set(column.categories) <= set(own.classes)
        ),
        skipped=own.skipped,
        id_columns=_id_columns(own, recipe),
        text_columns=recipe.text,
        comma_columns=comma_columns,
        odd_cells=odd_cells,
    )


def _count_repeated(own: OwnData) -> int:
    """Count the answers that repeat another one of the same annotator."""
    n_repeated, excludes = 0, own.excludes
    for examples in parts_of(own.n_examples):
        answers = own.answers_about(examples)
        numbers = own.example[answers] * own.n_classes + own.label[answers]
        if own.annotator is not None:
            numbers = numbers * (len(own.annotators) + 1) + own.annotator[answers] + 1
        n_repeated += len(numbers) - len(_distinct(numbers * 2 + excludes[answers]))
    return n_repeated


def find_all_excluded(own: OwnData) -> NDArray[np.int64]:
    """Find the examples of which the answers exclude every class."""
    found, excludes = [np.zeros(0, np.int64)], own.excludes
    for examples in parts_of(own.n_examples):
        answers = own.answers_about(examples)
        about = own.example[answers] - examples.start
        excluded = _distinct((about * own.n_classes + own.label[answers])[excludes[answers]])
        counts = np.bincount(excluded // own.n_classes)
        found.append(np.flatnonzero(counts == own.n_classes) + examples.start)
    return np.concatenate(found)


def _find_true_excluded(own: OwnData) -> NDArray[np.int64]:
    """Find the examples of which an answer contradicts the known true class."""
    found, excludes = [np.zeros(0, np.int64)], own.excludes
    for examples in parts_of(own.n_examples):
        answers = own.answers_about(examples)
        example, true = own.example[answers], own.true_labels[own.example[answers]]
        is_wrong = ((own.label[answers] == true) == excludes[answers]) & (true >= 0)
        found.append(_distinct(example[is_wrong]))
    return np.concatenate(found)


def _count_labels(own: OwnData, answer: int) -> dict[str, int]:
    """Count the labels, or the suggestions that were answered so, of each class."""
    counts = np.zeros(own.n_classes, dtype=np.int64)
    for rows in parts_of(len(own.label)):
        labels = own.label[rows]
        if own.accepted is not None:
            labels = labels[own.accepted[rows] == answer]
        counts += np.bincount(labels, minlength=own.n_classes)
    return dict(zip(own.classes, counts.tolist(), strict=True))


def _count_suggestions(own: OwnData, answer: int) -> dict[str, int]:
    """Count the suggestions of each class that were answered so; empty without suggestions."""
    return {} if own.accepted is None else _count_labels(own, answer)


def _count_duplicates(own: OwnData) -> int:
    X = own.X

    def digest(part: slice) -> NDArray[np.uint64]:
        found = list[NDArray[np.uint64]]()
        for some in row_slices(part.stop - part.start, max(1, X[:1].size)):
            rows = X[part][some].reshape(some.stop - some.start, -1)
            rows = np.ascontiguousarray(rows + 0)  # -0.0 is 0.0
            digests = b"".join(hashlib.blake2b(row, digest_size=8).digest() for row in rows)
            found.append(np.frombuffer(digests, dtype=np.uint64))
        return np.concatenate(found)

    # ten million have a collision with probability 3e-6
    hashes = compute(own.label, len(X), np.uint64, digest)
    hashes.sort()
    return sum(
        int((hashes[rows][1:] == hashes[rows][:-1]).sum())
        + int(rows.start > 0 and hashes[rows.start] == hashes[rows.start - 1])
        for rows in parts_of(len(hashes))
    )


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Select the distinct numbers, none of which is negative (faster than `numpy.unique`)."""
    ordered = np.sort(numbers)
    return ordered[is_start(ordered, slice(0, len(ordered)))]


def _constant_features(own: OwnData) -> tuple[str, ...]:
    if own.n_examples < 2 or not own.feature_names:
        return ()
    is_constant = np.ones(len(own.feature_names), dtype=bool)
    for part in row_slices(own.n_examples, len(is_constant)):  # X may be in a file
        is_constant &= (own.X[part] == own.X[0]).all(axis=0)
        trim_pages()
    return tuple(compress(own.feature_names, is_constant))


def _id_columns(own: OwnData, recipe: Recipe) -> tuple[str, ...]:
    """Find columns of whole numbers that increase from row to row, mostly by 1."""
    if own.n_examples < _FEWEST_ROWS:
        return ()
    numeric = {
        column.name: where.start
        for column, where in recipe.spans()
        if isinstance(column, NumericColumn)
    }
    if not numeric:  # images
        return ()
    places = np.array([*numeric.values()], dtype=np.int64)
    grows = np.ones(len(places), dtype=bool)
    n_small = np.zeros(len(places), dtype=np.int64)
    with np.errstate(over="ignore"):  # a step between huge numbers is infinite
        for part in row_slices(own.n_examples - 1, max(1, len(places))):
            steps = np.diff(own.X[part.start : part.stop + 1, places[grows]], axis=0)
            n_small[grows] += (steps == 1).sum(axis=0)
            grows[grows] = ((steps == np.floor(steps)) & (steps > 0)).all(axis=0)
    # dropped rows make larger steps
    return tuple(compress(numeric, grows & (2 * n_small > own.n_examples - 1)))


def _almost_numbers(own: OwnData, recipe: Recipe) -> tuple[tuple[str, ...], dict[str, str]]:
    """Find categorical columns that should be numeric: decimal commas, or a few odd cells."""
    with_comma: list[str] = []
    explained: dict[str, str] = {}
    for column, where in recipe.spans():
        if not isinstance(column, CategoricalColumn) or column.has_other:
            continue  # a column with "other" was requested as categorical by the user
        n_values = len(column.categories)
        number, first = np.zeros(n_values, np.int64), np.full(n_values, own.n_examples)
        for part in row_slices(own.n_examples, max(1, n_values)):
            has = own.X[part, where.start : where.start + n_values] > 0
            number += np.count_nonzero(has, axis=0)
            is_new = has.any(axis=0) & (first == own.n_examples)
            first[is_new] = part.start + has.argmax(axis=0)[is_new]
        counts = dict(zip(column.categories, number.tolist(), strict=True))
        odd, has_comma = find_odd_cells(counts) or ([], False)
        if odd:
            of_odd = [value in odd for value in column.categories]
            comma = " with a decimal comma (--decimal ,)" if has_comma else ""
            explained[column.name] = (
                f"all but {number[of_odd].sum():,} of {number.sum():,} values are numbers{comma}; "
                f"the column is categorical because of {shorten(odd, 3)}, first in "
                f"{own.name_of(int(first[of_odd].min()))}"
            )
        elif has_comma:
            with_comma.append(column.name)
    return tuple(with_comma), explained


def _names(own: OwnData, examples: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(own.name_of(int(example)) for example in examples)


def _listed(items: Sequence[str]) -> str:
    more = f", … ({len(items)} in all)" if len(items) > _MOST_LINES else ""
    return ", ".join(items[:_MOST_LINES]) + more


def _bars(counts: Mapping[str, int]) -> list[str]:
    """Format one line per name with its count and a bar, for the most frequent names."""
    shown = list(counts)
    if len(counts) > _MOST_LINES:
        shown = sorted(counts, key=lambda name: -counts[name])[:_MOST_LINES]
    width = min(30, max(map(len, shown), default=0))
    most = max(counts.values(), default=0) or 1
    lines = [
        f"    {name[:30]:<{width}}  {counts[name]:>9,}  {'█' * round(20 * counts[name] / most)}"
        for name in shown
    ]
    if len(counts) > len(shown):
        lines.append(f"    … and {len(counts) - len(shown):,} more")
    return [line.rstrip() for line in lines]
