"""The user's own data: tables, arrays and images with labels that say "not this class".

`read_own` opens the source, turns its cells into answers, and builds the features of the examples
that are left. `read_features` and `read_anchors` read more data with the same features.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels, InvalidModelFile
from naysay.datasets.own.answers import (
    Answers,
    check_rows_agree,
    class_indices,
    gather_answers,
    sort_names,
)
from naysay.datasets.own.arrays import (
    find_array,
    open_arrays,
    read_arrays,
    split_features,
    text_cells,
)
from naysay.datasets.own.data import OwnData
from naysay.datasets.own.images import (
    ImageRecipe,
    digest_files,
    find_images,
    find_labelled_images,
    plan_images,
    resolve_paths,
)
from naysay.datasets.own.recipe import Recipe, fit_recipe
from naysay.datasets.own.tables import (
    LONGEST_NAME,
    codes_of,
    find_column,
    is_frame,
    pc,
    read_table,
    source_name,
    to_text,
)

__all__ = ["OwnData", "read_anchors", "read_features", "read_own", "recipe_from_dict"]

# Characters per cell: several labels, a path or an address may be longer than one name.
_LONGEST_CELL = {"label": 1 << 16, "images": 4096, "example_id": 4096}


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
    source = source_name(data)
    columns = {
        "label": label,
        "true_label": true_label,
        "annotator": annotator,
        "example_id": example_id,
        "images": images,
    }
    columns = {role: column for role, column in columns.items() if column is not None}
    rows: Any  # a table, pixels, the files of a folder, or cells that name image files
    if _is_folder(data):
        _refuse_columns(columns)
        rows, labels, folders = find_labelled_images(data)
        # The same file in two folders is one image with two labels.
        cells = {"label": pa.array(labels), "example_id": pa.array(digest_files(rows))}
        classes = sort_names(folders) if classes is None else classes
    elif _is_array_file(data):
        cells, rows, classes = open_arrays(Path(data), columns, classes)
    else:
        text = {*columns.values(), *categorical}
        rows = read_table(data, text=text, delimiter=delimiter, decimal=decimal)
        cells = _label_cells(rows, columns, source)
        if images is not None:
            rows = cells.pop("images")
            cells.setdefault("example_id", rows)
    if isinstance(rows, pa.Table):
        rows = rows.select(_feature_columns(rows, columns, features, ignore, source))
    elif features is not None:
        raise InvalidInput(
            f"features must be left out for images: the pixels are the features. "
            f"Got {shorten(list(features))}."
        )
    answers = gather_answers(**cells, classes=classes, separator=separator, source=source)
    if isinstance(rows, pa.Table):
        X, recipe = _table_features(rows, answers, categorical, standardise, source)
    elif isinstance(rows, np.ndarray):
        X = rows[answers.row]
        recipe = ImageRecipe(
            height=X.shape[2], width=X.shape[3], mode="L" if X.shape[1] == 1 else "RGB"
        )
    else:
        paths = _image_paths(rows, answers, data, images)
        recipe = plan_images(paths, size=size, mode=mode)
        X = recipe.apply(paths)
    ids = None
    if isinstance(rows, list):
        ids = tuple(rows[row].relative_to(data).as_posix() for row in answers.row)
    elif "example_id" in cells:
        ids = tuple(cells["example_id"].take(pa.array(answers.row)).to_pylist())
    return OwnData(
        X=X,
        classes=answers.classes,
        example=answers.example,
        label=answers.label,
        annotator=answers.annotator,
        annotators=answers.annotators,
        true_labels=answers.true_labels,
        recipe=recipe,
        source=source,
        row=answers.row,
        ids=ids,
        n_rows=len(answers.example_of_row),
        n_dropped=answers.n_dropped,
    )


def _is_path(data: Any) -> bool:
    return not is_frame(data) and str(data) != "-"


def _is_folder(data: Any) -> bool:
    return _is_path(data) and Path(data).is_dir()


def _is_array_file(data: Any) -> bool:
    return _is_path(data) and Path(data).suffix.lower() == ".npz"


def _refuse_columns(columns: Mapping[str, str]) -> None:
    for role, column in columns.items():
        raise InvalidInput(
            f"{role} must be left out for a folder of images: the folders' names are the labels. "
            f"Got {column!r}."
        )


def _label_cells(table: pa.Table, columns: Mapping[str, str], source: str) -> dict[str, pa.Array]:
    """Return the columns that are no features as text, by the parameter that names them."""
    if "label" not in columns:
        raise InvalidInput(
            f"label must name the column of complementary labels in {source}. Its columns are "
            f"{shorten(table.column_names)}."
        )
    roles: dict[str, str] = {}
    for role, column in columns.items():
        other = roles.setdefault(column, role)
        if other != role and {other, role} != {"example_id", "images"}:
            raise InvalidInput(
                f"{other} and {role} must be two columns of {source}. Both are {column!r}."
            )
    found = {
        role: find_column(table, column, source, role=role) for role, column in columns.items()
    }
    return {role: _text(cells, columns[role], role, source) for role, cells in found.items()}


def _text(cells: pa.ChunkedArray, column: str, role: str, source: str) -> pa.Array:
    is_list = pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type)
    if role != "label" or not is_list:
        return to_text(cells, column, source, longest=_LONGEST_CELL.get(role, LONGEST_NAME))
    # A Parquet file can hold several labels per cell without a separator.
    lists = pc.cast(cells, pa.large_list(cells.type.value_type)).combine_chunks()
    flat = to_text(pa.chunked_array([pc.list_flatten(lists)]), column, source)
    ends = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0))])
    return pa.LargeListArray.from_arrays(ends, flat)


def _feature_columns(
    table: pa.Table,
    columns: Mapping[str, str],
    features: Sequence[str] | None,
    ignore: Sequence[str],
    source: str,
) -> list[str]:
    for role, listed in (("features", features), ("ignore", ignore)):
        if isinstance(listed, str):
            raise InvalidInput(f"{role} must be a list of columns. Got the text {shorten(listed)}.")
    for name in ignore:
        find_column(table, name, source, role="ignore")
    if features is None:
        other = {*columns.values(), *ignore}
        return [name for name in table.column_names if name not in other]
    if ignore:
        raise InvalidInput("features and ignore must not both be given. Leave one of them out.")
    names = list(dict.fromkeys(features))
    for name in names:
        find_column(table, name, source, role="features")
    for role, name in columns.items():
        if name in names:
            raise InvalidInput(
                f"features must not hold the {role} column {name!r} of {source}: the model would "
                "learn to read its answer there."
            )
    return names


def _table_features(
    table: pa.Table,
    answers: Answers,
    categorical: Sequence[str],
    standardise: bool,
    source: str,
) -> tuple[NDArray[np.float32], Recipe]:
    n_examples = len(answers.row)
    examples = table if n_examples == len(table) else table.take(pa.array(answers.row))
    names = table.column_names
    recipe = fit_recipe(
        examples, names, categorical=categorical, standardise=standardise, source=source
    )
    if n_examples != (answers.example_of_row >= 0).sum():  # some have several rows
        for name in names:
            check_rows_agree(table[name], name, answers, source)
    return recipe.apply(examples, source=source), recipe


def _image_paths(
    rows: pa.Array | list[Path], answers: Answers, data: Any, column: str | None
) -> list[Path]:
    """Return the image file of each example; no other one is opened."""
    if isinstance(rows, list):
        return [rows[row] for row in answers.row]
    source = source_name(data)
    check_rows_agree(pa.chunked_array([rows]), str(column), answers, source)
    cells = rows.take(pa.array(answers.row)).to_pylist()
    return resolve_paths(cells, answers.row, _folder_of(data), source)


def _folder_of(data: Any) -> Path:
    """Return the folder where relative image paths of a table start."""
    return Path(data).parent if _is_path(data) else Path.cwd()


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
    if _is_folder(data):
        if isinstance(recipe, Recipe):
            raise InvalidInput(
                f"{name} must be a table, as the training data were. It is a folder."
            )
        return recipe.apply(find_images(data))
    if _is_array_file(data):
        X = find_array(read_arrays(Path(data), name), "X", name)
        features = split_features(X, name)
        if isinstance(recipe, Recipe):
            if isinstance(features, np.ndarray):
                raise InvalidData(f"{name} must hold a table as the training data did, not images.")
            return recipe.apply(features, source=name)
        if not isinstance(features, np.ndarray) or features.shape[1:] != recipe.shape:
            raise InvalidData(
                f"X of {name} must hold images of shape {recipe.shape}, as the training data did. "
                f"Got {X.shape}."
            )
        return features
    if isinstance(recipe, Recipe):
        table = read_table(data, text=recipe.categorical, delimiter=delimiter, decimal=decimal)
        return recipe.apply(table, source=name)
    if images is None:
        raise InvalidInput(
            f"images (--images) must name the column of {name} that holds the image paths."
        )
    table = read_table(data, text=[images], delimiter=delimiter, decimal=decimal)
    cells = _text(find_column(table, images, name, role="images"), images, "images", name)
    rows = range(table.num_rows)
    return recipe.apply(resolve_paths(cells.to_pylist(), rows, _folder_of(data), name))


def recipe_from_dict(values: Mapping[str, Any]) -> Recipe | ImageRecipe:
    """Rebuild a recipe of either kind from what its ``to_dict`` gave."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind == "table":
        return Recipe.from_dict(values)
    if kind == "images":
        return ImageRecipe.from_dict(values)
    raise InvalidModelFile(f"A recipe must be of kind 'table' or 'images'. Got {shorten(kind)}.")


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
    if _is_folder(data):
        labels = pa.array(find_labelled_images(data)[1])
        X = read_features(data, own.recipe)
    elif _is_array_file(data):
        column = true_label or "true_labels"
        values = find_array(read_arrays(Path(data), name), column, name)
        X = read_features(data, own.recipe)
        labels = text_cells(values, column, own.classes, len(X), name)
    else:
        column = true_label
        if column is None:
            table = read_table(data, delimiter=delimiter, decimal=decimal)
            column = _guess_column(table.column_names, own, {*ignored, images}, name)
        table = read_table(data, text=[column], delimiter=delimiter, decimal=decimal)
        labels = to_text(find_column(table, column, name, role="true_label"), column, name)
        X = read_features(data, own.recipe, images=images, delimiter=delimiter, decimal=decimal)
    true = class_indices(*codes_of(labels), own.classes, "true_label", name)
    if not (true >= 0).any():
        raise InvalidLabels(f"{name} must hold at least one true class. It holds none.")
    return X[true >= 0], true[true >= 0]


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
