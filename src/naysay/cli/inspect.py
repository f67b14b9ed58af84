"""``naysay inspect``: diagnose a transition matrix, and compare labels with it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from naysay.cli._shared import AsJson, print_json


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV file of Q: rows are true classes, columns are complementary labels, with "
            "class names in the first row and column."
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option(help="Table (CSV, Parquet) with a column of complementary labels to compare."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of the labels; needed if there are several.")
    ] = None,
    prior: Annotated[
        Path | None, typer.Option(help="Class prior: CSV with the columns class and share.")
    ] = None,
    allow_diagonal: Annotated[
        bool, typer.Option(help="Allow for annotators who exclude the true class by mistake.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Diagnose a transition matrix: rank, unused labels, information per label.

    With --labels, also estimate the class prior, and test whether the labels may come from Q.

    Example:

        naysay data example flowers.csv

        naysay estimate flowers.csv --label not --true-label is --out Q.csv

        naysay inspect Q.csv --labels flowers.csv --column not
    """
    from naysay.quality.inspection import check_labels, nearest_rows
    from naysay.transition import TransitionMatrix
    from naysay.workflows.files import read_column, read_prior

    Q = TransitionMatrix.read(file, allow_diagonal=allow_diagonal)
    shares = read_prior(prior, Q.classes)
    diagnosis = Q.diagnose(prior=shares)
    pairs = nearest_rows(Q)
    check = None
    if labels is not None:
        check = check_labels(read_column(labels, column), Q, prior=shares)
    if as_json:
        figures: dict[str, Any] = diagnosis.to_dict()
        figures["nearest_rows"] = [pair._asdict() for pair in pairs]
        if check is not None:
            figures["labels"] = check.to_dict()
        print_json(figures)
        return
    typer.echo(str(diagnosis))
    if pairs and not Q.is_uniform:
        listed = ", ".join(map(str, pairs))
        typer.echo(f"  {'most alike':<24}{listed}: L1 distance of rows, 0 to 2; these merge first")
    if check is not None:
        typer.echo(f"\n{check}")
