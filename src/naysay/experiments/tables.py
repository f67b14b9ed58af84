"""Compare records with the published figures, and print the tables in Markdown and LaTeX."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from naysay.experiments.records import RunRecord
from naysay.experiments.suite import Cell, Published, Suite

__all__ = ["CellResult", "SuiteResult", "latex", "markdown", "summarise"]

_MARKS = {"better": "▲", "equal": "=", "worse": "▼"}


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One figure of a table: our result and the published one, in percent.

    `verdict` is ``"better"``, ``"equal"`` or ``"worse"``, compared with the published figure, or
    None if there is nothing to compare. It is equal if the difference is at most two standard
    errors or vanishes when it is rounded to the digits printed; see `compare`. Scaled-down runs
    are not compared.
    """

    cell: Cell
    records: tuple[RunRecord, ...]
    verdict: str | None

    @property
    def n_trials(self) -> int:
        """Number of recorded runs."""
        return len(self.records)

    @property
    def mean(self) -> float | None:
        """Mean accuracy in percent."""
        return 100 * statistics.fmean(r.accuracy for r in self.records) if self.records else None

    @property
    def sd(self) -> float | None:
        """Standard deviation over trials, in percentage points; None with fewer than two trials."""
        accuracies = [record.accuracy for record in self.records]
        return 100 * statistics.stdev(accuracies) if len(accuracies) > 1 else None

    @property
    def difference(self) -> float | None:
        """Our mean minus the published mean, in percentage points."""
        published = self.cell.published
        if self.mean is None or published is None or published.mean is None:
            return None
        return self.mean - published.mean

    @property
    def seconds(self) -> float | None:
        """Mean time of a run, in seconds."""
        return statistics.fmean(r.seconds for r in self.records) if self.records else None

    @property
    def q_errors(self) -> dict[str, float]:
        """Mean error over trials of the estimated and of the refined Q."""
        names = dict.fromkeys(name for record in self.records for name in record.q_error)
        return {
            name: statistics.fmean(r.q_error[name] for r in self.records if name in r.q_error)
            for name in names
        }

    @property
    def text(self) -> str:
        """Our result in the format of the paper, ``97.18 ± 0.45``; empty if there is no run."""
        if self.mean is None:
            return ""
        return f"{self.mean:.2f}" + ("" if self.sd is None else f" ± {self.sd:.2f}")


@dataclass(frozen=True, kw_only=True)
class SuiteResult:
    """Results of a suite with one recipe, with all cells, also those without runs."""

    suite: Suite
    recipe: str
    cells: tuple[CellResult, ...]

    def at(self, row: str, column: str) -> CellResult | None:
        """Find the result of a row and a column."""
        found = (each for each in self.cells if (each.cell.row, each.cell.column) == (row, column))
        return next(found, None)

    @property
    def records(self) -> list[RunRecord]:
        """All runs without duplicates; cells of a table may share runs."""
        return list({r.spec.hash: r for each in self.cells for r in each.records}.values())

    @property
    def missing(self) -> list[Cell]:
        """Cells without a run."""
        return [each.cell for each in self.cells if not each.records]

    @property
    def short(self) -> list[CellResult]:
        """Results of cells with some runs, but fewer than the recipe has."""
        wanted = self.suite.recipe(self.recipe).trials
        return [each for each in self.cells if 0 < each.n_trials < wanted]

    def count(self, verdict: str) -> int:
        """Count the cells with a verdict: better, equal or worse."""
        return sum(each.verdict == verdict for each in self.cells)


def summarise(
    suites: Iterable[Suite],
    records: Iterable[RunRecord],
    *,
    recipes: Sequence[str] = ("best", "paper", "quick"),
) -> list[SuiteResult]:
    """Collect the results of each suite with each recipe of which there is a run.

    A run counts once, whatever the number of files it is in. Runs of no suite are left out, and so
    are trials before the first that a recipe reports.
    """
    by_group: dict[str, dict[int, RunRecord]] = {}
    for record in records:
        by_group.setdefault(record.spec.group, {})[record.spec.trial] = record

    def find(suite: Suite, cell: Cell, recipe: str) -> CellResult:
        trials = by_group.get(suite.spec_of(cell, recipe).group, {})
        chosen = suite.recipe(recipe)
        found = tuple(trials[trial] for trial in sorted(trials) if trial >= chosen.first_trial)
        accuracies = [100 * record.accuracy for record in found]
        published = cell.published if chosen.comparable else None
        verdict = compare(accuracies, published, published_trials=suite.published_trials)
        return CellResult(cell=cell, records=found, verdict=verdict)

    results = []
    for suite, recipe in itertools.product(suites, recipes):
        cells = tuple(find(suite, cell, recipe) for cell in suite.cells)
        if any(each.records for each in cells):
            results.append(SuiteResult(suite=suite, recipe=recipe, cells=cells))
    return results


