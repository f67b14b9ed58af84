"""The pages of a model: the report of `naysay fit`, and the comparison of `naysay sweep`."""

from typing import TYPE_CHECKING, Any

import numpy as np

from naysay._base.versions import used_versions
from naysay.report.page import render
from naysay.report.pictures import HeatMap, make_heat_map_cells, make_heat_maps

if TYPE_CHECKING:
    from naysay.workflows.fit import FitReport
    from naysay.workflows.sweep import SweepReport

_MOST_CLASSES = 30  # in a heat map; with more classes, the largest entries are listed
_MOST_ENTRIES = 20
_MOST_MAPS = 6  # annotators whose matrices are drawn


def render_fit_page(report: "FitReport") -> str:
    """Render the report of `naysay.workflows.fit.fit_own` as one HTML page that loads nothing."""
    Q = report.transition
    is_small = Q.n_classes <= _MOST_CLASSES
    return render(
        "fit.html.j2",
        report=report,
        summary=report.summary,
        classes=Q.classes,
        per_class=[*zip(Q.classes, report.n_predicted, report.precision, strict=True)],
        heat_map=make_heat_maps(Q)[0] if is_small else None,
        largest=[] if is_small else _largest_entries(report),
        annotator_maps=_annotator_maps(report) if is_small else [],
        annotator_shares=_annotator_shares(report) if is_small and report.label_shares else None,
        diagnosis=report.diagnosis,
        versions=used_versions(),
    )


def render_sweep_page(report: "SweepReport") -> str:
    """Render the report of `naysay.workflows.sweep.sweep_own` as one page that loads nothing."""
    return render("sweep.html.j2", report=report, versions=used_versions())


def _largest_entries(report: "FitReport") -> list[tuple[str, str, float]]:
    values = np.asarray(report.transition)
    classes = report.transition.classes
    order = np.argsort(-values, axis=None, kind="stable")[:_MOST_ENTRIES]
    places = zip(*np.unravel_index(order, values.shape), strict=True)
    return [(classes[row], classes[column], float(values[row, column])) for row, column in places]


def _annotator_maps(report: "FitReport") -> list[tuple[str, HeatMap]]:
    """Draw the matrices of the annotators with the most answers, on one colour scale."""
    shown = dict(list(report.transitions.items())[:_MOST_MAPS])
    return list(zip(shown, make_heat_maps(*shown.values()), strict=True)) if shown else []


def _annotator_shares(report: "FitReport") -> tuple[list[tuple[str, Any]], float]:
    """Draw a row of cells for each annotator, and find the share with full colour."""
    shares, counts = report.label_shares, report.summary.annotators
    names = sorted(shares, key=lambda name: -counts[name])[:_MOST_CLASSES]
    top = max((float(shares[name].max()) for name in names), default=1.0) or 1.0
    return [(name, make_heat_map_cells(shares[name].tolist(), top)) for name in names], top
