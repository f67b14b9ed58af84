"""``naysay predict``: predict the classes of new data."""

from collections import Counter
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from naysay._base.cluster import RayExecutor, connect
from naysay._base.progress import job_bar, waiting
from naysay.cli import options, output


# The other settings for reading the data are saved with the model.
@options.reads_data("images", "text_model", "delimiter", "decimal", "strict")
def predict(
    model: options.Model,
    data: options.DataFile,
    reading: dict[str, Any],
    out: str = typer.Option(
        "-",
        metavar="FILE|FOLDER",
        help="CSV or Parquet file, by its suffix; - is stdout. For a folder of Parquet files, "
        "also a new folder, with a file of predictions for each of them; if the command is "
        "stopped, the same command continues.",
    ),
    example_id: str | None = typer.Option(
        None, "--id", help="Column to copy to the output, before the predictions."
    ),
    safe_csv: options.SafeCsv = False,
    ray: options.RayAddress = None,
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON object per row; with --out, a single one."
    ),
) -> None:
    """Predict the class of every row or image, with the probability of each class.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay predict flowers-model flowers.csv --out predictions.csv
    """
    from naysay.workflows.predict import check_output_folder, check_table_path, predict_folder

    to_folder = out != "-" and not Path(out).suffix
    if ray is not None and not to_folder:
        raise typer.BadParameter("--ray needs --out FOLDER, with a file for each part of the data.")
    if to_folder:
        check_output_folder(data, out)
        with (
            nullcontext() if ray is None else connect(ray),
            job_bar(f"naysay predict: {data}", "files") as on_progress,
        ):
            executor = None if ray is None else RayExecutor(on_lost=output.print_warnings)
            reading.pop("strict")
            counts = predict_folder(
                model,
                data,
                out,
                executor=executor,
                on_progress=on_progress,
                example_id=example_id,
                **reading,
            )
        output.print_result(*_describe(counts, out), as_json=as_json)
        return
    check_table_path(out)  # before the computation

    from naysay.classifier import ComplementaryClassifier
    from naysay.workflows.predict import as_dicts, predict_file, write_tables

    damaged: dict[str, str] | None = None if reading.pop("strict") else {}
    # On standard output, predictions appear as they are made.
    with waiting(f"naysay predict: {data}") if out != "-" else nullcontext():
        clf = ComplementaryClassifier.load(model)
        tables = predict_file(clf, data, example_id=example_id, damaged=damaged, **reading)
        if as_json and out == "-":
            for row in chain.from_iterable(map(as_dicts, tables)):
                output.print_json(row, indent=None)
            counts = None
        else:
            counts = write_tables(tables, out, safe_csv=safe_csv)
    if damaged:
        reason = output.as_sentences(next(iter(damaged.values())))
        output.print_warnings(f"damaged images without a prediction: {len(damaged):,}. {reason}")
    if counts is not None and out != "-":
        output.print_result(*_describe(counts, out), as_json=as_json)


def _describe(counts: Counter[str], out: str) -> tuple[dict[str, Any], str]:
    figures = {"rows": counts.total(), "out": out, "predicted": dict(counts)}
    return figures, f"{counts.total():,} predictions: {out}"
