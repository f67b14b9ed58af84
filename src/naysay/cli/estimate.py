"""``naysay estimate``: estimate the transition matrix from a few true labels."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay.cli._shared import (
    AsJson,
    DataFile,
    print_json,
    read_anchor_file,
    read_data,
    reads_data,
)
from naysay.cli.fit import AllowDiagonal, AnchorLabel, Anchors, Epochs, Seed

_MOST_ROWS = 30  # entries shown


@reads_data()
def estimate(
    data: DataFile,
    reading: dict[str, Any],
    anchors: Anchors = None,
    anchor_label: AnchorLabel = None,
    out: Annotated[
        str, typer.Option(metavar="Q.csv", help="CSV file to write; - is stdout.")
    ] = "-",
    intervals: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV file for the 95 % interval of each entry."),
    ] = None,
    by_annotator: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the matrix of each annotator, one CSV file each; needs --annotator.",
        ),
    ] = None,
    allow_diagonal: AllowDiagonal = False,
    epochs: Epochs = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate the transition matrix Q, with intervals, from a few true labels.

    Example:

        naysay data example flowers.csv

        naysay estimate flowers.csv --label not --true-label is --out Q.csv
    """
    from naysay._base.files import check_target
    from naysay.datasets.own.summary import summarise
    from naysay.transition.folder import check_matrix_folder, write_matrices

    for target in (out, intervals):
        if target is not None and str(target) != "-":
            check_target(target, usual="Q.csv")  # before training, not after it
    if by_annotator is not None:
        if "annotator" not in reading:
            raise typer.BadParameter("--by-annotator needs --annotator, the column of annotators.")
        check_matrix_folder(by_annotator)
    own = read_data(data, reading, anchor_label=None if anchors is None else anchor_label)
    for warning in summarise(own).warnings:
        typer.echo(f"warning: {warning}", err=True)
    more_anchors = read_anchor_file(anchors, own, reading, true_label=anchor_label)

    from naysay.quality.collapsed import WHAT_TO_DO
    from naysay.workflows import estimate as workflow  # loads torch
    from naysay.workflows.annotators import matrix_of_each

    habit = workflow.estimate_own(
        own,
        anchors=more_anchors,
        allow_diagonal=allow_diagonal,
        epochs=epochs,
        seed=seed,
        progress=True,
    )
    agreement = workflow.agreement_with_labels(habit, own)
    if agreement is not None and agreement.reason is not None:
        typer.echo(f"warning: {agreement.reason}. {WHAT_TO_DO}", err=True)
    for warning in habit.warnings:
        typer.echo(f"warning: {warning}", err=True)
    Q = habit.transition
    if by_annotator is not None:
        if not habit.by_annotator:
            typer.echo(
                "warning: the annotators do not differ significantly; all get the same matrix",
                err=True,
            )
        write_matrices(matrix_of_each(own.annotators, habit.by_annotator, Q), by_annotator)
    if out != "-":
        Q.write(out)
    if intervals is not None:
        workflow.write_intervals(habit, intervals)
    if as_json:
        figures = workflow.to_dict(habit, own.annotators, agreement)
        print_json({**figures, "out": None if out == "-" else out})
    elif out == "-":
        Q.write(sys.stdout)
    else:
        _print(workflow.list_entries(habit))
        if habit.mistakes is not None:
            typer.echo(f"Estimated {habit.mistakes}.")
        if habit.uncertainty is not None:
            typer.echo(habit.uncertainty.advice)
        typer.echo(f"{Q.diagnose()}\nThe matrix: {out}")
        if by_annotator is not None:
            typer.echo(f"The matrix of each annotator: {by_annotator}")


def _print(entries: list[dict[str, Any]]) -> None:
    """Print the largest entries of Q, the largest first."""
    table = Table("true class", "excluded", box=None, pad_edge=False)
    table.add_column("share", justify="right")
    table.add_column("95 % interval", justify="right")
    for entry in sorted(entries, key=lambda entry: -entry["share"])[:_MOST_ROWS]:
        is_known = entry["low"] is not None
        table.add_row(
            Text(entry["true class"]),
            Text(entry["excluded"]),
            f"{entry['share']:.1%}",
            f"{entry['low']:.1%} to {entry['high']:.1%}" if is_known else "not known",
        )
    Console().print(table)
