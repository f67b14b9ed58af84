"""What ``--transition`` names: one matrix, or a folder with one for each annotator."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from naysay.transition import TransitionMatrix

__all__ = ["AllowDiagonal", "class_names", "read_transition"]

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
    from naysay.matrix_folder import read_matrices
    from naysay.transition import TransitionMatrix

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
