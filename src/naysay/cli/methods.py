"""``naysay methods``: list the learning methods."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def methods(
    as_json: Annotated[bool, typer.Option("--json", help="Print the methods as JSON.")] = False,
    markdown: Annotated[
        bool,
        typer.Option(
            help="Print the table and the references of docs/methods.md.", show_default=False
        ),
    ] = False,
) -> None:
    """List the learning methods: what each needs, its source and when to use it.

    Example: naysay methods --json
    """
    from naysay.methods import METHODS, markdown_references, markdown_table
    from naysay.methods.references import REFERENCES

    if as_json:
        listed = [
            {
                "name": each.name,
                "summary": each.summary,
                "when": each.when,
                "source": each.source,
                "references": [
                    str(REFERENCES[key]) for key in each.source.split("; ") if key in REFERENCES
                ],
                "needs_transition": each.needs_transition,
                "needs_prior": each.needs_prior,
                "takes_several": each.takes_several,
                "takes_evidence": each.takes_evidence,
                "needs_augmentation": each.needs_augmentation,
                "needs_strong_view": each.needs_strong_view,
            }
            for each in METHODS.values()
        ]
        typer.echo(json.dumps(listed, indent=1))
    elif markdown:
        typer.echo(f"{markdown_table()}\n{markdown_references()}", nl=False)
    else:
        table = Table()
        table.add_column("method", no_wrap=True)
        for heading in ("needs", "source", "when to use it"):
            table.add_column(heading)
        for each in METHODS.values():
            table.add_row(each.name, each.needs, each.source, each.when)
        Console().print(table)
