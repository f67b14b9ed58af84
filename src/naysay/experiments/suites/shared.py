"""What recipes of several suites share: deviations from the paper, and a quick recipe."""

from naysay.experiments.suite import TrainingRecipe

#: Deviations of all recipes that draw matrices, labels and anchors.
DRAWN = (
    "The matrix, the labels, the anchors and the held-out examples are drawn anew in each trial "
    "(seed = number of the trial); the paper does not say whether its trials share a matrix.",
    "Labels are drawn again if some class is never named: the paper says that it could not be "
    "learned.",
    "The 10 anchors of each class are drawn at random; the paper picks easy examples by hand. "
    "Their true classes serve to estimate Q and nothing else.",
    "The weights kept are a moving average over about the last 100 steps, of the epoch with the "
    "least loss on held-out complementary labels.",
)
MOMENTUM = (
    "The momentum of 0.9 is Nesterov's. The paper cites Sutskever and others (2013), who describe "
    "both kinds, and does not say which."
)
_QUICK = (
    "A scaled-down run for two CPU cores: fewer examples, epochs and trials, a small network, "
    "AdamW. It shows the order of the methods, not their level.",
)
QUICK_SPEED = "two cores of a cloud machine"

QUICK_IMAGES = TrainingRecipe(
    options={
        "network": "MLP",
        "optimiser": "adamw",
        "schedule": "cosine",
        "n_train": 8_000,
        "n_test": 2_000,
        "epochs": 12,
        "batch_size": 128,
        "lr": 2e-3,
        "weight_decay": 1e-2,
        "patience": 12,
    },
    trials=2,
    deviations=(*_QUICK, *DRAWN),
    seconds=5,
    measured_on=QUICK_SPEED,
    comparable=False,
)
