"""``naysay reproduce``: train the runs of the paper's tables and figures."""

from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from naysay._base.cluster import RayExecutor, connect, has_gpus
from naysay._base.progress import job_bar
from naysay._base.terminal import Console, say
from naysay.cli import options, output
from naysay.cli.data import DataDir

if TYPE_CHECKING:
    from naysay.experiments.records import RecordFile, RunRecord
    from naysay.experiments.runner import RunSummary
    from naysay.experiments.suite import Plan


class RecipeName(StrEnum):
    """Recipe to train with."""

    PAPER = "paper"
    BEST = "best"


def reproduce(
    names: list[str] = typer.Argument(
        metavar="NAME...",
        help="table1 … table7, figure-convergence, figure-q, or all for these; beyond the "
        "paper: real-labels, anchors, habits, methods (with --recipe best).",
    ),
    recipe: RecipeName = typer.Option(
        RecipeName.PAPER, help="Train with the options of the paper, or with the best ones we know."
    ),
    quick: bool = typer.Option(
        False, "--quick", help="Train scaled-down runs, which take minutes on two CPU cores."
    ),
    trials: int | None = typer.Option(
        None, min=1, help="Number of trials; that of the recipe by default."
    ),
    only: str = typer.Option(
        "*", metavar="PATTERN", help="Train only cells that match, such as 'LM/E' or 'usps*pc/s'."
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda, cuda:1, …"),
    out: Path = typer.Option(
        Path("naysay-records.jsonl"),
        metavar="FILE",
        help="File of records, to which new ones are appended.",
    ),
    data_dir: DataDir = None,
    ray: options.RayAddress = None,
    cpus: float = typer.Option(
        1, min=0.1, help="With --ray: CPUs for each group of runs, beside a GPU."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Only show how many runs there are and how long they take."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Train the runs of the paper's tables and figures, and record each result.

    Runs that are in the file of records are not repeated. If you stop the command, at most the
    current run is lost. Several processes may share one file. With --ray, the machines of a
    cluster, which need naysay and the data, train groups of runs, and this process records the
    results. To see the results run: naysay report naysay-records.jsonl

    Example: naysay reproduce table2 --quick --out quick.jsonl
    """
    from naysay.experiments.records import RecordFile
    from naysay.experiments.suite import make_plan
    from naysay.experiments.suites import find_suites

    if quick and recipe is not RecipeName.PAPER:
        raise typer.BadParameter("--quick has its own recipe, so that --recipe cannot be given.")
    chosen = "quick" if quick else recipe.value
    plan = make_plan(find_suites(names), chosen, trials=trials, only=only)
    file = RecordFile(out)
    if dry_run:
        _print_work(plan, file, as_json=as_json)
        return
    file.check_writable()

    from naysay.experiments.runner import run  # loads torch

    def show(record: "RunRecord") -> None:
        if not as_json:
            title = plan.title_of(record.spec)
            say(f"{title}: {record.accuracy:.2%} in {record.seconds:.1f} seconds")

    with (
        nullcontext() if ray is None else connect(ray),
        job_bar("naysay reproduce", "runs") as show_progress,
    ):
        executor = None
        if ray is not None:
            wants_gpu = device.startswith("cuda") or (device == "auto" and has_gpus())
            executor = RayExecutor(cpus=cpus, gpus=int(wants_gpu), on_lost=output.print_warnings)
        summary = run(
            plan.cells,
            file,
            device=device,
            data_dir=data_dir,
            executor=executor,
            on_run=lambda spec: show_progress(title=plan.title_of(spec)),
            on_record=show,
            on_progress=show_progress,
        )
    _print_summary(summary, out, as_json=as_json)
    if summary.is_failure(plan):
        raise typer.Exit(1)


def _print_summary(summary: "RunSummary", out: Path, *, as_json: bool) -> None:
    if as_json:
        output.print_json({**summary.to_dict(), "records": str(out)}, indent=2)
        return
    for reason, specs in summary.refused.items():
        say(f"Not run ({len(specs)}): {output.as_sentences(reason)}", err=True)
    parts = [f"{summary.n_done} runs done", f"{summary.n_skipped} were on file"]
    if summary.n_elsewhere:
        parts.append(f"{summary.n_elsewhere} are being done by another process")
    then = f" Now: naysay report {out}" if out.is_file() else ""
    say(f"{', '.join(parts)}.{then}")


def _print_work(plan: "Plan", file: "RecordFile", *, as_json: bool) -> None:
    rows = plan.estimate_work(file.read())
    if as_json:
        output.print_json(rows, indent=2)
        return
    table = Table("suite", box=None, pad_edge=False)
    for column in ("runs", "on file", "in another table", "to do", "minutes, about"):
        table.add_column(column, justify="right")
    for row in rows:
        minutes = "?" if row["seconds"] is None else f"{row['seconds'] / 60:.1f}"
        numbers = (str(row[name]) for name in ("runs", "on_file", "in_another_table", "to_do"))
        table.add_row(row["suite"], *numbers, minutes)
    Console().print(table)
    say(f"\n{plan.describe_work(rows)}")
