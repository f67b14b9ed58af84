"""``naysay estimate``: how annotators choose, from a few true labels."""

import json
import sys
import warnings
from typing import Annotated

import typer

from naysay.cli._reading import AsJson, DataFile, Reading, reads_data
from naysay.cli.fit import AnchorLabel, Anchors, Epochs, Seed


@reads_data
def estimate(
    data: DataFile,
    reading: Reading,
    anchors: Anchors = None,
    anchor_label: AnchorLabel = None,
    out: Annotated[
        str, typer.Option(metavar="Q.csv", help="CSV file to write; - is stdout.")
    ] = "-",
    epochs: Epochs = 100,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate Q, how annotators choose the class they exclude, from a few true labels.

    Example:

        naysay data example flowers.csv

        naysay estimate flowers.csv --label not --true-label is --out Q.csv
    """
    from naysay._errors import NaysayWarning
    from naysay._writing import check_target, replacing

    if out != "-":
        check_target(out, usual="Q.csv")  # before the work, not after it
    own = reading.read(data)
    known = None
    if anchors is not None:
        known = reading.read_anchors(anchors, own, true_label=anchor_label)

    from naysay.fitting import estimate_own  # loads torch

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NaysayWarning)
        Q = estimate_own(own, anchors=known, epochs=epochs, seed=seed, progress=True)
    for each in caught:
        typer.echo(f"warning: {each.message}", err=True)
    if out != "-":
        with replacing(out) as part:
            Q.write(part)
    if as_json:
        figures = {
            "classes": list(Q.classes),
            "transition": Q.entries.toarray().tolist(),
            "diagnosis": Q.diagnose().to_dict(),
            "out": None if out == "-" else out,
        }
        typer.echo(json.dumps(figures, indent=1, ensure_ascii=False))
    elif out == "-":
        Q.write(sys.stdout)
    else:
        typer.echo(f"{Q.diagnose()}\nThe matrix: {out}")
