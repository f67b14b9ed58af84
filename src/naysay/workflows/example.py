"""Write a small file for trying the commands: iris flowers with complementary labels."""

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from naysay._base.files import replacing
from naysay.transition import TransitionMatrix

__all__ = ["write_example"]

_N_ANCHORS = 5  # per species
_SPECIES = ("setosa", "versicolor", "virginica")
_MATRIX = [[0, 0.7, 0.3], [0.2, 0, 0.8], [0.6, 0.4, 0]]
_MATRICES = {
    "ann": [[0, 0.9, 0.1], [0.9, 0, 0.1], [0.9, 0.1, 0]],
    "bob": [[0, 0.1, 0.9], [0.1, 0, 0.9], [0.1, 0.9, 0]],
    "cho": [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
}


def write_example(path: str | Path, *, seed: int = 0, annotators: bool = False) -> None:
    """Write a CSV file of 150 flowers with complementary labels.

    The columns are four measurements with a few missing values, ``colour`` (text), ``not`` (the
    complementary label, from a biased annotator) and ``is`` (the true class of 15 flowers, empty
    otherwise). The measurements are those of the iris data; labels and colours are random.

    With `annotators`, there are three answers about each flower, one per row, and two more columns:
    ``who`` names the annotator and ``flower`` the example. Each annotator has a different matrix.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_example(Path(folder, "flowers.csv"))
    ...     print(Path(folder, "flowers.csv").read_text().splitlines()[1])
    5.1,3.5,1.4,0.2,blue,versicolor,setosa
    """
    rng = np.random.default_rng(seed)
    measurements, species = (np.asarray(part) for part in load_iris(return_X_y=True))
    matrices = _MATRICES if annotators else {"": _MATRIX}
    excluded = {name: TransitionMatrix(Q).sample(species, seed=rng) for name, Q in matrices.items()}
    colours = rng.choice(["blue", "violet", "white"], size=len(species))
    with replacing(path, usual="flowers.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
        more = ["who", "flower"] if annotators else []
        writer.writerow([*columns, "colour", "not", "is", *more])
        for row, measured in enumerate(measurements.tolist()):
            number = row % 50  # the data hold 50 flowers of each species, one after the other
            if number == _N_ANCHORS:
                measured[1] = ""
            true = _SPECIES[species[row]] if number < _N_ANCHORS else ""
            for name, labels in excluded.items():
                who = [name, f"f{row + 1}"] if annotators else []
                writer.writerow([*measured, colours[row], _SPECIES[labels[row]], true, *who])
