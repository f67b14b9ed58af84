"""The options that say how to read a user's own data, shared by all commands that do."""

import csv
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from naysay._base.progress import waiting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from naysay.datasets.own import OwnData

__all__ = ["AsJson", "DataFile", "Decimal", "Delimiter", "Images", "Reading", "reads_data"]

DataFile = Annotated[
    str, typer.Argument(help="CSV, Parquet or .npz file, image folder, or - for CSV on stdin.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]

# For commands on a saved model, which says how to read all else.
Images = Annotated[str | None, typer.Option(help="Column of image paths.")]
Delimiter = Annotated[
    str | None, typer.Option(help="CSV delimiter; found from the header if left out.")
]
Decimal = Annotated[str, typer.Option(help="Decimal mark of a CSV file.")]


def _option(*names: str, about: str) -> Any:
    return typer.Option(*names, help=about, rich_help_panel="Reading the data")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a user's own data; each field is an option of the command line."""

    label: Annotated[
        str | None, _option(about="Column of complementary labels (needed for tables).")
    ] = None
    true_label: Annotated[
        str | None, _option(about="Column of true classes, empty where unknown.")
    ] = None
    annotator: Annotated[str | None, _option(about="Column that says who answered.")] = None
    example_id: Annotated[
        str | None,
        _option("--id", about="Column that says which rows are about the same example."),
    ] = None
    images: Annotated[str | None, _option(about="Column of image paths.")] = None
    features: Annotated[
        str | None, _option(about="Feature columns, separated by commas; all if left out.")
    ] = None
    ignore: Annotated[
        str | None,
        _option(about="Columns that are no features, such as a date, separated by commas."),
    ] = None
    categorical: Annotated[
        str | None, _option(about="Columns to take as categories, separated by commas.")
    ] = None
    classes: Annotated[
        str | None, _option(about="All class names in order, separated by commas.")
    ] = None
    separator: Annotated[str, _option(about="What stands between several labels in one cell.")] = (
        "|"
    )
    delimiter: Annotated[
        str | None, _option(about="CSV delimiter; found from the header if left out.")
    ] = None
    decimal: Annotated[str, _option(about="Decimal mark of a CSV file.")] = "."
    size: Annotated[
        tuple[int, int] | None, _option(about="Bring all images to this height and width.")
    ] = None

    def read(
        self, file: str, *, classes: Sequence[str] | None = None, anchor_label: str | None = None
    ) -> "OwnData":
        """Read the data; `classes` are used where the option does not list them.

        A column of the name that tells the class of anchors is no feature, unless it is listed.
        """
        from naysay.datasets.own import read_own

        with waiting(f"reading {file}"):
            own = read_own(
                file,
                label=self.label,
                features=split_names(self.features),
                ignore=split_names(self.ignore) or [],
                true_label=self.true_label,
                annotator=self.annotator,
                example_id=self.example_id,
                images=self.images,
                classes=split_names(self.classes) or classes,
                separator=self.separator,
                delimiter=self.delimiter,
                decimal=self.decimal,
                categorical=split_names(self.categorical) or [],
                size=self.size,
            )
        return own if anchor_label is None or self.features else _without(own, anchor_label)

    def read_anchors(
        self, file: Path, own: "OwnData", *, true_label: str | None
    ) -> "tuple[NDArray[Any], NDArray[np.int64]]":
        """Read a file of anchors that belong to the data."""
        from naysay.datasets.own.read import read_anchors

        ignored = (self.label, self.annotator, self.example_id, *(split_names(self.ignore) or ()))
        return read_anchors(
            file,
            own,
            true_label=true_label,
            images=self.images,
            ignored=[name for name in ignored if name is not None],
            delimiter=self.delimiter,
            decimal=self.decimal,
        )


def split_names(listed: str | None) -> list[str] | None:
    """Split names at commas; a name that holds one can be put in double quotes."""
    return None if listed is None else next(csv.reader([listed], skipinitialspace=True), [])


def _without(own: "OwnData", column: str) -> "OwnData":
    """Return the data without a feature column that tells the true class of anchors."""
    import numpy as np

    from naysay.datasets.own.recipe import Recipe

    if not isinstance(own.recipe, Recipe):
        return own
    kept = [each for each in own.recipe.columns if each.name != column]
    if not kept or len(kept) == len(own.recipe.columns):
        return own
    typer.echo(
        f"warning: {column!r}: no feature, as --anchor-label names it; use the true classes in "
        f"{own.source} with --true-label",
        err=True,
    )
    is_kept = np.repeat(
        [each.name != column for each in own.recipe.columns],
        [len(each.feature_names) for each in own.recipe.columns],
    )
    recipe = replace(own.recipe, columns=tuple(kept))
    return replace(own, X=own.X[:, is_kept], recipe=recipe)


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes ``reading`` the options of `Reading` in its place."""
    fields = inspect.signature(Reading).parameters
    own = {
        name: parameter
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "reading"
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in fields})
        command(**given, reading=reading)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*own.values(), *fields.values())
    ]
    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportAttributeAccessIssue]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
