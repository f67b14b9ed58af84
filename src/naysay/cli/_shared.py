"""Options that several commands share, reading the user's data, and printing."""

import csv
import functools
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysay._base.progress import waiting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from naysay.datasets.own import OwnData

DataFile = Annotated[
    str, typer.Argument(help="CSV, Parquet or .npz file, image folder, or - for CSV on stdin.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that naysay fit wrote.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def print_json(value: Any, *, indent: int | None = 1) -> None:
    """Print a value as one JSON document."""
    typer.echo(json.dumps(value, indent=indent, ensure_ascii=False))


def as_sentences(text: str) -> str:
    """Join lines of text into one line of full sentences."""
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return " ".join(line if line.endswith((".", "?", "!")) else f"{line}." for line in lines)


def _option(
    name: str, about: str, flag: str | None = None, kind: Any = str | None, default: Any = None
) -> inspect.Parameter:
    """Declare a command-line option for a parameter of `read_own`."""
    flags = () if flag is None else (flag,)
    callback = split_names if name in _LISTS else None
    option = typer.Option(*flags, help=about, callback=callback, rich_help_panel="Reading the data")
    annotation = Annotated[kind, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def split_names(listed: str | None) -> list[str] | None:
    """Split a list of names at commas, except in double quotes."""
    return None if listed is None else next(csv.reader([listed], skipinitialspace=True), [])


_LISTS = {"features", "ignore", "categorical", "text", "classes"}
_OPTIONS = (
    _option("label", "Column of complementary labels (needed for tables)."),
    _option("true_label", "Column of true classes, empty where unknown."),
    _option("annotator", "Column of the annotators who gave the labels."),
    _option("example_id", "Column of example ids; rows with one id are one example.", "--id"),
    _option("images", "Column of image paths."),
    _option("features", "Feature columns, separated by commas; all other columns by default."),
    _option("ignore", "Columns to leave out, such as dates, separated by commas."),
    _option("categorical", "Columns to read as categories, separated by commas."),
    _option("text", "Columns to read as text, separated by commas; most are recognised."),
    _option("text_model", "Folder of a transformers model to embed text with."),
    _option("classes", "All class names in order, separated by commas."),
    _option("separator", "Separator of several labels in one cell.", kind=str, default="|"),
    _option("delimiter", "CSV delimiter; detected from the header by default."),
    _option("decimal", "Decimal mark of a CSV file.", kind=str, default="."),
    _option("size", "Resize all images to this height and width.", kind=tuple[int, int] | None),
)


def reads_data(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``reading`` of a command by the options for reading data.

    The command receives a dictionary of the options that were given, which are keyword arguments
    of `read_own`. With `names`, it has only these options.
    """
    options = [option for option in _OPTIONS if not names or option.name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in options}
            reading = {name: value for name, value in values.items() if value is not None}
            command(**given, reading=reading)

        others = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "reading"
        ]
        signature = inspect.Signature([*others, *options])
        run.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {each.name: each.annotation for each in (*others, *options)}
        return run

    return decorate


def read_data(
    file: str, reading: Mapping[str, Any], *, anchor_label: str | None = None
) -> "OwnData":
    """Read the user's data with a progress indicator.

    A column with the name of the anchors' true classes is removed from the features, unless the
    user lists it as a feature.
    """
    from naysay.datasets.own import read_own

    with waiting(f"reading {file}"):
        own = read_own(file, **reading)
    if anchor_label is None or "features" in reading:
        return own
    rest = own.without_column(anchor_label)
    if rest is not own:
        typer.echo(
            f"warning: {anchor_label!r}: not used as a feature, because --anchor-label names it; "
            f"to use the true classes in {own.source}, pass --true-label",
            err=True,
        )
    return rest


def read_anchor_file(
    file: Path | None, own: "OwnData", reading: Mapping[str, Any], *, true_label: str | None
) -> "tuple[NDArray[Any], NDArray[np.int64]] | None":
    """Read the anchors that belong to the data, if there is a file of them."""
    from naysay.datasets.own import read_anchors

    if file is None:
        return None
    roles = [reading[role] for role in ("label", "annotator", "example_id") if role in reading]
    shared = {name: reading[name] for name in ("images", "delimiter", "decimal") if name in reading}
    ignored = [*roles, *reading.get("ignore", ())]
    return read_anchors(file, own, true_label=true_label, ignored=ignored, **shared)
