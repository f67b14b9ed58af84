"""``naysay export``: export a model for programs without naysay."""

from pathlib import Path

import typer

from naysay._base.progress import waiting
from naysay.cli import options, output


def export(
    model: options.Model,
    out: Path = typer.Option(
        metavar="FILE", help="File to write; .onnx or .pt2 decides the format."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Export a model to ONNX or torch.export; it takes raw columns or pixels.

    Example:

        naysay data example flowers.csv

        naysay fit flowers.csv --label not --true-label is --out flowers-model

        naysay export flowers-model --out flowers.pt2
    """
    from naysay._base.files import check_target

    check_target(out, usual="model.onnx")  # before the computation

    from naysay.classifier import ComplementaryClassifier
    from naysay.workflows.export import describe_input
    from naysay.workflows.export import export as write

    loaded = ComplementaryClassifier.load(model, device="cpu")
    with waiting(f"naysay export: {out}"):
        write(loaded, out)
    about = describe_input(loaded)
    text = f"{out}: its input is {about['input']}."
    output.print_result({**about, "out": str(out)}, text, as_json=as_json, indent=1)
