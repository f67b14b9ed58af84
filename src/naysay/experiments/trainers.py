"""How a spec is trained: one by one through the classifier, or a group of small networks."""

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from naysay import networks, schedules, training
from naysay._errors import InvalidInput
from naysay.augmentation import compose, crop, cutout, flip
from naysay.classifier import ComplementaryClassifier
from naysay.datasets.tasks import split_validation
from naysay.ensemble import Member, fit_many
from naysay.experiments.data import RunData
from naysay.experiments.spec import RunSpec
from naysay.methods import Setting, find_method
from naysay.networks import MLP
from naysay.transition import TransitionMatrix

__all__ = ["Outcome", "train_group", "train_one", "unknown_options"]

#: What the names in a spec mean. Networks are also known by the name of their class.
_NETWORKS = {
    **networks.NETWORKS,
    "d-3-c": partial(MLP, widths=(3,), dropout=0.0),
    "d-100-c": partial(MLP, widths=(100,), dropout=0.0),
    "ResNet18-unpadded": partial(networks.ResNet18, stem_padding=0),
}
_OPTIMISERS = {"adamw": training.adamw, "adam": training.adam, "sgd": training.sgd}
_SCHEDULES = {name: getattr(schedules, name) for name in ("constant", "cosine", "one_cycle")}
_AUGMENTATIONS = {
    "crop2": partial(crop, padding=2),
    "crop4-flip": compose(partial(crop, padding=4), flip),
    "crop4-flip-cutout8": compose(partial(crop, padding=4), flip, partial(cutout, size=8)),
}
_NAMED = {
    "network": _NETWORKS,
    "optimiser": _OPTIMISERS,
    "schedule": _SCHEDULES,
    "augment": _AUGMENTATIONS,
}

#: Options that go to the parameter of the same name, and those that are translated.
_SAME = {"epochs", "batch_size", "lr", "weight_decay", "max_norm", "patience", "restarts"}
_TRANSLATED = {*_NAMED, "iterations", "steps", "grid", "refine"}

_NEVER = 10**9  # epochs of patience: the grid is chosen at the end


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


def train_one(spec: RunSpec, data: RunData, *, device: torch.device) -> Outcome:
    """Train and test one spec through `ComplementaryClassifier`."""
    start = time.perf_counter()
    arguments = classifier_arguments(spec, len(data.X))
    given, transition, anchors = data.comp_labels, cast("Any", data.Q), None
    if spec.knows == "true labels":
        given = data.y
        # "the label given is the true class", so the same classifier learns from true labels
        transition = TransitionMatrix(np.eye(data.n_classes), allow_diagonal=True)
    elif spec.knows == "estimated Q":
        transition, anchors = "estimate", (data.X[data.anchors], data.y[data.anchors])
    elif spec.knows == "no Q":
        transition = TransitionMatrix.uniform(data.n_classes)
    classes = None if isinstance(transition, TransitionMatrix) else range(data.n_classes)
    clf = ComplementaryClassifier(
        **arguments,
        method=spec.method,
        transition=transition,
        classes=classes,
        learn_from_anchors=False,
        refine=bool(spec.options.get("refine", False)),
        device=device,
        random_state=spec.trial,
    )
    clf.fit(data.X, given, anchors=anchors)
    predictions = np.asarray(clf.predict(data.X_test)).astype(np.int64)
    matrices = {}
    if clf.habit_ is not None:
        matrices["estimated"] = clf.habit_.from_anchors
        if spec.options.get("refine"):
            matrices["refined"] = clf.habit_.transition
    # a method without Q could only take labels for uniform, and may be wrong in that
    believed = None if spec.knows == "true labels" else clf.transition_
    is_right_to = spec.knows != "no Q" or (data.Q is not None and data.Q.is_uniform)
    return Outcome(
        accuracy=float((predictions == data.y_test).mean()),
        seconds=time.perf_counter() - start,
        history=clf.history_,
        predictions=predictions,
        transition=believed if is_right_to else None,
        matrices=matrices,
    )


