"""Predict the classes of the examples in a file, and write them as a table."""

import contextlib
import csv
import hashlib
import io
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from naysay._base.cluster import Executor, InProcess
from naysay._base.errors import InvalidInput, InvalidModelFile, NaysayError
from naysay._base.files import check_target, printable, replacing
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.own import read_features
from naysay.datasets.own.batches import counting_from, read_batches
from naysay.datasets.own.columns import (
    find_column,
    is_text,
    to_array,
    to_numbers_if_possible,
    to_text,
)
from naysay.datasets.own.images import ImageRecipe, find_images, resolve_paths
from naysay.datasets.own.parquet import open_parquet
from naysay.datasets.own.partitions import MappedArray, find_parts, kind_of_data
from naysay.datasets.own.read import open_features
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.tables import source_name
from naysay.training.batches import fetch_ahead

_SUFFIXES = (".csv", ".parquet", ".pq")
_NOTE = "_naysay.json"  # what the predictions in a folder are of; readers of Parquet ignore it
_FORMULA = ("=", "+", "-", "@")
_MOST_ROWS = 1 << 16  # of a batch
_BATCH_BYTES = 1 << 25  # of the inputs of a batch, and of its probabilities

# Columns to copy, inputs, and where these are missing.
_Batches = Iterator[tuple[dict[str, Any], Any, Any]]


def predict_file(
    model: ComplementaryClassifier,
    data: Any,
    *,
    images: str | None = None,
    example_id: str | None = None,
    text_model: str | Path | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    damaged: dict[str, str] | None = None,
) -> Iterator[pa.Table]:
    """Predict the class of every row of a table, or of every image, in batches.

    The file is read once, and batch by batch, so that memory does not grow with its rows. The model
    needs a recipe, which `naysay.workflows.fit.fit_own` gives it, and `data` and further parameters
    are as in `naysay.datasets.own.read_features`.

    The tables have the columns ``prediction`` and ``P(class)`` for every class, with rows in the
    order of the data. The column `example_id`, or ``image`` for a folder, comes first. `damaged`
    receives the error of each damaged image by its path, and its prediction is missing; by default
    a damaged image is an error.
    """
    recipe = model.recipe_
    if recipe is None:
        raise InvalidModelFile(
            "The model must have a recipe, which turns a file into its inputs. This one was saved "
            "from Python without a recipe: use its predict method, or make it with naysay fit."
        )
    if example_id in ("prediction", *(f"P({name})" for name in model.classes_)):
        raise InvalidInput(
            "id (--id) must name a column that is not called as one of the predictions, which "
            f"would replace it. Got {example_id!r}: rename the column."
        )
    if isinstance(recipe, Recipe):
        recipe = recipe.with_text_model(text_model)
    item_size = 4 if isinstance(recipe, Recipe) else 1
    row_bytes = max(item_size * math.prod(recipe.shape), 8 * len(model.classes_))
    n_rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // row_bytes))
    kind = kind_of_data(data)
    if kind == "images":
        if example_id is not None:
            raise InvalidInput("id must be left out for a folder: its images are named by path.")
        batches = _read_folder(Path(data), recipe, damaged, n_rows)
    elif kind == "arrays":
        batches = _read_arrays(Path(data), recipe, example_id, n_rows)
    else:
        tables = filter(_count_rows, find_parts(Path(data))) if kind == "parquet" else [data]
        batches = chain.from_iterable(
            _read_rows(each, recipe, images, example_id, damaged, n_rows, delimiter, decimal)
            for each in tables
        )
    classes = pa.array(model.classes_.astype(str))

    def predict(columns: dict[str, Any], X: Any, is_missing: Any) -> pa.Table:
        probs = model.predict_proba(X)
        best = pa.array(probs.argmax(axis=1), mask=is_missing)
        columns["prediction"] = classes.take(best)
        for index, name in enumerate(model.classes_):
            columns[f"P({name})"] = pa.array(probs[:, index], mask=is_missing)
        return pa.table(columns)

    is_empty = True
    for table in _beside(predict, batches):
        is_empty = False
        yield table
    if is_empty:
        raise InvalidInput(f"{source_name(data)} must contain examples. It has none.")


def _beside(predict: Callable[..., pa.Table], batches: _Batches) -> Iterator[pa.Table]:
    """Predict for each batch in a thread, while the next one is read and the last one written.

    The thread leaves one core to this one, because threads that share a core wait for each other.
    """
    n_threads = torch.get_num_threads()
    try:
        yield from fetch_ahead(
            lambda batch: predict(*batch),
            batches,
            prepare=lambda: torch.set_num_threads(max(1, n_threads - 1)),
        )
    finally:
        torch.set_num_threads(n_threads)  # for threads to come; this one has kept its number


