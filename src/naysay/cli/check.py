"""``naysay check``: estimate the accuracy of a model, and find problems, without true labels."""

from pathlib import Path
from typing import Any

import typer

from naysay._base.progress import waiting
from naysay._base.terminal import say
from naysay.cli import options, output


# The other settings for reading the data are saved with the model.
@options.reads_data(
    *("label", "suggested", "accepted", "offered", "true_label", "annotator", "example_id"),
    *("images", "text_model", "separator", "delimiter", "decimal", "ignore_case", "strict"),
    "memory",
)
@options.fits("anchors_are", "mistakes")
def check(
    model: options.Model,
    data: options.DataFile,
    reading: dict[str, Any],
    fitting: dict[str, Any],
    transition: Path | None = typer.Option(
        None,
        metavar="Q.csv|FOLDER",
        help="Transition matrix of these answers, or a folder with one ANNOTATOR.csv per "
        "annotator. By default that of the model.",
    ),
    out: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="CSV or Parquet file, by its suffix, for all answers that are probably wrong; - "
        "prints only them.",
    ),
    safe_csv: options.SafeCsv = False,
    as_json: options.AsJson = False,
) -> None:
    """Estimate the accuracy of a model from complementary labels, and find problems.

    Use labels that the model was not trained on. True labels are not needed. Where there are some
    (--true-label), the accuracy by them is shown beside the estimate without them.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay data example new.csv --seed 1

        naysay check flowers-model new.csv --label not --true-label is --out issues.csv
    """
    from naysay.workflows.predict import check_table_path, write_tables

    if out is not None:
        check_table_path(out)  # before the computation

    from naysay.classifier import ComplementaryClassifier
    from naysay.workflows.check import check_file

    with waiting(f"naysay check: {data}"):
        clf = ComplementaryClassifier.load(model)
        result = check_file(clf, data, transition=transition, **fitting, **reading)
    if out is not None:
        write_tables([result.issues], out, safe_csv=safe_csv)
        if str(out) == "-":
            return
    if as_json:
        output.print_json(result.to_dict(), indent=None)
        return
    say(str(result))
    if out is not None:
        wrong = result.wrong_labels
        kind = "doubtful answers" if wrong and wrong.unknown else "answers that are probably wrong"
        say(f"{len(result.issues):,} {kind}: {out}")
