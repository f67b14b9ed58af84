"""``naysay check``: estimate the accuracy of a model, and find problems, without true labels."""

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
    annotator: Annotated[str | None, typer.Option(help="Column of annotators.")] = None,
    example_id: Annotated[
        str | None,
        typer.Option(
            "--id", help="Column of example ids; rows with the same id are about one example."
        ),
    ] = None,
    true_label: Annotated[
        str | None, typer.Option(help="Column of true classes, which is not a feature.")
    ] = None,
    images: Images = None,
    separator: Annotated[str, typer.Option(help="Separator of several labels in one cell.")] = "|",
    delimiter: Delimiter = None,
    decimal: Decimal = ".",
    transition: Annotated[
        Path | None,
        typer.Option(
            metavar="Q.csv|FOLDER",
            help="Transition matrix of these answers, or a folder with one ANNOTATOR.csv per "
            "annotator. By default that of the model.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Estimate the accuracy of a model from complementary labels, and find problems.

    Use labels that the model was not trained on. True labels are neither needed nor used.

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
        result = check_file(
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
    typer.echo(json.dumps(result.to_dict(), ensure_ascii=False) if as_json else str(result))
