"""``naysay data``: official data sets, a summary of your data, and an example file."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from naysay import datasets
from naysay._base.terminal import Console, say
from naysay.cli import options, output

if TYPE_CHECKING:
    from naysay.datasets.own.summary import Summary

app = typer.Typer(
    help="List, fetch and verify official data sets, and summarise your data.",
    no_args_is_help=True,
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="FOLDER",
        help="The data folder; by default NAYSAY_DATA or the user's cache folder.",
    ),
]


@app.command("list", cls=options.Command)
def list_datasets(data_dir: DataDir = None, as_json: options.AsJson = False) -> None:
    """List the official data sets, and show which of them are on disk.

    Example: naysay data list
    """
    infos = [datasets.describe(name, data_dir=data_dir) for name in datasets.names()]
    if as_json:
        output.print_json([asdict(info) for info in infos], indent=2)
        return
    numbers = (Column(name, justify="right") for name in ("classes", "train", "test"))
    table = Table("name", *numbers, "on disk", "licence", box=None, pad_edge=False)
    for info in infos:
        sizes = (f"{size:,}" if size else "none" for size in (info.n_train, info.n_test))
        on_disk = "part" if info.is_partial else "yes" if info.on_disk else "no"
        table.add_row(info.name, str(info.n_classes), *sizes, on_disk, info.licence)
    console = Console()
    console.print(table)
    console.print(f"\nData folder: {datasets.data_folder(data_dir)}", soft_wrap=True)


@app.command(cls=options.Command)
def fetch(
    names: list[str] = typer.Argument(metavar="NAME...", help="Names of data sets."),
    data_dir: DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Download data sets from their official sources, and check them.

    Files that are already on disk are kept.

    Example: naysay data fetch mnist pendigits
    """
    for name in names:  # all names are checked before the first download begins
        datasets.describe(name, data_dir=data_dir)
    results: list[dict[str, Any]] = []
    for name in names:
        dataset = datasets.fetch(name, data_dir=data_dir)
        results.append(dataset.to_dict())
        if not as_json:
            say(f"{name}: {dataset.sizes}, in {datasets.data_folder(data_dir)}.")
    if as_json:
        output.print_json(results, indent=2)


@app.command(cls=options.Command)
def verify(
    names: list[str] | None = typer.Argument(
        None, metavar="[NAME...]", help="Names of data sets; by default all on disk."
    ),
    data_dir: DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """Read data sets on disk, and compare them with what their authors published.

    The exit code is 1 if a data set is damaged, or if a named one is missing. Nothing is
    downloaded.

    Example: naysay data verify mnist
    """
    chosen = names or [
        name for name in datasets.names() if datasets.is_on_disk(name, data_dir=data_dir)
    ]
    results = [datasets.verify(name, data_dir=data_dir) for name in chosen]
    if as_json:
        output.print_json([result.to_dict() for result in results], indent=2)
    else:
        for result in results:
            say(f"{result.name}: {result.status}. {result.detail.splitlines()[0]}")
        if not results:
            say(
                f"No data set is in {datasets.data_folder(data_dir)}. To list all data sets, run: "
                "naysay data list"
            )
    if any(result.status != "ok" for result in results):
        raise typer.Exit(1)


@app.command(cls=options.Command)
@options.reads_data()
def info(file: options.DataFile, reading: dict[str, Any], as_json: options.AsJson = False) -> None:
    r"""Summarise your data: classes, labels per class, annotators, and problems.

    Example:

        printf 'age,not\n3,cat\n9,dog\n5,owl\n' | naysay data info - --label not
    """
    from naysay.datasets.own.summary import summarise

    own, _ = options.read_data(file, reading)
    summary = summarise(own)
    if as_json:
        output.print_json(summary.to_dict(), indent=None)
    else:
        print_summary(summary)


@app.command(cls=options.Command)
def example(
    out: Path = typer.Argument(help="Where to write the CSV file."),
    seed: int = typer.Option(0, min=0, help="Seed of the random labels."),
    annotators: bool = typer.Option(
        False, "--annotators", help="Add three annotators with different labelling habits."
    ),
    log: bool = typer.Option(
        False, "--log", help="Write suggestions that were accepted or rejected instead."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Write a small CSV file to try the other commands: 150 flowers with complementary labels.

    Example:

        naysay data example flowers.csv
    """
    from naysay.workflows.files import write_example

    if log and annotators:
        raise typer.BadParameter("--log and --annotators cannot be combined.")
    write_example(out, seed=seed, annotators=annotators, log=log)
    quoted = shlex.quote(str(out))
    if as_json:
        columns = {"suggested": "suggested", "accepted": "accepted"} if log else {"label": "not"}
        output.print_json({"out": str(out), **columns}, indent=None)
        return
    if log:
        say(f"{out}: a class was suggested for each flower, and accepted or not. Next:")
        say(f"naysay fit {quoted} --suggested suggested --accepted accepted --out log-model")
        return
    say(f"{out}: the column 'not' names a class that each flower is not. Next:")
    more = " --annotator who --id flower" if annotators else ""
    say(f"naysay fit {quoted} --label not --true-label is{more} --out flowers-model")


def print_summary(summary: "Summary") -> None:
    """Print the figures of a summary, and its warnings, each on one line."""
    console = Console()
    for line in str(summary).splitlines():
        is_warning = line.startswith("warning: ")
        console.print(line, style="yellow" if is_warning else None, soft_wrap=True)
