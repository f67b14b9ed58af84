"""Table 5: MNIST with the matrix without inverse that the paper prints."""

from naysay.experiments.suite import Suite
from naysay.suites._cells import MNIST_TL, make_cells
from naysay.suites._recipes import MNIST

__all__ = ["SUITE"]

SUITE = Suite(
    name="table5",
    title="Table 5: MNIST, a matrix without inverse",
    about="The matrix printed in the paper, rank 9; the second row is with0 of Table 2.",
    published_trials=5,
    cells=make_cells(
        {
            "non-invertible": {
                "TL": MNIST_TL,
                "LM/T": "98.65 ± 0.01",
                "LM/E": "98.60 ± 0.01",
            },
            "invertible": {
                "TL": MNIST_TL,
                "LM/T": "98.63 ± 0.05",
                "LM/E": "98.61 ± 0.05",
            },
        },
        methods_in="columns",
        tasks={
            "non-invertible": {"dataset": "mnist", "setting": "non-invertible"},
            "invertible": {"dataset": "mnist", "setting": "with0"},
        },
    ),
    recipes=MNIST,
)
