"""Plan runs: which runs some suites have, which are recorded, and how long the others take."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from naysay._base.errors import InvalidInput
from naysay.experiments.records import RunRecord
from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Cell, Suite

__all__ = ["Plan", "SuiteWork", "make_plan"]


@dataclass(frozen=True, kw_only=True)
class SuiteWork:
    """Numbers of runs of a suite, and the time that the runs to do will take.

    `in_another_table` counts the runs that an earlier suite of the plan has too; they do not count
    as `to_do`. The seconds are None if no run has been timed. `measured_on` is empty if they come
    from recorded runs.
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
        """All runs without duplicates, each with the first suite and cell that has it."""
        cells: dict[RunSpec, tuple[Suite, Cell]] = {}
        for suite, runs in self.suites:
            for cell, spec in runs:
                cells.setdefault(spec, (suite, cell))
        return cells

    def estimate_work(self, records: Iterable[RunRecord]) -> list[SuiteWork]:
        """Count the runs of each suite that are not among the records, and estimate their time."""
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
    """Collect the runs of some suites; the parameters are those of `Suite.specs`.

    Raises
    ------
    InvalidInput
        If `only` matches no cell.
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
