"""The page of `naysay report`: recorded runs beside the published results."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from naysay.experiments.records import RunRecord
from naysay.experiments.suites import SUITES
from naysay.experiments.tables import CellResult, SuiteResult, summarise
from naysay.report.page import render, write_page
from naysay.report.pictures import (
    Chart,
    Convergence,
    HeatMap,
    Point,
    make_chart,
    make_convergence,
    make_heat_maps,
)
from naysay.transition import TransitionMatrix

__all__ = ["render_report_page", "write_report_page"]

_MOST_CURVES = 8
_LARGEST_STANDARD_ERROR = 0.02  # of the estimates of accuracy that are compared with the accuracy
_MATRICES = {"true": "True Q", "estimated": "Estimated", "refined": "Refined"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """Content of the page for one suite with one recipe."""

    result: SuiteResult
    curves: list[tuple[CellResult, Chart]]
    convergence: Convergence | None
    matrices: list[tuple[CellResult, dict[str, HeatMap]]]
    devices: list[str]
    networks: list[str]
    seconds: float
    # Number of runs with an estimate of accuracy without true labels, and its mean error.
    estimated: tuple[int, float] | None

    @property
    def anchor(self) -> str:
        """Anchor of the section on the page."""
        return f"{self.result.suite.name}-{self.result.recipe}"


def render_report_page(records: Iterable[RunRecord]) -> str:
    """Render the page, one HTML document that loads nothing.

    Parameters
    ----------
    records : iterable of RunRecord
        Records from `naysay.experiments.records.RecordFile.read`. Runs that belong to no suite are
        only counted.
    """
    known = list(records)
    results = summarise(SUITES.values(), known)
    used = {record.spec.hash: record for result in results for record in result.records}
    shown = {result.suite.name for result in results}
    return render(
        "report.html.j2",
        sections=[_make_section(result) for result in results],
        deviations=_gather_deviations(results),
        suites_not_run=[suite for name, suite in SUITES.items() if name not in shown],
        n_runs=len(used),
        n_foreign=len({record.spec.hash for record in known} - used.keys()),
        seconds=sum(record.seconds for record in used.values()),
        devices=_unique(record.device for record in used.values()),
        commits=_unique(record.git_commit or "unknown" for record in used.values()),
        versions=_versions(used.values()),
        first=min((record.time for record in used.values()), default=""),
        last=max((record.time for record in used.values()), default=""),
    )


def write_report_page(records: Iterable[RunRecord], path: str | Path) -> Path:
    """Write the page and return its path; see `render_report_page`."""
    return write_page(render_report_page(records), path)


def _make_section(result: SuiteResult) -> Section:
    records = result.records
    errors = [
        abs(record.estimates["accuracy"] - record.accuracy)
        for record in records
        if record.estimates.get("accuracy_standard_error", 1) <= _LARGEST_STANDARD_ERROR
    ]
    return Section(
        result=result,
        curves=_make_curves(result) if result.suite.kind == "table" else [],
        convergence=_make_convergence(result) if result.suite.kind == "curve" else None,
        matrices=_make_matrices(result) if result.suite.kind == "matrices" else [],
        devices=_unique(record.device for record in records),
        networks=_unique(str(record.spec.options.get("network", "MLP")) for record in records),
        seconds=sum(record.seconds for record in records),
        estimated=(len(errors), sum(errors) / len(errors)) if errors else None,
    )


def _make_curves(result: SuiteResult) -> list[tuple[CellResult, Chart]]:
    """Draw the curves of the first trials of LM, up to `_MOST_CURVES`."""
    with_history = [
        each
        for each in result.cells
        if "LM" in each.cell.name and each.records and each.records[0].history
    ][:_MOST_CURVES]
    n_epochs = max((int(each.records[0].history[-1]["epoch"]) for each in with_history), default=1)
    charts = (
        (each, make_chart(each.records[0].history, n_epochs=n_epochs)) for each in with_history
    )
    return [(each, chart) for each, chart in charts if chart is not None]


def _make_convergence(result: SuiteResult) -> Convergence | None:
    points: dict[str, list[Point]] = {column: [] for column in result.suite.columns}
    for each in result.cells:
        if each.mean is not None:
            spec = result.suite.spec_of(each.cell, result.recipe)
            size = spec.n_train or int(each.cell.row.replace(",", ""))
            points[each.cell.column].append(
                Point(n_examples=size, mean=each.mean, sd=each.sd, n_trials=each.n_trials)
            )
    return make_convergence(points)


def _make_matrices(result: SuiteResult) -> list[tuple[CellResult, dict[str, HeatMap]]]:
    drawn = []
    for each in result.cells:
        matrices = each.records[0].matrices if each.records else {}
        named = {title: matrices[name] for name, title in _MATRICES.items() if name in matrices}
        if named:
            maps = make_heat_maps(*(_as_transition(rows) for rows in named.values()))
            drawn.append((each, dict(zip(named, maps, strict=True))))
    return drawn


def _as_transition(rows: Sequence[Sequence[float]]) -> TransitionMatrix:
    """Restore a matrix; its recorded entries are rounded, so its rows may not sum to 1."""
    return TransitionMatrix(
        [[value / sum(row) for value in row] for row in rows], allow_diagonal=True
    )


def _gather_deviations(results: Sequence[SuiteResult]) -> dict[str, dict[str, list[str]]]:
    """Collect the deviations from the paper by recipe, with the tables they apply to."""
    gathered: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for sentence in result.suite.recipe(result.recipe).deviations:
            names = gathered.setdefault(result.recipe, {}).setdefault(sentence, [])
            names.append(result.suite.name)
    return gathered


def _versions(records: Iterable[RunRecord]) -> dict[str, list[str]]:
    versions: dict[str, list[str]] = {}
    for record in records:
        for name, version in record.versions.items():
            listed = versions.setdefault(name, [])
            if version is not None and version not in listed:
                listed.append(version)
    return versions


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
