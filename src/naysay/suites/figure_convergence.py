"""The convergence figure: CIFAR-10, LM/T, 5,000 to 50,000 training examples."""

from dataclasses import replace

from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import Cell, Suite
from naysay.suites._cells import METHOD_FIELDS
from naysay.suites._recipes import CIFAR10, DRAWN, ONE_CYCLE

__all__ = ["SIZES", "SUITE"]

_TOLD = "LM is told the true matrix; the paper does not say whether it estimated it."

SIZES = tuple(range(5_000, 50_001, 5_000))

SUITE = Suite(
    name="figure-convergence",
    title="Figure: accuracy and the number of examples",
    about=(
        "CIFAR-10, LM told the true matrix: the same accuracy needs fewer examples when labels are "
        "biased (with0) than when they are uniform. The paper prints a picture, no numbers."
    ),
    kind="curve",
    cells=tuple(
        Cell(
            row=f"{size:,}",
            column=setting,
            spec=RunSpec(
                dataset="cifar-10",
                recipe="",
                setting=setting,
                n_train=None if size == SIZES[-1] else size,  # all of them
                **METHOD_FIELDS["LM/T"],
            ),
        )
        for size in SIZES
        for setting in ("uniform", "with0")
    ),
    recipes={
        "paper": replace(CIFAR10["paper"], deviations=(*CIFAR10["paper"].deviations, _TOLD)),
        "best": replace(
            CIFAR10["best"],
            options={**CIFAR10["best"].options, "compile": False},
            where={},
            trials=5,
            first_trial=0,
            deviations=(
                ONE_CYCLE,
                "30 epochs of LM for every number of examples, without the two views and the many "
                "epochs of Table 3, so that ten sizes do not take several times as long.",
                _TOLD,
                *DRAWN,
            ),
        ),
        "quick": replace(
            CIFAR10["quick"],
            seconds=5,
            where={f"{size:,}": {"n_train": size // 10} for size in SIZES},
            deviations=(*CIFAR10["quick"].deviations, "A tenth of the examples of each point."),
        ),
    },
)
