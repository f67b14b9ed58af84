"""How a spec is trained through the classifier, and what its options mean."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from naysay import networks, training
from naysay._base.errors import InvalidInput
from naysay.classifier import ComplementaryClassifier
from naysay.experiments.data import RunData
from naysay.experiments.spec import RunSpec
from naysay.networks import MLP
from naysay.training import schedules
from naysay.training.augmentation import compose, crop, cutout, distort, flip, recolour
from naysay.transition import TransitionMatrix

__all__ = [
    "Outcome",
    "believed",
    "classifier_arguments",
    "told",
    "train_one",
    "unknown_options",
    "wants_compiled",
]

#: What the names in a spec mean. Networks are also known by the name of their class.
_NETWORKS = {
    **networks.NETWORKS,
    "d-3-c": partial(MLP, widths=(3,), dropout=0.0),
    "d-100-c": partial(MLP, widths=(100,), dropout=0.0),
    "ResNet18-unpadded": partial(networks.ResNet18, stem_padding=0),
    "ResNet18-mirrored": partial(networks.ResNet18, mirrored=True),
    "ResNet34-mirrored": partial(networks.ResNet34, mirrored=True),
}
_OPTIMISERS = {"adamw": training.adamw, "adam": training.adam, "sgd": training.sgd}
_SCHEDULES = {name: getattr(schedules, name) for name in ("constant", "cosine", "one_cycle")}
_CROP_FLIP = compose(partial(crop, padding=4), flip)
_AUGMENTATIONS = {
    "crop2": partial(crop, padding=2),
    "crop4-flip": _CROP_FLIP,
    "weak/strong": (
        _CROP_FLIP,
        compose(_CROP_FLIP, distort, recolour, partial(cutout, size=16)),
    ),
}
_NAMED = {
    "network": _NETWORKS,
    "optimiser": _OPTIMISERS,
    "schedule": _SCHEDULES,
    "augment": _AUGMENTATIONS,
}

#: Options that go to the parameter of the same name, and those that are translated.
_SAME = {
    *("epochs", "estimation_epochs", "batch_size", "lr", "weight_decay"),
    *("match_prior", "max_norm", "patience", "restarts"),
}
_TRANSLATED = {*_NAMED, "iterations", "steps", "grid", "refine", "compile"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a training gave, before it is written down."""

    accuracy: float
    seconds: float
    history: list[dict[str, float]]
    predictions: NDArray[np.int64]
    transition: TransitionMatrix | None = None  # what the method took for Q
    matrices: Mapping[str, TransitionMatrix] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def held_out_loss(self) -> float | None:
        """The loss on held-out labels of the network that was kept."""
        losses = [record["held_out_loss"] for record in self.history if "held_out_loss" in record]
        return min(losses, default=None)


def classifier_arguments(spec: RunSpec, n_samples: int) -> dict[str, Any]:
    """Return the parameters of `ComplementaryClassifier` that a spec means.

    The one place where options are read. ``network``, ``optimiser``, ``schedule`` and ``augment``
    are names; ``iterations`` are turned into epochs; ``steps`` are where the learning rate is
    divided by 10, counted in iterations where those are given, else in epochs.
    """
    unknown = unknown_options(spec)
    if unknown:
        raise InvalidInput(
            "The training loop must know every option of a run; it has none for "
            f"{', '.join(unknown)}. Choose another --recipe."
        )
    options = spec.options
    arguments = {name: value for name, value in options.items() if name in _SAME}
    arguments |= {name: known[options[name]] for name, known in _NAMED.items() if name in options}
    if "iterations" in options:
        # the classifier holds a tenth of the examples out
        per_epoch = math.ceil(0.9 * n_samples / options["batch_size"])
        arguments["epochs"] = math.ceil(options["iterations"] / per_epoch)
    if "steps" in options:
        length = options.get("iterations") or options["epochs"]
        arguments["schedule"] = schedules.steps([at / length for at in options["steps"]])
    return arguments


def unknown_options(spec: RunSpec) -> list[str]:
    """Return the options, with their values, that this version cannot train with."""
    return [
        f"{name}={value!r}"
        for name, value in spec.options.items()
        if name not in _SAME | _TRANSLATED or (name in _NAMED and value not in _NAMED[name])
    ]


def told(spec: RunSpec, data: RunData) -> tuple[NDArray[np.int64], TransitionMatrix | None]:
    """Return the labels that a method learns from, and the matrix it is told, if it is."""
    if spec.knows == "true labels":
        # "the label given is the true class", so the same losses learn from true labels
        return data.y, TransitionMatrix(np.eye(data.n_classes), allow_diagonal=True)
    if spec.knows == "estimated Q":
        return data.comp_labels, None
    uniform = TransitionMatrix.uniform(data.n_classes)
    return data.comp_labels, uniform if spec.knows == "no Q" else data.Q


def believed(spec: RunSpec, data: RunData, used: TransitionMatrix) -> TransitionMatrix | None:
    """Return the matrix that was used, where complementary labels can be judged by it.

    A method without Q could only take labels for uniform, and may be wrong in that.
    """
    if spec.knows == "true labels":
        return None
    is_right_to = spec.knows != "no Q" or (data.Q is not None and data.Q.is_uniform)
    return used if is_right_to else None


def wants_compiled(spec: RunSpec, device: torch.device) -> bool:
    """Whether to compile the network; on a CPU it would take longer than it saves."""
    return bool(spec.options.get("compile", False)) and device.type == "cuda"


def train_one(spec: RunSpec, data: RunData, *, device: torch.device) -> Outcome:
    """Train and test one spec through `ComplementaryClassifier`."""
    start = time.perf_counter()
    arguments = classifier_arguments(spec, len(data.X))
    labels, Q = told(spec, data)
    clf = ComplementaryClassifier(
        **arguments,
        method=spec.method,
        transition="estimate" if Q is None else Q,
        classes=range(data.n_classes) if Q is None else None,
        learn_from_anchors=False,
        refine=bool(spec.options.get("refine", False)),
        compile=wants_compiled(spec, device),
        device=device,
        random_state=spec.trial,
    )
    anchors = (data.X[data.anchors], data.y[data.anchors]) if Q is None else None
    clf.fit(data.X, labels, anchors=anchors)
    predictions = np.asarray(clf.predict(data.X_test)).astype(np.int64)
    matrices = {}
    if clf.habit_ is not None:
        matrices["estimated"] = clf.habit_.from_anchors
        if spec.options.get("refine"):
            matrices["refined"] = clf.habit_.transition
    return Outcome(
        accuracy=float((predictions == data.y_test).mean()),
        seconds=time.perf_counter() - start,
        history=clf.history_,
        predictions=predictions,
        transition=believed(spec, data, clf.transition_),
        matrices=matrices,
    )
