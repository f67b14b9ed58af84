"""Suites: the cells of a published table, the recipes to train them, and plans of their runs."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from functools import cached_property
from typing import Any

from naysay._base.errors import InvalidInput
from naysay.experiments.records import RunRecord
from naysay.experiments.spec import RunSpec

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
        match = _PRINTED.fullmatch(self.text)
        return float(match[1]) if match else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over trials, in percentage points; None if none is printed."""
        match = _PRINTED.fullmatch(self.text)
        return float(match[2]) if match and match[2] else None


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

    `where` has further options of some cells, by the name of a row, a column, or ``"row, column"``,
    in which ``*`` matches anything. Later ones take precedence. Options named ``method``,
    ``n_train`` or ``n_test`` replace those of the cell.
    """

    options: Mapping[str, Any]
    where: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    trials: int
    first_trial: int = 0  # the trials before it were used in development; they are not shown
    developed_on: tuple[int, ...] = ()  # trials that are shown, and marked, although they were
    deviations: tuple[str, ...] = ()  # what differs from the paper, and why, for the report
    seconds: float | None = None  # approximate time of a run, for `naysay reproduce --dry-run`
    measured_on: str = ""  # the machine of this time
    comparable: bool = True  # whether the runs are of full size, as the published ones


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One table or figure, of the paper or beyond it."""

    name: str
    title: str
    about: str
    cells: tuple[Cell, ...]
    recipes: Mapping[str, TrainingRecipe]
    published_trials: int | None = None
    kind: str = "table"  # or "curve" or "matrices": the form in which the report shows it
    in_paper: bool = True

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
        """Make the spec of trial 0 of a cell, which stands for all of them."""
        chosen = self.recipe(recipe)
        options = dict(chosen.options)
        for pattern, more in chosen.where.items():
            if any(fnmatch(name, pattern) for name in (cell.row, cell.column, cell.name)):
                options |= more
        names = ("method", "n_train", "n_test")
        changes = {name: options.pop(name) for name in names if name in options}
        return replace(cell.spec, recipe=recipe, options=options, **changes)

    def specs(
        self, recipe: str, *, trials: int | None = None, only: str = "*"
    ) -> Iterator[tuple[Cell, RunSpec]]:
        """Yield the cells and runs of a recipe, trial by trial.

        If training is stopped early, all cells therefore have about the same number of trials. The
        name of a cell must contain the pattern `only`, in which ``*`` matches anything and case
        does not matter. The default number of trials is that of the recipe.
        """
        chosen = self.recipe(recipe)
        n_trials = chosen.trials if trials is None else trials
        for trial in range(chosen.first_trial, chosen.first_trial + n_trials):
            for cell in self.cells:
                if fnmatch(cell.name.lower(), f"*{only.lower()}*"):
                    yield cell, replace(self.spec_of(cell, recipe), trial=trial)


#: The methods of the paper, as fields of a spec. The paper has 5 or 10 anchors per class.
METHOD_FIELDS: dict[str, dict[str, Any]] = {
    "TL": {"method": "forward", "knows": "true labels", "setting": "none"},
    "PC/S": {"method": "pc", "knows": "no Q"},
    "PL": {"method": "pl", "knows": "no Q"},
    "ML": {"method": "ml", "knows": "no Q"},
    "LM": {"method": "forward", "knows": "true Q"},
    "LM/T": {"method": "forward", "knows": "true Q"},
    "LM/E": {"method": "forward", "knows": "estimated Q", "anchors": 10},
    "LM/E + anchors": {"method": "forward", "knows": "estimated Q", "anchors": 10},
    "anchors": {"method": "forward", "knows": "anchors", "setting": "none", "anchors": 10},
    "anchors + images": {
        "method": "forward",
        "knows": "anchors and images",
        "setting": "none",
        "anchors": 10,
    },
}


