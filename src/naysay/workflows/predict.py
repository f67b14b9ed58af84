"""Predict the classes of the examples in a file, and write them as a table."""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from naysay._base.errors import InvalidInput, InvalidModelFile
from naysay._base.files import check_target, replacing
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.own import read_features
from naysay.datasets.own.images import find_images
from naysay.datasets.own.tables import find_column, read_table, source_name, to_text

_SUFFIXES = (".csv", ".parquet", ".pq")


def predict_file(
    model: ComplementaryClassifier,
    data: Any,
    *,
    images: str | None = None,
    example_id: str | None = None,
    text_model: str | Path | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
) -> pa.Table:
    """Predict the class of every row of a table, or of every image.

    Parameters
    ----------
    model : ComplementaryClassifier
        Made by `naysay.workflows.fit.fit_own` or ``naysay fit``, so that it has a recipe.
    data : path or data frame
        As in `naysay.datasets.own.read_features`.
    example_id : str, optional
        A column to copy in front of the predictions.
    images, text_model, delimiter, decimal
        As in `read_features`.

    Returns
    -------
    pyarrow.Table
        Columns ``prediction`` and ``P(class)`` for every class, with rows in the order of the
        data. The id column, or ``image`` for a folder, comes first.
    """
    recipe = model.recipe_
    if recipe is None:
        raise InvalidModelFile(
            "The model must have a recipe, which turns a file into its inputs. This one was saved "
            "from Python without a recipe: use its predict method, or make it with naysay fit."
        )
    reading = {"delimiter": delimiter, "decimal": decimal}
    columns: dict[str, Any] = {}
    is_folder = isinstance(data, str | Path) and str(data) != "-" and Path(data).is_dir()
    if str(data) == "-":  # standard input can be read only once
        named = [name for name in (images, example_id) if name is not None]
        text = [*getattr(recipe, "read_as_text", ()), *named]
        data = read_table("-", text=text, **reading)
    if is_folder:
        if example_id is not None:
            raise InvalidInput("id must be left out for a folder: its images are named by path.")
        columns["image"] = [path.relative_to(data).as_posix() for path in find_images(data)]
    elif example_id is not None:
        table = read_table(data, text=[example_id], **reading)
        name = source_name(data)
        cells = find_column(table, example_id, name, role="id")
        columns[example_id] = to_text(cells, example_id, name, longest=4096)
    X = read_features(data, recipe, images=images, text_model=text_model, **reading)
    if not len(X):
        raise InvalidInput(f"{source_name(data)} must hold examples. It holds none.")
    probs = model.predict_proba(X)
    columns["prediction"] = model.classes_[probs.argmax(axis=1)].astype(str)
    for index, name in enumerate(model.classes_):
        columns[f"P({name})"] = probs[:, index]
    return pa.table(columns)


def check_table_path(path: str | Path) -> None:
    """Check that the path has the suffix of a table format, and can be written."""
    if str(path) == "-":  # CSV on standard output
        return
    if Path(path).suffix.lower() not in _SUFFIXES:
        raise InvalidInput(
            f"out must end in .csv or .parquet, or be - for standard output. Got {str(path)!r}."
        )
    check_target(path, usual="predictions.csv")


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a CSV or Parquet file, completely or not at all; ``-`` is CSV on standard output."""
    check_table_path(path)
    if str(path) == "-":
        _write_csv(table, sys.stdout)
        return
    with replacing(path, usual="predictions.csv") as part:
        if Path(path).suffix.lower() == ".csv":
            with part.open("w", encoding="utf-8", newline="") as file:
                _write_csv(table, file)
        else:
            pq.write_table(table, part)


def _write_csv(table: pa.Table, file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows(_rows(table))


def _rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from zip(*batch.to_pydict().values(), strict=True)


def count_predictions(table: pa.Table) -> dict[str, int]:
    """Count how often each class is predicted."""
    counts = table["prediction"].value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in counts}


def json_lines(table: pa.Table) -> Iterator[str]:
    """Format each row as a JSON object, with the probabilities by class."""
    names = table.column_names
    n = names.index("prediction") + 1  # the probabilities, P(class), come after it
    classes = [name[2:-1] for name in names[n:]]
    for row in _rows(table):
        probs = dict(zip(classes, row[n:], strict=True))
        facts = {**dict(zip(names[:n], row, strict=False)), "probabilities": probs}
        yield json.dumps(facts, ensure_ascii=False)
