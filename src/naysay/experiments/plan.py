"""What there is to run: the runs of some suites, which of them are on file, how long they take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from naysay._base.errors import InvalidInput
from naysay.experiments.records import RunRecord
from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Cell, Suite

__all__ = ["Plan", "SuiteWork", "make_plan"]


@dataclass(frozen=True, kw_only=True)
class SuiteWork:
    """How many runs of a suite there are, and how long those that are not on file take.

    `in_another_table` counts runs that a suite earlier in the plan has too; they are not `to_do`
    here. The seconds are None where no run has been timed, and `measured_on` is empty where they
    come from runs that are on file.
    """

    suite: str
    recipe: str
    runs: int
    on_file: int
    in_another_table: int
    to_do: int
    seconds_each: float | None
    seconds: float | None
    measured_on: str


@dataclass(frozen=True)
class Plan:
    """The runs of some suites with one recipe."""

    recipe: str
    suites: Sequence[tuple[Suite, Sequence[tuple[Cell, RunSpec]]]]

    @property
    def cells(self) -> dict[RunSpec, tuple[Suite, Cell]]:
        """Each run once, with the first suite that has it, and its cell there."""
        cells: dict[RunSpec, tuple[Suite, Cell]] = {}
        for suite, runs in self.suites:
            for cell, spec in runs:
                cells.setdefault(spec, (suite, cell))
        return cells

    def estimate_work(self, records: Iterable[RunRecord]) -> list[SuiteWork]:
        """Return the work of each suite, given the records that are on file."""
        seconds_of = {record.spec.hash: record.seconds for record in records}
        seen: set[str] = set()
        rows = []
        for suite, runs in self.suites:
            hashes = dict.fromkeys(spec.hash for _, spec in runs)
            to_do = [name for name in hashes if name not in seen and name not in seconds_of]
            done = [seconds_of[name] for name in hashes if name in seconds_of]
            recipe = suite.recipe(self.recipe)
            each = sum(done) / len(done) if done else recipe.seconds
            rows.append(
                SuiteWork(
                    suite=suite.name,
                    recipe=self.recipe,
                    runs=len(hashes),
                    on_file=len(done),
                    in_another_table=len(hashes.keys() & seen),
                    to_do=len(to_do),
                    seconds_each=None if each is None else round(each, 1),
                    seconds=None if each is None else round(each * len(to_do), 1),
                    measured_on="" if done else recipe.measured_on,
                )
            )
            seen.update(hashes)
        return rows


def make_plan(
    suites: Sequence[Suite], recipe: str, *, trials: int | None = None, only: str = "*"
) -> Plan:
    """Return the runs of some suites; parameters are those of `Suite.specs`.

    Raises
    ------
    InvalidInput
        If no cell is named as `only` says.
    """
    plan = Plan(
        recipe, [(suite, list(suite.specs(recipe, trials=trials, only=only))) for suite in suites]
    )
    if not any(runs for _, runs in plan.suites):
        raise InvalidInput(
            f"No run matches --only {only!r}. Runs are named by row and column, such as "
            f"{suites[0].cells[0].name!r}."
        )
    return plan
