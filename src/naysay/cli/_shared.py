"""Options that several commands share, reading the user's data, and printing."""

import csv
import functools
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from naysay._base.progress import waiting
from naysay._base.terminal import say, visible

if TYPE_CHECKING:
    from naysay.workflows.files import FitInputs

DataFile = Annotated[
    str,
    typer.Argument(
        help="CSV, JSON Lines, Parquet, Excel or .npz file, a folder of images, Parquet files or "
        ".npy arrays, or - for CSV on stdin."
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that naysay fit wrote.")]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put an apostrophe before text in a CSV file that a spreadsheet would take for a "
        "formula, because it begins with = + - or @.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Spread the work over the Ray cluster at host:port, or auto, the one that this "
        "machine is in; without an address, start Ray on this machine.",
    ),
]
_LONGEST = 2_000  # characters of an error or a warning
_ADDRESS = re.compile(r"local|auto|\S+:\d+")
_Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class Command(TyperCommand):
    """A command that refuses an option that is given twice; its option --ray needs no address.

    Paragraphs of its help are wrapped at the width of the terminal, and its arguments are named in
    capitals. Typer would break paragraphs where the code does, too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(self.help or ""))
        for each in self.params:
            if isinstance(each, TyperArgument) and each.metavar is None:
                each.metavar = str(each.name).upper()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with the address of a local Ray where none is given."""
        options = args[: args.index("--")] if "--" in args else args
        for place, (option, following) in enumerate(pairwise([*options, ""])):
            if option == "--ray" and not _ADDRESS.fullmatch(following):
                args[place] = "--ray=local"
        for option, count in Counter(self.make_parser(ctx).parse_args([*args])[2]).items():
            if count > 1 and not getattr(option, "is_flag", False) and not option.multiple:
                ctx.fail(f"{option.opts[0]} was given {count} times. Give it once.")
        return super().parse_args(ctx, args)


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


