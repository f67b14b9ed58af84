"""``naysay report``: show records and the published numbers on one page."""

from pathlib import Path
from typing import Annotated

import typer

from naysay._base.errors import InvalidInput
from naysay.cli._shared import AsJson, print_json


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="RECORDS...", help="Files of records written by naysay reproduce."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write the page to.")] = Path(
        "naysay-report.html"
    ),
    markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Print the tables in Markdown instead of writing a page."),
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print the tables in LaTeX instead of writing a page.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write a page that compares recorded runs with the published numbers.

    The page is one HTML file that loads nothing from the network.

    Example: naysay report naysay-records.jsonl --out report.html
    """
    from naysay.experiments import tables
    from naysay.experiments.records import RecordFile
    from naysay.experiments.suites import SUITES
    from naysay.report import check_page_path, write_report_page

    if markdown and latex:
        raise typer.BadParameter("choose one of --markdown and --latex.")
    for path in files:
        if not path.is_file():
            raise InvalidInput(
                "RECORDS must be files written by naysay reproduce. "
                f"There is no file {str(path)!r}."
            )
    if not (markdown or latex):
        check_page_path(out)
    records = [record for path in files for record in RecordFile(path).read()]
    results = tables.summarise_records(SUITES.values(), records)
    if not results:
        raise InvalidInput(
            "RECORDS must contain a run of a table or figure of the paper. "
            f"{len(records)} records were read, and none belongs to a suite of this version."
        )
    if markdown or latex:
        typer.echo((tables.markdown if markdown else tables.latex)(results), nl=False)
        return
    page = write_report_page(records, out)
    n_runs = len({record.spec.hash for result in results for record in result.records})
    if as_json:
        print_json({"n_runs": n_runs, "page": str(page)}, indent=None)
    else:
        typer.echo(f"{n_runs} runs. The page: {page}")
