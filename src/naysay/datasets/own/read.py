"""The user's own data: tables, arrays and images with labels that say "not this class".

Three steps: open the source, gather its answers, build the features of the examples that are
left. `read_features` reads new data the same way, for prediction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels, InvalidModelFile
from naysay.datasets.own import arrays
from naysay.datasets.own.answers import gather_answers
from naysay.datasets.own.images import ImageRecipe, find_images, find_labelled_images, resolve_paths
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.sources import Columns, Options, open_source
from naysay.datasets.own.tables import find_column, is_frame, read_table, source_name, to_text

__all__ = ["OwnData", "read_anchors", "read_features", "read_own", "recipe_from_dict"]


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

    def __repr__(self) -> str:
        return (
            f"OwnData({self.source!r}: {self.n_examples} examples of shape {self.X.shape[1:]}, "
            f"{len(self.label)} answers, {self.n_classes} classes: {shorten(self.classes, 3)})"
        )


def read_own(
    data: Any,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    true_label: str | None = None,
    annotator: str | None = None,
    example_id: str | None = None,
    images: str | None = None,
    classes: Sequence[str] | None = None,
    separator: str | None = "|",
    delimiter: str | None = None,
    decimal: str = ".",
    categorical: Sequence[str] = (),
    standardise: bool = False,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
) -> OwnData:
    """Read data with complementary labels: a table, an array file or a folder of images.

    Parameters
    ----------
    data : path or data frame
        A CSV (.csv, .tsv, .txt) or Parquet file, ``-`` for CSV from standard input, an .npz file,
        a folder with one folder of images per complementary label, or a pandas or polars frame.
    label : str, optional
        The column of complementary labels; needed for tables. A cell may hold several, as
        ``cat|dog``; a Parquet column may hold lists. Labels are text: ``007`` stays ``007``.
    features : sequence of str, optional
        The feature columns; all columns with no other role when left out.
    ignore : sequence of str
        Columns that are neither features nor anything else, such as a date.
    true_label : str, optional
        A column of true classes, empty where they are not known.
    annotator : str, optional
        A column that says who answered.
    example_id : str, optional
        A column that says which rows are about the same example. Without it each row is an
        example of its own.
    images : str, optional
        The column of image paths: the examples are the images. Relative paths start at the
        table's folder and must stay inside it; rows with the same path are one example.
    classes : sequence of str, optional
        All class names in order. Without it: every name in the label and true-label columns,
        sorted, so a class that nobody names is not known.
    separator : str or None, default="|"
        What stands between several labels in a cell; None if labels may hold it.
    delimiter, decimal : str
        For CSV: comma, semicolon or tab, found from the header when left out; the decimal mark.
    categorical : sequence of str
        Columns to take as categories, such as codes written as numbers.
    standardise : bool, default=False
        Bring numeric columns to mean 0 and standard deviation 1.
    size : (height, width), optional
        Bring all images to this size; needed only where they differ.
    mode : {"L", "RGB"}, optional
        Greyscale or colour; greyscale when all images are, if left out.

    Returns
    -------
    OwnData

    Raises
    ------
    InvalidData
        If the file is damaged, or a column cannot be used; the message says where and why.
    InvalidInput
        If a parameter names what is not there.
    InvalidLabels
        If labels are not among `classes`, or there is none.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"age": [3, 9, 5], "not": ["cat|dog", "owl", "cat"]})
    >>> own = read_own(frame, label="not")
    >>> own.classes, own.ruled_out.sum(axis=1).tolist()
    (('cat', 'dog', 'owl'), [2, 1, 1])
    """
    columns = Columns(
        label=label,
        true_label=true_label,
        annotator=annotator,
        example_id=example_id,
        images=images,
        features=features,
        ignore=ignore,
    )
    options = Options(
        delimiter=delimiter,
        decimal=decimal,
        categorical=categorical,
        standardise=standardise,
        size=size,
        mode=mode,
    )
    source = open_source(data, columns, options, classes)
    answers = gather_answers(
        source.cells, classes=source.classes, separator=separator, source=source.name
    )
    X, recipe = source.build(answers)
    names = source.row_names
    return OwnData(
        X=X,
        classes=answers.classes,
        example=answers.example,
        label=answers.label,
        annotator=answers.annotator,
        annotators=answers.annotators,
        true_labels=answers.true_labels,
        recipe=recipe,
        source=source.name,
        row=answers.first_row,
        ids=None if names is None else tuple(names[int(row)] for row in answers.first_row),
        n_rows=len(answers.example_of_row),
        n_dropped=answers.n_dropped,
    )


def read_features(
    data: Any,
    recipe: Recipe | ImageRecipe,
    *,
    images: str | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
) -> NDArray[Any]:
    """Read the features of new data, one row per row of the table or per image file.

    Nothing is learned from the new data and no row is left out; labels are not needed. The
    images of a folder come in the order of `naysay.datasets.own.images.find_images`.

    Parameters
    ----------
    data : path or data frame
        Anything that `read_own` reads; of a folder, all images in it at any depth.
    recipe : Recipe or ImageRecipe
        The one of the training data, ``OwnData.recipe``.
    images : str, optional
        The column of image paths, for a table of images.
    delimiter, decimal : str
        As in `read_own`.
    """
    name = source_name(data)
    is_path = not is_frame(data) and str(data) != "-"
    if isinstance(recipe, Recipe):
        if is_path and Path(data).is_dir():
            raise InvalidInput(
                f"{name} must be a table, as the training data were. It is a folder."
            )
        if is_path and Path(data).suffix.lower() == ".npz":
            table = arrays.split_features(_array(data, name), name)
        else:
            table = read_table(data, text=recipe.categorical, delimiter=delimiter, decimal=decimal)
        if isinstance(table, np.ndarray):
            raise InvalidData(f"{name} must hold a table as the training data did, not images.")
        return recipe.apply(table, source=name)
    if is_path and Path(data).is_dir():
        return recipe.apply(find_images(data))
    if is_path and Path(data).suffix.lower() == ".npz":
        return _matching_images(_array(data, name), recipe, name)
    if images is None:
        raise InvalidInput(
            f"images (--images) must name the column of {name} that holds the image paths."
        )
    table = read_table(data, text=[images], delimiter=delimiter, decimal=decimal)
    cells = to_text(find_column(table, images, name, role="images"), images, name, longest=4096)
    base = Path(data).parent if is_path else Path.cwd()
    return recipe.apply(resolve_paths(cells.to_pylist(), base, name))


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe | ImageRecipe:
    """Rebuild a recipe of either kind from what its ``to_dict`` gave."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind == "table":
        return Recipe.from_dict(values)
    if kind == "images":
        return ImageRecipe.from_dict(values)
    raise InvalidModelFile(f"A recipe must be of kind 'table' or 'images'. Got {shorten(kind)}.")


