"""The three kinds of data that users bring, each opened the same way.

Opening gives the cells that tell about labels, and a way to build the features once it is known
which rows are examples: pictures of rows that are dropped are never decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput
from naysay.datasets.own import arrays
from naysay.datasets.own.answers import Answers, Cells, check_same, in_order
from naysay.datasets.own.images import ImageRecipe, find_labelled_images, plan_images, resolve_paths
from naysay.datasets.own.recipe import Recipe, fit_recipe
from naysay.datasets.own.tables import (
    LONGEST_NAME,
    find_column,
    is_frame,
    pc,
    read_table,
    source_name,
    to_text,
)

__all__ = ["Columns", "Features", "Options", "Source", "open_source"]

# Characters per cell: several labels, a path or an address may be longer than one name.
_LONGEST_CELL = {"label": 1 << 16, "images": 4096, "example_id": 4096}

Features = tuple[NDArray[Any], Recipe | ImageRecipe]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column holds what; None where the data have no such column."""

    label: str | None
    true_label: str | None
    annotator: str | None
    example_id: str | None
    images: str | None
    features: Sequence[str] | None
    ignore: Sequence[str] = ()

    @property
    def named(self) -> dict[str, str]:
        """The columns that are no features, by the parameter that names them."""
        roles = ("label", "true_label", "annotator", "example_id", "images")
        return {role: name for role in roles if (name := getattr(self, role)) is not None}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to read: what the CSV file looks like, how columns and images become features."""

    delimiter: str | None
    decimal: str
    categorical: Sequence[str]
    standardise: bool
    size: tuple[int, int] | None
    mode: str | None


@dataclass(frozen=True, kw_only=True)
class Source:
    """Opened data: label cells, class names if the data list them, names of rows, features."""

    name: str
    cells: Cells
    build: Callable[[Answers], Features]
    classes: Sequence[str] | None = None
    row_names: Sequence[str] | None = None


def open_source(
    data: Any, columns: Columns, options: Options, classes: Sequence[str] | None
) -> Source:
    """Open a folder of images, an array file, or a table."""
    if not is_frame(data) and str(data) != "-":
        if Path(data).is_dir():
            return _open_folder(Path(data), columns, options, classes)
        if Path(data).suffix.lower() == ".npz":
            return _open_arrays(Path(data), columns, options, classes)
    return _open_table(data, columns, options, classes)


def _open_table(
    data: Any, columns: Columns, options: Options, classes: Sequence[str] | None
) -> Source:
    name = source_name(data)
    text = {*columns.named.values(), *options.categorical}
    table = read_table(data, text=text, delimiter=options.delimiter, decimal=options.decimal)
    if columns.label is None:
        raise InvalidInput(
            f"label must name the column of complementary labels in {name}. Its columns are "
            f"{shorten(table.column_names)}."
        )
    _refuse_two_roles(columns, name)
    found = {
        role: find_column(table, column, name, role=role) for role, column in columns.named.items()
    }
    text_of = {role: _text(cells, columns.named[role], role, name) for role, cells in found.items()}
    cells = Cells(
        label=text_of["label"],
        true_label=text_of.get("true_label"),
        annotator=text_of.get("annotator"),
        example=text_of.get("example_id", text_of.get("images")),
    )
    if columns.images is not None:
        _refuse_features(columns, "images=")
        build = _image_builder(data, text_of["images"], columns.images, options, name)
    else:
        features = _feature_columns(table, columns, name)
        build = _table_builder(table.select(features), options, name)
    ids = None if cells.example is None else cells.example.to_pylist()
    return Source(name=name, cells=cells, build=build, classes=classes, row_names=ids)


def _text(cells: pa.ChunkedArray, column: str, role: str, source: str) -> pa.Array:
    is_list = pa.types.is_list(cells.type) or pa.types.is_large_list(cells.type)
    if role != "label" or not is_list:
        return to_text(cells, column, source, longest=_LONGEST_CELL.get(role, LONGEST_NAME))
    # A Parquet file can hold several labels per cell without a separator.
    lists = pc.cast(cells, pa.large_list(cells.type.value_type)).combine_chunks()
    flat = to_text(pa.chunked_array([pc.list_flatten(lists)]), column, source)
    ends = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0))])
    return pa.LargeListArray.from_arrays(ends, flat)


def _feature_columns(table: pa.Table, columns: Columns, source: str) -> list[str]:
    for role, listed in (("features", columns.features), ("ignore", columns.ignore)):
        if isinstance(listed, str):
            raise InvalidInput(f"{role} must be a list of columns. Got the text {shorten(listed)}.")
    for name in columns.ignore:
        find_column(table, name, source, role="ignore")
    if columns.features is None:
        other = {*columns.named.values(), *columns.ignore}
        return [name for name in table.column_names if name not in other]
    if columns.ignore:
        raise InvalidInput("features and ignore must not both be given. Leave one of them out.")
    names = list(dict.fromkeys(columns.features))
    for name in names:
        find_column(table, name, source, role="features")
    for role, name in columns.named.items():
        if name in names:
            raise InvalidInput(
                f"features must not hold the {role} column {name!r} of {source}: the model would "
                "learn to read its answer there."
            )
    return names


def _refuse_two_roles(columns: Columns, source: str) -> None:
    roles: dict[str, str] = {}
    for role, column in columns.named.items():
        other = roles.setdefault(column, role)
        if other != role and {other, role} != {"example_id", "images"}:
            raise InvalidInput(
                f"{other} and {role} must be two columns of {source}. Both are {column!r}."
            )


def _refuse_features(columns: Columns, reason: str) -> None:
    if columns.features is not None:
        raise InvalidInput(
            f"features must be left out with {reason}: the pixels are the features. "
            f"Got {shorten(list(columns.features))}."
        )


def _table_builder(table: pa.Table, options: Options, source: str) -> Callable[[Answers], Features]:
    def build(answers: Answers) -> Features:
        n_examples = len(answers.first_row)
        examples = table
        if n_examples != table.num_rows:
            examples = table.take(pa.array(answers.first_row))
        recipe = fit_recipe(
            examples,
            table.column_names,
            categorical=options.categorical,
            standardise=options.standardise,
            source=source,
        )
        if n_examples != (answers.example_of_row >= 0).sum():  # some have several rows
            for name in table.column_names:
                check_same(table[name], name, answers, source)
        return recipe.apply(examples, source=source), recipe

    return build


def _image_builder(
    data: Any, cells: pa.Array, column: str, options: Options, source: str
) -> Callable[[Answers], Features]:
    base = Path.cwd() if is_frame(data) or str(data) == "-" else Path(data).parent

    def build(answers: Answers) -> Features:
        check_same(pa.chunked_array([cells]), column, answers, source)
        paths = resolve_paths(cells.take(pa.array(answers.first_row)).to_pylist(), base, source)
        recipe, _ = plan_images(paths, size=options.size, mode=options.mode)
        return recipe.apply(paths), recipe

    return build


def _open_folder(
    folder: Path, columns: Columns, options: Options, classes: Sequence[str] | None
) -> Source:
    for role, column in columns.named.items():
        raise InvalidInput(
            f"{role} must be left out for a folder of images: the folders' names are the labels. "
            f"Got {column!r}."
        )
    _refuse_features(columns, "a folder of images")
    paths, labels, folders = find_labelled_images(folder)
    recipe, digests = plan_images(paths, size=options.size, mode=options.mode)

    def build(answers: Answers) -> Features:
        return recipe.apply([paths[row] for row in answers.first_row]), recipe

    return Source(
        name=str(folder),
        # The same file in two folders is one image with two labels.
        cells=Cells(label=pa.array(labels), example=pa.array(digests)),
        build=build,
        classes=in_order(folders) if classes is None else classes,
        row_names=[path.relative_to(folder).as_posix() for path in paths],
    )


def _open_arrays(
    path: Path, columns: Columns, options: Options, classes: Sequence[str] | None
) -> Source:
    name = str(path)
    members = arrays.read_arrays(path, name)
    features = arrays.split_features(arrays.find_array(members, "X", name), name)
    n_rows = len(features)
    if classes is None and "classes" in members:
        classes = [str(each) for each in members["classes"].ravel().tolist()]
    labels = arrays.find_array(members, columns.label or "labels", name)
    label_cells, classes = arrays.label_cells(labels, classes, n_rows, name)

    def optional(named: str | None, usual: str, names: Sequence[str] | None) -> pa.Array | None:
        if named is None and usual not in members:
            return None
        values = arrays.find_array(members, named or usual, name)
        return arrays.text_cells(values, named or usual, names, n_rows, name)

    example = optional(columns.example_id, "example_ids", None)
    cells = Cells(
        label=label_cells,
        true_label=optional(columns.true_label, "true_labels", classes),
        annotator=optional(columns.annotator, "annotators", None),
        example=example,
    )
    if isinstance(features, np.ndarray):
        _refuse_features(columns, "an array of images")
        build = _array_builder(features)
    else:
        chosen = _feature_columns(features, columns, name)
        build = _table_builder(features.select(chosen), options, name)
    ids = None if example is None else example.to_pylist()
    return Source(name=name, cells=cells, build=build, classes=classes, row_names=ids)


def _array_builder(images: NDArray[np.uint8]) -> Callable[[Answers], Features]:
    def build(answers: Answers) -> Features:
        _, channels, height, width = images.shape
        recipe = ImageRecipe(height=height, width=width, mode="L" if channels == 1 else "RGB")
        return images[answers.first_row], recipe

    return build