def make_cells(
    columns: Sequence[str],
    rows: Mapping[str, Sequence[str | None]],
    tasks: Mapping[str, Mapping[str, Any]],
) -> tuple[Cell, ...]:
    """Make the cells of a table from its printed figures, which are None for a picture.

    Either the columns or the rows are methods; the others are tasks. `tasks` has the fields of a
    spec for each task, and optionally ``not_run``, see `Cell`.
    """
    cells: list[Cell] = []
    for row, figures in rows.items():
        for column, text in zip(columns, figures, strict=True):
            method, task = (row, column) if row in METHOD_FIELDS else (column, row)
            fields = {**tasks[task], **METHOD_FIELDS[method]}
            not_run = fields.pop("not_run", "")
            spec = RunSpec(recipe="", **fields)
            published = None if text is None else Published(text)
            cells.append(
                Cell(row=row, column=column, spec=spec, published=published, not_run=not_run)
            )
    return tuple(cells)


@dataclass(frozen=True)
class Plan:
    """The runs of some suites with one recipe."""

    recipe: str
    suites: Sequence[tuple[Suite, Sequence[tuple[Cell, RunSpec]]]]

    @cached_property
    def cells(self) -> dict[RunSpec, tuple[Suite, Cell]]:
        """All runs without duplicates, each with the first suite and cell that has it."""
        cells: dict[RunSpec, tuple[Suite, Cell]] = {}
        for suite, runs in self.suites:
            for cell, spec in runs:
                cells.setdefault(spec, (suite, cell))
        return cells

    def title_of(self, spec: RunSpec) -> str:
        """Name a run for a reader: suite, cell and trial."""
        suite, cell = self.cells[spec]
        return f"{suite.name}: {cell.name}, trial {spec.trial + 1}"

    def estimate_work(self, records: Iterable[RunRecord]) -> list[dict[str, Any]]:
        """Count the runs of each suite that are not among the records, and estimate their time.

        ``in_another_table`` counts the runs that an earlier suite of the plan has too; they do not
        count as ``to_do``. The seconds are None if no run has been timed. ``measured_on`` is empty
        if they come from recorded runs.
        """
        seconds_of = {record.spec.hash: record.seconds for record in records}
        seen: set[str] = set()
        rows: list[dict[str, Any]] = []
        for suite, runs in self.suites:
            hashes = dict.fromkeys(spec.hash for _, spec in runs)
            n_to_do = len(hashes.keys() - seen - seconds_of.keys())
            done = [seconds_of[name] for name in hashes if name in seconds_of]
            recipe = suite.recipe(self.recipe)
            each = sum(done) / len(done) if done else recipe.seconds
            rows.append(
                {
                    "suite": suite.name,
                    "recipe": self.recipe,
                    "runs": len(hashes),
                    "on_file": len(done),
                    "in_another_table": len(hashes.keys() & seen),
                    "to_do": n_to_do,
                    "seconds_each": None if each is None else round(each, 1),
                    "seconds": None if each is None else round(each * n_to_do, 1),
                    "measured_on": "" if done else recipe.measured_on,
                }
            )
            seen.update(hashes)
        return rows

    def describe_work(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Describe in a sentence what `estimate_work` returned."""
        timed = [row for row in rows if row["seconds"] is not None]
        about = f", about {sum(row['seconds'] for row in timed) / 60:.0f} minutes" if timed else ""
        places = sorted({row["measured_on"] for row in timed} - {""})
        seen_on = f", as seen on {' and '.join(places)}" if places else ""
        untimed = "; for those marked ? no run has been timed yet" if len(timed) < len(rows) else ""
        n_to_do = sum(row["to_do"] for row in rows)
        return f"Recipe {self.recipe}: {n_to_do} runs to do{about}{seen_on}{untimed}."


def make_plan(
    suites: Sequence[Suite], recipe: str, *, trials: int | None = None, only: str = "*"
) -> Plan:
    """Collect the runs of some suites; the parameters are those of `Suite.specs`."""
    plan = Plan(
        recipe, [(suite, list(suite.specs(recipe, trials=trials, only=only))) for suite in suites]
    )
    if not any(runs for _, runs in plan.suites):
        raise InvalidInput(
            f"No run matches --only {only!r}. Runs are named by row and column, such as "
            f"{suites[0].cells[0].name!r}."
        )
    return plan