def _read_rows(
    data: Any,
    recipe: Recipe | ImageRecipe,
    images: str | None,
    example_id: str | None,
    damaged: dict[str, str] | None,
    n_rows: int,
    delimiter: str | None,
    decimal: str,
) -> _Batches:
    name = source_name(data)
    if isinstance(recipe, ImageRecipe) and images is None:
        raise InvalidInput(
            f"images (--images) must name the column of {name} with the image paths, because the "
            "model was trained on images."
        )
    numeric: list[str] = []
    named = [images] if images is not None and isinstance(recipe, ImageRecipe) else []
    if isinstance(recipe, Recipe):
        named = list(recipe.read_as_text)
        numeric = [column.name for column in recipe.columns if column.name not in named]
    copied = [] if example_id is None else [example_id]
    batches = read_batches(
        data,
        n_rows=n_rows,
        columns={*numeric, *named, *copied},
        text={*named, *copied},
        delimiter=delimiter,
        decimal=decimal,
    )
    for first, table in batches:
        columns: dict[str, Any] = {}
        is_missing = None
        with counting_from(first):
            if example_id is not None:
                cells = find_column(table, example_id, name, role="example_id")
                columns[example_id] = to_text(cells, example_id, name, longest=4096)
                if example_id in numeric and is_text(cells.type):
                    numbers = to_numbers_if_possible(pa.chunked_array([to_array(cells)]), decimal)
                    place = table.column_names.index(example_id)
                    table = table.set_column(place, example_id, numbers)
            if isinstance(recipe, Recipe):
                X = recipe.apply(table, source=name)
            else:
                cells = find_column(table, str(images), name, role="images")
                paths = to_text(cells, str(images), name, longest=4096).to_pylist()
                rows = range(first, first + len(paths))
                files = resolve_paths(paths, rows, data, name)
                X, is_missing = _decode(recipe, files, damaged)
        yield columns, X, is_missing


def _decode(
    recipe: ImageRecipe, paths: Sequence[Path], damaged: dict[str, str] | None
) -> tuple[Any, Any]:
    """Decode images, and mark those that are damaged."""
    found: dict[int, str] = {}
    X = recipe.apply(paths, damaged=None if damaged is None else found)
    is_missing = np.zeros(len(paths), dtype=bool)
    is_missing[list(found)] = True
    if damaged is not None:
        damaged.update({printable(paths[index]): found[index] for index in sorted(found)})
    return X, is_missing


def _read_folder(
    folder: Path, recipe: Recipe | ImageRecipe, damaged: dict[str, str] | None, n_rows: int
) -> _Batches:
    if isinstance(recipe, Recipe):
        raise InvalidInput(
            f"{folder} must be a table or an array file, like the training data. It is a folder."
        )
    paths = find_images(folder)
    for start in range(0, len(paths), n_rows):
        batch = paths[start : start + n_rows]
        columns = {"image": [printable(path.relative_to(folder).as_posix()) for path in batch]}
        yield columns, *_decode(recipe, batch, damaged)


def _read_arrays(
    path: Path, recipe: Recipe | ImageRecipe, example_id: str | None, n_rows: int
) -> _Batches:
    if example_id is not None:
        raise InvalidInput("id must be left out for an array file, whose rows have no name.")
    if isinstance(recipe, Recipe):
        rows = open_features(path, recipe)
        if isinstance(rows, MappedArray):
            for first, table in rows.batches(n_rows):
                with counting_from(first):
                    yield {}, recipe.apply(table, source=rows.source), None
            return
        X = recipe.apply(rows, source=source_name(path))
    else:
        X = read_features(path, recipe)
    for start in range(0, len(X), n_rows):
        yield {}, X[start : start + n_rows], None


