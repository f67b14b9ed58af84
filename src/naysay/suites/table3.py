"""Table 3: CIFAR-10, ResNet-18, three settings, five trials."""

from naysay.experiments.suite import Suite
from naysay.suites._cells import make_cells
from naysay.suites._recipes import CIFAR10

__all__ = ["SUITE"]

SUITE = Suite(
    name="table3",
    title="Table 3: CIFAR-10",
    about="ResNet-18. LM/T is told the matrix that draws the labels, LM/E estimates it.",
    published_trials=5,
    cells=make_cells(
        {
            "TL": {"uniform": "90.78", "without0": "90.78", "with0": "90.78"},
            "PC/S": {
                "uniform": "41.19 ± 0.04",
                "without0": "42.97 ± 3.00",
                "with0": "18.12 ± 1.45",
            },
            "LM/T": {
                "uniform": "73.38 ± 1.06",
                "without0": "78.80 ± 0.45",
                "with0": "85.32 ± 1.11",
            },
            "LM/E": {
                "uniform": "42.96 ± 0.76",
                "without0": "70.56 ± 0.34",
                "with0": "84.60 ± 0.14",
            },
        },
        tasks={
            setting: {"dataset": "cifar-10", "setting": setting}
            for setting in ("uniform", "without0", "with0")
        },
    ),
    recipes=CIFAR10,
)
