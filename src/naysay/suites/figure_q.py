"""The heat maps: true and estimated matrices of MNIST, designed by hand."""

from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Cell, Suite
from naysay.suites._cells import METHOD_FIELDS
from naysay.suites._recipes import MNIST

__all__ = ["SUITE"]

SUITE = Suite(
    name="figure-q",
    title="Figures: the matrices, true and estimated",
    about=(
        "MNIST, LM/E, first trial. The paper shows pictures of the matrices designed by hand; "
        "those of Table 2 and the one without inverse are added. The runs are those of the tables."
    ),
    kind="matrices",
    cells=tuple(
        Cell(
            row=setting,
            column="LM/E",
            spec=RunSpec(dataset="mnist", recipe="", setting=setting, **METHOD_FIELDS["LM/E"]),
        )
        for setting in (
            "manual-without0",
            "manual-with0",
            "uniform",
            "without0",
            "with0",
            "non-invertible",
        )
    ),
    recipes=MNIST,
)
