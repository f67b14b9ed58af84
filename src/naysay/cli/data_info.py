"""``naysay data info``: a first look at the user's own data."""

import csv
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from naysay.datasets.summary import Summary

__all__ = ["info"]

_MOST_ROWS = 20  # of a listing by class or annotator


def info(
    file: Annotated[
        str, typer.Argument(help="CSV, Parquet or .npz file, image folder, or - for CSV on stdin.")
    ],
    label: Annotated[
        str | None, typer.Option(help="Column of complementary labels (needed for tables).")
    ] = None,
    true_label: Annotated[
        str | None, typer.Option(help="Column of true classes, empty where unknown.")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Column that says who answered.")] = None,
    example_id: Annotated[
        str | None,
        typer.Option("--id", help="Column that says which rows are about the same example."),
    ] = None,
    images: Annotated[str | None, typer.Option(help="Column of image paths.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Feature columns, separated by commas; all if left out.")
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Columns to take as categories, separated by commas.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="All class names in order, separated by commas.")
    ] = None,
    separator: Annotated[
        str, typer.Option(help="What stands between several labels in one cell.")
    ] = "|",
    delimiter: Annotated[
        str | None, typer.Option(help="CSV delimiter; found from the header if left out.")
    ] = None,
    decimal: Annotated[str, typer.Option(help="Decimal mark of a CSV file.")] = ".",
    size: Annotated[
        tuple[int, int] | None, typer.Option(help="Bring all images to this height and width.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    r"""Say what is in your data: classes, labels per class, annotators, what cannot work.

    Example:

        printf 'age,not\n3,cat\n9,dog\n5,owl\n' | naysay data info - --label not
    """
    from naysay.datasets.own import read_own
    from naysay.datasets.summary import summarise

    own = read_own(
        file,
        label=label,
        features=_names(features),
        true_label=true_label,
        annotator=annotator,
        example_id=example_id,
        images=images,
        classes=_names(classes),
        separator=separator,
        delimiter=delimiter,
        decimal=decimal,
        categorical=_names(categorical) or [],
        size=size,
    )
    summary = summarise(own)
    if as_json:
        typer.echo(json.dumps(summary.to_dict(), ensure_ascii=False))
    else:
        _print(summary)


def _names(listed: str | None) -> list[str] | None:
    """Split names at commas; a name that holds one can be put in double quotes."""
    return None if listed is None else next(csv.reader([listed], skipinitialspace=True), [])


def _print(summary: "Summary") -> None:
    console = Console()
    facts = Table.grid(padding=(0, 2))
    for name, value in summary.facts().items():
        facts.add_row(Text(name, style="dim"), Text(value))
    console.print(Text(summary.source, style="bold"))
    console.print(facts)
    console.print(_count_table("not this class", summary.labels_per_class))
    if summary.annotators:
        console.print(_count_table("answers by", summary.annotators))
    for warning in summary.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


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
