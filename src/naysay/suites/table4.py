"""Table 4: CIFAR-100 (ResNet-34) and Tiny ImageNet (ResNet-18), with0, five trials."""

from dataclasses import replace

from naysay.experiments.suite import Suite
from naysay.suites._cells import make_cells
from naysay.suites._recipes import CIFAR10, DRAWN, ONE_CYCLE, REFINED

__all__ = ["SUITE"]

_TINY = "*Tiny ImageNet"
_PAPER, _BEST, _QUICK = (CIFAR10[name] for name in ("paper", "best", "quick"))

SUITE = Suite(
    name="table4",
    title="Table 4: CIFAR-100 and Tiny ImageNet",
    about="Each class is answered with 5 labels only (with0). ResNet-34 and ResNet-18.",
    published_trials=5,
    cells=make_cells(
        {
            "TL": {"CIFAR-100": "69.55", "Tiny ImageNet": "63.26"},
            "PC/S": {"CIFAR-100": "8.95 ± 1.47", "Tiny ImageNet": "N/A"},
            "LM/T": {"CIFAR-100": "62.84 ± 0.30", "Tiny ImageNet": "52.71 ± 0.71"},
            "LM/E": {"CIFAR-100": "60.27 ± 0.28", "Tiny ImageNet": "49.70 ± 0.78"},
        },
        tasks={
            "CIFAR-100": {"dataset": "cifar-100", "setting": "with0-5"},
            "Tiny ImageNet": {
                "dataset": "tiny-imagenet",
                "setting": "with0-5",
                "not_run": "Tiny ImageNet was not at hand.",
            },
        },
    ),
    recipes={
        "paper": replace(
            _PAPER,
            options={**_PAPER.options, "network": "ResNet34"},
            where={
                _TINY: {
                    "network": "ResNet18-unpadded",
                    "lr": 0.1,
                    "batch_size": 256,
                    "steps": [20_000, 40_000],
                    "iterations": 60_000,
                }
            },
            deviations=(
                *_PAPER.deviations,
                "Tiny ImageNet: 60,000 iterations at most, as for MNIST; the paper does not say.",
            ),
        ),
        "best": replace(
            _BEST,
            options={**_BEST.options, "network": "ResNet34-mirrored", "compile": False},
            where={
                "LM*": {"method": "two-views", "restarts": 0},
                "LM/E*": {"refine": True, "estimation_epochs": 20},
                _TINY: {"network": "ResNet18-unpadded", "batch_size": 256, "lr": 0.1},
            },
            trials=5,
            first_trial=0,
            deviations=(
                ONE_CYCLE,
                "LM learns from two views of each image: the target of both is the mean of what "
                "they make of the label (method two-views, ours).",
                "A prediction is the mean over an image and its mirror image.",
                REFINED,
                *DRAWN,
                "Tiny ImageNet keeps the paper's batch of 256 and learning rate of 0.1 (the peak).",
            ),
        ),
        "quick": replace(
            _QUICK,
            options={**_QUICK.options, "n_train": 10_000},
            seconds=20,
        ),
    },
)
