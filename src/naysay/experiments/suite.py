"""Suites: the cells of a published table, and the recipes to train their runs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from typing import Any

from naysay._base.errors import InvalidInput
from naysay.experiments.spec import RunSpec

__all__ = [
    "METHOD_FIELDS",
    "MNIST_TL",
    "Cell",
    "Published",
    "Suite",
    "TrainingRecipe",
    "make_cells",
]

_PRINTED = re.compile(r"(\d+(?:\.\d+)?)\s*(?:(?:±|\()\s*(\d+(?:\.\d+)?)\)?)?")


@dataclass(frozen=True)
class Published:
    """A figure as the paper prints it: ``"97.18 ± 0.45"``, ``"85.8 (0.5)"``, ``"N/A"``.

    Examples
    --------
    >>> Published("85.8 (0.5)").mean, Published("85.8 (0.5)").sd
    (85.8, 0.5)
    >>> Published("N/A").mean is None
    True
    """

    text: str

    @property
    def mean(self) -> float | None:
        """Mean accuracy in percent."""
        return self._numbers()[0]

    @property
    def sd(self) -> float | None:
        """Standard deviation over trials, in percentage points; None if none is printed."""
        return self._numbers()[1]

    def _numbers(self) -> tuple[float | None, float | None]:
        match = _PRINTED.fullmatch(self.text)
        if match is None:
            return None, None
        return float(match[1]), None if match[2] is None else float(match[2])


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One figure of a table: its row and column, the published value, and its run.

    `spec` has no recipe yet. `published` is None where the paper shows a picture and no number.
    `not_run` is the reason why a run of full size may be missing, if it is known beforehand.
    """

    row: str
    column: str
    spec: RunSpec
    published: Published | None = None
    not_run: str = ""

    @property
    def name(self) -> str:
        """Row and column, as the command line shows and filters them."""
        return f"{self.row}, {self.column}"


@dataclass(frozen=True, kw_only=True)
class TrainingRecipe:
    """Options and number of trials for training the cells of a suite.

    Parameters
    ----------
    options : mapping
        Options of every cell. ``method``, ``n_train`` and ``n_test`` replace those of the cell.
    where : mapping
        Further options of some cells, by the name of a row, a column, or ``"row, column"``, in
        which ``*`` matches anything. Later ones take precedence.
    trials : int
    first_trial : int, default=0
        Above 0 where the trials before it were developed on: those are neither run nor shown.
    deviations : tuple of str
        Sentences for the report about what differs from the paper, and why.
    seconds : float, optional
        Approximate time of one run on the machine that `measured_on` describes, for
        `naysay reproduce --dry-run`.
    comparable : bool, default=True
        Whether the runs are of full size and can be compared with the published figures.
    """

    options: Mapping[str, Any]
    where: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    trials: int
    first_trial: int = 0
    deviations: tuple[str, ...] = ()
    seconds: float | None = None
    measured_on: str = ""
    comparable: bool = True

    def options_of(self, cell: Cell) -> dict[str, Any]:
        """Collect the options of one cell."""
        options = dict(self.options)
        for pattern, more in self.where.items():
            if any(fnmatch(name, pattern) for name in (cell.row, cell.column, cell.name)):
                options |= more
        return options


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One table or figure of the paper."""

    name: str
    title: str
    about: str
    cells: tuple[Cell, ...]
    recipes: Mapping[str, TrainingRecipe]
    published_trials: int | None = None
    kind: str = "table"  # or "curve" or "matrices": the form in which the report shows it

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the rows, in order."""
        return tuple(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(dict.fromkeys(cell.column for cell in self.cells))

    def recipe(self, name: str) -> TrainingRecipe:
        """Find a recipe by name."""
        if name not in self.recipes:
            raise InvalidInput(
                f"recipe must be one of {', '.join(self.recipes)} for {self.name}. Got {name!r}."
            )
        return self.recipes[name]

    def spec_of(self, cell: Cell, recipe: str) -> RunSpec:
        """Return trial 0 of a cell, which stands for all of them."""
        options = self.recipe(recipe).options_of(cell)
        names = ("method", "n_train", "n_test")
        changes = {name: options.pop(name) for name in names if name in options}
        return replace(cell.spec, recipe=recipe, options=options, **changes)

    def specs(
        self, recipe: str, *, trials: int | None = None, only: str = "*"
    ) -> Iterator[tuple[Cell, RunSpec]]:
        """Yield the cells and runs of a recipe, trial by trial.

        If training is stopped early, all cells therefore have about the same number of trials.

        Parameters
        ----------
        recipe : str
        trials : int, optional
            Number of trials. The default is that of the recipe.
        only : str
            Pattern that the name of a cell must contain, in which ``*`` matches anything. Case does
            not matter.
        """
        chosen = self.recipe(recipe)
        n_trials = chosen.trials if trials is None else trials
        for trial in range(chosen.first_trial, chosen.first_trial + n_trials):
            for cell in self.cells:
                if fnmatch(cell.name.lower(), f"*{only.lower()}*"):
                    yield cell, replace(self.spec_of(cell, recipe), trial=trial)


_ANCHORS = 10  # per class; the paper says 5 or 10

#: The methods of the paper, as fields of a spec.
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
    """Make the cells of a table from its printed figures.

    Parameters
    ----------
    rows : mapping
        The printed figures by row and column, or None where the paper shows a picture.
    methods_in : {"rows", "columns"}
        Whether the rows or the columns are methods. The others are tasks.
    tasks : mapping
        Fields of a spec for each task, and optionally ``not_run``, see `Cell`.
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
