"""From what the user gave as labels to what a loss is trained on.

One label per example stays an integer. Several, or those of annotators with matrices of their
own, become what the method can take: a likelihood over the classes, a set of excluded classes, or
one training row per answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import nll_loss

from naysay._base.errors import InvalidInput
from naysay.estimation import class_prior
from naysay.losses import PriorMatching, TrainingLoss
from naysay.losses.protocol import as_training_loss
from naysay.methods import Method, Setting
from naysay.observations import Observations, log_likelihoods
from naysay.transition import TransitionMatrix

_IGNORED = -100  # torch's own default

Transitions = TransitionMatrix | Mapping[str, TransitionMatrix]


class Targets(NamedTuple):
    """The rows to train on.

    ``example`` says which example each row is of, ``values`` what its loss takes, and
    ``of_true_labels`` gives the same for examples whose true class is known.
    """

    example: NDArray[np.int64]
    values: NDArray[Any]
    of_true_labels: Callable[[NDArray[np.int64]], NDArray[Any]]
    loss: TrainingLoss


def make_targets(
    answers: Observations, transitions: Transitions, method: Method, setting: Setting
) -> Targets:
    """Choose the form of the labels that the method takes; labels are indices."""
    n_classes = setting.Q.n_classes
    is_single = (np.bincount(answers.example, minlength=answers.n_examples) == 1).all()
    by_annotator = not isinstance(transitions, TransitionMatrix)
    if method.make_evidence_loss is not None and (by_annotator or not is_single):
        certain = np.where(np.eye(n_classes, dtype=bool), np.float32(0), np.float32(-np.inf))
        return Targets(
            example=np.arange(answers.n_examples),
            values=log_likelihoods(answers, transitions).astype(np.float32),
            of_true_labels=lambda labels: certain[labels],
            loss=as_training_loss(method.make_evidence_loss()),
        )
    if by_annotator:
        raise InvalidInput(
            f"Method {method.name!r} cannot use a matrix for each annotator. Use 'forward', "
            "'two-views' or 'weak-to-strong', or pass one matrix for all."
        )
    if method.takes_several and not is_single:
        ruled_out = np.zeros((answers.n_examples, n_classes), dtype=bool)
        ruled_out[answers.example, answers.label] = True
        others = ~np.eye(n_classes, dtype=bool)
        return Targets(
            example=np.arange(answers.n_examples),
            values=ruled_out,
            of_true_labels=lambda labels: others[labels],
            loss=as_training_loss(method.make_loss(setting)),
        )
    return Targets(
        example=answers.example,
        values=answers.label,
        of_true_labels=lambda labels: labels + n_classes,
        loss=as_training_loss(method.make_loss(setting)),
    )


def pool(annotator: NDArray[Any] | None, transitions: Transitions) -> TransitionMatrix:
    """Return one matrix for all answers: the annotators', weighted by how much each answered."""
    if isinstance(transitions, TransitionMatrix):
        return transitions
    names, counts = np.unique([] if annotator is None else annotator, return_counts=True)
    if not len(names):
        return next(iter(transitions.values()))
    values = sum(
        count * np.asarray(transitions[name])
        for name, count in zip(names.tolist(), counts / counts.sum(), strict=True)
    )
    used = [transitions[name] for name in names.tolist()]
    may_err = any(Q.allow_diagonal for Q in used)
    return TransitionMatrix(values, used[0].classes, allow_diagonal=may_err)


def hold_prior(
    loss: TrainingLoss,
    answers: Observations,
    Q: TransitionMatrix,
    strength: float,
    Q_samples: NDArray[np.float64] | None,
) -> TrainingLoss:
    """Return the loss with a pull towards the class shares that the answers tell, if asked for."""
    if not strength:
        return loss
    prior = torch.from_numpy(class_prior(answers.label, Q, shrink=True, Q_samples=Q_samples))
    return PriorMatching(loss, prior, strength=strength)


class TrueLabelsToo(TrainingLoss):
    """A loss on complementary labels 0..K-1 that takes K + y for "the true class is y"."""

    def __init__(self, loss: TrainingLoss, n_classes: int) -> None:
        super().__init__()
        self.loss = loss
        self.n_classes = n_classes
        self.n_views = loss.n_views

    def set_progress(self, share: float | Tensor) -> None:
        """Tell the loss the share of training that is done."""
        self.loss.set_progress(share)

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss by which epochs are compared; no true label is held out."""
        return self.loss.held_out(logits, labels)

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute scores of the classes as the loss does."""
        return self.loss.log_scores(logits)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the mean over all labels of both kinds."""
        is_true = labels >= self.n_classes
        comp_loss = self.loss(logits, labels.masked_fill(is_true, _IGNORED))
        true = (labels - self.n_classes).masked_fill(~is_true, _IGNORED)
        views = logits.reshape(-1, len(labels), self.n_classes)  # of one view too
        scores = self.log_scores(views.flatten(0, 1))
        true_loss = nll_loss(
            scores, true.repeat(len(views)), ignore_index=_IGNORED, reduction="sum"
        ) / len(views)
        return (comp_loss * (~is_true).sum() + true_loss) / len(labels)


_MOST_CLASSES = 1000  # whose matrix is inverted
_WORST_CONDITION = 1e3  # of Q: beyond it the estimate is mostly noise


def accuracy_measure(
    loss: TrainingLoss, Q: TransitionMatrix, targets: Targets
) -> Callable[[Tensor, Tensor], dict[str, float]]:
    """Return how to estimate accuracy from logits and complementary labels, where Q allows it.

    The mean of Q⁻¹[ȳ, f(x)] is the accuracy in expectation. Without an inverse, or with labels of
    another kind, nothing is measured.
    """
    values = np.asarray(Q) if Q.n_classes <= _MOST_CLASSES else np.zeros((1, 1))
    if targets.values.ndim > 1 or np.linalg.cond(values) > _WORST_CONDITION:
        return lambda logits, labels: {}
    inverse = torch.from_numpy(np.linalg.inv(values))

    def measure(logits: Tensor, labels: Tensor) -> dict[str, float]:
        predicted = loss.log_scores(logits).argmax(1)
        return {"held_out_accuracy": inverse.to(labels.device)[labels, predicted].mean().item()}

    return measure
