"""A small file to try the commands on: iris flowers that annotators said "not this one" about."""

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from naysay._base.files import replacing
from naysay.transition import TransitionMatrix

__all__ = ["write_example"]

_N_KNOWN = 5  # true classes per kind of flower
_KINDS = ("setosa", "versicolor", "virginica")
_HABIT = [[0, 0.7, 0.3], [0.2, 0, 0.8], [0.6, 0.4, 0]]
_HABITS = {
    "ann": [[0, 0.9, 0.1], [0.9, 0, 0.1], [0.9, 0.1, 0]],
    "bob": [[0, 0.1, 0.9], [0.1, 0, 0.9], [0.1, 0.9, 0]],
    "cho": [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]],
}


def write_example(path: str | Path, *, seed: int = 0, annotators: bool = False) -> None:
    """Write a CSV file of 150 flowers with complementary labels.

    Columns: four measures with a few gaps, ``colour`` (text), ``not`` (the class that an annotator
    excluded, with a habit) and ``is`` (the true class of 15 flowers, else empty). The answers and
    the colours are drawn at random; the measures are those of the iris data.

    With `annotators` there are three answers about each flower, one row each: ``who`` gave it, and
    about which ``flower``. Each annotator has another habit.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_example(Path(folder, "flowers.csv"))
    ...     print(Path(folder, "flowers.csv").read_text().splitlines()[1])
    5.1,3.5,1.4,0.2,blue,versicolor,setosa
    """
    rng = np.random.default_rng(seed)
    measures, kinds = (np.asarray(part) for part in load_iris(return_X_y=True))
    habits = _HABITS if annotators else {"": _HABIT}
    excluded = {name: TransitionMatrix(Q).sample(kinds, seed=rng) for name, Q in habits.items()}
    colours = rng.choice(["blue", "violet", "white"], size=len(kinds))
    with replacing(path, usual="flowers.csv") as part, part.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
        more = ["who", "flower"] if annotators else []
        writer.writerow([*columns, "colour", "not", "is", *more])
        for row, measured in enumerate(measures.tolist()):
            place = row % 50  # the file holds 50 flowers of each kind, one kind after the other
            if place == _N_KNOWN:
                measured[1] = ""
            true = _KINDS[kinds[row]] if place < _N_KNOWN else ""
            for name, said in excluded.items():
                who = [name, f"f{row + 1}"] if annotators else []
                writer.writerow([*measured, colours[row], _KINDS[said[row]], true, *who])
