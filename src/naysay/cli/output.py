"""Print results, warnings and errors of commands."""

import json
import sys
from typing import Any

import typer

from naysay._base.terminal import say, visible

_LONGEST = 2_000  # characters of an error or a warning


def print_json(value: Any, *, indent: int | None = 1) -> None:
    """Print a value as one JSON document, in ASCII if other characters cannot be printed."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        in_ascii = text != visible(text)
    except UnicodeEncodeError:
        in_ascii = True
    typer.echo(json.dumps(value, indent=indent) if in_ascii else text)


def print_result(figures: Any, text: object, *, as_json: bool, indent: int | None = None) -> None:
    """Print a result as text, or its figures as JSON."""
    if as_json:
        print_json(figures, indent=indent)
    else:
        say(text)


def as_sentences(text: str) -> str:
    """Join lines of text into one line of full sentences."""
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return " ".join(line if line.endswith((".", "?", "!")) else f"{line}." for line in lines)


def in_one_line(text: str) -> str:
    """Join lines, and leave out the middle of a line that is long because a name in it is."""
    line = " ".join(text.splitlines())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 400]} … {line[-400:]}"


def print_warnings(*warnings: str) -> None:
    """Print warnings to standard error, one per line."""
    for warning in warnings:
        say(f"warning: {in_one_line(warning)}", err=True)
