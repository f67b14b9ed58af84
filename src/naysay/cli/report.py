"""``naysay report``: show records and the published numbers on one page."""

from pathlib import Path

import typer

from naysay._base.files import check_target
from naysay._base.terminal import say
from naysay.cli import options, output


def report(
    files: list[Path] = typer.Argument(
        metavar="RECORDS...", help="Files of records written by naysay reproduce."
    ),
    out: Path = typer.Option(
        Path("naysay-report.html"), metavar="FILE", help="File to write the page to."
    ),
    markdown: bool = typer.Option(
        False, "--markdown", help="Print the tables in Markdown instead of writing a page."
    ),
    latex: bool = typer.Option(
        False, "--latex", help="Print the tables in LaTeX instead of writing a page."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Write a page that compares recorded runs with the published numbers.

    The page is one HTML file that loads nothing from the network.

    Example: naysay report naysay-records.jsonl --out report.html
    """
    from naysay.experiments import tables
    from naysay.report.page import write_page
    from naysay.report.reproduction import count_runs, read_results, render_report_page

    if markdown and latex:
        raise typer.BadParameter("choose one of --markdown and --latex.")
    if not (markdown or latex):
        check_target(out, usual="page.html")
    records, results = read_results(files)
    if markdown or latex:
        say((tables.markdown if markdown else tables.latex)(results), nl=False)
        return
    write_page(render_report_page(records), out)
    figures = {"n_runs": count_runs(results), "page": str(out)}
    output.print_result(figures, f"{figures['n_runs']} runs. The page: {out}", as_json=as_json)
