"""The page of `naysay report`: recorded runs beside the published results."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from naysay._base.errors import InvalidInput
from naysay.experiments.records import RecordFile, RunRecord
from naysay.experiments.suites import SUITES
from naysay.experiments.tables import MARKS, CellResult, SuiteResult, summarise_records
from naysay.report import pictures
from naysay.report.page import render
from naysay.transition import TransitionMatrix

_MOST_CURVES = 8
_LARGEST_STANDARD_ERROR = 0.02  # of the estimates of accuracy that are compared with the accuracy
_MATRICES = {"true": "True Q", "estimated": "Estimated", "refined": "Refined"}


def read_results(
    files: Iterable[str | Path],
) -> tuple[list[RunRecord], list[SuiteResult]]:
    """Read files of records, and summarise the runs that belong to a suite."""
    for path in files:
        if not Path(path).is_file():
            raise InvalidInput(
                "RECORDS must be files written by naysay reproduce. "
                f"There is no file {str(path)!r}."
            )
    records = [record for path in files for record in RecordFile(path).read()]
    results = summarise_records(SUITES.values(), records)
    if not results:
        raise InvalidInput(
            "RECORDS must contain a run of a table or figure of the paper. "
            f"{len(records)} records were read, and none belongs to a suite of this version."
        )
    return records, results


def count_runs(results: Iterable[SuiteResult]) -> int:
    """Count the different runs of all results; suites may share some."""
    return len({record.spec.hash for result in results for record in result.records})


def render_report_page(records: Iterable[RunRecord]) -> str:
    """Render records as one HTML page that loads nothing; runs of no suite are only counted."""
    known = list(records)
    results = summarise_records(SUITES.values(), known)
    used = {record.spec.hash: record for result in results for record in result.records}
    records = list(used.values())
    shown = {result.suite.name for result in results}
    return render(
        "report.html.j2",
        marks=MARKS,
        sections=[_make_section(result) for result in results],
        deviations=_gather_deviations(results),
        suites_not_run=[
            suite for name, suite in SUITES.items() if suite.in_paper and name not in shown
        ],
        records=records,
        n_foreign=len({record.spec.hash for record in known} - used.keys()),
        versions=_versions(records),
        times=[record.time for record in records],
    )


def _make_section(result: SuiteResult) -> dict[str, Any]:
    """Collect what the page shows of one suite with one recipe."""
    records = result.records
    kind = result.suite.kind
    errors = [
        abs(record.estimates["accuracy"] - record.accuracy)
        for record in records
        if "accuracy" in record.estimates
        and record.estimates.get("accuracy_standard_error", 1) <= _LARGEST_STANDARD_ERROR
    ]
    return {
        "anchor": f"{result.suite.name}-{result.recipe}",
        "result": result,
        "records": records,
        "curves": _make_curves(result) if kind == "table" else [],
        "convergence": _make_convergence(result) if kind == "curve" else None,
        "matrices": _make_matrices(result) if kind == "matrices" else [],
        # number of runs with an estimate of accuracy without true labels, and its mean error
        "estimated": (len(errors), sum(errors) / len(errors)) if errors else None,
    }


def _make_curves(result: SuiteResult) -> list[tuple[CellResult, pictures.Chart | None]]:
    """Draw the curves of the first trials of LM, up to `_MOST_CURVES`."""
    with_history = [
        each
        for each in result.cells
        if "LM" in each.cell.name and each.records and each.records[0].history
    ][:_MOST_CURVES]
    histories = [each.records[0].history for each in with_history]
    n_epochs = max((int(history[-1]["epoch"]) for history in histories), default=1)
    charts = (pictures.make_chart(history, n_epochs=n_epochs) for history in histories)
    return list(zip(with_history, charts, strict=True))


def _make_convergence(result: SuiteResult) -> pictures.Convergence | None:
    points: dict[str, list[pictures.Point]] = {column: [] for column in result.suite.columns}
    for each in result.cells:
        if each.mean is not None:
            spec = result.suite.spec_of(each.cell, result.recipe)
            size = spec.n_train or int(each.cell.row.replace(",", ""))
            points[each.cell.column].append(
                pictures.Point(n_examples=size, mean=each.mean, sd=each.sd, n_trials=each.n_trials)
            )
    return pictures.make_convergence(points)


def _make_matrices(result: SuiteResult) -> list[tuple[CellResult, dict[str, pictures.HeatMap]]]:
    drawn = []
    for each in result.cells:
        matrices = each.records[0].matrices if each.records else {}
        named = {title: matrices[name] for name, title in _MATRICES.items() if name in matrices}
        if named:
            maps = pictures.make_heat_maps(*map(_as_transition, named.values()))
            drawn.append((each, dict(zip(named, maps, strict=True))))
    return drawn


def _as_transition(rows: Sequence[Sequence[float]]) -> TransitionMatrix:
    """Restore a matrix; its recorded entries are rounded, so that its rows may not sum to 1."""
    scaled = [[value / (sum(row) or 1) for value in row] for row in rows]
    return TransitionMatrix(scaled, allow_diagonal=True)


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
            versions.setdefault(name, []).extend([] if version is None else [version])
    return {name: list(dict.fromkeys(listed)) for name, listed in versions.items()}
