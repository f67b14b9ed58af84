"""What the readers give: examples, answers about them, and how new data become features."""

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
    """Examples and what was said about them: n examples, m answers, K classes.

    An answer is one statement "this example is not that class"; the arrays ``example``, ``label``
    and ``annotator`` hold one entry per answer, in the order of the examples.
    """

    X: NDArray[Any]
    """Features: float32 (n, d), or uint8 (n, channels, height, width) for images."""
    classes: tuple[str, ...]
    """Names of the K classes."""
    example: NDArray[np.int64]
    """(m,) the example that each answer is about, 0..n-1."""
    label: NDArray[np.int64]
    """(m,) the class that each answer excludes, 0..K-1."""
    annotator: NDArray[np.int64] | None
    """(m,) who gave each answer, -1 where it is not said; None without an annotator column."""
    annotators: tuple[str, ...]
    """Names of the annotators."""
    true_labels: NDArray[np.int64]
    """(n,) the true class where it is known, -1 where not."""
    recipe: Recipe | ImageRecipe
    """How new data become features; `read_features` applies it."""
    source: str
    """The file or folder, as it was named."""
    row: NDArray[np.int64]
    """(n,) the first row of each example in the source, from 0."""
    ids: tuple[str, ...] | None
    """(n,) the id or image path of each example; None for a plain table."""
    n_rows: int
    """Rows of the table, or image files."""
    n_dropped: int
    """Examples left out because they had neither a label nor a true class."""

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
        """Names of the columns of X; empty for images."""
        return self.recipe.feature_names if isinstance(self.recipe, Recipe) else ()

    @property
    def labels_per_example(self) -> NDArray[np.int64]:
        """(n,) number of answers about each example."""
        return np.bincount(self.example, minlength=self.n_examples)

    @property
    def comp_labels(self) -> NDArray[np.int64]:
        """(n,) the one complementary label of each example.

        Raises
        ------
        InvalidLabels
            If some example has none, or several.
        """
        counts = self.labels_per_example
        if (counts == 1).all():
            return self.label  # answers are in the order of the examples
        at = int(np.argmax(counts != 1))
        raise InvalidLabels(
            f"comp_labels needs exactly one label per example. {self.name_of(at)!r} of "
            f"{self.source} has {counts[at]}; {int((counts != 1).sum())} of {self.n_examples} "
            "examples do not have one.\nUse ruled_out, or the answers in example and label."
        )

    @property
    def ruled_out(self) -> NDArray[np.bool_]:
        """(n, K) whether an answer excludes the class; made anew at each call."""
        matrix = np.zeros((self.n_examples, self.n_classes), dtype=bool)
        matrix[self.example, self.label] = True
        return matrix

    @property
    def anchors(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Features and true classes of the examples whose true class is known."""
        known = self.true_labels >= 0
        return self.X[known], self.true_labels[known]

    def name_of(self, example: int) -> str:
        """Return how a person finds an example: its id or path, or its row."""
        return f"data row {self.row[example] + 1}" if self.ids is None else self.ids[example]

    def without_column(self, column: str) -> "OwnData":
        """Return the data without the features of a column; the same if it is the only one."""
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
