"""``naysay predict``: predict the classes of new data."""

from contextlib import nullcontext
from itertools import chain
from typing import Annotated, Any

import typer

from naysay._base.progress import waiting
from naysay.cli._shared import (
    DataFile,
    Model,
    SafeCsv,
    as_sentences,
    print_json,
    reads_data,
)


# The other settings for reading the data are saved with the model.
@reads_data("images", "text_model", "delimiter", "decimal", "strict")
def predict(
    model: Model,
    data: DataFile,
    reading: dict[str, Any],
    out: Annotated[
        str, typer.Option(metavar="FILE", help="CSV or Parquet file, by its suffix; - is stdout.")
    ] = "-",
    example_id: Annotated[
        str | None,
        typer.Option("--id", help="Column to copy to the output, before the predictions."),
    ] = None,
    safe_csv: SafeCsv = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per row; with --out, a single one."),
    ] = False,
) -> None:
    """Predict the class of every row or image, with the probability of each class.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay predict flowers-model flowers.csv --out predictions.csv
    """
    from naysay.workflows.predict import check_table_path

    check_table_path(out)  # before predicting, not after it

    from naysay.classifier import ComplementaryClassifier
    from naysay.workflows.predict import as_dicts, predict_file, write_tables

    damaged: dict[str, str] | None = None if reading.pop("strict") else {}
    # On standard output, predictions appear as they are made.
    with waiting(f"naysay predict: {data}") if out != "-" else nullcontext():
        clf = ComplementaryClassifier.load(model)
        tables = predict_file(clf, data, example_id=example_id, damaged=damaged, **reading)
        if as_json and out == "-":
            for row in chain.from_iterable(map(as_dicts, tables)):
                print_json(row, indent=None)
            counts = None
        else:
            counts = write_tables(tables, out, safe_csv=safe_csv)
    if damaged:
        reason = as_sentences(next(iter(damaged.values())))
        typer.echo(
            f"warning: damaged images without a prediction: {len(damaged):,}. {reason}", err=True
        )
    if counts is None or out == "-":
        return
    if as_json:
        figures = {"rows": counts.total(), "out": out, "predicted": dict(counts)}
        print_json(figures, indent=None)
    else:
        typer.echo(f"{counts.total():,} predictions: {out}")
