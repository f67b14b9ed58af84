"""Compare records with the published figures, and print the tables in Markdown and LaTeX."""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from naysay.experiments.records import RunRecord
from naysay.experiments.suite import Cell, Published, Suite

__all__ = ["CellResult", "Comparison", "SuiteResult", "latex", "markdown", "summarise_records"]

MARKS = {"better": "▲", "equal": "=", "worse": "▼", "unclear": "?"}
_MOST_APART = 1.0  # percentage points between figures that are called equal


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Our mean minus the published mean, in percentage points, with its 95 % interval.

    `interval` is None if we have a single trial, whose variation is unknown.
    """

    difference: float
    interval: tuple[float, float] | None

    @property
    def verdict(self) -> str:
        """``"better"`` or ``"worse"`` if the interval excludes 0, ``"equal"`` or ``"unclear"``.

        Equal, or reproduced, means that the interval excludes differences of a point or more.
        """
        low, high = self.interval or (-math.inf, math.inf)
        if low > 0 or high < 0:
            return "better" if low > 0 else "worse"
        return "equal" if max(-low, high) < _MOST_APART else "unclear"

    @property
    def text(self) -> str:
        """The difference and its interval, ``+0.02 [-0.56, +0.60]``."""
        text = f"{self.difference:+.2f}"
        if self.interval is not None:
            text += " [{:+.2f}, {:+.2f}]".format(*self.interval)
        return text

    def __str__(self) -> str:
        return f"{MARKS[self.verdict]} {self.text}"


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """One figure of a table: our result and the published one, in percent.

    `comparison` is None if there is nothing to compare; scaled-down runs are not compared.
    `developed_on` is whether a trial was used in development; see `TrainingRecipe`.
    """

    cell: Cell
    records: tuple[RunRecord, ...]
    comparison: Comparison | None
    developed_on: bool = False

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
        """Count the cells with a verdict: better, equal, worse or unclear."""
        compared = [each.comparison for each in self.cells if each.comparison is not None]
        return sum(each.verdict == verdict for each in compared)


def summarise_records(
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
        return CellResult(
            cell=cell,
            records=found,
            comparison=compare(accuracies, published, published_trials=suite.published_trials),
            developed_on=any(record.spec.trial in chosen.developed_on for record in found),
        )

    results: list[SuiteResult] = []
    for suite, recipe in itertools.product(suites, recipes):
        if recipe not in suite.recipes:
            continue
        cells = tuple(find(suite, cell, recipe) for cell in suite.cells)
        if any(each.records for each in cells):
            results.append(SuiteResult(suite=suite, recipe=recipe, cells=cells))
    return results


summarise = summarise_records  # its earlier name


def compare(
    accuracies: Sequence[float], published: Published | None, *, published_trials: int | None
) -> Comparison | None:
    """Compare our accuracies in percent with a published figure, or return None if there is none.

    The interval is Welch's, from both standard deviations and numbers of trials, and half a unit
    of the last digit printed wider. A figure that is printed without a standard deviation counts as
    one trial with the standard deviation of ours. Without one of ours there is no interval.

    Examples
    --------
    >>> print(compare([97.0, 97.4, 97.2], Published("97.18 ± 0.45"), published_trials=5))
    = +0.02 [-0.56, +0.60]
    >>> print(compare([98.2], Published("97.18 ± 0.45"), published_trials=5))
    ? +1.02
    """
    if not accuracies or published is None or published.mean is None:
        return None
    difference = statistics.fmean(accuracies) - published.mean
    if len(accuracies) == 1:
        return Comparison(difference=difference, interval=None)
    ours = statistics.variance(accuracies)
    if published.sd is None:
        error = math.sqrt(ours * (1 / len(accuracies) + 1))
        freedom = len(accuracies) - 1.0
    else:
        n_theirs = published_trials or 1
        parts = ours / len(accuracies), published.sd**2 / n_theirs
        error = math.sqrt(sum(parts))
        doubt = parts[0] ** 2 / (len(accuracies) - 1) + parts[1] ** 2 / max(1, n_theirs - 1)
        freedom = sum(parts) ** 2 / doubt if doubt else 1.0
    n_decimals = len(published.text.split()[0].partition(".")[2])
    half = float(stdtrit(freedom, 0.975)) * error + 0.5 * 10.0**-n_decimals
    return Comparison(difference=difference, interval=(difference - half, difference + half))


def markdown(results: Iterable[SuiteResult]) -> str:
    """Format tables in Markdown: our results, the differences, and the published figures."""
    blocks: list[str] = []
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
    n_trials = f"{result.n_trials}†" if result.developed_on else f"{result.n_trials}"
    ours = f"**{result.text}** (n = {n_trials})" if result.records else "not run"
    compared = "" if result.comparison is None else f" {result.comparison}"
    published = result.cell.published
    return f"{ours}{compared}" + ("" if published is None else f"; published {published.text}")


def latex(results: Iterable[SuiteResult]) -> str:
    """Format tables in LaTeX (booktabs): our results, the published ones, and the differences."""
    blocks: list[str] = []
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
            ours, published, apart = [_escape(row)], [r"\quad published"], [r"\quad difference"]
            for each in (result.at(row, column) for column in suite.columns):
                figure = each and each.cell.published
                compared = each and each.comparison
                mark = r"$^\dagger$" if each and each.developed_on else ""
                ours.append("" if each is None else _math(each.text) + mark or r"\textit{not run}")
                published.append(_math(figure.text) if figure else "")
                apart.append(f"{_math(compared.text)} {compared.verdict}" if compared else "")
            lines.append(" & ".join(ours) + r" \\")
            lines += [" & ".join(each) + r" \\" for each in (published, apart) if any(each[1:])]
        lines += [r"\bottomrule", r"\end{tabular}"]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _math(text: str) -> str:
    is_number = text.strip("+-")[:1].isdigit()
    return f"${text}$".replace("±", r"\pm") if is_number else _escape(text)


def _escape(text: str) -> str:
    for plain, escaped in (("~", r"--"), ("#", r"\#"), ("%", r"\%"), ("_", r"\_")):
        text = text.replace(plain, escaped)
    return text