def _option(
    name: str,
    about: str,
    flag: str | None = None,
    kind: Any = str | None,
    default: Any = None,
    panel: str = "Reading the data",
    **more: Any,
) -> inspect.Parameter:
    """Declare a command-line option for a parameter of a function."""
    flags = () if flag is None else (flag,)
    callback = _PARSERS.get(name)
    option = typer.Option(*flags, help=about, callback=callback, rich_help_panel=panel, **more)
    annotation = Annotated[kind, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def split_names(given: Sequence[str] | None) -> list[str]:
    """Split lists of names at commas, except in double quotes, and join them."""
    try:
        return [name for row in csv.reader(given or (), skipinitialspace=True) for name in row]
    except csv.Error:
        raise typer.BadParameter(
            "must be names separated by commas. Put a name with a comma or a line end in double "
            "quotes."
        ) from None


def class_list(given: str | None) -> list[str] | None:
    """Read class names from a list, a file or a number, as ``--classes`` gives them."""
    from naysay.workflows.files import read_classes  # loads numpy

    if given is None:
        return None
    n_classes, names = read_classes(given)
    return names or [str(place) for place in range(n_classes)]


def parse_size(given: str | None) -> tuple[int, int] | None:
    """Parse the height and width of images: ``32`` or ``32x48``."""
    if given is None:
        return None
    found = re.fullmatch(r"(\d{1,9})(?:[x×](\d{1,9}))?", given.strip())
    if found is None:
        raise typer.BadParameter(f"must be like 32, or 32x48 for height x width. Got {given!r}.")
    return int(found[1]), int(found[2] or found[1])


_PARSERS = {
    **dict.fromkeys(("features", "ignore", "categorical", "text"), split_names),
    "classes": class_list,
    "size": parse_size,
}
_names = partial(_option, kind=list[str] | None)  # may be given several times
_flag = partial(_option, kind=bool, default=False)
_OPTIONS = (
    _option("label", "Column of complementary labels (tables need it, or --suggested)."),
    _option("suggested", "Column of suggested classes, in a log of suggestions."),
    _option("accepted", "Column of the answers to suggestions: yes or no, 1 or 0, …"),
    _option("offered", "Column of the classes that could be chosen as the label."),
    _option("true_label", "Column of true classes, empty where unknown."),
    _option("annotator", "Column of the annotators who gave the labels."),
    _option("example_id", "Column of example ids; rows with one id are one example.", "--id"),
    _option("images", "Column of image paths."),
    _names("features", "Feature columns, separated by commas; all other columns by default."),
    _names("ignore", "Columns to leave out, such as dates, separated by commas."),
    _names("categorical", "Columns to read as categories, separated by commas."),
    _names("text", "Columns to read as text, separated by commas; most are recognised."),
    _option("text_model", "Folder of a transformers model to embed text with."),
    _option(
        "classes",
        "All classes in order: names separated by commas, a file with one name per line, or a "
        "number. A name with a comma is put in double quotes.",
    ),
    _flag("ignore_case", "Merge classes that differ only in capitals.", "--ignore-case"),
    _option("separator", "Separator of several labels in one cell.", kind=str, default="|"),
    _option("delimiter", "CSV delimiter; detected from the header by default."),
    _option("decimal", "Decimal mark of a CSV file.", kind=str, default="."),
    _option("size", "Resize all images: 32, or 32x48 for height x width."),
    _option(
        "memory",
        "For a folder of Parquet files or arrays: GB that its features, texts, ids and answers may "
        "take in memory; larger ones are put into temporary files.",
        kind=float | None,
        min=0,
        show_default="1",
    ),
    _flag("strict", "Stop at a damaged image instead of leaving it out.", "--strict"),
)


_train = partial(_option, panel="Training")
_TRAINING = (
    _train("method", "Learning method; naysay methods lists them.", show_default="forward"),
    _train(
        "learner",
        "Kind of model; auto mixes several kinds, with weights chosen by held-out labels.",
        metavar="auto|network|kernel|trees|linear",
        show_default="auto",
    ),
    _train(
        "network", "linear, or a class of naysay.networks (default: mlp), in place of the mixture."
    ),
    _train(
        "epochs",
        "Maximum number of passes over the data.",
        kind=int | None,
        min=1,
        show_default="100",
    ),
    _train("lr", "Learning rate.", kind=float | None, show_default="0.001"),
    _train("batch_size", "Examples per step.", kind=int | None, min=1, show_default="64"),
    _train(
        "max_norm", "Clip gradients to this norm; 1 prevents collapsed classes.", kind=float | None
    ),
    _train(
        "match_prior",
        "Weight of a penalty that draws predictions towards the class proportions that the labels "
        "imply; 0.1 prevents collapsed classes.",
        kind=float | None,
    ),
    _train(
        "restarts",
        "Number of further trainings while the held-out labels show collapsed classes.",
        kind=int | None,
        min=0,
    ),
    _train(
        "compile", "Compile the network: for large networks on a GPU.", "--compile", bool, False
    ),
    _train(
        "checkpoint",
        "Folder for the state of training. If the command is stopped, the same command continues "
        "from there. A network is then trained, not the default mixture.",
        kind=Path | None,
        metavar="FOLDER",
    ),
)

_fit = partial(_option, panel="Anchors, matrix and evaluation")
_FITTING = (
    _fit(
        "anchors",
        "Examples whose true class is known, in the form of the data; for images, one folder per "
        "true class.",
        kind=Path | None,
        metavar="FILE",
    ),
    _fit(
        "anchor_label", "Column of true classes in the file of anchors; needed if it is ambiguous."
    ),
    _fit(
        "anchors_are",
        "Whether the examples whose true class is known are a random sample, of all examples or of "
        "each class, or were picked. Only a random sample shows the accuracy.",
        kind=str,
        default="random",
        metavar="random|picked",
    ),
    _fit(
        "transition",
        "Transition matrix: a file, a folder with one ANNOTATOR.csv per annotator, or a word. By "
        "default estimate if there are anchors, else uniform.",
        metavar="Q.csv|FOLDER|uniform|estimate",
    ),
    _fit(
        "allow_diagonal",
        "Allow for annotators who exclude the true class by mistake.",
        "--allow-diagonal",
        bool,
        False,
    ),
    _fit(
        "mistakes",
        "Rate of mistaken answers to suggestions, below 0.5.",
        kind=float,
        default=0.0,
        min=0,
    ),
    _fit(
        "held_out",
        "Fraction of the examples held out to estimate the accuracy.",
        kind=float,
        default=0.2,
    ),
    _fit("seed", "Seed of all randomness.", kind=int, default=0, min=0),
)


def reads_data(*names: str) -> _Decorator:
    """Replace the parameter ``reading`` of a command by the options for reading data.

    The command receives a dictionary of the options that were given, which are keyword arguments
    of `read_own`. With `names`, it has only these options.
    """
    return _takes("reading", [each for each in _OPTIONS if not names or each.name in names])


def trains(*names: str) -> _Decorator:
    """Replace the parameter ``training`` of a command by the options for training.

    The command receives a dictionary of the options that were given, which are parameters of
    `ComplementaryClassifier`. With `names`, it has only these options.
    """
    return _takes("training", [each for each in _TRAINING if not names or each.name in names])


def fits(*names: str) -> _Decorator:
    """Replace the parameter ``fitting`` of a command by options about anchors, matrix and figures.

    The command receives a dictionary of the options that were given or have a default. With
    `names`, it has only these options.
    """
    return _takes("fitting", [each for each in _FITTING if not names or each.name in names])


def _takes(parameter: str, options: Sequence[inspect.Parameter]) -> _Decorator:
    """Replace a parameter of a command by options, whose values it receives as a dictionary."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in options}
            taken = {name: value for name, value in values.items() if value not in (None, [])}
            command(**given, **{parameter: taken})

        others = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for name, each in inspect.signature(command).parameters.items()
            if name != parameter
        ]
        signature = inspect.Signature([*others, *options])
        run.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {each.name: each.annotation for each in (*others, *options)}
        return run

    return decorate


def read_data(
    file: str, reading: Mapping[str, Any], fitting: Mapping[str, Any] | None = None
) -> "FitInputs":
    """Read the user's data and further files with a progress indicator, and print warnings."""
    from naysay.workflows.files import read_fit_inputs

    names = ("anchors", "anchor_label", "transition", "allow_diagonal")
    files = {name: value for name, value in (fitting or {}).items() if name in names}
    with waiting(f"reading {file}"):
        inputs = read_fit_inputs(file, **files, **reading)
    print_warnings(inputs.warnings)
    return inputs


def fit_options(
    inputs: "FitInputs", reading: Mapping[str, Any], fitting: Mapping[str, Any]
) -> dict[str, Any]:
    """Collect keyword arguments of `fit_own` from the options and the files that they name."""
    given = {name: value for name, value in fitting.items() if name != "anchor_label"}
    memory = reading.get("memory", 1.0)
    return {**given, "anchors": inputs.anchors, "transition": inputs.transition, "memory": memory}


def print_warnings(warnings: Iterable[str]) -> None:
    """Print warnings to standard error, one per line."""
    for warning in warnings:
        print_warning(warning)


def print_warning(warning: str) -> None:
    """Print a warning to standard error in one line."""
    say(f"warning: {in_one_line(warning)}", err=True)
