"""``naysay fit``: train a model on a file, and write it with a report."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay._base.errors import InvalidInput
from naysay.cli._shared import (
    AsJson,
    DataFile,
    print_json,
    read_anchor_file,
    read_data,
    reads_data,
)
from naysay.cli.data import print_summary, print_warning

if TYPE_CHECKING:
    from naysay.metrics import Estimate
    from naysay.workflows.fit import FitReport

Anchors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Examples whose true class is known, in the form of the data; for images, one folder "
        "per true class.",
    ),
]
AnchorLabel = Annotated[
    str | None,
    typer.Option(help="Column of true classes in the file of anchors; needed if it is ambiguous."),
]
AnchorsAre = Annotated[
    str,
    typer.Option(
        metavar="random|picked",
        help="Whether the examples whose true class is known are a random sample, of all examples "
        "or of each class, or were picked. Only a random sample shows the accuracy.",
    ),
]
AllowDiagonal = Annotated[
    bool,
    typer.Option(
        "--allow-diagonal", help="Allow for annotators who exclude the true class by mistake."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]
Epochs = Annotated[int, typer.Option(min=1, help="Maximum number of passes over the data.")]


@reads_data()
def fit(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model folder to write.")],
    reading: dict[str, Any],
    anchors: Anchors = None,
    anchor_label: AnchorLabel = None,
    anchors_are: AnchorsAre = "random",
    transition: Annotated[
        str | None,
        typer.Option(
            metavar="Q.csv|FOLDER|uniform|estimate",
            help="Transition matrix: a file, a folder with one ANNOTATOR.csv per annotator, or a "
            "word. By default estimate if there are anchors, else uniform.",
        ),
    ] = None,
    allow_diagonal: AllowDiagonal = False,
    method: Annotated[
        str, typer.Option(help="Learning method; naysay methods lists them.")
    ] = "forward",
    network: Annotated[str, typer.Option(help="linear, or a class of naysay.networks.")] = "mlp",
    epochs: Epochs = 100,
    held_out: Annotated[
        float, typer.Option(help="Fraction of the examples held out to estimate the accuracy.")
    ] = 0.2,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a model on your data, and write it to a folder with a report.

    The accuracy is estimated from held-out complementary labels, without true labels.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model
    """
    from naysay.classifier.model_files import check_model_path
    from naysay.datasets.own.summary import summarise
    from naysay.workflows.files import check_order_known, class_names, read_transition

    check_model_path(out)  # before training, not after it
    given = None
    if transition not in (None, "uniform", "estimate"):
        given = read_transition(str(transition), allow_diagonal=allow_diagonal)
    own = read_data(
        data,
        reading if given is None else {"classes": class_names(given), **reading},
        anchor_label=None if anchors is None else anchor_label,
    )
    if given is not None and "classes" not in reading:
        hint = ", or list these in the order of its rows: --classes"
        check_order_known(given, own.classes, str(transition), hint=hint)
    summary = summarise(own)
    if not as_json:
        print_summary(summary)
    more_anchors = read_anchor_file(anchors, own, reading, true_label=anchor_label)

    from naysay.networks import find_network
    from naysay.report.fit import render_fit_page
    from naysay.workflows.fit import fit_own  # loads torch, after the quick checks

    try:
        find_network(network)
    except InvalidInput as problem:
        raise typer.BadParameter(str(problem)) from None
    clf, report = fit_own(
        own,
        anchors=more_anchors,
        transition=given or transition,
        anchors_are=anchors_are,
        allow_diagonal=allow_diagonal,
        method=method,
        network=network,
        epochs=epochs,
        held_out=held_out,
        seed=seed,
        progress=True,
        command=shlex.join(["naysay", *sys.argv[1:]]),
        summary=summary,
    )
    clf.save(out, report=render_fit_page(report))
    page = out / "report.html"
    if as_json:
        print_json({**report.to_dict(), "model": str(out), "report": str(page)})
    else:
        _print(report)
        typer.echo(f"{report.seconds:.0f} seconds. The model: {out}  The page: {page}")


def _print(report: "FitReport") -> None:
    console = Console()
    for warning in report.fit_warnings:
        print_warning(console, warning)
    table = Table("class", box=None, pad_edge=False)
    for heading in ("predicted", "correct when predicted", "95 % interval"):
        table.add_column(heading, justify="right")
    console.print(Text(f"{_describe_matrix(report)}\n"))
    if report.mistakes is not None:
        console.print(f"Estimated {report.mistakes}\n", highlight=False, soft_wrap=True)
    classes = report.transition.classes
    for name, count, each in zip(classes, report.n_predicted, report.precision, strict=True):
        table.add_row(Text(name), f"{count:,}", _value(each), _interval(each))
    console.print(table)
    console.print(f"\n{_describe_accuracy(report)}", highlight=False, soft_wrap=True)


def _describe_accuracy(report: "FitReport") -> str:
    """Describe the accuracy, and what it is estimated from."""
    accuracy = report.accuracy
    if accuracy.unknown is not None:
        return f"Estimated accuracy: unknown, because {accuracy.unknown}"
    line = f"Estimated accuracy: {_value(accuracy)}, 95 % interval {_interval(accuracy)}\n"
    if accuracy.n_true_labels:
        return (
            f"{line}from {accuracy.n_true_labels:,} true labels, by networks that were not trained "
            f"on them (assumed: they are a random sample; otherwise --anchors-are picked)"
        )
    return f"{line}from {accuracy.n_labels:,} held-out complementary labels, without a true label"


def _describe_matrix(report: "FitReport") -> str:
    """Describe which matrix was used: assumed, estimated or given."""
    n_annotators = len(report.transitions)
    matrix = "one transition matrix for all labels"
    if n_annotators:
        matrix = f"a transition matrix for each of {n_annotators} annotators"
    if report.transition_from == "uniform":
        return "Assumed: annotators exclude every other class equally often (--transition uniform)."
    if report.transition_from == "estimate":
        return f"Estimated from {report.n_anchors:,} true labels: {matrix}."
    return f"Given: {matrix}."


def _value(estimate: "Estimate") -> str:
    return "unknown" if estimate.value is None else f"{min(max(estimate.value, 0), 1):.1%}"


def _interval(estimate: "Estimate") -> str:
    low, high = estimate.interval
    return "–" if estimate.unknown is not None else f"{low:.1%} to {high:.1%}"
