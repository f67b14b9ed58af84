"""Train runs: one at a time with the classifier, or all trials of an experiment at once."""

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import ParameterGrid
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from naysay import networks, training
from naysay._base.errors import InvalidInput, NaysayWarning
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.trainer import Trainer, wants_bfloat16
from naysay.classifier.transition_estimate import predict_labels
from naysay.ensemble import Member, best_of, fit_many
from naysay.estimation import from_anchors
from naysay.experiments.spec import RunSpec
from naysay.experiments.tasks import RunData, split_validation
from naysay.losses.protocol import as_training_loss
from naysay.methods import Setting, find_method
from naysay.networks import MLP
from naysay.observations import Observations
from naysay.training import schedules
from naysay.training.augmentation import Augments, compose, crop, cutout, distort, flip, recolour
from naysay.training.step import OPTIMISERS
from naysay.transition import TransitionMatrix

#: Networks by their name in a spec.
_NETWORKS = {
    **networks.NETWORKS,
    "d-3-c": partial(MLP, widths=(3,), dropout=0.0),
    "d-100-c": partial(MLP, widths=(100,), dropout=0.0),
    "ResNet18-unpadded": partial(networks.ResNet18, stem_padding=0),
    "ResNet18-unpadded-mirrored": partial(networks.ResNet18, stem_padding=0, mirrored=True),
    "ResNet18-mirrored": partial(networks.ResNet18, mirrored=True),
    "ResNet34-mirrored": partial(networks.ResNet34, mirrored=True),
}
_SCHEDULES = {name: getattr(schedules, name) for name in ("constant", "cosine", "one_cycle")}
_CROP_FLIP = compose(partial(crop, padding=4), flip)
_STRONG = compose(_CROP_FLIP, distort, recolour, partial(cutout, size=16))
_SHIFT = partial(crop, padding=2)
_AUGMENTATIONS = {
    "crop2": _SHIFT,
    "shift/distort": (_SHIFT, compose(_SHIFT, distort)),
    "crop4-flip": _CROP_FLIP,
    "weak/strong": (_CROP_FLIP, _STRONG),
}
_NAMED = {
    "network": _NETWORKS,
    "optimiser": OPTIMISERS,
    "schedule": _SCHEDULES,
    "augment": _AUGMENTATIONS,
}

