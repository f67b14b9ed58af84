"""``naysay data example``: a small file to try the commands on."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from naysay.cli._reading import AsJson


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
