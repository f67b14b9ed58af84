"""A result of the demo, made by hand: nothing is trained."""

import dataclasses

import numpy as np

from naysay import TransitionMatrix
from naysay.workflows.demo import DemoExample, DemoResult, DemoRun

NAMES = ("TL", "PC/S", "LM/T", "LM/E", "anchors alone")


CANDIDATES = [
    {"name": "kernel", "weight": 0.95},
    {"name": "trees", "weight": 0.05},
    {"name": "linear", "weight": 0.0},
]


def make_run(name, accuracy, q_error=None, n_epochs=30, candidates=()):
    history = [
        {
            "epoch": epoch,
            "loss": 2.3 / epoch,
            "held_out_loss": 2.3 / epoch + 0.001 * epoch**2,
            "seconds": 0.01,
        }
        for epoch in range(1, n_epochs + 1)
    ]
    return DemoRun(
        name=name,
        title=f"title of {name}",
        learned_from=f"labels for {name}",
        accuracy=accuracy,
        seconds=1.5,
        q_error=q_error,
        history=history,
        candidates=candidates,
    )


def make_result(classes=None, **changes):
    true = TransitionMatrix(np.asarray(TransitionMatrix.with_zeros(10, seed=3)), classes)
    estimated = TransitionMatrix(np.asarray(TransitionMatrix.without_zeros(10, seed=4)), classes)
    image = np.zeros((8, 8))
    image[2:6, 3] = 16.0
    examples = [
        DemoExample(image=image, comp_label=7, label=1, predicted=1, probability=0.971),
        DemoExample(image=image, comp_label=8, label=1, predicted=4, probability=0.9999),
    ]
    result = DemoResult(
        setting="with0",
        seed=11,
        n_train=1347,
        n_test=450,
        n_anchors=10,
        true_transition=true,
        estimated_transition=estimated,
        runs=[
            make_run("TL", 0.9756),
            make_run("PC/S", 0.0511),
            make_run("LM/T", 0.9378, n_epochs=20),
            make_run("LM/E", 0.9489, q_error=0.1975, n_epochs=25, candidates=CANDIDATES),
            make_run("anchors alone", 0.9022, n_epochs=0),
        ],
        examples=examples,
        seconds=7.4,
    )
    return dataclasses.replace(result, **changes)
