"""``naysay fit``: from your own file to a model and a page about it."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay.cli._reading import AsJson, DataFile, Reading, reads_data
from naysay.cli.data import print_summary, print_warning

if TYPE_CHECKING:
    from naysay.metrics import Estimate
    from naysay.workflows.fit import FitReport

Anchors = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Examples whose true class is known, in the same form as the data; of images, one "
        "folder per true class.",
    ),
]
AnchorLabel = Annotated[
    str | None,
    typer.Option(help="Column of true classes in the anchors' file; found if it is the only one."),
]
AllowDiagonal = Annotated[
    bool,
    typer.Option(
        "--allow-diagonal", help="Annotators may err: they may exclude the true class by mistake."
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all randomness.")]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the data, at most.")]


@reads_data
def fit(
    data: DataFile,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The model folder to write.")],
    reading: Reading,
    anchors: Anchors = None,
    anchor_label: AnchorLabel = None,
    transition: Annotated[
        str | None,
        typer.Option(
            metavar="Q.csv|FOLDER|uniform|estimate",
            help="How annotators choose the class they exclude: a matrix, a folder with one "
            "ANNOTATOR.csv each, or a word; estimate if anchors are given, else uniform.",
        ),
    ] = None,
    allow_diagonal: AllowDiagonal = False,
    method: Annotated[str, typer.Option(help="See: naysay methods.")] = "forward",
    network: Annotated[str, typer.Option(help="A class of naysay.networks.")] = "mlp",
    epochs: Epochs = 100,
    held_out: Annotated[
        float, typer.Option(help="Share of the examples set aside to estimate the accuracy.")
    ] = 0.2,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Learn from your own file; write a model folder with a report page in it.

    The accuracy is estimated on answers set aside, without one true label.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model
    """
    from naysay.classifier.model_files import check_model_path
    from naysay.datasets.own.summary import summarise
    from naysay.workflows.files import check_order_known, class_names, read_transition

    check_model_path(out)  # before the work, not after it
    given = None
    if transition not in (None, "uniform", "estimate"):
        given = read_transition(str(transition), allow_diagonal=allow_diagonal)
    own = reading.read(
        data,
        classes=class_names(given),
        anchor_label=None if anchors is None else anchor_label,
    )
    if given is not None and reading.classes is None:
        hint = ", or list these in the order of its rows: --classes"
        check_order_known(given, own.classes, str(transition), hint=hint)
    summary = summarise(own)
    if not as_json:
        print_summary(summary)
    known = None
    if anchors is not None:
        known = reading.read_anchors(anchors, own, true_label=anchor_label)

    from naysay.report.fit import render_fit_page
    from naysay.workflows.fit import fit_own  # loads torch, after what needs no time was checked

    clf, report = fit_own(
        own,
        anchors=known,
        transition=given or transition,
        allow_diagonal=allow_diagonal,
        method=method,
        network=find_network(network),
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
        figures = {**report.to_dict(), "model": str(out), "report": str(page)}
        typer.echo(json.dumps(figures, indent=1, ensure_ascii=False))
    else:
        _print(report)
        typer.echo(f"{report.seconds:.0f} seconds. The model: {out}  The page: {page}")


def find_network(name: str) -> Any:
    """Return a network class by its name, in capitals or not."""
    from naysay import networks

    by_name = {each.lower(): found for each, found in networks.NETWORKS.items()}
    if name.lower() not in by_name:
        raise typer.BadParameter(f"must be one of {', '.join(sorted(by_name))}. Got {name!r}.")
    return by_name[name.lower()]


def _print(report: "FitReport") -> None:
    console = Console()
    for warning in report.fit_warnings:
        print_warning(console, warning)
    table = Table("class", box=None, pad_edge=False)
    for heading in ("predicted", "right when predicted", "95 % interval"):
        table.add_column(heading, justify="right")
    console.print(Text(f"{_habit(report)}\n"))
    classes = report.transition.classes
    for name, count, each in zip(classes, report.n_predicted, report.precision, strict=True):
        interval = _interval(each) if report.matrix_fits else "unknown"
        table.add_row(Text(name), f"{count:,}", _value(each), interval)
    console.print(table)
    how_sure = "which cannot be: Q does not describe these labels"
    if report.matrix_fits:
        how_sure = f"95 % interval {_interval(report.accuracy)}"
    console.print(
        f"\nEstimated accuracy: {_value(report.accuracy)}, {how_sure}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"from {report.accuracy.n_labels:,} complementary labels set aside, without a true label",
        highlight=False,
    )


def _habit(report: "FitReport") -> str:
    """Say which matrix was used, and how it came about."""
    n_annotators = len(report.transitions)
    whose = f"of each of {n_annotators} annotators" if n_annotators else "of the annotators"
    if report.transition_from == "uniform":
        return "Assumed: annotators exclude every other class equally often (--transition uniform)."
    if report.transition_from == "estimate":
        return f"Estimated from {report.n_anchors:,} true labels: the habit {whose}."
    return f"Given: the habit {whose}."


def _value(estimate: "Estimate") -> str:
    value, error = estimate.value, estimate.standard_error
    if value is None or error is None:
        return "unknown"
    value = round(value, 9)
    return f"{value:.1%}" if 0 <= value <= 1 else f"{value:.1%} ± {100 * error:.1f}"


def _interval(estimate: "Estimate") -> str:
    low, high = estimate.interval
    return f"{low:.1%} to {high:.1%}"
