"""``naysay estimate``: estimate the transition matrix from a few true labels."""

import sys
from pathlib import Path
from typing import Any

import typer
from rich.table import Column, Table

from naysay._base.terminal import Console, say
from naysay.cli import options, output

_MOST_ROWS = 30  # entries shown


# Options of training that also apply to the networks that estimate Q.
@options.reads_data()
@options.trains("epochs", "lr", "batch_size", "max_norm", "compile", "checkpoint")
@options.fits("anchors", "anchor_label", "allow_diagonal", "seed")
def estimate(
    data: options.DataFile,
    reading: dict[str, Any],
    training: dict[str, Any],
    fitting: dict[str, Any],
    out: str = typer.Option("-", metavar="Q.csv", help="CSV file to write; - is stdout."),
    intervals: Path | None = typer.Option(
        None, metavar="FILE", help="CSV file for the 95 % interval of each entry."
    ),
    by_annotator: Path | None = typer.Option(
        None,
        metavar="FOLDER",
        help="Folder for the matrix of each annotator, one CSV file each; needs --annotator.",
    ),
    as_json: options.AsJson = False,
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
            check_target(target, usual="Q.csv")  # before the computation
    if by_annotator is not None:
        if "annotator" not in reading:
            raise typer.BadParameter("--by-annotator needs --annotator, the column of annotators.")
        check_matrix_folder(by_annotator)
    own, given = options.read_data(data, reading, fitting)
    output.print_warnings(*summarise(own).warnings)

    from naysay.workflows.estimate import estimate_own  # loads torch, after the quick checks
    from naysay.workflows.fit import explain_learner

    output.print_warnings(*explain_learner(own, **training))
    given.pop("transition")  # which is estimated
    report = estimate_own(own, **given, **training, progress=True)
    output.print_warnings(*report.warnings)
    Q, estimated = report.transition, report.estimate
    if by_annotator is not None:
        if not estimated.by_annotator:
            output.print_warnings(
                "the annotators do not differ significantly; all get the same matrix"
            )
        write_matrices(report.by_annotator, by_annotator)
    if out != "-":
        Q.write(out)
    if intervals is not None:
        report.write_intervals(intervals)
    if as_json:
        output.print_json({**report.to_dict(), "out": None if out == "-" else out})
    elif out == "-":
        Q.write(sys.stdout)
    else:
        _print(report.entries)
        if estimated.sample is not None:
            say(f"{estimated.sample}.")
        if estimated.mistakes is not None:
            say(f"Estimated {estimated.mistakes}.")
        if estimated.uncertainty is not None:
            say(estimated.uncertainty.advice)
        say(f"{Q.diagnose()}\nThe matrix: {out}")
        if by_annotator is not None:
            say(f"The matrix of each annotator: {by_annotator}")


def _print(entries: list[dict[str, Any]]) -> None:
    """Print the largest entries of Q, the largest first."""
    figures = (Column(name, justify="right") for name in ("share", "95 % interval"))
    table = Table("true class", "excluded", *figures, box=None, pad_edge=False)
    for entry in sorted(entries, key=lambda entry: -entry["share"])[:_MOST_ROWS]:
        is_known = entry["low"] is not None
        table.add_row(
            entry["true class"],
            entry["excluded"],
            f"{entry['share']:.1%}",
            f"{entry['low']:.1%} to {entry['high']:.1%}" if is_known else "not known",
        )
    Console().print(table)