def train_group(
    specs: Sequence[RunSpec], datas: Sequence[RunData], *, device: torch.device
) -> list[Outcome]:
    """Train the trials of one experiment, each with every value of its grid, and choose.

    Of each trial the network with the least loss on held-out complementary labels is kept, the
    method's own loss. All networks are trained at once; where that is not possible, because a
    learning rate lets a loss grow beyond all bounds for instance, one after another.
    """
    start = time.perf_counter()
    grids = [_members(spec, data, device) for spec, data in zip(specs, datas, strict=True)]
    try:
        found = fit_many([member for grid in grids for member in grid])
    except InvalidInput:
        grids = [_members(spec, data, device) for spec, data in zip(specs, datas, strict=True)]
        found = [_fit_alone(member) for grid in grids for member in grid]
    histories = iter(found)
    trained = [(grid, [next(histories) for _ in grid]) for grid in grids]
    seconds = (time.perf_counter() - start) / len(specs)
    return [
        _choose(spec, data, grid, own, seconds)
        for spec, data, (grid, own) in zip(specs, datas, trained, strict=True)
    ]


def _members(spec: RunSpec, data: RunData, device: torch.device) -> list[Member]:
    """Return what is to be trained in one trial: a network for every setting of the grid."""
    if data.Q is None or spec.knows not in ("true Q", "no Q"):
        raise InvalidInput("A grid is chosen on complementary labels, with Q known or not used.")
    method = find_method(spec.method)
    common = classifier_arguments(spec, len(data.X))
    make_network = common.pop("network")
    train_at, held_out_at = split_validation(len(data.X), seed=spec.trial)
    inputs = torch.as_tensor(data.X, device=device)
    labels = torch.as_tensor(data.comp_labels, device=device)
    examples = training.Examples(inputs[train_at], labels[train_at])
    held_out = training.Examples(inputs[held_out_at], labels[held_out_at])
    members = []
    for number, setting in enumerate(combinations(spec.options["grid"])):
        seed = 1000 * spec.trial + number
        options = training.Options(**{"patience": _NEVER, **common, **setting}, seed=seed)
        with training.seeded(seed, device):
            network = make_network(data.X.shape[1:], data.n_classes).to(device)
        loss = method.make_loss(Setting(Q=data.Q)).to(device)
        members.append(
            Member(
                network=network, examples=examples, loss=loss, options=options, held_out=held_out
            )
        )
    return members


def _fit_alone(member: Member) -> list[dict[str, float]] | None:
    """Train one network; nothing where its loss grows beyond all bounds."""
    try:
        return training.fit(
            member.network, member.examples, member.loss, member.options, held_out=member.held_out
        )
    except InvalidInput:
        return None


def _choose(
    spec: RunSpec,
    data: RunData,
    members: Sequence[Member],
    histories: Sequence[list[dict[str, float]] | None],
    seconds: float,
) -> Outcome:
    """Return the outcome of the member with the least loss on held-out complementary labels."""
    settings = combinations(spec.options["grid"])
    best = min(
        (
            (min(record["held_out_loss"] for record in history), number)
            for number, history in enumerate(histories)
            if history is not None
        ),
        default=None,
    )
    if best is None:
        raise InvalidInput("Every setting of the grid let the loss grow beyond all bounds.")
    number = best[1]
    device = members[number].examples.device
    logits = training.predict_logits(
        members[number].network, torch.as_tensor(data.X_test, device=device)
    )
    predictions = logits.argmax(1).cpu().numpy()
    return Outcome(
        accuracy=float((predictions == data.y_test).mean()),
        seconds=seconds,
        history=histories[number] or [],
        predictions=predictions,
        transition=data.Q,
        chosen=settings[number],
    )


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return every combination of values.

    Examples
    --------
    >>> combinations({"lr": [0.1, 0.01], "weight_decay": [0]})
    [{'lr': 0.1, 'weight_decay': 0}, {'lr': 0.01, 'weight_decay': 0}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