def predict_folder(
    model: str | Path,
    folder: str | Path,
    out: str | Path,
    *,
    executor: Executor | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Counter[str]:
    """Predict for each Parquet file of a folder, and write a file of the same name to another one.

    The result counts the predicted classes. Each file is written completely or not at all, so that
    the same call goes on where an earlier one was stopped. A file without rows gives none.

    `out` is a folder that is new, empty, or that of the same call, and `options` are those of
    `predict_file`. `executor` predicts for the files, by default in this process, one after the
    other; the processes of a `RayExecutor` must find the model and both folders under the same
    paths. `on_progress` receives how many files are done, and how many there are.
    """
    check_output_folder(folder, out)
    source, target = Path(folder).absolute(), Path(out).absolute()
    ComplementaryClassifier.load(model)  # an error before anything starts
    version = hashlib.sha256(Path(model, "model.json").read_bytes()).hexdigest()
    about = {"model": version, "data": printable(source), "options": options}
    note, text = target / _NOTE, json.dumps(about, indent=1, default=str)
    has_others = note.exists() and note.read_text("utf-8") != text
    if has_others and any(each != note for each in target.iterdir()):
        raise InvalidInput(
            "out must be a new folder, or have predictions of this model for the same data. "
            f"{source_name(out)} has others."
        )
    target.mkdir(parents=True, exist_ok=True)
    with replacing(note) as part:
        part.write_text(text, "utf-8")
    given = {"model": str(Path(model).absolute()), "version": version, "options": options}
    work = partial(_predict_part, out=target, **given)
    counts: Counter[str] = Counter()
    parts = find_parts(source)
    on_progress(0, len(parts))
    for n_done, (_, found) in enumerate((executor or InProcess()).map(work, parts), 1):
        on_progress(n_done, len(parts))
        if isinstance(found, NaysayError):
            raise found
        counts.update(found)
    if not counts:
        raise InvalidInput(f"{source_name(folder)} must contain examples. It has none.")
    return counts


def check_output_folder(folder: str | Path, out: str | Path) -> None:
    """Check that there are Parquet files to predict for, and a folder for the results."""
    if str(folder) != "-":
        Path(folder).stat()  # an error if there is nothing
    if kind_of_data(folder) != "parquet":
        raise InvalidInput(
            f"To write a folder, {source_name(folder)} must be a folder of Parquet files. It is "
            "not: name a file to write, .csv or .parquet."
        )
    is_folder = Path(out).is_dir() and (Path(out, _NOTE).exists() or not any(Path(out).iterdir()))
    if Path(out).exists() and not is_folder:
        raise InvalidInput(f"out must be a new or empty folder. {source_name(out)} is not.")


def _predict_part(
    path: Path, *, model: str, version: str, out: Path, options: dict[str, Any]
) -> Counter[str]:
    target, n_rows = out / path.name, _count_rows(path)
    if not n_rows:
        return Counter()
    is_done = target.exists() and target.stat().st_mtime >= path.stat().st_mtime
    if is_done and _count_rows(target) == n_rows:  # by an earlier call
        with target.open("rb") as file:
            return _count(pq.read_table(file, columns=["prediction"]))
    return write_tables(predict_file(_load(model, version), path, **options), target)


@lru_cache(maxsize=1)
def _load(model: str, version: str) -> ComplementaryClassifier:
    """Load a model once in each process, for as long as it has the same version."""
    return ComplementaryClassifier.load(model)


def _count_rows(path: Path) -> int:
    with open_parquet(path, printable(path)) as file:
        return file.metadata.num_rows


def check_table_path(path: str | Path) -> None:
    """Check that the path has the suffix of a table format, and can be written."""
    if str(path) == "-":  # CSV on standard output
        return
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise InvalidInput(
            f"out must end in .csv or .parquet, or be - for standard output. Got {str(path)!r}."
        )
    check_target(path, usual="predictions.csv")


def write_tables(
    tables: Iterable[pa.Table], path: str | Path, *, safe_csv: bool = False
) -> Counter[str]:
    """Write tables as one CSV or Parquet file, completely or not at all.

    If the path is ``-``, CSV is written to standard output as it is made. The result counts the
    values of the column ``prediction``, if there is one.

    A spreadsheet takes text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. With
    `safe_csv`, such cells of a CSV file get an apostrophe in front.
    """
    check_table_path(path)
    counts: Counter[str] = Counter()
    if str(path) == "-":
        if isinstance(sys.stdout, io.TextIOWrapper):  # as in a file, whatever the terminal has
            sys.stdout.reconfigure(encoding="utf-8")
        _write_csv(_counted(tables, counts), sys.stdout, safe_csv)
        return counts
    with replacing(path, usual="predictions.csv") as part:
        if Path(path).suffix.lower() == ".csv":
            with part.open("w", encoding="utf-8", newline="") as file:
                _write_csv(_counted(tables, counts), file, safe_csv)
        else:
            with contextlib.ExitStack() as stack:
                file = stack.enter_context(part.open("wb"))  # its name may be no UTF-8
                writer = None
                for table in _counted(tables, counts):
                    if writer is None:  # probabilities hardly repeat
                        text: Any = [each.name for each in table.schema if is_text(each.type)]
                        writer = pq.ParquetWriter(file, table.schema, use_dictionary=text)
                        stack.enter_context(writer)
                    writer.write_table(table)
    return counts


def _counted(tables: Iterable[pa.Table], counts: Counter[str]) -> Iterator[pa.Table]:
    for table in tables:
        if "prediction" in table.column_names:
            counts.update(_count(table))
        yield table


def _count(table: pa.Table) -> Counter[str]:
    counted = table["prediction"].value_counts().to_pylist()
    return Counter({each["values"]: each["counts"] for each in counted if each["values"]})


def _write_csv(tables: Iterable[pa.Table], file: IO[str], safe: bool) -> None:
    writer = csv.writer(file, lineterminator="\n")
    for index, table in enumerate(tables):
        header = [] if index else [table.column_names]
        rows = chain(header, _rows(table))
        writer.writerows((map(_as_text, row) for row in rows) if safe else rows)


def _as_text(cell: Any) -> Any:
    is_formula = isinstance(cell, str) and cell.lstrip().startswith(_FORMULA)
    return f"'{cell}" if is_formula else cell


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from zip(*batch.to_pydict().values(), strict=True)


def as_dicts(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Convert each row to a dictionary for JSON, with the probabilities by class."""
    names = table.column_names
    n = names.index("prediction") + 1  # the probabilities, P(class), come after it
    classes = [name[2:-1] for name in names[n:]]
    for row in _rows(table):
        probs = dict(zip(classes, row[n:], strict=True))
        yield {**dict(zip(names[:n], row, strict=False)), "probabilities": probs}
