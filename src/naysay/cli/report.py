"""``naysay report``: records as one page, beside the published numbers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from naysay._base.errors import InvalidInput


def report(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="RECORDS...", help="Files that naysay reproduce wrote."),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the page.")] = Path(
        "naysay-report.html"
    ),
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the tables in Markdown, write no page.")
    ] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print the tables in LaTeX, write no page.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Say where the page is as JSON.")] = False,
) -> None:
    """Show recorded runs beside the published numbers, on one page that needs no network.

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
                "RECORDS must be files that naysay reproduce wrote. "
                f"There is no file {str(path)!r}."
            )
    records = [record for path in files for record in RecordFile(path).read()]
    results = tables.summarise(SUITES.values(), records)
    if not results:
        raise InvalidInput(
            f"RECORDS must hold a run of a table or figure of the paper. "
            f"{len(records)} records were read, none of them of this version's suites."
        )
    if markdown or latex:
        typer.echo((tables.markdown if markdown else tables.latex)(results), nl=False)
        return
    check_page_path(out)
    page = write_report_page(records, out)
    n_runs = len({record.spec.hash for result in results for record in result.records})
    if as_json:
        typer.echo(json.dumps({"n_runs": n_runs, "page": str(page)}))
    else:
        typer.echo(f"{n_runs} runs. The page: {page}")
