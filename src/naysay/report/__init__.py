"""Render results as one self-contained HTML page, without network, scripts or torch."""

from naysay.report.demo import render_demo_page, write_demo_page
from naysay.report.fit import render_fit_page
from naysay.report.page import check_page_path
from naysay.report.reproduction import (
    count_runs,
    read_results,
    render_report_page,
    write_report_page,
)

__all__ = [
    "check_page_path",
    "count_runs",
    "read_results",
    "render_demo_page",
    "render_fit_page",
    "render_report_page",
    "write_demo_page",
    "write_report_page",
]
