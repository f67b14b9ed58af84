"""What ``--transition`` names: one matrix, or a folder with one for each annotator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from naysay._base.checks import shorten
from naysay._base.errors import InvalidTransitionMatrix

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
