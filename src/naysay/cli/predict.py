"""``naysay predict``: predict the classes of new data."""

from typing import Annotated, Any

import typer

from naysay._base.progress import waiting
from naysay.cli._shared import DataFile, Model, print_json, reads_data


# The other settings for reading the data are saved with the model.
@reads_data("images", "text_model", "delimiter", "decimal")
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
    from naysay.workflows.predict import count_predictions, json_lines, predict_file, write_table

    with waiting(f"naysay predict: {data}"):
        clf = ComplementaryClassifier.load(model)
        table = predict_file(clf, data, example_id=example_id, **reading)
    if as_json and out == "-":
        for line in json_lines(table):
            typer.echo(line)
        return
    write_table(table, out)
    if out == "-":
        return
    if as_json:
        figures = {"rows": len(table), "out": out, "predicted": count_predictions(table)}
        print_json(figures, indent=None)
    else:
        typer.echo(f"{len(table):,} predictions: {out}")
