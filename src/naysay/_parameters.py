"""What the parameters of a classifier mean, checked when it is fitted."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor, nn

from naysay import training
from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput
from naysay._targets import Transitions
from naysay._trainer import Trainer, as_inputs, place
from naysay.functional import as_transition
from naysay.methods import Method
from naysay.networks import MLP, Standardising
from naysay.persistence import NetworkFactory
from naysay.training.augmentation import Augment, Augments, default_for, of_each_view, strong_for
from naysay.transition import TransitionMatrix


def checked_options(clf: Any) -> training.Options:
    """Check a classifier's parameters of training and return them."""
    fraction = clf.validation_fraction
    if fraction != 0:
        check_number(fraction, "validation_fraction", above=0, below=1)
    if clf.weight_decay != 0:
        check_number(clf.weight_decay, "weight_decay", above=0)
    if clf.match_prior != 0:
        check_number(clf.match_prior, "match_prior", above=0)
    if clf.max_norm is not None:
        check_number(clf.max_norm, "max_norm", above=0)
    return training.Options(
        epochs=check_count(clf.epochs, "epochs"),
        batch_size=check_count(clf.batch_size, "batch_size"),
        lr=check_number(clf.lr, "lr", above=0),
        weight_decay=float(clf.weight_decay),
        patience=check_count(clf.patience, "patience"),
        optimiser=clf.optimiser,
        schedule=clf.schedule,
        max_norm=clf.max_norm,
        compile=bool(clf.compile),
    )


def estimation_options(clf: Any, options: training.Options) -> training.Options:
    """Return how to train the networks that estimate the matrix."""
    if clf.estimation_epochs is None:
        return options
    return replace(options, epochs=check_count(clf.estimation_epochs, "estimation_epochs"))


def anchor_repeats(clf: Any) -> int:
    """Return how often an epoch shows each anchor; 0 where they are not learned from."""
    asked = clf.learn_from_anchors
    if isinstance(asked, bool):
        return int(asked)
    return check_count(asked, "learn_from_anchors", least=0)


def given_transition(transition: Any, classes: Sequence[Any] | None) -> Transitions | None:
    """Return what the user gave; None when it is uniform or to be estimated."""
    if isinstance(transition, TransitionMatrix):
        return transition
    if isinstance(transition, Mapping):
        if not transition:
            raise InvalidInput("transition must have a matrix for each annotator. It is empty.")
        return {str(name): as_transition(Q) for name, Q in transition.items()}
    if isinstance(transition, str):
        if transition in ("uniform", "estimate"):
            return None
        raise InvalidInput(
            "transition must be 'uniform', 'estimate' or a matrix. "
            f"Got {transition!r}. To read a file: TransitionMatrix.read(path)."
        )
    names = None if classes is None else list(map(str, classes))
    return TransitionMatrix(transition, names)


def wants_bfloat16(asked: bool | None, X: NDArray[Any], device: torch.device) -> bool:
    """Return what the user asked for; left open, images on a GPU are multiplied in bfloat16."""
    return device.type == "cuda" and X.ndim == 4 if asked is None else bool(asked)


def make_trainer(
    clf: Any, X: NDArray[Any], method: Method, options: training.Options, device: torch.device
) -> Trainer:
    """Draw what is held out, and say how networks are made and trained."""
    if clf.checkpoint is not None and not isinstance(clf.random_state, int | np.integer):
        raise InvalidInput(
            "checkpoint needs random_state to be a number, so that training can be resumed. "
            f"Got random_state={clf.random_state!r}."
        )
    random = check_random_state(clf.random_state)
    order = np.argsort(random.permutation(len(X)))

    def make(sample: Tensor) -> tuple[nn.Module, Augments]:
        augment = _choose_augmentation(clf.augment, method, sample)
        first = of_each_view(augment, 1)[0]
        return _make_network(clf.network, sample, len(clf.classes_), first), augment

    return Trainer(
        inputs=place(as_inputs(X), device),
        order=order,
        is_held_out=order < round(clf.validation_fraction * len(X)),
        options=replace(options, bfloat16=wants_bfloat16(clf.bfloat16, X, device)),
        device=device,
        random=random,
        make_network=make,
        progress=clf.progress,
        checkpoint=None if clf.checkpoint is None else Path(clf.checkpoint),
    )


def _make_network(
    network: nn.Module | NetworkFactory | None, sample: Tensor, n_classes: int, augment: Augment
) -> nn.Module:
    """Return a new network for inputs such as the sample, standardised on it if it can be."""
    input_shape = tuple(sample.shape[1:])
    if isinstance(network, nn.Module):
        made = copy.deepcopy(network)
    elif network is not None:
        made = network(input_shape, n_classes)
    else:
        made = MLP(input_shape, n_classes)
    if isinstance(made, Standardising):
        # as it will see them: a pixel that is hardly ever lit may be, once images are moved
        made.standardise(augment(sample.float()).cpu())
    return made


def _choose_augmentation(augment: Augments | None, method: Method, sample: Tensor) -> Augments:
    """Return what the user gave, or what the method needs for inputs such as the sample."""
    if augment is not None:
        return augment
    if method.needs_strong_view:
        return default_for(sample), strong_for(sample)
    return default_for(sample) if method.needs_augmentation else lambda inputs: inputs
