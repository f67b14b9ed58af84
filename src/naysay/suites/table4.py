"""Table 4: CIFAR-100 (ResNet-34) and Tiny ImageNet (ResNet-18), with0, five trials."""

from dataclasses import replace

from naysay.experiments.suite import Suite
from naysay.suites._cells import make_cells
from naysay.suites._recipes import CIFAR10, QUICK_IMAGES

__all__ = ["SUITE"]

_TINY = "*Tiny ImageNet"
_PAPER, _BEST = CIFAR10["paper"], CIFAR10["best"]

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
                    "network": "TinyImageNetResNet18",
                    "lr": 0.1,
                    "batch_size": 256,
                    # 352 iterations are one epoch: after 20,000 and 40,000 of 60,000
                    "steps": [[57, 0.1], [114, 0.1]],
                    "epochs": 171,
                }
            },
            deviations=(
                *_PAPER.deviations,
                "Tiny ImageNet: the learning rate falls after 57 and 114 epochs, which are the "
                "paper's 20,000 and 40,000 iterations.",
            ),
        ),
        "best": replace(
            _BEST,
            options={**_BEST.options, "network": "ResNet34", "epochs": 60, "patience": 60},
            where={
                "LM/E*": {"refine": True},
                "PC/S*": {"views": 1},
                "TL*": {"views": 1},
                _TINY: {"network": "TinyImageNetResNet18", "batch_size": 256, "lr": 0.1},
            },
        ),
        "quick": replace(
            QUICK_IMAGES,
            options={
                **QUICK_IMAGES.options,
                "n_train": 20_000,
            },
            trials=1,
        ),
    },
)
