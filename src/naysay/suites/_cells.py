"""How the methods of the paper are written as runs."""

from collections.abc import Mapping
from typing import Any

from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Cell, Published

__all__ = ["METHOD_FIELDS", "MNIST_TL", "make_cells"]

_ANCHORS = 10  # of each class: the paper says 5 or 10

#: Each method of the paper as fields of a spec.
METHOD_FIELDS: dict[str, dict[str, Any]] = {
    "TL": {"method": "forward", "knows": "true labels", "setting": "none"},
    "PC/S": {"method": "pc", "knows": "no Q"},
    "PL": {"method": "pl", "knows": "no Q"},
    "ML": {"method": "ml", "knows": "no Q"},
    "LM": {"method": "forward", "knows": "true Q"},
    "LM/T": {"method": "forward", "knows": "true Q"},
    "LM/E": {"method": "forward", "knows": "estimated Q", "anchors": _ANCHORS},
}

MNIST_TL = "99.12"


def make_cells(
    rows: Mapping[str, Mapping[str, str | None]],
    *,
    methods_in: str = "rows",
    tasks: Mapping[str, Mapping[str, Any]],
) -> tuple[Cell, ...]:
    """Return the cells of a table written as it is printed.

    Parameters
    ----------
    rows : mapping
        By row and column, what is printed; None where it is a picture.
    methods_in : {"rows", "columns"}
        Whether rows or columns are methods; the others are tasks.
    tasks : mapping
        Each task as fields of a spec, and ``not_run``, see `Cell`.
    """
    cells = []
    for row, printed in rows.items():
        for column, text in printed.items():
            method, task = (row, column) if methods_in == "rows" else (column, row)
            fields = {**tasks[task], **METHOD_FIELDS[method]}
            not_run = fields.pop("not_run", "")
            published = None if text is None else Published(text)
            spec = RunSpec(recipe="", **fields)
            cells.append(
                Cell(row=row, column=column, spec=spec, published=published, not_run=not_run)
            )
    return tuple(cells)
