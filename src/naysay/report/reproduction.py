"""The page of `naysay report`: recorded runs beside the published numbers."""

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
_SURE_ENOUGH = 0.02  # standard error up to which an accuracy judged without labels says something
_MATRICES = {"true": "True Q", "estimated": "Estimated", "refined": "Refined"}


@dataclass(frozen=True, kw_only=True)
class Section:
    """What the page shows of one suite with one recipe."""

    result: SuiteResult
    curves: list[tuple[CellResult, Chart]]
    convergence: Convergence | None
    matrices: list[tuple[CellResult, dict[str, HeatMap]]]
    devices: list[str]
    networks: list[str]
    seconds: float
    judged: tuple[int, float] | None  # runs with an accuracy known without labels; how far off

    @property
    def anchor(self) -> str:
        """The place on the page."""
        return f"{self.result.suite.name}-{self.result.recipe}"


def render_report_page(records: Iterable[RunRecord]) -> str:
    """Return the page: one HTML document that loads nothing from anywhere.

    Parameters
    ----------
    records : iterable of RunRecord
        What `naysay.experiments.records.RecordFile.read` gives; runs of no suite are counted and
        left out.
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
    off = [
        abs(record.estimates["accuracy"] - record.accuracy)
        for record in records
        if record.estimates.get("accuracy_standard_error", 1) <= _SURE_ENOUGH
    ]
    return Section(
        result=result,
        curves=_make_curves(result) if result.suite.kind == "table" else [],
        convergence=_make_convergence(result) if result.suite.kind == "curve" else None,
        matrices=_make_matrices(result) if result.suite.kind == "matrices" else [],
        devices=_unique(record.device for record in records),
        networks=_unique(str(record.spec.options.get("network", "MLP")) for record in records),
        seconds=sum(record.seconds for record in records),
        judged=(len(off), sum(off) / len(off)) if off else None,
    )


def _make_curves(result: SuiteResult) -> list[tuple[CellResult, Chart]]:
    """Return curves of first trials: those of LM, as many as a page can take."""
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
    """Return the matrix again: its entries were rounded, so its rows may not quite sum to 1."""
    return TransitionMatrix(
        [[value / sum(row) for value in row] for row in rows], allow_diagonal=True
    )


def _gather_deviations(results: Sequence[SuiteResult]) -> dict[str, dict[str, list[str]]]:
    """Return by recipe what differs from the paper, and in which tables."""
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
