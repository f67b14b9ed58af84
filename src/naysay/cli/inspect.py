"""``naysay inspect``: what can be learned from a transition matrix."""

import json
from pathlib import Path
from typing import Annotated

import typer


def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV of Q: row = true class, column = class excluded, names in the first row "
            "and column."
        ),
    ],
    allow_diagonal: Annotated[
        bool, typer.Option(help="Accept labels that wrongly exclude the true class.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Say what can be learned from labels drawn with a matrix: rank, unused labels, information.

    Example: naysay inspect Q.csv
    """
    from naysay.transition import TransitionMatrix

    diagnosis = TransitionMatrix.read(file, allow_diagonal=allow_diagonal).diagnose()
    typer.echo(json.dumps(diagnosis.to_dict(), indent=1) if as_json else str(diagnosis))
