"""``naysay inspect``: diagnose a transition matrix, and compare labels with it."""

from pathlib import Path

import typer

from naysay.cli import options, output


def inspect(
    file: Path = typer.Argument(
        help="CSV file of Q: rows are true classes, columns are complementary labels, with "
        "class names in the first row and column."
    ),
    labels: Path | None = typer.Option(
        None, help="Table (CSV, Parquet) with a column of complementary labels to compare."
    ),
    column: str | None = typer.Option(
        None, help="Column of the labels; needed if there are several."
    ),
    prior: Path | None = typer.Option(
        None, help="Class prior: CSV with the columns class and share."
    ),
    allow_diagonal: bool = typer.Option(
        False, help="Allow for annotators who exclude the true class by mistake."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Diagnose a transition matrix: rank, unused labels, information per label.

    With --labels, also estimate the class prior, and test whether the labels may come from Q.

    Example:

        naysay data example flowers.csv

        naysay estimate flowers.csv --label not --true-label is --out Q.csv

        naysay inspect Q.csv --labels flowers.csv --column not
    """
    from naysay.quality.inspection import inspect_matrix
    from naysay.transition import TransitionMatrix
    from naysay.workflows.files import read_column, read_prior

    Q = TransitionMatrix.read(file, allow_diagonal=allow_diagonal)
    shares = read_prior(prior, Q.classes)
    cells = None if labels is None else read_column(labels, column)
    found = inspect_matrix(Q, cells, prior=shares)
    output.print_result(found.to_dict(), found, as_json=as_json, indent=1)
