"""``naysay sweep``: choose parameters without true labels, and fit a model with the best."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from naysay._base.cluster import RayExecutor, connect
from naysay._base.progress import job_bar
from naysay._base.terminal import Console, say
from naysay.cli import options, output
from naysay.cli.fit import Force, Target, check_model_target, describe_accuracy, this_command

if TYPE_CHECKING:
    from naysay.workflows.sweep import SweepReport


@options.reads_data()
@options.trains("learner", "epochs", "lr", "batch_size", "max_norm", "match_prior", "restarts")
@options.fits(
    "anchors", "anchor_label", "anchors_are", "transition", "allow_diagonal", "held_out", "seed"
)
def sweep(
    data: options.DataFile,
    out: Target,
    reading: dict[str, Any],
    training: dict[str, Any],
    fitting: dict[str, Any],
    grid: list[str] = typer.Option(
        metavar="NAME=VALUE,…",
        help="Values of a parameter of ComplementaryClassifier, such as lr=0.001,0.01. Repeat "
        "it for further parameters; all combinations are tried.",
    ),
    folds: int = typer.Option(3, min=2, help="Number of folds of cross-validation."),
    ray: options.RayAddress = None,
    force: Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose parameters by held-out complementary labels, and fit a model with the best.

    Each combination is scored by cross-validation, without true labels. The model folder has a
    page that compares them, sweep.html, beside the report.

    Example:

        naysay data example flowers.csv

        naysay sweep flowers.csv --label not --learner network --grid lr=0.001,0.01 --out model
    """
    from naysay.workflows.fit import explain_learner  # loads torch
    from naysay.workflows.sweep import parse_grid, sweep_own

    values = parse_grid(grid)
    check_model_target(out, force=force)
    own, given = options.read_data(data, reading, fitting)
    if "learner" not in values:
        output.print_warnings(*explain_learner(own, **training))
    with (
        nullcontext() if ray is None else connect(ray),
        job_bar(f"naysay sweep: {data}", "trainings") as on_progress,
    ):
        clf, report = sweep_own(
            own,
            values,
            folds=folds,
            **given,
            executor=None if ray is None else RayExecutor(on_lost=output.print_warnings),
            on_progress=on_progress,
            command=this_command(),
            **training,
        )

    from naysay.report.fit import render_fit_page, render_sweep_page

    clf.save(out, report=render_fit_page(report.fit), sweep=render_sweep_page(report))
    page = out / "sweep.html"
    output.print_warnings(*report.warnings)
    if as_json:
        output.print_json({**report.to_dict(), "model": str(out), "page": str(page)})
    else:
        _print(report)
        say(f"The model: {out}  The page: {page}")


def _print(report: "SweepReport") -> None:
    table = Table(*report.names, box=None, pad_edge=False)
    for heading in ("log-likelihood", "behind the best", "seconds"):
        table.add_column(heading, justify="right")
    for each in report.candidates:
        shown, behind = "failed", ""
        if each.score is not None:
            shown = f"{each.score:.4f}"
        if each.difference:
            behind = f"{each.difference:.4f} ± {each.difference_error:.4f}"
        values = map(str, each.parameters.values())
        table.add_row(*values, shown, behind, f"{each.seconds:.1f}")
    Console().print(table)
    say(f"\n{describe_accuracy(report.fit)}")
