"""Inspect a file of a transition matrix, and compare a column of labels with it."""

from pathlib import Path
from typing import Any, NamedTuple

from naysay.quality.inspection import LabelCheck, NearPair, check_labels, nearest_rows
from naysay.transition import TransitionMatrix
from naysay.transition.diagnosis import Diagnosis
from naysay.workflows.files import read_column, read_prior


class Inspection(NamedTuple):
    """The results of an inspection; ``print`` it to read them."""

    transition: TransitionMatrix
    diagnosis: Diagnosis
    nearest_rows: list[NearPair]
    labels: LabelCheck | None  # None without labels

    def to_dict(self) -> dict[str, Any]:
        """Convert the results to plain values for JSON."""
        pairs = [pair._asdict() for pair in self.nearest_rows]
        figures = {**self.diagnosis.to_dict(), "nearest_rows": pairs}
        return figures if self.labels is None else {**figures, "labels": self.labels.to_dict()}

    def __str__(self) -> str:
        lines = [str(self.diagnosis)]
        if self.nearest_rows and not self.transition.is_uniform:
            listed = ", ".join(map(str, self.nearest_rows))
            about = "L1 distance of rows, 0 to 2; these merge first"
            lines.append(f"  {'most alike':<24}{listed}: {about}")
        lines += [] if self.labels is None else ["", str(self.labels)]
        return "\n".join(lines)


def inspect_file(
    path: Path,
    labels: Path | None = None,
    column: str | None = None,
    prior: Path | None = None,
    *,
    allow_diagonal: bool = False,
) -> Inspection:
    """Diagnose the matrix in a file, and test whether labels of a table may come from it.

    `column` is the column of the labels, and `prior` a table of the class shares.
    """
    Q = TransitionMatrix.read(path, allow_diagonal=allow_diagonal)
    shares = read_prior(prior, Q.classes)
    diagnosis, pairs = Q.diagnose(prior=shares), nearest_rows(Q)
    check = None
    if labels is not None:
        check = check_labels(read_column(labels, column), Q, prior=shares)
    return Inspection(Q, diagnosis, pairs, check)
