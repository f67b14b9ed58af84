"""Read the user's data: tables, array files and images with complementary labels.

`read_own` opens the source, turns its cells into answers, and builds the features of the examples
that have a label or a true class. `read_features` and `read_anchors` read further data with the
same features.
"""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false
# X and Q are variables, although they are in upper case
# pyright: reportConstantRedefinition=false

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidLabels, InvalidModelFile
from naysay._base.files import printable
from naysay._base.mapped import take_rows
from naysay.datasets.own.answers import gather_answers
from naysay.datasets.own.arrays import (
    find_array,
    open_arrays,
    read_arrays,
    split_features,
    text_parts,
)
from naysay.datasets.own.columns import (
    LONGEST_NAME,
    Encoded,
    Texts,
    check_columns,
    codes_of,
    column_parts,
    encode_parts,
    find_column,
    is_list,
    join_texts,
    pc,
    to_text,
)
from naysay.datasets.own.data import (
    OwnData,
    check_rows_agree,
    class_indices,
    match_case,
    sort_names,
)
from naysay.datasets.own.images import (
    ImageRecipe,
    digest_files,
    find_images,
    find_labelled_images,
    plan_images,
    resolve_paths,
)
from naysay.datasets.own.label_studio import read_export
from naysay.datasets.own.partitions import (
    MappedArray,
    ParquetFolder,
    Partitioned,
    kind_of_data,
)
from naysay.datasets.own.recipe import Recipe, fit_recipe
from naysay.datasets.own.tables import is_database, is_frame, read_table, refuse_pipe, source_name

# The columns of a frame of crowd-kit.
_CROWD_KIT = {"example_id": "task", "annotator": "worker", "label": "label"}
# Characters per cell. Cells with several labels, a path or an id may be longer than a name.
_LONGEST_CELL = {"label": 1 << 16, "offered": 1 << 16, "images": 4096, "example_id": 4096}

_MEMORY = 1e9  # bytes of features, beyond which they are in a file


