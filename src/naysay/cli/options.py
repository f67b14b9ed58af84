"""Options that several commands share, and reading the data that they name."""

import csv
import functools
import inspect
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand

from naysay._base.progress import waiting
from naysay.cli import output

if TYPE_CHECKING:
    from naysay.datasets.own import OwnData

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
_ADDRESS = re.compile(r"local|auto|\S+:\d+")
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_NAMES = list[str]  # may be given several times
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


def _option(
    name: str, kind: Any, about: str, *flags: str, default: Any = None, panel: str, **more: Any
) -> inspect.Parameter:
    """Declare an option for a parameter, which is None or False if it is not given."""
    if kind is bool:
        flags, default = (f"--{name.replace('_', '-')}",), False  # without a flag --no-…
    callback = _PARSERS.get(name)
    option = typer.Option(*flags, help=about, callback=callback, rich_help_panel=panel, **more)
    annotation = Annotated[kind | None if default is None else kind, option]
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


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
_read = partial(_option, panel="Reading the data")
_OPTIONS = (
    _read("label", str, "Column of complementary labels (tables need it, or --suggested)."),
    _read("suggested", str, "Column of suggested classes, in a log of suggestions."),
    _read("accepted", str, "Column of the answers to suggestions: yes or no, 1 or 0, …"),
    _read("offered", str, "Column of the classes that could be chosen as the label."),
    _read("true_label", str, "Column of true classes, empty where unknown."),
    _read("annotator", str, "Column of the annotators who gave the labels."),
    _read("example_id", str, "Column of example ids; rows with one id are one example.", "--id"),
    _read("images", str, "Column of image paths."),
    _read(
        "features", _NAMES, "Feature columns, separated by commas; all other columns by default."
    ),
    _read("ignore", _NAMES, "Columns to leave out, such as dates, separated by commas."),
    _read("categorical", _NAMES, "Columns to read as categories, separated by commas."),
    _read("text", _NAMES, "Columns to read as text, separated by commas; most are recognised."),
    _read("text_model", str, "Folder of a transformers model to embed text with."),
    _read(
        "classes",
        str,
        "All classes in order: names separated by commas, a file with one name per line, or a "
        "number. A name with a comma is put in double quotes.",
    ),
    _read("ignore_case", bool, "Merge classes that differ only in capitals."),
    _read("separator", str, "Separator of several labels in one cell.", default="|"),
    _read("delimiter", str, "CSV delimiter; detected from the header by default."),
    _read("decimal", str, "Decimal mark of a CSV file.", default="."),
    _read("size", str, "Resize all images: 32, or 32x48 for height x width."),
    _read(
        "memory",
        float,
        "For a folder of Parquet files or arrays: GB that its features, texts, ids and answers may "
        "take in memory; larger ones are put into temporary files.",
        min=0,
        show_default="1",
    ),
    _read("strict", bool, "Stop at a damaged image instead of leaving it out."),
)

_train = partial(_option, panel="Training")
_TRAINING = (
    _train("method", str, "Learning method; naysay methods lists them.", show_default="forward"),
    _train(
        "learner",
        str,
        "Kind of model; auto mixes several kinds, with weights chosen by held-out labels.",
        metavar="auto|network|kernel|trees|linear",
        show_default="auto",
    ),
    _train(
        "network",
        str,
        "linear, or a class of naysay.networks (default: mlp), in place of the mixture.",
    ),
    _train("epochs", int, "Maximum number of passes over the data.", min=1, show_default="100"),
    _train("lr", float, "Learning rate.", show_default="0.001"),
    _train("batch_size", int, "Examples per step.", min=1, show_default="64"),
    _train("max_norm", float, "Clip gradients to this norm; 1 prevents collapsed classes."),
    _train(
        "match_prior",
        float,
        "Weight of a penalty that draws predictions towards the class proportions that the labels "
        "imply; 0.1 prevents collapsed classes.",
    ),
    _train(
        "restarts",
        int,
        "Number of further trainings while the held-out labels show collapsed classes.",
        min=0,
    ),
    _train("compile", bool, "Compile the network: for large networks on a GPU."),
    _train(
        "checkpoint",
        Path,
        "Folder for the state of training. If the command is stopped, the same command continues "
        "from there. A network is then trained, not the default mixture.",
        metavar="FOLDER",
    ),
)

_fit = partial(_option, panel="Anchors, matrix and evaluation")
_FITTING = (
    _fit(
        "anchors",
        Path,
        "Examples whose true class is known, in the form of the data; for images, one folder per "
        "true class.",
        metavar="FILE",
    ),
    _fit(
        "anchor_label",
        str,
        "Column of true classes in the file of anchors; needed if it is ambiguous.",
    ),
    _fit(
        "anchors_are",
        str,
        "Whether the examples whose true class is known are a random sample, of all examples or of "
        "each class, or were picked. Only a random sample shows the accuracy.",
        default="random",
        metavar="random|picked",
    ),
    _fit(
        "transition",
        str,
        "Transition matrix: a file, a folder with one ANNOTATOR.csv per annotator, or a word. By "
        "default estimate if there are anchors, else uniform.",
        metavar="Q.csv|FOLDER|uniform|estimate",
    ),
    _fit("allow_diagonal", bool, "Allow for annotators who exclude the true class by mistake."),
    _fit(
        "mistakes", float, "Rate of mistaken answers to suggestions, below 0.5.", default=0.0, min=0
    ),
    _fit(
        "held_out",
        float,
        "Fraction of the examples held out to estimate the accuracy.",
        default=0.2,
    ),
    _fit("seed", int, "Seed of all randomness.", default=0, min=0),
)


def _takes(parameter: str, options: Sequence[inspect.Parameter], *names: str) -> _Decorator:
    """Replace a parameter of a command by options, or by those of them that are named.

    The command receives a dictionary of the options that were given or have a default.
    """
    chosen = [each for each in options if not names or each.name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in chosen}
            taken = {name: value for name, value in values.items() if value not in (None, [])}
            command(**given, **{parameter: taken})

        others = [
            each.replace(kind=_KEYWORD)
            for name, each in inspect.signature(command).parameters.items()
            if name != parameter
        ]
        signature = inspect.Signature([*others, *chosen])
        run.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue]
        run.__annotations__ = {each.name: each.annotation for each in (*others, *chosen)}
        return run

    return decorate


reads_data = partial(_takes, "reading", _OPTIONS)  # keyword arguments of `read_own`
trains = partial(_takes, "training", _TRAINING)  # parameters of `ComplementaryClassifier`
fits = partial(_takes, "fitting", _FITTING)  # of `fit_own`: anchors, matrix and evaluation


def read_data(
    file: str, reading: Mapping[str, Any], fitting: Mapping[str, Any] = MappingProxyType({})
) -> tuple["OwnData", dict[str, Any]]:
    """Read the user's data and further files with a progress indicator, and print warnings.

    The second value has keyword arguments of `fit_own`: the options, with anchors and matrix read.
    """
    from naysay.workflows.files import read_fit_inputs

    names = ("anchors", "anchor_label", "transition", "allow_diagonal")
    files = {name: value for name, value in fitting.items() if name in names}
    with waiting(f"reading {file}"):
        own, anchors, transition, warnings = read_fit_inputs(file, **files, **reading)
    output.print_warnings(*warnings)
    given = {name: value for name, value in fitting.items() if name != "anchor_label"}
    memory = reading.get("memory", 1.0)
    return own, {**given, "anchors": anchors, "transition": transition, "memory": memory}
