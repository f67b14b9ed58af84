"""``naysay demo``: learn from complementary labels in under a minute."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from naysay._base.files import check_target
from naysay._base.progress import job_bar
from naysay._base.terminal import Console, say
from naysay.cli import options, output

if TYPE_CHECKING:
    from naysay.workflows.demo import DemoResult


class SettingName(StrEnum):
    """The transition matrix of the demo."""

    UNIFORM = "uniform"
    WITHOUT0 = "without0"
    WITH0 = "with0"


def demo(
    setting: SettingName = typer.Option(
        SettingName.WITH0, help="Transition matrix, one of the settings of the paper."
    ),
    seed: int = typer.Option(0, min=0, help="Seed of all randomness."),
    out: Path = typer.Option(Path("naysay-demo.html"), help="Where to write the page."),
    as_json: options.AsJson = False,
) -> None:
    """Learn digits from labels such as "not a 7", print a table and write a page about it.

    The demo takes under a minute on two CPU cores, and needs no network.

    Example: naysay demo --setting with0 --seed 1 --out demo.html
    """
    from naysay.report.demo import render_demo_page
    from naysay.report.page import write_page
    from naysay.workflows.demo import run_demo

    check_target(out, usual="page.html")  # before the computation
    with job_bar("naysay demo", "methods") as on_run:
        result = run_demo(setting, seed=seed, on_run=on_run)
    write_page(render_demo_page(result), out)
    if as_json:
        output.print_json({**result.to_dict(), "page": str(out)})
        return
    Console().print(_table(result))
    say(f"{result.seconds:.0f} seconds. The page: {out}")


def _table(result: "DemoResult") -> Table:
    table = Table(
        "method",
        "learned from",
        title=f"Digits, {result.n_train} training images, setting {result.setting}, "
        f"seed {result.seed}",
        title_justify="left",
    )
    for name in ("accuracy", "error of Q", "seconds"):
        table.add_column(name, justify="right")
    for run in result.runs:
        table.add_row(
            run.name,
            run.learned_from,
            f"{run.accuracy:.1%}",
            "" if run.q_error is None else f"{run.q_error:.3f}",
            f"{run.seconds:.1f}",
        )
    return table
