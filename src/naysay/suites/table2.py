"""Table 2: MNIST, LeNet-5, three settings, five trials."""

from naysay.experiments.suite import Suite
from naysay.suites._cells import MNIST_TL, make_cells
from naysay.suites._recipes import MNIST

__all__ = ["SUITE"]

SUITE = Suite(
    name="table2",
    title="Table 2: MNIST",
    about="LeNet-5. LM/T is told the matrix that draws the labels, LM/E estimates it.",
    published_trials=5,
    cells=make_cells(
        {
            "TL": {"uniform": MNIST_TL, "without0": MNIST_TL, "with0": MNIST_TL},
            "PC/S": {
                "uniform": "86.59 ± 3.99",
                "without0": "76.03 ± 3.34",
                "with0": "29.12 ± 1.94",
            },
            "LM/T": {
                "uniform": "97.18 ± 0.45",
                "without0": "97.65 ± 0.15",
                "with0": "98.63 ± 0.05",
            },
            "LM/E": {
                "uniform": "96.33 ± 0.31",
                "without0": "97.04 ± 0.31",
                "with0": "98.61 ± 0.05",
            },
        },
        tasks={
            setting: {"dataset": "mnist", "setting": setting}
            for setting in ("uniform", "without0", "with0")
        },
    ),
    recipes=MNIST,
)