def compare(
    accuracies: Sequence[float], published: Published | None, *, published_trials: int | None
) -> str | None:
    """Decide whether our accuracies are better than, equal to or worse than the published one.

    The standard error of the difference is computed from both standard deviations and numbers of
    trials. If one of them has no standard deviation (because it has one trial, or because none is
    printed), it counts as one trial with the standard deviation of the other. If neither has one,
    the standard error is zero.

    Examples
    --------
    >>> compare([97.0, 97.4, 97.2], Published("97.18 ± 0.45"), published_trials=5)
    'equal'
    >>> compare([98.0, 98.2, 98.1], Published("97.18 ± 0.45"), published_trials=5)
    'better'
    """
    if not accuracies or published is None or published.mean is None:
        return None
    n_decimals = len(published.text.split()[0].partition(".")[2])
    difference = statistics.fmean(accuracies) - published.mean
    ours = statistics.stdev(accuracies) if len(accuracies) > 1 else None
    theirs, n_theirs = published.sd, published_trials or 1
    if theirs is None:
        theirs, n_theirs = ours or 0.0, 1
    if ours is None:
        ours = theirs
    error = math.hypot(ours / math.sqrt(len(accuracies)), theirs / math.sqrt(n_theirs))
    if abs(difference) <= max(2 * error, 0.5 * 10.0**-n_decimals):
        return "equal"
    return "better" if difference > 0 else "worse"


def markdown(results: Iterable[SuiteResult]) -> str:
    """Format tables in Markdown, with our result, the verdict and the published figure."""
    blocks = []
    for result in results:
        suite = result.suite
        lines = [
            f"### {suite.title} (recipe `{result.recipe}`)",
            "",
            "| | " + " | ".join(suite.columns) + " |",
            "|---" * (1 + len(suite.columns)) + "|",
        ]
        for row in suite.rows:
            cells = [_markdown_cell(result.at(row, column)) for column in suite.columns]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _markdown_cell(result: CellResult | None) -> str:
    if result is None:
        return ""
    ours = f"**{result.text}** (n = {result.n_trials})" if result.records else "not run"
    mark = "" if result.verdict is None else f" {_MARKS[result.verdict]}"
    published = result.cell.published
    return f"{ours}{mark}" + ("" if published is None else f"; published {published.text}")


def latex(results: Iterable[SuiteResult]) -> str:
    """Format tables in LaTeX (booktabs), with two lines per row: our results, published ones."""
    blocks = []
    for result in results:
        suite = result.suite
        lines = [
            f"% {suite.title}, recipe {result.recipe}",
            r"\begin{tabular}{l" + "c" * len(suite.columns) + "}",
            r"\toprule",
            " & ".join(["", *map(_escape, suite.columns)]) + r" \\",
            r"\midrule",
        ]
        for row in suite.rows:
            ours, published = [_escape(row)], [r"\quad published"]
            for each in (result.at(row, column) for column in suite.columns):
                figure = each and each.cell.published
                ours.append("" if each is None else _math(each.text) or r"\textit{not run}")
                published.append(_math(figure.text) if figure else "")
            lines.append(" & ".join(ours) + r" \\")
            if any(published[1:]):
                lines.append(" & ".join(published) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _math(text: str) -> str:
    return f"${text}$".replace("±", r"\pm") if text[:1].isdigit() else _escape(text)


def _escape(text: str) -> str:
    for plain, escaped in (("~", r"--"), ("#", r"\#"), ("%", r"\%"), ("_", r"\_")):
        text = text.replace(plain, escaped)
    return text
