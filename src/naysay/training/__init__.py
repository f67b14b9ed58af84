"""The training loop and its parts: batches, steps, schedules, augmentation and checkpoints."""

from naysay.training import augmentation, schedules
from naysay.training.batches import Examples
from naysay.training.early_stopping import EpochRecord
from naysay.training.loop import Loss, Options, fit, predict_logits, seeded
from naysay.training.step import MakeOptimiser, adam, adamw, sgd

__all__ = [
    "EpochRecord",
    "Examples",
    "Loss",
    "MakeOptimiser",
    "Options",
    "adam",
    "adamw",
    "augmentation",
    "fit",
    "predict_logits",
    "schedules",
    "seeded",
    "sgd",
]
