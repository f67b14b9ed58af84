"""``naysay reproduce``: the paper's tables and figures, run by run."""

import json
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from naysay._base.errors import InvalidInput
from naysay._base.progress import run_bar
from naysay.cli._text import as_sentences
from naysay.cli.data import DataDir

if TYPE_CHECKING:
    from naysay.experiments.records import RunRecord
    from naysay.experiments.runner import Progress
    from naysay.experiments.spec import RunSpec
    from naysay.experiments.suite import Cell, Suite

    Plan = list[tuple[Suite, list[tuple[Cell, RunSpec]]]]


class RecipeName(StrEnum):
    """Whose choice of options to train with."""

    PAPER = "paper"
    BEST = "best"


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...", help="table1 … table7, figure-convergence, figure-q, or all."
        ),
    ],
    recipe: Annotated[
        RecipeName, typer.Option(help="The paper's options, or the best ones we know.")
    ] = RecipeName.PAPER,
    quick: Annotated[
        bool, typer.Option("--quick", help="A scaled-down version, minutes on two CPU cores.")
    ] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Trials of each figure; the paper's when left out.")
    ] = None,
    only: Annotated[
        str,
        typer.Option(metavar="PATTERN", help="Only cells named so, such as 'LM/E' or 'usps*pc/s'."),
    ] = "*",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, …")] = "auto",
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the records are, and new ones go.")
    ] = Path("naysay-records.jsonl"),
    data_dir: DataDir = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say how many runs there are, and how long.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run the experiments of the paper and keep a record of each run.

    A run that is on file is not repeated. Stop it whenever you like: at most the run in flight is
    lost. Several processes may work on one file. Then: naysay report naysay-records.jsonl

    Example: naysay reproduce table2 --quick --out quick.jsonl
    """
    from naysay.experiments.records import RecordFile
    from naysay.experiments.suites import find_suites

    if quick and recipe is not RecipeName.PAPER:
        raise typer.BadParameter("--quick has a recipe of its own; leave --recipe out.")
    chosen = "quick" if quick else recipe.value
    plan: Plan = [
        (suite, list(suite.specs(chosen, trials=trials, only=only))) for suite in find_suites(names)
    ]
    if not any(runs for _, runs in plan):
        raise InvalidInput(
            f"--only must leave some run. No row or column is named {only!r}; "
            f"names look like {plan[0][0].cells[0].name!r}."
        )
    file = RecordFile(out)
    if dry_run:
        _print_plan(plan, file.read(), chosen, as_json=as_json)
        return

    import torch  # loads only when something is trained

    from naysay.classifier.trainer import find_device
    from naysay.experiments.runner import run

    where = find_device(device)
    if where.type == "cpu" and quick:
        torch.set_num_threads(1)  # a second thread has nothing to do for networks this small
    specs: dict[RunSpec, tuple[Suite, Cell]] = {}
    for suite, runs in plan:
        for cell, spec in runs:
            specs.setdefault(spec, (suite, cell))  # a run that tables share is named by the first

    def title(spec: "RunSpec") -> str:
        suite, cell = specs[spec]
        return f"{suite.name}: {cell.name}, trial {spec.trial + 1}"

    def show(record: "RunRecord") -> None:
        if not as_json:
            typer.echo(
                f"{title(record.spec)}: {record.accuracy:.2%} in {record.seconds:.1f} seconds"
            )

    with run_bar("naysay reproduce", len(specs)) as on_run:
        progress = run(
            specs,
            file,
            device=where,
            data_dir=data_dir,
            on_run=lambda spec: on_run(title(spec)),
            on_record=show,
        )
    _print_progress(progress, out, as_json=as_json)
    expected = [
        spec
        for refused in progress.refused.values()
        for spec in refused
        if not specs[spec][1].not_run
    ]
    if not progress.n_done and (expected or (progress.refused and not progress.n_skipped)):
        raise typer.Exit(1)


def _print_progress(progress: "Progress", out: Path, *, as_json: bool) -> None:
    if as_json:
        refused = {reason: len(specs) for reason, specs in progress.refused.items()}
        _print_json(
            {
                "done": progress.n_done,
                "on_file": progress.n_skipped,
                "elsewhere": progress.n_elsewhere,
                "refused": refused,
                "records": str(out),
            }
        )
        return
    for reason, specs in progress.refused.items():
        typer.echo(f"Not run ({len(specs)}): {as_sentences(reason)}", err=True)
    parts = [f"{progress.n_done} runs done", f"{progress.n_skipped} were on file"]
    if progress.n_elsewhere:
        parts.append(f"{progress.n_elsewhere} are being done by another process")
    then = f" Now: naysay report {out}" if out.is_file() else ""
    typer.echo(f"{', '.join(parts)}.{then}")


def _print_plan(
    plan: "Plan", records: Iterable["RunRecord"], recipe: str, *, as_json: bool
) -> None:
    on_file = {record.spec.hash: record for record in records}
    seen: set[str] = set()
    rows = []
    for suite, runs in plan:
        hashes = dict.fromkeys(spec.hash for _, spec in runs)
        todo = [name for name in hashes if name not in seen and name not in on_file]
        done = [on_file[name].seconds for name in hashes if name in on_file]
        each = sum(done) / len(done) if done else suite.recipe(recipe).seconds
        rows.append(
            {
                "suite": suite.name,
                "recipe": recipe,
                "runs": len(hashes),
                "on_file": len(done),
                "in_another_table": len(hashes.keys() & seen),
                "to_do": len(todo),
                "seconds_each": None if each is None else round(each, 1),
                "seconds": None if each is None else round(each * len(todo), 1),
                "measured_on": "" if done else suite.recipe(recipe).measured_on,
            }
        )
        seen.update(hashes)
    if as_json:
        _print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("suite")
    for column in ("runs", "on file", "in another table", "to do", "minutes, about"):
        table.add_column(column, justify="right")
    for row in rows:
        minutes = "?" if row["seconds"] is None else f"{row['seconds'] / 60:.1f}"
        numbers = (row[name] for name in ("runs", "on_file", "in_another_table", "to_do"))
        table.add_row(row["suite"], *map(str, numbers), minutes)
    Console().print(table)
    known = [row["seconds"] for row in rows if row["seconds"] is not None]
    about = f", about {sum(known) / 60:.0f} minutes" if known else ""
    n_to_do = sum(row["to_do"] for row in rows)
    typer.echo(f"\nRecipe {recipe}: {n_to_do} runs to do{about}{_how_known(rows)}.")


def _how_known(rows: list[dict[str, Any]]) -> str:
    places = {row["measured_on"] for row in rows if row["seconds"] is not None} - {""}
    words = f", as seen on {' and '.join(sorted(places))}" if places else ""
    if any(row["seconds"] is None for row in rows):
        words += "; for those marked ? no run has been timed yet"
    return words


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
