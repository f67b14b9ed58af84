"""``naysay check``: how good a model is, and what looks wrong, without true labels."""

import json
from pathlib import Path
from typing import Annotated

import typer

from naysay._base.progress import waiting
from naysay.cli._reading import DataFile, Decimal, Delimiter, Images


def check(
    model: Annotated[Path, typer.Argument(help="Folder of a saved model.")],
    data: DataFile,
    label: Annotated[
        str | None, typer.Option(help="Column of complementary labels (needed for tables).")
    ] = None,
    annotator: Annotated[str | None, typer.Option(help="Column that says who answered.")] = None,
    example_id: Annotated[
        str | None,
        typer.Option("--id", help="Column that says which rows are about the same example."),
    ] = None,
    true_label: Annotated[
        str | None, typer.Option(help="Column of true classes, which is then no feature.")
    ] = None,
    images: Images = None,
    separator: Annotated[
        str, typer.Option(help="What stands between several labels in one cell.")
    ] = "|",
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    transition: Annotated[
        Path | None,
        typer.Option(
            metavar="Q.csv|FOLDER",
            help="Matrix of these answers, or a folder with one ANNOTATOR.csv each; the model's "
            "if left out.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate a model's accuracy from complementary labels, and say what looks wrong.

    Use answers that the model was not trained on. No true label is needed or used.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay data example new.csv --seed 1

        naysay check flowers-model new.csv --label not --true-label is
    """
    from naysay.classifier import ComplementaryClassifier
    from naysay.workflows.check import check_file
    from naysay.workflows.files import check_order_known, read_transition

    matrices = None
    if transition is not None:
        matrices = read_transition(transition, allow_diagonal=True)
    with waiting(f"naysay check: {data}"):
        clf = ComplementaryClassifier.load(model)
        if matrices is not None and transition is not None:
            check_order_known(matrices, list(map(str, clf.classes_)), transition)
        found = check_file(
            clf,
            data,
            transition=matrices,
            label=label,
            annotator=annotator,
            example_id=example_id,
            true_label=true_label,
            images=images,
            separator=separator,
            delimiter=delimiter,
            decimal=decimal,
        )
    typer.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found))
