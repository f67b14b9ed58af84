"""``naysay data info``: a first look at the user's own data."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from naysay.cli._reading import AsJson, DataFile, Reading, reads_data

if TYPE_CHECKING:
    from naysay.datasets.own.summary import Summary

__all__ = ["info", "print_summary", "print_warning"]

_MOST_ROWS = 20  # of a listing by class or annotator


@reads_data
def info(file: DataFile, reading: Reading, as_json: AsJson = False) -> None:
    r"""Say what is in your data: classes, labels per class, annotators, what cannot work.

    Example:

        printf 'age,not\n3,cat\n9,dog\n5,owl\n' | naysay data info - --label not
    """
    from naysay.datasets.own.summary import summarise

    summary = summarise(reading.read(file))
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
