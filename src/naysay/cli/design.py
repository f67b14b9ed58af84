"""``naysay design``: propose which labels to offer annotators."""

from pathlib import Path

import typer
from rich import box
from rich.table import Table

from naysay._base.terminal import Console, say
from naysay.cli import options, output

_MOST_ROWS = 20  # lists shown


def design(
    classes: str = typer.Option(
        help="Class names separated by commas, a file with one name per line, or a number. A "
        "name with a comma is put in double quotes."
    ),
    offered: int = typer.Option(
        2, help="Number of labels in each list; shorter lists give more information."
    ),
    prior: Path | None = typer.Option(None, help="CSV with the columns class and share."),
    in_order: bool = typer.Option(
        False,
        "--in-order",
        help="Annotators name the first wrong label instead of any, which gives more information.",
    ),
    groups: int | None = typer.Option(
        None, help="Number of lists; chosen automatically by default."
    ),
    seed: int = typer.Option(0, help="Other seeds give other lists."),
    out: Path | None = typer.Option(None, metavar="FOLDER", help="Folder for lists and matrices."),
    as_json: options.AsJson = False,
) -> None:
    """Propose lists of labels to offer annotators, and compare them with uniform labels.

    Example: naysay design --classes cat,dog,owl,fox --offered 3 --out task
    """
    from naysay.design import ANY_WRONG, FIRST_WRONG, propose
    from naysay.design.scheme import check_scheme_folder
    from naysay.workflows.files import read_classes, read_prior

    if out is not None:
        check_scheme_folder(out)  # before the computation
    n_classes, names = read_classes(classes)
    instruction = FIRST_WRONG if in_order else ANY_WRONG
    scheme = propose(
        n_classes,
        offered,
        prior=prior and read_prior(prior, names or list(map(str, range(n_classes)))),
        classes=names,
        instruction=instruction,
        n_groups=groups,
        seed=seed,
    )
    diagnosis = scheme.diagnose()
    if out is not None:
        scheme.write(out)
    listed = [
        {"group": name, "share": float(share), "offered": list(labels)}
        for share, (name, labels) in zip(scheme.shares, scheme.groups.items(), strict=True)
    ]
    if as_json:
        figures = {"instruction": instruction.text, "groups": listed}
        output.print_json({**figures, "diagnosis": diagnosis.to_dict()})
        return
    table = Table("group", "share", "labels to offer", box=box.SIMPLE_HEAD)
    for each in listed[:_MOST_ROWS]:
        table.add_row(each["group"], f"{each['share']:.1%}", ", ".join(each["offered"]))
    if len(listed) > _MOST_ROWS:
        table.add_row(f"… and {len(listed) - _MOST_ROWS:,} more")
    Console().print(table)
    say(f"Tell annotators: {instruction.text}\n")
    say(f"{diagnosis}\n")
    if out is None:
        say("Next: add --out FOLDER to write the lists and their matrices.")
        return
    say(
        f"Next: put each example into a group at random, by the shares in {out / 'lists.csv'}. "
        "Record the group and the answer in the table of examples, then:\n"
        f"naysay fit TABLE --label ANSWER --annotator GROUP --transition {out} --out model"
    )
