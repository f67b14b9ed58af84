"""Read the files that options of commands name, and write an example file for them."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidTransitionMatrix
from naysay._base.files import check_target, replacing, restored
from naysay.design import Scheme
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions
from naysay.transition.folder import read_matrices

if TYPE_CHECKING:
    from naysay.datasets.own import OwnData  # loads pyarrow

# The labels of the example file, from one annotator or from three.
_N_ANCHORS = 5  # per species
_SPECIES = ("setosa", "versicolor", "virginica")
_MATRIX = [[0, 0.7, 0.3], [0.2, 0, 0.8], [0.6, 0.4, 0]]
_MATRICES = {
    "ann": [[0, 0.9, 0.1], [0.9, 0, 0.1], [0.9, 0.1, 0]],
    "bob": [[0, 0.1, 0.9], [0.1, 0, 0.9], [0.1, 0.9, 0]],
    "cho": [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
}


class FitInputs(NamedTuple):
    """Inputs that the options of a command name: data, further anchors, a matrix; and warnings."""

    own: "OwnData"
    anchors: tuple[NDArray[Any], NDArray[np.int64]] | None
    transition: Transitions | str | None
    warnings: tuple[str, ...]


def read_fit_inputs(
    data: Any,
    *,
    anchors: Any = None,
    anchor_label: str | None = None,
    transition: str | Path | None = None,
    allow_diagonal: bool = False,
    **reading: Any,
) -> FitInputs:
    """Read the data, a file of anchors, and a file or folder of matrices.

    `data` and `reading` are as in `naysay.datasets.own.read_own`, where the class names of the
    matrix are the classes, unless `reading` has others; `anchors` are as in `read_anchors`.
    `anchor_label` is the column of true classes in `anchors`; a column of `data` with this name is
    not a feature, unless `reading` lists it as one. A `transition` is a path as in
    `read_transition`, or a word, which is returned as it is.
    """
    from naysay.datasets.own import read_anchors, read_own  # loads pyarrow

    given = None if transition is None else str(transition)
    if transition is not None and given not in ("uniform", "estimate"):
        given = read_transition(transition, allow_diagonal=allow_diagonal)
        own = read_own(data, **{"classes": _class_names(given), **reading})
        if "classes" not in reading:
            hint = ", or list these in the order of its rows: --classes"
            check_order_known(given, own.classes, transition, hint=hint)
    else:
        own = read_own(data, **reading)
    if anchors is None:
        return FitInputs(own, None, given, ())
    warnings: tuple[str, ...] = ()
    if anchor_label is not None and "features" not in reading:
        rest = own.without_column(anchor_label)
        if rest is not own:
            warnings = (
                f"{anchor_label!r}: not used as a feature, because --anchor-label names it; "
                f"to use the true classes in {own.source}, pass --true-label",
            )
        own = rest
    answers = ("label", "suggested", "accepted", "offered", "annotator", "example_id")
    roles = [reading[role] for role in answers if role in reading]
    names = ("images", "delimiter", "decimal", "ignore_case")
    shared = {name: reading[name] for name in names if name in reading}
    ignored = [*roles, *reading.get("ignore", ())]
    more = read_anchors(anchors, own, true_label=anchor_label, ignored=ignored, **shared)
    return FitInputs(own, more, given, warnings)


def read_transition(path: str | Path, *, allow_diagonal: bool) -> Transitions:
    """Read a matrix, a folder of matrices, or the folder that ``naysay design`` wrote."""
    if not restored(path).is_dir():
        return TransitionMatrix.read(path, allow_diagonal=allow_diagonal)
    if Path(path, "scheme.json").is_file():
        return Scheme.read(path).matrices
    return read_matrices(path, allow_diagonal=allow_diagonal)


def _class_names(transition: Transitions) -> tuple[str, ...] | None:
    Q = next(iter(transition.values())) if isinstance(transition, Mapping) else transition
    return Q.classes if Q.has_names else None


def check_order_known(
    transition: Transitions, classes: Sequence[str], path: str | Path, *, hint: str = ""
) -> None:
    """Check that the order of the rows of a matrix is known.

    A matrix without class names is refused if the classes have names that were found in the data:
    these are in alphabetical order, which is hardly that of the matrix. `hint` is added to the
    message.
    """
    if all(name.removeprefix("-").isdecimal() for name in classes):
        return
    for Q in transition.values() if isinstance(transition, Mapping) else [transition]:
        if not (Q.has_names or Q.is_uniform) and Q.n_classes == len(classes):
            raise InvalidTransitionMatrix(
                f"{path} must name its classes: its rows would be taken as "
                f"{shorten(tuple(classes))}, in this order. Put the class names in its first row "
                f"and first column{hint}."
            )


def read_column(path: Path, column: str | None) -> NDArray[np.str_]:
    """Read a column of a table as text, without empty cells."""
    from naysay.datasets.own.columns import find_column  # loads pyarrow
    from naysay.datasets.own.tables import read_table, refuse_pipe  # loads pyarrow

    refuse_pipe(path, "--labels")
    names = read_table(path).column_names
    if column is None and len(names) > 1:
        raise InvalidInput(
            f"--column must name the column of {path} that has the labels. It has {shorten(names)}."
        )
    name = names[0] if column is None else column
    values = find_column(read_table(path, text=[name]), name, str(path), role="--column")
    cells = [str(cell) for cell in values.to_pylist() if cell is not None]
    return np.array([cell for cell in cells if cell.strip()], dtype=str)


def read_prior(path: Path | None, classes: Sequence[str]) -> NDArray[np.float64] | None:
    """Read the share of each class from a table with the columns class and share."""
    from naysay.datasets.own.columns import find_column  # loads pyarrow
    from naysay.datasets.own.tables import read_table  # loads pyarrow

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


def read_classes(given: str) -> tuple[int, list[str] | None]:
    """Read the number of classes and their names from a number, a listing or a file."""
    if given.strip().isdecimal():
        if len(given) > 9:  # Python refuses to convert thousands of digits
            raise InvalidInput(f"--classes must be a number of classes. Got {shorten(given)}.")
        return int(given), None
    is_file = os.path.isfile(given)  # a list of many classes is too long to be the name of a file
    if "," in given and not is_file:
        try:
            listed = next(csv.reader([given], skipinitialspace=True))
        except csv.Error:
            raise InvalidInput(
                "--classes must be names with commas between. Put a name with a comma or a line "
                f"end in double quotes. Got {shorten(given)}."
            ) from None
        if not all(name.strip() for name in listed):
            raise InvalidInput(f"--classes must not have empty names. Got {shorten(listed)}.")
        return len(listed), listed
    if not is_file:
        raise InvalidInput(
            "--classes must be a number, a file with one name in each line, or names with commas "
            f"between. There is no file {given!r}."
        )
    try:
        lines = Path(given).read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{given} must be text in UTF-8, one class name in each line.") from None
    names = [line.strip() for line in lines if line.strip()]
    if not names:
        raise InvalidInput(f"{given} must contain class names, one in each line. It has none.")
    return len(names), names


def write_example(
    path: str | Path, *, seed: int = 0, annotators: bool = False, log: bool = False
) -> None:
    """Write a CSV file of 150 flowers with complementary labels.

    The columns are four measurements with a few missing values, ``colour`` (text), ``not`` (the
    complementary label, from a biased annotator) and ``is`` (the true class of 15 flowers, empty
    otherwise). The measurements are those of the iris data; labels and colours are random.

    With `annotators`, there are three answers about each flower, one per row, and two more columns:
    ``who`` names the annotator and ``flower`` the example. Each annotator has a different matrix.

    With `log`, a rule suggests a class by the length of the petals, at random for every third
    flower, and the columns ``suggested`` and ``accepted`` take the place of ``not`` and ``is``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_example(Path(folder, "flowers.csv"))
    ...     print(Path(folder, "flowers.csv").read_text().splitlines()[1])
    5.1,3.5,1.4,0.2,blue,versicolor,setosa
    """
    from sklearn.datasets import load_iris  # loads much of scikit-learn

    check_target(path, usual="flowers.csv")
    rng = np.random.default_rng(seed)
    measurements, species = (np.asarray(part) for part in load_iris(return_X_y=True))
    matrices = _MATRICES if annotators else {"": _MATRIX}
    excluded = {name: TransitionMatrix(Q).sample(species, seed=rng) for name, Q in matrices.items()}
    colours = rng.choice(["blue", "violet", "white"], size=len(species))
    suggested = np.digitize(measurements[:, 2], [2.5, 4.6])
    is_random = rng.random(len(species)) < 1 / 3
    suggested[is_random] = rng.integers(3, size=is_random.sum())
    with replacing(path, usual="flowers.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
        more = ["who", "flower"] if annotators else []
        named = ["suggested", "accepted"] if log else ["not", "is"]
        writer.writerow([*columns, "colour", *named, *more])
        for row, measured in enumerate(measurements.tolist()):
            number = row % 50  # there are 50 flowers of each species, one after the other
            if number == _N_ANCHORS:
                measured[1] = ""
            if log:
                said = "yes" if suggested[row] == species[row] else "no"
                writer.writerow([*measured, colours[row], _SPECIES[suggested[row]], said])
                continue
            true = _SPECIES[species[row]] if number < _N_ANCHORS else ""
            for name, labels in excluded.items():
                who = [name, f"f{row + 1}"] if annotators else []
                writer.writerow([*measured, colours[row], _SPECIES[labels[row]], true, *who])