#: Options that are passed on as the parameter of the same name, and those that are converted.
_PASSED_ON = {
    *("epochs", "estimation_epochs", "batch_size", "lr", "weight_decay", "learn_from_anchors"),
    *("allow_diagonal", "match_prior", "max_norm", "patience", "restarts"),
}
_CONVERTED = {*_NAMED, "iterations", "steps", "grid", "refine", "compile"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a training, from which its record is made."""

    accuracy: float
    seconds: float
    history: list[dict[str, float]]
    predictions: NDArray[np.int64]
    transition: TransitionMatrix | None = None  # the Q that evaluation may use
    matrices: Mapping[str, TransitionMatrix] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)


def classifier_arguments(spec: RunSpec, n_samples: int) -> dict[str, Any]:
    """Convert the options of a spec to parameters of `ComplementaryClassifier`.

    ``network``, ``optimiser``, ``schedule`` and ``augment`` are names. ``iterations`` are converted
    to epochs. ``steps`` are the points at which the learning rate is divided by 10, in iterations
    if these are given and in epochs otherwise.
    """
    if unknown := unknown_options(spec):
        raise InvalidInput(
            "Every option of a run must be known to this version, which does not know "
            f"{', '.join(unknown)}. Choose another --recipe."
        )
    options = spec.options
    arguments = {name: value for name, value in options.items() if name in _PASSED_ON}
    arguments |= {name: known[options[name]] for name, known in _NAMED.items() if name in options}
    if "iterations" in options:
        # a tenth of the examples is held out
        per_epoch = math.ceil(0.9 * n_samples / options["batch_size"])
        arguments["epochs"] = math.ceil(options["iterations"] / per_epoch)
    if "steps" in options:
        length = options.get("iterations") or options["epochs"]
        arguments["schedule"] = schedules.steps([step / length for step in options["steps"]])
    return arguments


def unknown_options(spec: RunSpec) -> list[str]:
    """List the options, with their values, that this version does not have."""
    return [
        f"{name}={value!r}"
        for name, value in spec.options.items()
        if name not in _PASSED_ON | _CONVERTED or (name in _NAMED and value not in _NAMED[name])
    ]


def training_labels_and_matrix(
    spec: RunSpec, data: RunData
) -> tuple[NDArray[np.int64], TransitionMatrix | None]:
    """Select the labels to learn from, and the matrix that is given, if it is not estimated."""
    if spec.knows == "true labels":
        # with the identity as Q, losses of complementary labels learn from true labels
        return data.y, TransitionMatrix(np.eye(data.n_classes), allow_diagonal=True)
    if spec.knows == "estimated Q":
        return data.comp_labels, None
    uniform = TransitionMatrix.uniform(data.n_classes)
    return data.comp_labels, data.Q if spec.knows == "true Q" else uniform


def matrix_for_evaluation(
    spec: RunSpec, data: RunData, used: TransitionMatrix
) -> TransitionMatrix | None:
    """Select the matrix that was used if it is valid for estimating the accuracy, else None.

    A method without Q assumes uniform labels, which is valid only if they are uniform.
    """
    if spec.knows == "true labels":
        return None
    is_valid = spec.knows != "no Q" or (data.Q is not None and data.Q.is_uniform)
    return used if is_valid else None


def _wants_compiled(spec: RunSpec, device: torch.device) -> bool:
    """Check whether to compile the network; on a CPU this would take longer than it saves."""
    return bool(spec.options.get("compile", False)) and device.type == "cuda"


def _given(spec: RunSpec, data: RunData, repeats: int) -> tuple[NDArray[Any], Any, Any]:
    """Select the examples, the answers about them, and the anchors of a run."""
    anchors = data.X[data.anchors], data.y[data.anchors]
    if spec.knows not in ("anchors", "anchors and images"):
        answers, Q = training_labels_and_matrix(spec, data)
        if answers.ndim == 2:
            example = np.arange(len(answers)).repeat(answers.shape[1])
            answers = Observations(example=example, label=answers.ravel())
        return data.X, answers, anchors if Q is None else None
    X, y, rows = data.X, anchors[1], data.anchors
    if spec.knows == "anchors":
        n = len(y) * max(1, repeats)
        X, y, rows = np.resize(anchors[0], (n, *X.shape[1:])), np.resize(y, n), np.arange(n)
        anchors = None
    are_these = np.ones(len(y), dtype=np.int8)
    answers = Observations(example=rows, label=y, accepted=are_these, n_examples=len(X))
    return X, answers, anchors


def train_one(spec: RunSpec, data: RunData, *, device: torch.device) -> Outcome:
    """Train and test one spec with `ComplementaryClassifier`."""
    start = time.perf_counter()
    arguments = {"learn_from_anchors": False, **classifier_arguments(spec, len(data.X))}
    if spec.setting == "none" and spec.anchors:
        # there are no labels to hold out, and none that show the shares of the classes
        arguments |= {"validation_fraction": 0.0, "match_prior": 0.0}
    X, answers, anchors = _given(spec, data, int(arguments["learn_from_anchors"]))
    _, Q = training_labels_and_matrix(spec, data)
    clf = ComplementaryClassifier(
        **arguments,
        method=spec.method,
        transition="estimate" if Q is None else Q,
        classes=range(data.n_classes) if Q is None else None,
        learner="network",
        mistakes=0,  # the loss of the paper
        refine=bool(spec.options.get("refine", False)),
        compile=_wants_compiled(spec, device),
        device=device,
        random_state=spec.trial,
    )
    for message in clf.fit_quietly(X, answers, anchors=anchors, anchors_are="picked"):
        warnings.warn(message, NaysayWarning, stacklevel=2)
    predictions = np.asarray(clf.predict(data.X_test)).astype(np.int64)
    matrices = {}
    if clf.transition_estimate_ is not None:
        matrices["estimated"] = clf.transition_estimate_.from_anchors
        if spec.options.get("refine"):
            matrices["refined"] = clf.transition_estimate_.transition
    return Outcome(
        accuracy=float((predictions == data.y_test).mean()),
        seconds=time.perf_counter() - start,
        history=clf.history_,
        predictions=predictions,
        transition=matrix_for_evaluation(spec, data, clf.transition_),
        matrices=matrices,
    )


_NEVER = 10**9  # epochs of patience if the option is missing: no early stopping
# options that only the classifier supports
_ALONE = {"allow_diagonal", "augment", "estimation_epochs", "match_prior", "refine", "restarts"}
_SAMPLE = 2**21  # values in the sample of images from which their mean and scale are computed


def train_group(
    specs: Sequence[RunSpec], datas: Sequence[RunData], *, device: torch.device
) -> list[Outcome]:
    """Train all trials of one experiment, each with every setting of its grid.

    All networks are trained at once. The result of a trial is the network with the least held-out
    loss; networks that diverged are not chosen. If the matrix has to be estimated, networks that
    predict the complementary labels are trained first, and it is estimated from their predictions
    at the anchors.
    """
    start = time.perf_counter()
    if specs[0].labels is not None:
        raise InvalidInput("A run with a grid has one label of each example. Leave the grid out.")
    if alone := sorted(_ALONE & specs[0].options.keys()):
        raise InvalidInput(f"A run with a grid cannot have {', '.join(alone)}. Leave the grid out.")
    settings = [*ParameterGrid(specs[0].options["grid"])]
    trials = [_Trial(spec, data, device) for spec, data in zip(specs, datas, strict=True)]
    if unknown := [trial for trial in trials if trial.needs_matrix]:
        learners = [trial.member(cross_entropy, settings[0], number=0) for trial in unknown]
        best_of(fit_many(learners), range(len(learners)))  # raises an error if any diverged
        for trial, learner in zip(unknown, learners, strict=True):
            trial.read_anchors(learner.network)
    make_loss = find_method(specs[0].method).make_loss
    members = [
        trial.member(make_loss(Setting(Q=trial.Q)).to(device), setting, number)
        for trial in trials
        for number, setting in enumerate(settings)
    ]
    histories = fit_many(members)
    chosen = best_of(histories, np.repeat(np.arange(len(trials)), len(settings)).tolist())
    seconds = (time.perf_counter() - start) / len(specs)
    outcomes = []
    for trial, number in zip(trials, chosen.values(), strict=True):
        inputs = torch.as_tensor(trial.data.X_test, device=device)
        logits = training.predict_logits(members[number].network, inputs)
        scores = as_training_loss(members[number].loss).log_scores(logits)
        predictions = scores.argmax(1).cpu().numpy()
        outcomes.append(
            Outcome(
                accuracy=float((predictions == trial.data.y_test).mean()),
                seconds=seconds,
                history=histories[number],
                predictions=predictions,
                transition=matrix_for_evaluation(trial.spec, trial.data, trial.Q),
                matrices={"estimated": trial.Q} if trial.needs_matrix else {},
                chosen=settings[number % len(settings)],
            )
        )
    return outcomes


class _Trial:
    """One trial: its examples on the device, and its matrix once it is given or estimated."""

    Q: TransitionMatrix

    def __init__(self, spec: RunSpec, data: RunData, device: torch.device) -> None:
        self.spec = spec
        self.data = data
        labels, given = training_labels_and_matrix(spec, data)
        self.needs_matrix = given is None
        if given is not None:
            self.Q = given
        arguments = classifier_arguments(spec, len(data.X))
        make_network = arguments.pop("network")

        def make(sample: Tensor) -> tuple[nn.Module, Augments]:
            network = make_network(data.X.shape[1:], data.n_classes)
            if sample.ndim == 4:  # tables are standardised already
                network.standardise(sample[: _SAMPLE // sample[0].numel()])
            return network, lambda inputs: inputs

        numbers = np.arange(len(data.X))
        _, held_out = split_validation(len(data.X), seed=spec.trial)
        self.trainer = Trainer(
            inputs=torch.as_tensor(data.X, device=device),
            is_held_out=np.isin(numbers, held_out),
            order=numbers,
            options=training.Options(
                **{"patience": _NEVER, **arguments, **ParameterGrid(spec.options["grid"])[0]},
                bfloat16=wants_bfloat16(None, data.X, device),
                compile=_wants_compiled(spec, device),
            ),
            device=device,
            random=np.random.RandomState(spec.trial),
            make_network=make,
        )
        self.examples, self.held_out = self.trainer.split(numbers, labels)

    def member(self, loss: training.Loss, setting: Mapping[str, Any], number: int) -> Member:
        """Make a network to be trained with one setting of the grid, which has this number."""
        seed = 1000 * self.spec.trial + number
        network, _ = self.trainer.new_network(self.examples, seed)
        return Member(
            network=network,
            examples=self.examples,
            loss=loss,
            options=replace(self.trainer.options, **setting, seed=seed),
            held_out=self.held_out,
        )

    def read_anchors(self, network: nn.Module) -> None:
        """Estimate the matrix from the predictions of a network at the anchors."""
        anchors = self.data.X[self.data.anchors], self.data.y[self.data.anchors]
        probs = predict_labels(self.trainer, network, anchors[0], self.held_out)
        self.Q = from_anchors(probs, anchors[1], self.data.n_classes)
