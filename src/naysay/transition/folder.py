"""Read and write a folder with one CSV file per annotator, named after the annotator."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from naysay._base.checks import shorten
from naysay._base.errors import InvalidTransitionMatrix
from naysay._base.files import check_folder, replacing_folder, restored
from naysay.transition.matrix import TransitionMatrix

__all__ = ["check_matrix_folder", "read_matrices", "write_matrices"]

_NOT_IN_NAMES = re.compile(r'[\x00-\x1f%/\\:*?"<>|]|^\.')


def _holds_csv_only(folder: Path) -> bool:
    return folder.is_dir() and all(file.suffix == ".csv" for file in folder.iterdir())


# the kind of folder that may be replaced
_KIND: Any = {"of": _holds_csv_only, "what": "one of CSV files"}


def read_matrices(
    folder: str | Path, *, allow_diagonal: bool = False
) -> dict[str, TransitionMatrix]:
    """Read one matrix per annotator, for ``ComplementaryClassifier(transition=…)``.

    `TransitionMatrix.read` reads each file; the name of the file without ``.csv`` is the name of
    the annotator. All files must have the same classes in the same order. Hidden files and files
    of other types are ignored.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_matrices({"ann": TransitionMatrix.uniform(3)}, Path(folder, "matrices"))
    ...     sorted(read_matrices(Path(folder, "matrices")))
    ['ann']
    """
    files = sorted(file for file in restored(folder).glob("*.csv") if not file.name.startswith("."))
    if not files:
        raise InvalidTransitionMatrix(
            f"{folder} must be a folder with one CSV file per annotator. It has none."
        )
    matrices: dict[str, TransitionMatrix] = {}
    for file in files:
        try:
            Q = TransitionMatrix.read(file, allow_diagonal=allow_diagonal)
        except InvalidTransitionMatrix as problem:
            if str(file) in str(problem):
                raise
            raise InvalidTransitionMatrix(f"{file}: {problem}") from None
        matrices[unquote(file.stem)] = Q
        expected = next(iter(matrices.values())).classes
        if Q.classes != expected:
            raise InvalidTransitionMatrix(
                f"All matrices in {folder} must have the same classes, in the same order. "
                f"{files[0].name} has {shorten(expected)}, {file.name} {shorten(Q.classes)}."
            )
    return matrices


def write_matrices(matrices: Mapping[str, TransitionMatrix], folder: str | Path) -> None:
    """Write one CSV file per annotator, which `read_matrices` reads back.

    The folder must be new or hold CSV files only, which are replaced. Characters that a file name
    cannot have are written with a percent sign: ``a/b`` becomes ``a%2Fb.csv``.
    """
    with replacing_folder(folder, **_KIND) as new:
        for name, Q in matrices.items():
            with (new / file_name(name)).open("w", encoding="utf-8", newline="") as file:
                Q.write(file)


def check_matrix_folder(folder: str | Path) -> Path:
    """Check that `write_matrices` can write there; call it before a long computation."""
    return check_folder(folder, **_KIND)


def file_name(annotator: str) -> str:
    """Compute the file name for an annotator."""
    return f"{_NOT_IN_NAMES.sub(lambda found: f'%{ord(found[0]):02X}', annotator)}.csv"