def read_own(
    data: Any,
    *,
    label: str | None = None,
    suggested: str | None = None,
    accepted: str | None = None,
    offered: str | None = None,
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
    text: Sequence[str] = (),
    text_model: str | Path | None = None,
    standardise: bool = False,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    recipe: Recipe | None = None,
    ignore_case: bool = False,
    strict: bool = True,
    memory: float = 1.0,
) -> OwnData:
    """Read data with complementary labels from a table, an array file or a folder of images.

    Parameters
    ----------
    data : path or data frame
        A table: CSV (.csv, .tsv, .txt), JSON Lines (.jsonl), both also compressed (.csv.gz),
        Parquet or Excel (.xlsx); ``-`` for CSV from standard input; an .npz file; a folder with
        one folder of images per complementary label; a pandas or polars frame; the database of an
        annotation task (`naysay annotate`), by path or URL; an export of Label Studio (.json); or
        data that may be larger than memory: a folder of Parquet files with the same columns, or a
        folder with ``X.npy``, ``labels.npy`` and so on, the arrays of an .npz file. A table with
        the columns ``task``, ``worker`` and ``label``, as crowd-kit uses them, needs no names of
        columns.
    label : str, optional
        Column of complementary labels. A table must have it, or `suggested` and `accepted`, and
        may have all of them. A cell may contain several labels,
        as in ``cat|dog``, and a column of a Parquet file may contain lists. Labels are text, so
        that ``007`` stays ``007``.
    suggested, accepted : str, optional
        For a log of suggestions: the column of the class that was suggested, and the column of the
        answer, such as yes or no. Rows without an answer are ignored. See
        `naysay.observations.from_log`.
    offered : str, optional
        Column of the classes that could be chosen for `label`, as in ``cat|dog|owl``, for answers
        to questions such as "which of these three is it not?". It is empty where all could.
    features : sequence of str, optional
        Feature columns. By default, all columns that have no other role.
    ignore : sequence of str
        Columns to leave out, such as dates.
    true_label : str, optional
        Column of true classes. Its cells are empty where the true class is unknown.
    annotator : str, optional
        Column of the annotators who gave the labels.
    example_id : str, optional
        Column of example ids. Rows with the same id are about the same example. By default, each
        row is an example.
    images : str, optional
        Column of image paths, for a table of images. Relative paths start at the folder of the
        table and must stay inside it. Rows with the same path are about the same example.
    classes : sequence of str, optional
        All class names in order. By default, the names in the label and true-label columns,
        sorted; this misses a class that no cell names.
    separator : str or None, default="|"
        Text that separates several labels in a cell; None if every cell is one label.
    delimiter : str, optional
        Delimiter of a CSV file. By default it is detected from the header: comma, semicolon or
        tab.
    decimal : str, default="."
        Decimal mark of a CSV file, ``.`` or ``,``.
    categorical : sequence of str
        Columns to read as categories, such as codes that are written as numbers.
    text : sequence of str
        Columns to read as text. Columns are text without being named if most of their cells are
        different and have several words.
    text_model : path, optional
        Folder of a transformers model whose embeddings of the texts are the features, in place of
        TF-IDF. It needs ``naysay[text]``; nothing is downloaded.
    standardise : bool, default=False
        Scale numeric columns to mean 0 and standard deviation 1.
    size : (height, width), optional
        Resize all images to this size; required if their sizes differ.
    mode : {"L", "RGB"}, optional
        Convert images to greyscale ("L") or colour. By default, images are greyscale if all
        files are.
    recipe : Recipe, optional
        The recipe of other data, ``OwnData.recipe``, to use in place of a new one; the feature
        columns are those of the recipe. Only for tables.
    ignore_case : bool, default=False
        Whether class names that differ only in capitals are one class, like ``Cat`` and ``cat``.
        It is spelled as in `classes`, or as most labels are.
    strict : bool, default=True
        Whether a damaged image is an error. Otherwise it is left out, and listed in ``skipped``.
    memory : float, default=1.0
        For data in a folder: GB that the features, texts, ids and answers may take in memory.
        Larger ones are put into temporary files, in the folder of ``TMPDIR``, and read from there.

    Raises
    ------
    InvalidData
        If the file is damaged, or a column cannot be used.
    InvalidInput
        If a parameter is invalid, such as the name of a column that does not exist.
    InvalidLabels
        If a label is not in `classes`, or there is no label.

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
        "suggested": suggested,
        "accepted": accepted,
        "offered": offered,
        "true_label": true_label,
        "annotator": annotator,
        "example_id": example_id,
        "images": images,
    }
    columns = {role: column for role, column in columns.items() if column is not None}
    converting: dict[str, Any] = {"categorical": categorical, "text": text}
    converting |= {"text_model": text_model, "standardise": standardise}
    if is_database(data):
        for role, given in {**columns, "features": features}.items():
            if given is not None:
                raise InvalidInput(
                    f"{role} must be omitted for the database of a task, which has all roles. "
                    f"Got {shorten(given)}."
                )
        try:
            from naysay.datasets.own.task import read_task
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"The database of a task needs {error.name}. Install it: "
                "pip install 'naysay[annotate]'"
            ) from None
        images_as = {"size": size, "mode": mode, "strict": strict}
        return read_task(data, classes=classes, recipe=recipe, **images_as, **converting)[0]
    lists = {"features": features, "ignore": ignore, "categorical": categorical, "text": text}
    cells: Any  # of the columns that are not features, by role
    rows: Any  # a table of features, pixels, the files of a folder, or cells with image paths
    kind = kind_of_data(data)
    if kind == "images":
        for role, column in columns.items():
            raise InvalidInput(
                f"{role} must be omitted for a folder of images, because the names of its folders "
                f"are the labels. Got {column!r}."
            )
        rows, labels, folders = find_labelled_images(data)
        # A file that is in two folders is one example with two labels.
        cells = {"label": pa.array(labels), "example_id": pa.array(digest_files(rows))}
        if ignore_case:
            folders = set(match_case(sorted(folders), sorted(folders)))
        classes = sort_names(folders) if classes is None else classes
    elif kind == "arrays":
        cells, rows, classes = open_arrays(Path(data), columns, classes, most_bytes=memory * 1e9)
        if not isinstance(rows, np.ndarray):
            _check_names(rows, {}, lists, source)
    else:
        as_text = {*columns.values(), *categorical, *text}
        as_text.update(() if recipe is None else recipe.read_as_text)
        if kind == "parquet":
            rows = ParquetFolder(Path(data))
            _check_names(rows.head, columns, lists, source)
            labelled = rows
        else:
            if not is_frame(data) and Path(data).suffix.lower() == ".json":
                rows, columns = read_export(Path(data), columns)
            else:
                is_crowd = not columns.keys() & {"label", "suggested", "accepted"}
                as_text.update(_CROWD_KIT.values() if is_crowd else ())
                rows = read_table(data, text=as_text, delimiter=delimiter, decimal=decimal)
                if is_crowd and {*_CROWD_KIT.values()} <= {*rows.column_names}:
                    columns = {**_CROWD_KIT, **columns}
            images, labelled = columns.get("images"), rows
            _check_names(rows, columns, lists, source)
        cells = _label_cells(labelled, columns, source, most_bytes=memory * 1e9)
        if images is not None:
            rows = cells.pop("images")
            cells.setdefault("example_id", rows)
    if isinstance(rows, pa.Table | Partitioned) and recipe is not None:
        names = [column.name for column in recipe.columns]
        check_columns(rows, ((name, None) for name in names), source)
        rows = rows.select(_feature_columns(rows, columns, names, (), source))
    elif isinstance(rows, pa.Table | Partitioned):
        rows = rows.select(_feature_columns(rows, columns, features, ignore, source))
    elif features is not None:
        raise InvalidInput(
            "features must be omitted for images, because the pixels are the features. "
            f"Got {shorten(list(features))}."
        )
    row, example_of_row, answers = gather_answers(
        **cells,
        classes=classes,
        separator=separator,
        ignore_case=ignore_case,
        source=source,
        most_bytes=memory * 1e9,
    )
    n_rows = len(cast("Any", rows))
    damaged: dict[int, str] | None = None if strict else {}
    ids = texts = None
    if "example_id" in cells:
        ids = Texts(cells["example_id"], row)
    cells = labelled = None  # large, and not needed any more
    if isinstance(rows, pa.Table | Partitioned):
        examples = rows
        if len(row) != len(rows):
            examples = rows.take(row if isinstance(rows, Partitioned) else pa.array(row))
        if recipe is not None:
            used = recipe.with_text_model(text_model)
        else:
            most_bytes = memory * 1e9
            used = fit_recipe(examples, source=source, most_bytes=most_bytes, **converting)
        if example_of_row is not None:
            for name in rows.column_names:
                parts = column_parts(rows, name)
                check_rows_agree(parts, name, row, example_of_row, source)
        if isinstance(examples, Partitioned):  # its texts are not kept
            X = examples.apply(used, most_bytes=memory * 1e9)
            pa.default_memory_pool().release_unused()  # Arrow keeps what it has freed
        else:
            X = used.apply(examples, source=source)
            texts = examples.select(used.text)
    elif isinstance(rows, np.ndarray):
        pixels = cast("NDArray[np.uint8]", rows)
        X = take_rows(pixels, row, most_bytes=memory * 1e9)
        used = ImageRecipe(
            height=X.shape[2], width=X.shape[3], mode="L" if X.shape[1] == 1 else "RGB"
        )
    else:  # files of dropped rows are never opened
        if isinstance(rows, list):
            paths = [cast("list[Path]", rows)[int(each)] for each in row]
            ids = tuple(printable(path.relative_to(data).as_posix()) for path in paths)
        else:
            if example_of_row is not None:
                parts = [(0, pa.chunked_array([rows]))]
                check_rows_agree(parts, str(images), row, example_of_row, source, is_feature=False)
            paths = resolve_paths(rows.take(pa.array(row)).to_pylist(), row, data, source)
        used = plan_images(paths, size=size, mode=mode, damaged=damaged)
        X = used.apply(paths, damaged=damaged)
    own = OwnData(
        X=X,
        recipe=used,
        source=source,
        row=row,
        ids=ids,
        n_rows=n_rows,
        text=texts,
        **answers,
    )
    return own.without_examples(damaged) if damaged else own


def _label_cells(
    table: pa.Table | ParquetFolder,
    columns: Mapping[str, str],
    source: str,
    *,
    most_bytes: float,
) -> dict[str, pa.Array | Encoded]:
    """Read the columns that are not features as text, by the parameter that names them."""
    if not columns.keys() & {"label", "suggested", "accepted"}:
        raise InvalidInput(
            f"label (--label) must name the column of complementary labels in {source}, or "
            "suggested and accepted (--suggested, --accepted) those of a log of suggestions. Its "
            f"columns are {shorten(table.column_names)}."
        )
    if "offered" in columns and "label" not in columns:
        raise InvalidInput("offered (--offered) needs label (--label), the class that was chosen.")
    roles: dict[str, str] = {}
    for role, column in columns.items():
        other = roles.setdefault(column, role)
        if other != role and {other, role} != {"example_id", "images"}:
            raise InvalidInput(
                f"{other} and {role} must be different columns of {source}. Both are {column!r}."
            )
    if not isinstance(table, ParquetFolder):
        return {role: _read_text(table, column, role, source) for role, column in columns.items()}
    cells: dict[str, pa.Array | Encoded] = {}
    for role, column in columns.items():
        read = partial(_read_text, column=column, role=role, source=source)
        collect = join_texts if role in ("example_id", "images") else encode_parts
        cells[role] = collect(table.convert(column, read), most_bytes=most_bytes)
    return cells


def _read_text(table: pa.Table, column: str, role: str, source: str) -> pa.Array:
    cells = find_column(table, column, source, role=role)
    if role not in ("label", "offered") or not is_list(cells.type):
        return to_text(cells, column, source, longest=_LONGEST_CELL.get(role, LONGEST_NAME))
    # A Parquet file can store several labels per cell as a list.
    lists = pc.cast(cells, pa.large_list(cells.type.value_type)).combine_chunks()
    flat = to_text(pa.chunked_array([pc.list_flatten(lists)]), column, source)
    ends = np.concatenate([[0], np.cumsum(pc.fill_null(pc.list_value_length(lists), 0))])
    return pa.LargeListArray.from_arrays(ends, flat)


def _check_names(
    table: pa.Table | Partitioned,
    columns: Mapping[str, str],
    lists: Mapping[str, Sequence[str] | None],
    source: str,
) -> None:
    """Check that the table has all columns that parameters name."""
    named: list[tuple[str, str | None]] = [(column, role) for role, column in columns.items()]
    for role, listed in lists.items():
        if isinstance(listed, str):
            raise InvalidInput(
                f"{role} must be a list of column names. Got the text {shorten(listed)}."
            )
        named += [(name, role) for name in listed or ()]
    check_columns(table, named, source)


def _feature_columns(
    table: pa.Table | Partitioned,
    columns: Mapping[str, str],
    features: Sequence[str] | None,
    ignore: Sequence[str],
    source: str,
) -> list[str]:
    if features is None:
        other = {*columns.values(), *ignore}
        return [name for name in table.column_names if name not in other]
    if ignore:
        raise InvalidInput(
            "features and ignore must not both be given. Omit ignore to use only the columns in "
            "features, or omit features to use all columns but those in ignore."
        )
    names = list(dict.fromkeys(features))
    for role, name in columns.items():
        if name in names:
            raise InvalidInput(
                f"features must not contain the {role} column {name!r} of {source}, because the "
                "model would learn to copy it. Remove it from features."
            )
    return names


def read_features(
    data: Any,
    recipe: Recipe | ImageRecipe,
    *,
    images: str | None = None,
    text_model: str | Path | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
) -> NDArray[Any]:
    """Read the features of new data: one row for each row of the table, or for each image file.

    The recipe is not fitted again, no row is dropped, and labels are not required. Images of a
    folder are in the order of `naysay.datasets.own.images.find_images`.

    Parameters
    ----------
    data : path or data frame
        Data in any form that `read_own` reads. In a folder, all images at any depth are read.
    recipe : Recipe or ImageRecipe
        The recipe of the training data, ``OwnData.recipe``.
    images : str, optional
        Column of image paths, for a table of images.
    text_model : path, optional
        Folder of the model of sentence embeddings, if it is no longer where it was in training.
    delimiter, decimal : str
        As in `read_own`.
    """
    name = source_name(data)
    if isinstance(recipe, Recipe):
        recipe = recipe.with_text_model(text_model)
    kind = kind_of_data(data)
    if kind == "images":
        if isinstance(recipe, Recipe):
            raise InvalidInput(
                f"{name} must be a table or an array file, like the training data. It is a folder."
            )
        return recipe.apply(find_images(data))
    if kind == "parquet" and isinstance(recipe, Recipe):
        return ParquetFolder(Path(data)).apply(recipe, most_bytes=_MEMORY)
    if kind == "arrays":
        if isinstance(recipe, Recipe):
            rows = open_features(Path(data), recipe)
            if isinstance(rows, Partitioned):
                check_columns(rows.head, ((each.name, None) for each in recipe.columns), name)
                return rows.apply(recipe, most_bytes=_MEMORY)
            return recipe.apply(rows, source=name)
        X = find_array(read_arrays(Path(data), name), "X", name)
        features = split_features(X, name)
        if not isinstance(features, np.ndarray) or features.shape[1:] != recipe.shape:
            raise InvalidData(
                f"X of {name} must contain images of shape {recipe.shape}, like the training data. "
                f"Its shape is {X.shape}."
            )
        return features
    if isinstance(recipe, Recipe):
        table = read_table(data, text=recipe.read_as_text, delimiter=delimiter, decimal=decimal)
        return recipe.apply(table, source=name)
    if images is None:
        raise InvalidInput(
            f"images (--images) must name the column of {name} with the image paths, because the "
            "model was trained on images."
        )
    table = read_table(data, text=[images], delimiter=delimiter, decimal=decimal)
    cells = _read_text(table, images, "images", name).to_pylist()
    return recipe.apply(resolve_paths(cells, range(len(cells)), data, name))


def open_features(path: Path, recipe: Recipe) -> pa.Table | MappedArray:
    """Open X of array files, whose columns are those of the training data by their position."""
    name = source_name(path)
    X = find_array(read_arrays(path, name), "X", name)
    features = split_features(X, name)
    if isinstance(features, np.ndarray):
        raise InvalidData(
            f"X of {name} must be a table of numbers, like the training data. It has images of "
            f"shape {features.shape[1:]}."
        )
    n_columns = len(recipe.columns) + len(recipe.dropped)
    if X.shape[1] > n_columns:
        raise InvalidData(
            f"X of {name} must have {n_columns} columns, as the data that the model was trained "
            f"on. Got {X.shape[1]}."
        )
    return features


def recipe_from_dict(
    values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
) -> Recipe | ImageRecipe:
    """Restore a recipe of either kind from the values of its ``to_dict``, and its arrays."""
    kind = values.get("kind") if isinstance(values, Mapping) else None
    if kind == "table":
        return Recipe.from_dict(values, arrays)
    if kind == "images":
        return ImageRecipe.from_dict(values)
    raise InvalidModelFile(
        f"The kind of a recipe must be 'table' or 'images'. Got {shorten(kind)}: the model file is "
        "damaged, or it was written by a newer version."
    )


def read_anchors(
    data: Any,
    own: OwnData,
    *,
    true_label: str | None = None,
    images: str | None = None,
    ignored: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
    ignore_case: bool = False,
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read anchors, examples with known true classes, with the same features as `own`.

    Parameters
    ----------
    data : path or data frame
        A table with the feature columns of `own` and a column of true classes, an .npz file with
        ``X`` and ``true_labels``, or a folder with one folder of images per *true* class.
    own : OwnData
        The data that the anchors belong to.
    true_label : str, optional
        Column of true classes. By default, the only column of the table that is neither a feature
        nor in `ignored`.
    images : str, optional
        Column of image paths, for a table of images.
    ignored : collection of str
        Columns of the table of `own` that are not features: labels, annotators, ids.
    delimiter, decimal, ignore_case
        As in `read_own`.

    Returns
    -------
    X, true_labels : arrays
        Features, and true classes as positions in ``own.classes``. Rows with an empty true class
        are dropped.

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
    refuse_pipe(data, "anchors (--anchors)")
    kind = kind_of_data(data)
    if kind == "images":
        labels = pa.array(find_labelled_images(data)[1])
        X = read_features(data, own.recipe)
    elif kind == "arrays":
        column = true_label or "true_labels"
        values = find_array(read_arrays(Path(data), name), column, name)
        X = read_features(data, own.recipe)
        texts = text_parts(values, column, own.classes, len(X), name)
        labels = encode_parts(texts, most_bytes=_MEMORY)
    else:
        if true_label is None:
            table = read_table(data, delimiter=delimiter, decimal=decimal)
            columns: list[str] = table.column_names
            features = own.recipe.columns if isinstance(own.recipe, Recipe) else ()
            other = {*ignored, images, *(column.name for column in features)}
            candidates = [column for column in columns if column not in other]
            if len(candidates) != 1:
                raise InvalidInput(
                    "true_label (--anchor-label) must name the column of true classes in "
                    f"{name}. Candidates are {shorten(candidates or columns)}."
                )
            true_label = candidates[0]
        table = read_table(data, text=[true_label], delimiter=delimiter, decimal=decimal)
        labels = _read_text(table, true_label, "true_label", name)
        X = read_features(data, own.recipe, images=images, delimiter=delimiter, decimal=decimal)
    codes, found = codes_of(labels)
    if ignore_case:
        found = match_case(found, own.classes)
    true = class_indices(codes, found, own.classes, "true_label", name)
    if not (true >= 0).any():
        raise InvalidLabels(
            f"{name} must contain at least one true class. All cells of its true classes are empty."
        )
    return X[true >= 0], true[true >= 0]
