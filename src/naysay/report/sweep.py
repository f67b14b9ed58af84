"""The page of `naysay sweep`: the candidates and how they compare."""

from typing import TYPE_CHECKING

from naysay._base.versions import used_versions
from naysay.report.page import render

if TYPE_CHECKING:
    from naysay.workflows.sweep import SweepReport


def render_sweep_page(report: "SweepReport") -> str:
    """Render the report of `naysay.workflows.sweep.sweep_own` as one page that loads nothing."""
    return render("sweep.html.j2", report=report, versions=used_versions())
