"""A first look at the user's own data: what is there, and what cannot work."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay.datasets.own.data import OwnData
from naysay.datasets.own.recipe import CategoricalColumn, Recipe, find_odd_cells
from naysay.datasets.own.tables import MISSING_WORDS

__all__ = ["Summary", "summarise"]

_FRACTION = re.compile(r"-?[0-9]*[.,][0-9]*[1-9]")
_FEWEST_ROWS = 10  # a column that counts fewer may well be something else
_MOST_COLUMNS = 3  # of those that a warning explains one by one
_MOST_LINES = 20  # of a listing by class or annotator, before the rest is only counted


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a first look at the data finds; ``print`` it to read it, `to_dict` for JSON."""

    source: str
    n_rows: int
    n_examples: int
    n_dropped: int
    """Examples with neither a label nor a true class; they are left out."""
    n_answers: int
    shape: tuple[int, ...]
    """Shape of one example: (features,), or (channels, height, width)."""
    labels_per_class: Mapping[str, int]
    """How often each class is named as complementary."""
    labels_per_example: Mapping[int, int]
    """How many examples have so many answers."""
    n_true_labels: int
    annotators: Mapping[str, int]
    """How many answers each annotator gave."""
    n_unattributed: int
    """Answers that do not say who gave them, where others do."""
    n_duplicates: int
    """Examples whose features equal those of an earlier one."""
    n_repeated: int
    """Answers that say again what the same annotator said of the same example."""
    missing_values: Mapping[str, int]
    """Missing values per feature column that has some."""
    constant_features: tuple[str, ...]
    dropped_columns: Mapping[str, str]
    """Columns set aside, with the reason."""
    all_excluded: tuple[str, ...]
    """Examples for which every class is excluded."""
    true_excluded: tuple[str, ...]
    """Examples whose known true class is excluded."""
    class_columns: tuple[str, ...] = ()
    """Feature columns that hold class names, as a column of true classes would."""
    id_columns: tuple[str, ...] = ()
    """Feature columns that count the rows, as an id does."""
    comma_columns: tuple[str, ...] = ()
    """Columns of categories that look like numbers with a decimal comma."""
    odd_cells: Mapping[str, str] = field(default_factory=dict[str, str])
    """What makes a column categories where nearly all of its values are numbers."""

    @property
    def never_named(self) -> tuple[str, ...]:
        """Classes never named as complementary: these cannot be learned."""
        return tuple(name for name, count in self.labels_per_class.items() if count == 0)

    @property
    def look_alikes(self) -> tuple[str, ...]:
        """Classes that differ from another one only in capitals or spaces."""
        plain = Counter("".join(name.split()).casefold() for name in self.labels_per_class)
        return tuple(
            name for name in self.labels_per_class if plain["".join(name.split()).casefold()] > 1
        )

    @property
    def looks_missing(self) -> tuple[str, ...]:
        """Classes whose name is usually written for a missing value, such as ``NaN``."""
        return tuple(name for name in self.labels_per_class if name in MISSING_WORDS)

    @property
    def fractions(self) -> tuple[str, ...]:
        """Classes whose name is a number with decimals, as a measure has."""
        return tuple(name for name in self.labels_per_class if _FRACTION.fullmatch(name))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What cannot work or deserves a look, one sentence each; empty if all is well."""
        found = [
            (self.never_named, "never named as complementary, so these cannot be learned"),
            (self.look_alikes, "classes that differ only in capitals or spaces: the same class?"),
            (self.looks_missing, "a class, or a missing value? Leave the cell empty if missing"),
            (self.fractions, "class names that are numbers with decimals: are these the labels?"),
            (self.all_excluded, "all classes are excluded: at least one answer is wrong"),
            (self.true_excluded, "the known true class is excluded: one of the two is wrong"),
            (
                self.class_columns,
                "a feature that holds class names: true classes belong in --true-label",
            ),
            (
                self.comma_columns,
                "categories that look like numbers with a decimal comma: pass decimal=',' "
                "(--decimal ,)",
            ),
            (self.id_columns, "a feature that counts the rows, as an id does: --ignore or --id?"),
            (self.constant_features, "always the same value, so nothing to learn from"),
            (tuple(self.dropped_columns), "set aside: every value is missing"),
        ]
        odd = list(self.odd_cells)
        found += [((name,), self.odd_cells[name]) for name in odd[:_MOST_COLUMNS]]
        found += [(tuple(odd[_MOST_COLUMNS:]), "categories too, though nearly all are numbers")]
        return tuple(f"{shorten(names)}: {meaning}" for names, meaning in found if names)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "source": self.source,
            "rows": self.n_rows,
            "examples": self.n_examples,
            "dropped": self.n_dropped,
            "answers": self.n_answers,
            "shape": list(self.shape),
            "classes": list(self.labels_per_class),
            "labels_per_class": dict(self.labels_per_class),
            "never_named": list(self.never_named),
            "labels_per_example": {str(n): count for n, count in self.labels_per_example.items()},
            "true_labels": self.n_true_labels,
            "annotators": dict(self.annotators),
            "unattributed": self.n_unattributed,
            "duplicates": self.n_duplicates,
            "repeated_answers": self.n_repeated,
            "missing_values": dict(self.missing_values),
            "constant_features": list(self.constant_features),
            "dropped_columns": dict(self.dropped_columns),
            "all_excluded": list(self.all_excluded),
            "true_excluded": list(self.true_excluded),
            "class_columns": list(self.class_columns),
            "id_columns": list(self.id_columns),
            "comma_columns": list(self.comma_columns),
            "odd_cells": dict(self.odd_cells),
            "warnings": list(self.warnings),
        }

    def facts(self) -> dict[str, str]:
        """Return the single figures as text, in reading order."""
        spread = (f"{count:,} with {n}" for n, count in sorted(self.labels_per_example.items()))
        is_table = len(self.shape) == 1
        size = "x".join(map(str, self.shape))
        missing = [f"{name} {count:,}" for name, count in self.missing_values.items()]
        facts = {
            "rows": f"{self.n_rows:,}",
            "examples": f"{self.n_examples:,}"
            + (f" ({self.n_dropped:,} without any label left out)" if self.n_dropped else ""),
            "features" if is_table else "images": size,
            "classes": f"{len(self.labels_per_class):,}",
            "answers": f"{self.n_answers:,}",
            "answers per example": _listed(spread),
            "true classes known": f"{self.n_true_labels:,}",
            "duplicate examples": f"{self.n_duplicates:,}",
            "repeated answers": f"{self.n_repeated:,}",
            "missing values": _listed(missing) or "none",
        }
        if self.n_unattributed:
            facts["answers by nobody"] = f"{self.n_unattributed:,}"
        return facts

    def __str__(self) -> str:
        parts = [self.source, *(f"  {key:<22}{value}" for key, value in self.facts().items())]
        parts += ["  not this class:", *_bars(self.labels_per_class)]
        if self.annotators:
            parts += ["  answers by:", *_bars(self.annotators)]
        parts += [f"  warning: {warning}" for warning in self.warnings]
        return "\n".join(parts)


def summarise(own: OwnData) -> Summary:
    """Take a first look at data that `read_own` gave.

    Examples
    --------
    >>> import pandas
    >>> from naysay.datasets.own import read_own
    >>> frame = pandas.DataFrame({"age": [3, 9], "not": ["cat", "cat"], "is": ["owl", None]})
    >>> summarise(read_own(frame, label="not", true_label="is")).never_named
    ('owl',)
    """
    counts = np.bincount(own.label, minlength=own.n_classes).tolist()
    per_example, n_examples = np.unique(own.labels_per_example, return_counts=True)
    recipe = own.recipe if isinstance(own.recipe, Recipe) else Recipe(columns=())
    by_annotator = np.array([], dtype=np.int64) if own.annotator is None else own.annotator
    comma_columns, odd_cells = _almost_numbers(own, recipe)
    answered = np.bincount(by_annotator[by_annotator >= 0], minlength=len(own.annotators))
    return Summary(
        source=own.source,
        n_rows=own.n_rows,
        n_examples=own.n_examples,
        n_dropped=own.n_dropped,
        n_answers=len(own.label),
        shape=own.X.shape[1:],
        labels_per_class=dict(zip(own.classes, counts, strict=True)),
        labels_per_example=dict(zip(per_example.tolist(), n_examples.tolist(), strict=True)),
        n_true_labels=int((own.true_labels >= 0).sum()),
        annotators=dict(zip(own.annotators, answered.tolist(), strict=True)),
        n_unattributed=int((by_annotator < 0).sum()),
        n_duplicates=_count_duplicates(own.X),
        n_repeated=_count_repeated(own),
        missing_values=_missing_values(recipe),
        constant_features=_constant_features(own),
        dropped_columns=dict(recipe.dropped),
        all_excluded=_all_excluded(own),
        true_excluded=_true_excluded(own),
        class_columns=tuple(
            column.name
            for column in recipe.columns
            if isinstance(column, CategoricalColumn)
            and len(column.categories) > 1
            and set(column.categories) <= set(own.classes)
        ),
        id_columns=_id_columns(own),
        comma_columns=comma_columns,
        odd_cells=odd_cells,
    )


def _count_duplicates(X: NDArray[Any]) -> int:
    rows = np.ascontiguousarray(X.reshape(len(X), -1) + 0)  # + 0 turns -0.0 into 0.0
    distinct = {hashlib.blake2b(row, digest_size=16).digest() for row in rows}
    return len(rows) - len(distinct)


def _count_repeated(own: OwnData) -> int:
    annotator = np.full(len(own.label), -1) if own.annotator is None else own.annotator
    said = np.stack([own.example, own.label, annotator], axis=1)
    return len(said) - len(_distinct_rows(said))


def _distinct_rows(said: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the distinct rows; by one sort of the columns, last column first."""
    ordered = said[np.lexsort(said.T[::-1])]
    is_new = np.ones(len(ordered), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return ordered[is_new]


def _missing_values(recipe: Recipe) -> dict[str, int]:
    return {column.name: column.n_missing for column in recipe.columns if column.n_missing}


def _constant_features(own: OwnData) -> tuple[str, ...]:
    if own.n_examples < 2 or not own.feature_names:
        return ()
    same = np.ptp(own.X, axis=0) == 0
    return tuple(name for name, is_same in zip(own.feature_names, same, strict=True) if is_same)


def _id_columns(own: OwnData) -> tuple[str, ...]:
    """Find whole numbers that only grow by small steps from row to row."""
    if own.n_examples < _FEWEST_ROWS or not own.feature_names:
        return ()
    steps = np.diff(own.X, axis=0)
    whole = (steps == np.floor(steps)) & (steps > 0)
    small = np.median(steps, axis=0) == 1  # some rows may have been left out
    found = whole.all(axis=0) & small
    return tuple(name for name, is_id in zip(own.feature_names, found, strict=True) if is_id)


def _almost_numbers(own: OwnData, recipe: Recipe) -> tuple[tuple[str, ...], dict[str, str]]:
    """Find columns of categories that should be numbers: by a decimal comma, or but for a few."""
    with_comma: list[str] = []
    explained: dict[str, str] = {}
    stop = 0
    for column in recipe.columns:
        start, stop = stop, stop + len(column.feature_names)
        if not isinstance(column, CategoricalColumn) or column.has_other:
            continue  # "other" is only there if categories were asked for
        has = own.X[:, start : start + len(column.categories)] > 0
        counts = dict(zip(column.categories, np.count_nonzero(has, axis=0).tolist(), strict=True))
        odd, has_comma = find_odd_cells(counts) or ([], False)
        if odd:
            is_odd = has[:, [value in odd for value in column.categories]].any(axis=1)
            comma = " with a decimal comma (--decimal ,)" if has_comma else ""
            explained[column.name] = (
                f"all but {is_odd.sum():,} of {has.sum():,} values are numbers{comma}: categories "
                f"because of {shorten(odd, 3)}, first in {own.name_of(int(np.argmax(is_odd)))}"
            )
        elif has_comma:
            with_comma.append(column.name)
    return tuple(with_comma), explained


def _all_excluded(own: OwnData) -> tuple[str, ...]:
    pairs = _distinct_rows(np.stack([own.example, own.label], axis=1))
    n_excluded = np.bincount(pairs[:, 0], minlength=own.n_examples)
    return _names(own, np.flatnonzero(n_excluded == own.n_classes))


def _true_excluded(own: OwnData) -> tuple[str, ...]:
    wrong = own.label == own.true_labels[own.example]
    return _names(own, np.unique(own.example[wrong]))


def _names(own: OwnData, examples: NDArray[np.int64]) -> tuple[str, ...]:
    return tuple(own.name_of(int(example)) for example in examples)


def _listed(items: Any) -> str:
    listed: Sequence[str] = list(items)
    more = f", … ({len(listed)} in all)" if len(listed) > _MOST_LINES else ""
    return ", ".join(listed[:_MOST_LINES]) + more


def _bars(counts: Mapping[str, int]) -> list[str]:
    """Return one line per name with its count and a bar; the most frequent if there are many."""
    shown = sorted(counts, key=lambda name: -counts[name])[:_MOST_LINES]
    if len(counts) <= _MOST_LINES:
        shown = list(counts)
    width = min(30, max(map(len, shown), default=0))
    most = max(counts.values(), default=0) or 1
    lines = [
        f"    {name[:30]:<{width}}  {counts[name]:>9,}  {'█' * round(20 * counts[name] / most)}"
        for name in shown
    ]
    if len(counts) > len(shown):
        lines.append(f"    … and {len(counts) - len(shown):,} more")
    return [line.rstrip() for line in lines]
