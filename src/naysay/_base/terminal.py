"""Print on a terminal, which would obey the control characters in names, cells and files."""

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import rich.console
import typer
from rich.text import Text

# All but line ends and tabs, and the characters that reverse the order of those after them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def visible(text: object) -> str:
    r"""Convert to text without control characters, which are written as in Python: ``\x1b``."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], str(text))


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text to standard output or standard error, without the control characters in it."""
    typer.echo(visible(text), err=err, nl=nl)


@contextmanager
def quiet(logger: logging.Logger) -> Generator[None]:
    """Hide what a library logs, except errors, and restore its logger afterwards."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class Console(rich.console.Console):
    """A console of rich that prints strings as they are, but for control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Convert a string, which rich does for all that it prints, also for cells of tables."""
        return super().render_str(visible(text), **options)
