"""What ``--transition`` names: one matrix, or a folder with one for each annotator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix

if TYPE_CHECKING:
    from naysay.transition import TransitionMatrix

__all__ = ["AllowDiagonal", "class_names", "name_classes", "read_transition"]

AllowDiagonal = Annotated[
    bool,
    typer.Option(
        "--allow-diagonal", help="Annotators may err: they may exclude the true class by mistake."
    ),
]


def read_transition(
    path: str | Path, *, allow_diagonal: bool
) -> "TransitionMatrix | dict[str, TransitionMatrix]":
    """Read a matrix, a folder of matrices, or the folder that ``naysay design`` wrote."""
    from naysay.design import Scheme
    from naysay.transition import TransitionMatrix
    from naysay.transition.folder import read_matrices

    if not Path(path).is_dir():
        return TransitionMatrix.read(path, allow_diagonal=allow_diagonal)
    if Path(path, "scheme.json").is_file():
        return Scheme.read(path).matrices
    return read_matrices(path, allow_diagonal=allow_diagonal)


def class_names(
    transition: "TransitionMatrix | Mapping[str, TransitionMatrix]",
) -> tuple[str, ...] | None:
    """Return the classes that a matrix names; None where it only numbers them."""
    Q = next(iter(transition.values())) if isinstance(transition, Mapping) else transition
    return Q.classes if Q.has_names else None


def name_classes(
    transition: "TransitionMatrix | Mapping[str, TransitionMatrix]",
    classes: Sequence[str],
    path: str | Path,
    *,
    listed: bool | None = None,
) -> "TransitionMatrix | Mapping[str, TransitionMatrix]":
    """Give the classes of the data to a matrix that only numbers its own.

    `listed` says whether ``--classes`` gave them; None where the command has no such option. If
    not, names would be in alphabetical order, hardly that of the matrix: it is refused.
    """
    if not isinstance(transition, Mapping):
        return _name_one(transition, classes, path, listed)
    return {name: _name_one(Q, classes, path, listed) for name, Q in transition.items()}


def _name_one(
    Q: "TransitionMatrix", classes: Sequence[str], path: str | Path, listed: bool | None
) -> "TransitionMatrix":
    from naysay.transition import TransitionMatrix

    if Q.has_names or Q.n_classes != len(classes):  # whether they fit is checked with the data
        return Q
    are_numbers = all(name.removeprefix("-").isdecimal() for name in classes)
    if not (listed or are_numbers or Q.is_uniform):
        hint = "" if listed is None else ", or list these in the order of its rows: --classes"
        raise InvalidTransitionMatrix(
            f"{path} must name its classes: its rows would be taken as {shorten(tuple(classes))}, "
            f"in this order. Put the class names in its first row and first column{hint}."
        )
    return TransitionMatrix(Q.entries, classes, allow_diagonal=Q.allow_diagonal)


def read_column(path: Path, column: str | None) -> NDArray[np.str_]:
    """Return a column of a table as text; empty cells are left out."""
    from naysay.datasets.own.tables import find_column, read_table

    names = read_table(path).column_names
    if column is None and len(names) > 1:
        raise InvalidInput(
            f"--column must say which column of {path} has the labels. It has {shorten(names)}."
        )
    name = names[0] if column is None else column
    values = find_column(read_table(path, text=[name]), name, str(path), role="--column")
    cells = [str(cell) for cell in values.to_pylist() if cell is not None]
    return np.array([cell for cell in cells if cell.strip()], dtype=str)


def read_prior(path: Path | None, classes: Sequence[str]) -> NDArray[np.float64] | None:
    """Return the share of each class from a table with the columns class and share."""
    from naysay.datasets.own.tables import find_column, read_table

    if path is None:
        return None
    table = read_table(path, text=["class", "share"])
    named, share = (
        find_column(table, name, str(path), role="--prior").to_pylist()
        for name in ("class", "share")
    )
    listed = {
        str(name): _as_share(value, f"Data row {row} ({name!r}) of {path}")
        for row, (name, value) in enumerate(zip(named, share, strict=True), start=1)
    }
    if len(listed) != len(named) or set(listed) != set(classes):
        odd = sorted(set(listed) ^ set(classes)) or list(named)
        raise InvalidInput(
            f"{path} must give each of the {len(classes)} classes one share. "
            f"Missing, unknown or repeated: {shorten(odd)}."
        )
    return np.array([listed[name] for name in classes])


def _as_share(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        got = "an empty cell" if value is None or value == "" else shorten(value)
        raise InvalidInput(f"{where} must give a share such as 0.25. Got {got}.") from None
