"""The user's data as arrays: features, answers, true classes, and the recipe of the features."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidLabels
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import Recipe

__all__ = ["OwnData"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OwnData:
    """The user's data: n examples with m answers about K classes.

    An answer is one complementary label: the statement that an example does not belong to a
    class. The arrays ``example``, ``label`` and ``annotator`` have one entry per answer, in the
    order of the examples.
    """

    X: NDArray[Any]
    """Features: float32 of shape (n, d), or uint8 of shape (n, channels, height, width)."""
    classes: tuple[str, ...]
    """Names of the K classes."""
    example: NDArray[np.int64]
    """(m,) the example of each answer, from 0 to n - 1."""
    label: NDArray[np.int64]
    """(m,) the class that each answer excludes, from 0 to K - 1."""
    annotator: NDArray[np.int64] | None
    """(m,) the annotator of each answer, -1 where unknown; None without an annotator column."""
    annotators: tuple[str, ...]
    """Names of the annotators."""
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
        return np.bincount(self.example, minlength=self.n_examples)

    @property
    def comp_labels(self) -> NDArray[np.int64]:
        """(n,) the complementary label of each example, if each has exactly one.

        Raises
        ------
        InvalidLabels
            If an example has no label, or several.
        """
        counts = self.labels_per_example
        if (counts == 1).all():
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
        matrix[self.example, self.label] = True
        return matrix

    @property
    def anchors(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Features and true classes of the anchors, the examples whose true class is known."""
        known = self.true_labels >= 0
        return self.X[known], self.true_labels[known]

    def name_of(self, example: int) -> str:
        """Name an example for a reader: by its id or image path, or by its row."""
        return f"data row {self.row[example] + 1}" if self.ids is None else self.ids[example]

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
        return replace(self, X=self.X[:, is_kept], recipe=replace(self.recipe, columns=kept))

    def __repr__(self) -> str:
        return (
            f"OwnData({self.source!r}: {self.n_examples} examples of shape {self.X.shape[1:]}, "
            f"{len(self.label)} answers, {self.n_classes} classes: {shorten(self.classes, 3)})"
        )
