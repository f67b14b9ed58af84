"""The command line: one module per command, which parses options, calls a workflow and prints."""

import codecs
import io
import os
import re
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from naysay import __version__
from naysay._base.errors import NaysayError
from naysay._base.terminal import say, visible
from naysay.cli import options, output
from naysay.cli.annotate import app as annotate
from naysay.cli.check import check
from naysay.cli.data import app as data
from naysay.cli.demo import demo
from naysay.cli.design import design
from naysay.cli.estimate import estimate
from naysay.cli.export import export
from naysay.cli.fit import fit
from naysay.cli.inspect import inspect
from naysay.cli.methods import methods
from naysay.cli.predict import predict
from naysay.cli.report import report
from naysay.cli.reproduce import reproduce
from naysay.cli.sweep import sweep

__all__ = ["app", "main"]

_UsageError: Any = typer.BadParameter.__base__  # which Typer does not export


class _OneLineErrors(TyperGroup):
    """Prints errors in one line, with exit code 1; ``--debug`` shows the traceback instead."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            error.message = visible(error.message)
            raise
        except (NaysayError, OSError, MemoryError, RuntimeError) as error:
            # a lack of memory is a `MemoryError`, or of torch a `RuntimeError`
            is_reported = isinstance(error, NaysayError | OSError | MemoryError)
            is_reported |= bool(_LACK_OF_MEMORY.search(str(error)))
            if ctx.params["debug"] or isinstance(error, BrokenPipeError) or not is_reported:
                raise  # click ends silently on a closed pipe, as in `naysay predict … | head`
            text = str(error)
            if not isinstance(error, NaysayError | OSError):
                text = f"There is not enough memory. {text.splitlines()[0] if text else ''}"
            if isinstance(error, OSError) and error.errno is not None:
                text = text.removeprefix(f"[Errno {error.errno}] ")
            say(f"error: {output.in_one_line(output.as_sentences(text))}", err=True)
            raise typer.Exit(1) from None


_LACK_OF_MEMORY = re.compile("allocate memory|out of memory")


app = typer.Typer(
    name="naysay",
    cls=_OneLineErrors,
    help="Learn a classifier from labels that say what something is not.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    demo,
    fit,
    predict,
    sweep,
    check,
    estimate,
    export,
    design,
    inspect,
    methods,
    reproduce,
    report,
):
    app.command(cls=options.Command)(command)
app.add_typer(annotate, name="annotate")
app.add_typer(data, name="data")


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"naysay {__version__}")
        raise typer.Exit


@app.callback()
def common(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Learn a classifier from labels that say what something is not."""


def main() -> None:
    """Run the command line with standard streams that can print any text."""
    if sys.stderr is None:  # closed by the shell: 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    if sys.stdout is None:
        sys.exit("error: standard output must not be closed.")
    try:
        os.getcwd()
    except FileNotFoundError:  # libraries would end the process with messages of their own
        sys.exit("error: the current folder no longer exists. Change to another one.")
    if os.environ.get("NO_COLOR"):
        os.environ["TERM"] = "dumb"  # no escape codes at all: no bold text and no progress bars
    codecs.register_error("naysay", _spell_out)
    warnings.showwarning = _show_warning
    # of NumPy, about numbers that overflow; results that are not finite are errors of their own
    warnings.filterwarnings("ignore", ".* encountered in ", RuntimeWarning)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="naysay")
    try:
        app()
    except SystemExit:
        _flush_or_fail()
        raise
    except OSError as error:  # outside of the commands, which report their own: --version
        print(f"error: {error.strerror}.", file=sys.stderr)
        os._exit(1)  # Python would try to write the rest again


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning of a library in one line, without the line of code that it is about."""
    output.print_warnings(output.as_sentences(str(message)))


# Symbols in what is printed, for terminals that do not have them.
_SPELLED = {"–": "-", "…": "...", "█": "#", "×": "x", "±": "+-", "“": '"', "”": '"', "→": "->"}


def _spell_out(error: UnicodeError) -> tuple[str | bytes, int]:
    """Encode what a stream cannot: bytes of file names unchanged, other characters in ASCII."""
    assert isinstance(error, UnicodeEncodeError)
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    escaped = character.encode("ascii", "backslashreplace").decode()
    return _SPELLED.get(character, escaped), error.start + 1


def _flush_or_fail() -> None:
    """Report output that could not be written, which Python would only notice after the end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is lost
        if not isinstance(error, BrokenPipeError):
            say(f"error: standard output: {error.strerror}.", err=True)
        sys.exit(1)
