"""``naysay predict``: predict the classes of new data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from naysay._base.progress import waiting
from naysay.cli._reading import DataFile, Decimal, Delimiter, Images

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that naysay fit wrote.")]


def predict(
    model: Model,
    data: DataFile,
    out: Annotated[
        str, typer.Option(metavar="FILE", help="CSV or Parquet file, by its suffix; - is stdout.")
    ] = "-",
    example_id: Annotated[
        str | None,
        typer.Option("--id", help="Column to copy to the output, before the predictions."),
    ] = None,
    images: Images = None,
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
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
    from naysay.workflows.predict import (
        count_predictions,
        json_lines,
        predict_file,
        write_table,
    )

    with waiting(f"naysay predict: {data}"):
        table = predict_file(
            ComplementaryClassifier.load(model),
            data,
            images=images,
            example_id=example_id,
            delimiter=delimiter,
            decimal=decimal,
        )
    if as_json and out == "-":
        for line in json_lines(table):
            typer.echo(line)
        return
    write_table(table, out)
    if out == "-":
        return
    if as_json:
        counts = count_predictions(table)
        typer.echo(
            json.dumps({"rows": len(table), "out": out, "predicted": counts}, ensure_ascii=False)
        )
    else:
        typer.echo(f"{len(table):,} predictions: {out}")
