"""``naysay methods``: list the learning methods."""

import typer
from rich.table import Column, Table

from naysay._base.terminal import Console, say
from naysay.cli import options, output


def methods(
    as_json: options.AsJson = False,
    markdown: bool = typer.Option(
        False, help="Print the table and the references of docs/methods.md.", show_default=False
    ),
) -> None:
    """List the learning methods: what each needs, its source and when to use it.

    Example: naysay methods --json
    """
    from naysay.methods import METHODS, markdown_references, markdown_table

    if as_json:
        output.print_json([each.to_dict() for each in METHODS.values()])
    elif markdown:
        say(f"{markdown_table()}\n{markdown_references()}", nl=False)
    else:
        table = Table(Column("method", no_wrap=True), "needs", "source", "when to use it")
        for each in METHODS.values():
            table.add_row(each.name, each.needs, each.source, each.when)
        Console().print(table)
