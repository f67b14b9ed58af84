"""``naysay data``: official data sets, a look at your own data, and an example file."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay import datasets
from naysay._base.errors import DatasetUnavailable, InvalidData
from naysay.cli._reading import AsJson, DataFile, read_data, reads_data

if TYPE_CHECKING:
    from naysay.datasets.own.summary import Summary

__all__ = ["app", "info", "print_summary", "print_warning"]

app = typer.Typer(
    help="Official data sets: list them, fetch them, verify the copies on disk.",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="The data folder; NAYSAY_DATA or the user's cache folder when left out.",
    ),
]


@app.command("list")
def list_datasets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the official data sets, and which of them are on disk.

    Example: naysay data list
    """
    infos = [datasets.describe(name, data_dir=data_dir) for name in datasets.names()]
    if as_json:
        _print_json([asdict(info) for info in infos])
        return
    table = Table("name", box=None, pad_edge=False)
    for column in ("classes", "train", "test"):
        table.add_column(column, justify="right")
    table.add_column("on disk")
    table.add_column("licence")
    for info in infos:
        sizes = (f"{size:,}" if size else "none" for size in (info.n_train, info.n_test))
        on_disk = "part" if info.is_partial else "yes" if info.on_disk else "no"
        table.add_row(info.name, str(info.n_classes), *sizes, on_disk, info.licence)
    console = Console()
    console.print(table)
    console.print(f"\nData folder: {datasets.data_folder(data_dir)}", soft_wrap=True)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of data sets.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Download data sets from where their authors publish them, and check them.

    What is there already is kept; an interrupted download can simply be started again.

    Example: naysay data fetch mnist pendigits
    """
    for name in names:  # all names are checked before the first download begins
        datasets.describe(name, data_dir=data_dir)
    results: list[dict[str, Any]] = []
    for name in names:
        dataset = datasets.fetch(name, data_dir=data_dir)
        results.append(_summary(dataset))
        if not as_json:
            typer.echo(f"{name}: {_sizes(dataset)}, in {datasets.data_folder(data_dir)}.")
    if as_json:
        _print_json(results)


@app.command()
def verify(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Names of data sets; all on disk when left out."),
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Read data sets on disk and hold them against what their authors published.

    Exit code 1 if one is damaged, or if one that is named is missing. Nothing is downloaded.

    Example: naysay data verify mnist
    """
    chosen = names or [
        name for name in datasets.names() if datasets.is_on_disk(name, data_dir=data_dir)
    ]
    results = [_verify_one(name, data_dir) for name in chosen]
    if as_json:
        _print_json(results)
    else:
        for result in results:
            detail = result["detail"].splitlines()[0]
            typer.echo(f"{result['name']}: {result['status']}. {detail}")
        if not results:
            typer.echo(f"No data set is in {datasets.data_folder(data_dir)}. See: naysay data list")
    if any(result["status"] != "ok" for result in results):
        raise typer.Exit(1)


def _verify_one(name: str, data_dir: Path | None) -> dict[str, Any]:
    try:
        dataset = datasets.load(name, data_dir=data_dir, download=False)
    except DatasetUnavailable as error:
        return {"name": name, "status": "missing", "detail": str(error)}
    except InvalidData as error:
        return {"name": name, "status": "damaged", "detail": str(error)}
    checks = sorted({file.checked for file in dataset.provenance.files})
    detail = " ".join(
        (f"{_sizes(dataset)}; checked: {', '.join(checks)}.", *dataset.provenance.notes)
    )
    return {"name": name, "status": "ok", "detail": detail, **_summary(dataset)}


def _sizes(dataset: datasets.Dataset) -> str:
    test = f"{len(dataset.test):,} test" if dataset.test else "no official test"
    return f"{len(dataset.train):,} training and {test} examples of {len(dataset.classes)} classes"


def _summary(dataset: datasets.Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "n_classes": len(dataset.classes),
        "n_train": len(dataset.train),
        "n_test": len(dataset.test) if dataset.test else None,
        "notes": list(dataset.provenance.notes),
        "files": [
            {"path": str(file.path), "md5": file.md5, "checked": file.checked}
            for file in dataset.provenance.files
        ],
    }


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))


def example(
    out: Annotated[Path, typer.Argument(help="Where to write the CSV file.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the answers.")] = 0,
    annotators: Annotated[
        bool, typer.Option("--annotators", help="Three annotators, each with a habit of their own.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a small CSV file to try the other commands on: 150 flowers with "not" labels.

    Example:

        naysay data example flowers.csv
    """
    from naysay.workflows.example import write_example

    write_example(out, seed=seed, annotators=annotators)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "label": "not"}))
        return
    typer.echo(f"{out}: the column 'not' says what each flower is not. Next:")
    more = " --annotator who --id flower" if annotators else ""
    quoted = shlex.quote(str(out))
    typer.echo(f"naysay fit {quoted} --label not --true-label is{more} --out flowers-model")


_MOST_ROWS = 20  # of a listing by class or annotator


@reads_data
def info(file: DataFile, reading: dict[str, Any], as_json: AsJson = False) -> None:
    r"""Say what is in your data: classes, labels per class, annotators, what cannot work.

    Example:

        printf 'age,not\n3,cat\n9,dog\n5,owl\n' | naysay data info - --label not
    """
    from naysay.datasets.own.summary import summarise

    summary = summarise(read_data(file, reading))
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), ensure_ascii=False))
    else:
        print_summary(summary)


def print_summary(summary: "Summary", *, stderr: bool = False) -> None:
    """Print what was found in the data, and what cannot work."""
    console = Console(stderr=stderr)
    facts = Table.grid(padding=(0, 2))
    for name, value in summary.facts().items():
        facts.add_row(Text(name, style="dim"), Text(value))
    console.print(Text(summary.source, style="bold"))
    console.print(facts)
    console.print(_count_table("not this class", summary.labels_per_class))
    if summary.annotators:
        console.print(_count_table("answers by", summary.annotators))
    for warning in summary.warnings:
        print_warning(console, warning)


def print_warning(console: Console, warning: str) -> None:
    """Print a warning in one line, which a program can find."""
    console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def _count_table(title: str, counts: Mapping[str, int]) -> Table:
    """Return names and counts; of many names only the most frequent."""
    table = Table(title, "answers", "", box=box.SIMPLE_HEAD)
    table.columns[1].justify = "right"
    shown = sorted(counts, key=lambda name: -counts[name])[:_MOST_ROWS]
    most = max(counts.values(), default=0) or 1
    for name in counts if len(counts) <= _MOST_ROWS else shown:
        table.add_row(Text(name), f"{counts[name]:,}", "█" * round(20 * counts[name] / most))
    if len(counts) > _MOST_ROWS:
        table.add_row(Text(f"… and {len(counts) - _MOST_ROWS:,} more", style="dim"))
    return table
