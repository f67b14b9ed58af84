"""Suites that the paper does not have: real labels, matrices of other annotators, all methods."""

from dataclasses import replace
from typing import Any

from naysay.experiments.spec import RunSpec
from naysay.experiments.suite import METHOD_FIELDS, Cell, Suite, TrainingRecipe
from naysay.experiments.suites.cifar import CIFAR10, ONE_CYCLE, TABLE4
from naysay.experiments.suites.mnist import DRAWN

_BEST, _QUICK = CIFAR10["best"], CIFAR10["quick"]
_ERRS = {"LM/*": {"allow_diagonal": True}}  # annotators exclude some true classes
#: How the true classes of the anchors are learned: an eighth of what an epoch shows is anchors.
_FROM_ANCHORS = {
    "*anchors*": {"learn_from_anchors": 70},
    "anchors*": {**_BEST.where["LM*"], "learn_from_anchors": 70, "match_prior": 0},
}
_QUICKLY = {"*anchors*": {"learn_from_anchors": 20}}
_ABOUT_ANCHORS = (
    "Rows with anchors in their name also learn from the true classes of the 10 anchors per class, "
    "which an epoch shows 70 times each: from nothing else, or from all images besides, which then "
    "have no label, or from the complementary labels too."
)
_TRIAL = "One trial, 0. The training was developed on trials 0 and 1 of Table 3, with other labels."


def _cell(row: str, column: str, **fields: Any) -> Cell:
    fields = {"dataset": "cifar-10", **fields, **METHOD_FIELDS[row]}
    if fields["setting"] == "none":
        fields.pop("labels", None)
    return Cell(row=row, column=column, spec=RunSpec(recipe="", **fields))


REAL_LABELS = Suite(
    name="real-labels",
    title="Real labels: CIFAR-10",
    about=(
        "A vision-language model gave up to nine complementary labels to each training image "
        "(ACLCIFAR-10). They depend on the image beyond its class, so that no matrix is true. LM/T "
        "uses the matrix counted with the true classes, LM/E estimates one. TL is in Table 3."
    ),
    in_paper=False,
    cells=tuple(
        _cell(row, f"{n} {'label' if n == 1 else 'labels'}", setting="aclcifar10", labels=n)
        for row in ("LM/T", "LM/E", "LM/E + anchors", "anchors", "anchors + images")
        for n in (1, 3, 9)
    ),
    recipes={
        "best": replace(
            _BEST,
            where={**_BEST.where, **_ERRS, **_FROM_ANCHORS},
            trials=1,
            first_trial=0,
            deviations=(_TRIAL, *_BEST.deviations[1:], _ABOUT_ANCHORS),
        ),
        "quick": replace(
            _QUICK,
            options={name: value for name, value in _QUICK.options.items() if name != "n_train"},
            where={**_ERRS, **_QUICKLY},
            seconds=60,
        ),
    },
)

ANCHORS = Suite(
    name="anchors",
    title="What complementary labels add: CIFAR-10",
    about=(
        "The 10 anchors per class from which LM/E estimates Q are true labels. These rows show how "
        "far they lead alone, and together with images that have no label. LM/E is that of Table 3."
    ),
    in_paper=False,
    cells=tuple(
        _cell(row, setting, setting=setting)
        for row in ("LM/E", "LM/E + anchors", "anchors", "anchors + images")
        for setting in ("uniform", "without0", "with0")
    ),
    recipes={
        "best": replace(
            _BEST,
            where={**_BEST.where, **_FROM_ANCHORS},
            trials=1,
            deviations=("One trial, 2.", *_BEST.deviations[1:], _ABOUT_ANCHORS),
        ),
        "quick": replace(_QUICK, where=_QUICKLY),
    },
)

HABITS = Suite(
    name="habits",
    title="Matrices of other annotators",
    about=(
        "Labels drawn with published matrices: of the people who labelled CIFAR-10 (CLCIFAR-10 as "
        "released, three labels of each image, 4 % mistakes), and of a vision-language model for "
        "CIFAR-100 and Tiny ImageNet. TL is in Tables 3 and 4."
    ),
    in_paper=False,
    cells=tuple(
        _cell(row, column, **fields)
        for row in ("LM/T", "LM/E")
        for column, fields in {
            "CIFAR-10, people": {"setting": "human", "labels": 3},
            "CIFAR-100, model": {"dataset": "cifar-100", "setting": "llava"},
            "Tiny ImageNet, model": {"dataset": "tiny-imagenet", "setting": "llava"},
        }.items()
    ),
    recipes={
        "best": replace(
            _BEST,
            options=TABLE4.recipe("best").options,
            where={
                **TABLE4.recipe("best").where,
                "LM/?, CIFAR-10,*": {**_BEST.where["LM*"], "compile": True},
                **_ERRS,
            },
            trials=1,
            first_trial=0,
            deviations=(
                _TRIAL,
                "CIFAR-10 is learned as in Table 3, CIFAR-100 and Tiny ImageNet as in Table 4.",
                *DRAWN,
            ),
        ),
        "quick": replace(_QUICK, where=_ERRS, seconds=20),
    },
)

# As in naysay.methods, which loads torch.
_WITH_MATRIX = (
    *("forward", "forward-mse", "forward-mae", "forward-gce", "backward", "nn", "ga"),
    *("cpe-i", "cpe-f", "cpe-t", "pocr", "two-views", "weak-to-strong"),
)
_WITHOUT_MATRIX = (
    *("pc", "ova", "pl", "ml", "free", "scl-nl", "scl-exp", "mcl-mae", "mcl-exp", "mcl-log"),
    *("l-uw", "l-w", "op", "op-w", "scarce"),
)
_VIEWS = {"weak-to-strong": {"augment": "weak/strong"}}

ALL_METHODS = Suite(
    name="methods",
    title="All methods: CIFAR-10",
    about=(
        "Every method of naysay with ResNet-18 and the same 20 epochs. Methods that use the matrix "
        "have the true one. Weights are chosen by the loss on held-out complementary labels."
    ),
    in_paper=False,
    cells=tuple(
        Cell(
            row=name,
            column=setting,
            spec=RunSpec(recipe="", dataset="cifar-10", setting=setting, method=name, knows=knows),
        )
        for knows, names in (("true Q", _WITH_MATRIX), ("no Q", _WITHOUT_MATRIX))
        for name in names
        for setting in ("uniform", "without0", "human")
    ),
    recipes={
        "best": TrainingRecipe(
            options={**_BEST.options, "epochs": 20, "patience": 20},
            where=_VIEWS,
            trials=1,
            deviations=("One trial, 0.", ONE_CYCLE, *DRAWN),
        ),
        "quick": replace(_QUICK, where=_VIEWS),
    },
)