def _array(data: Any, source: str) -> NDArray[Any]:
    return arrays.find_array(arrays.read_arrays(Path(data), source), "X", source)


def _matching_images(X: NDArray[Any], recipe: ImageRecipe, source: str) -> NDArray[np.uint8]:
    images = arrays.split_features(X, source)
    if not isinstance(images, np.ndarray) or images.shape[1:] != recipe.shape:
        raise InvalidData(
            f"X of {source} must hold images of shape {recipe.shape}, as the training data did. "
            f"Got {X.shape}."
        )
    return images


def read_anchors(
    data: Any,
    own: OwnData,
    *,
    true_label: str | None = None,
    images: str | None = None,
    ignored: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read examples and their true classes, with features as those of `own`.

    Parameters
    ----------
    data : path or data frame
        A table with the feature columns of `own` and a column of true classes, an .npz file with
        ``X`` and ``true_labels``, or a folder with one folder of images per *true* class.
    own : OwnData
        The data that the anchors belong to.
    true_label : str, optional
        The column of true classes. Left out, it is the one column of the table that is neither a
        feature nor listed in `ignored`.
    images : str, optional
        The column of image paths, for a table of images.
    ignored : collection of str
        Columns of `own`'s table that are no features: labels, annotators, ids.
    delimiter, decimal : str
        As in `read_own`.

    Returns
    -------
    X, true_labels : arrays
        Features, and classes as positions in ``own.classes``. Rows with an empty true class are
        left out.

    Examples
    --------
    >>> import pandas
    >>> from naysay.datasets.own import read_own
    >>> own = read_own(pandas.DataFrame({"age": [3, 9], "not": ["cat", "dog"]}), label="not")
    >>> X, y = read_anchors(pandas.DataFrame({"age": [5], "is": ["dog"]}), own)
    >>> X.tolist(), y.tolist()
    ([[5.0]], [1])
    """
    name = source_name(data)
    is_path = not is_frame(data) and str(data) != "-"
    if is_path and Path(data).is_dir():
        labels = find_labelled_images(data)[1]
        X = read_features(data, own.recipe)
    elif is_path and Path(data).suffix.lower() == ".npz":
        column = true_label or "true_labels"
        values = arrays.find_array(arrays.read_arrays(Path(data), name), column, name)
        X = read_features(data, own.recipe)
        labels = arrays.text_cells(values, column, own.classes, len(X), name).to_pylist()
    else:
        column = true_label
        if column is None:
            table = read_table(data, delimiter=delimiter, decimal=decimal)
            column = _guess_column(table.column_names, own, {*ignored, images}, name)
        table = read_table(data, text=[column], delimiter=delimiter, decimal=decimal)
        labels = to_text(find_column(table, column, name, role="true_label"), column, name)
        labels = labels.to_pylist()
        X = read_features(data, own.recipe, images=images, delimiter=delimiter, decimal=decimal)
    return _known(X, labels, own, name)


def _guess_column(
    columns: list[str], own: OwnData, ignored: Collection[str | None], source: str
) -> str:
    used = {column.name for column in own.recipe.columns} if isinstance(own.recipe, Recipe) else ()
    left = [column for column in columns if column not in used and column not in ignored]
    if len(left) == 1:
        return left[0]
    raise InvalidInput(
        f"true_label (--anchor-label) must name the column of {source} that holds the true "
        f"classes. It may be any of {shorten(left or columns)}."
    )


def _known(
    X: NDArray[Any], labels: Sequence[str | None], own: OwnData, source: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    place = {name: index for index, name in enumerate(own.classes)}
    unknown = sorted({label for label in labels if label is not None and label not in place})
    if unknown:
        raise InvalidLabels(
            f"{source} must hold true classes that {own.source} names too, "
            f"{shorten(own.classes)}. It has also {shorten(unknown)}. A class that is never named "
            "as complementary cannot be learned; mend the names, or list all classes."
        )
    true = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int64)
    if not (true >= 0).any():
        raise InvalidLabels(f"{source} must hold at least one true class. It holds none.")
    return X[true >= 0], true[true >= 0]
