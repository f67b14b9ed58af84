"""The user's data as arrays, and the names of classes."""

import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.answers import CHOSEN, YES
from naysay._base.checks import shorten
from naysay._base.choices import Choices
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels
from naysay._base.mapped import compute, find_rows, parts_of
from naysay.datasets.own.columns import pc, to_array
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import Recipe

Indices = NDArray[np.int64]
_MOST_SHOWN = 300  # characters of a text
_MISSING = int(np.float64(np.nan).view(np.int64))  # the key of a missing number


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
    ids: Sequence[str] | None
    """(n,) the id or image path of each example; None for a table without ids."""
    n_rows: int
    """Number of rows of the table, or of image files."""
    n_dropped: int
    """Number of examples that were dropped: they have neither a label nor a true class."""
    accepted: NDArray[np.int8] | None = None
    """(m,) 1 for yes and 0 for no to a suggestion, -1 for a label; None without suggestions."""
    offered: Choices | None = None
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
            chosen &= self.offered.codes[rows] < 0
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


def class_names(
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


def check_rows_agree(
    parts: Iterable[tuple[int, pa.ChunkedArray]],
    name: str,
    first_row: Indices,
    example_of_row: Indices,
    source: str,
    *,
    is_feature: bool = True,
) -> None:
    """Check that all rows of an example have the same value in a column, which is read in parts."""
    n_rows = len(example_of_row)
    keys = compute(example_of_row, n_rows, np.int64, lambda _: 0)
    for first, cells in parts:
        try:
            keys[first : first + len(cells)] = _keys_of(to_array(cells))
        except pa.ArrowNotImplementedError:
            raise InvalidData(
                f"Column {name!r} of {source} must contain text or numbers. Its type is "
                f"{cells.type}."
            ) from None

    def differs(rows: slice) -> NDArray[np.bool_]:
        example = example_of_row[rows]
        return (example >= 0) & (keys[rows] != keys[first_row[example]])

    differing = find_rows(keys, n_rows, differs)
    if len(differing):
        row = int(differing[0])
        remedy = "Check that example_id= (--id) names the right column."
        if is_feature:
            remedy += (
                " If the column describes the label and not the example, such as its annotator or "
                f"its date, name it in annotator= (--annotator), or leave it out: ignore=[{name!r}]"
                f" (--ignore {shlex.quote(name)})."
            )
        raise InvalidData(
            f"Rows of the same example must have the same features. In {source}, column {name!r} "
            f"differs between data rows {first_row[example_of_row[row]] + 1} and {row + 1}.\n"
            f"{remedy}"
        )


def _keys_of(cells: pa.Array) -> NDArray[np.int64]:
    """Compute a number for each cell, which differs for different cells."""
    if pa.types.is_integer(cells.type):  # as float64, different ones above 2**53 are equal
        whole = pc.cast(cells, pa.int64(), safe=False)
        return pc.fill_null(whole, _MISSING).to_numpy()
    if pa.types.is_floating(cells.type):
        numbers = pc.cast(cells, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(numbers), np.nan, numbers + 0).view(np.int64)  # -0.0 is 0.0
    encoded = pc.dictionary_encode(cells)
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return np.array([*(hash(str(value)) for value in encoded.dictionary.to_pylist()), 0])[codes]
