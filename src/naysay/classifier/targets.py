"""Convert complementary labels to the targets that the loss of a method takes.

A single label per example stays an integer. Several labels, or labels of annotators who have
matrices of their own, become a likelihood over the classes, a set of excluded classes or one
training row for each answer, depending on the method.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from naysay._base.errors import InvalidInput
from naysay.estimation import class_prior
from naysay.losses import PriorMatching
from naysay.losses.protocol import LossWrapper, as_training_loss
from naysay.methods import Method, Setting
from naysay.observations import Observations, log_likelihoods
from naysay.transition import TransitionMatrix

_IGNORED = -100  # torch's default ignore_index

Transitions = TransitionMatrix | Mapping[str, TransitionMatrix]


class Targets(NamedTuple):
    """The rows to train on, and the loss for them.

    ``example`` has the number of the example of each row and ``values`` its target.
    ``of_true_class`` has the target of an example that is known to be of each class. It is None if
    targets are label indices, and the loss then has to be wrapped in a `MixedLabelLoss`.
    """

    example: NDArray[np.int64]
    values: NDArray[Any]
    of_true_class: NDArray[Any] | None
    loss: nn.Module


def make_targets(
    answers: Observations, transitions: Transitions, method: Method, setting: Setting
) -> Targets:
    """Convert answers, whose labels are indices, to targets that the method takes."""
    examples = np.arange(answers.n_examples)
    n_classes = setting.Q.n_classes
    is_single = (np.bincount(answers.example, minlength=answers.n_examples) == 1).all()
    by_annotator = not isinstance(transitions, TransitionMatrix)
    if method.make_evidence_loss is not None and (by_annotator or not is_single):
        values = log_likelihoods(answers, transitions).astype(np.float32)
        certain = np.where(np.eye(n_classes, dtype=bool), np.float32(0), np.float32(-np.inf))
        return Targets(examples, values, certain, method.make_evidence_loss())
    if by_annotator:
        raise InvalidInput(
            f"Method {method.name!r} cannot use a matrix for each annotator. Use 'forward', "
            "'two-views' or 'weak-to-strong', or pass one matrix for all."
        )
    loss = method.make_loss(setting)
    if method.takes_several and not is_single:
        ruled_out = np.zeros((len(examples), n_classes), dtype=bool)
        ruled_out[answers.example, answers.label] = True
        return Targets(examples, ruled_out, ~np.eye(n_classes, dtype=bool), loss)
    return Targets(answers.example, answers.label, None, loss)


def pool(annotator: NDArray[Any] | None, transitions: Transitions) -> TransitionMatrix:
    """Average the matrices of annotators, weighted by the number of answers of each."""
    if isinstance(transitions, TransitionMatrix):
        return transitions
    names, counts = np.unique([] if annotator is None else annotator, return_counts=True)
    used = [transitions[name] for name in names.tolist()]
    if not used:
        return next(iter(transitions.values()))
    shares = counts / counts.sum()
    values = sum(share * np.asarray(Q) for share, Q in zip(shares, used, strict=True))
    may_err = any(Q.allow_diagonal for Q in used)
    return TransitionMatrix(values, used[0].classes, allow_diagonal=may_err)


def add_prior_matching(
    loss: nn.Module,
    answers: Observations,
    Q: TransitionMatrix,
    strength: float,
    Q_samples: NDArray[np.float64] | None,
) -> nn.Module:
    """Add prior matching, with the class prior that the answers imply; strength 0 adds nothing."""
    if not strength:
        return loss
    prior = torch.from_numpy(class_prior(answers.label, Q, shrink=True, Q_samples=Q_samples))
    return PriorMatching(loss, prior, strength=strength)


class MixedLabelLoss(LossWrapper):
    """A loss on complementary labels that also learns from the true labels of some examples.

    Labels are pairs as made by `pair_labels`, shape (N, 2). Likelihoods over the classes would be
    equivalent, but they need K numbers per example, which is 800 MB for a million examples of 200
    classes, and most methods have no loss for them. Held-out examples have complementary labels
    only, shape (N,).
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = as_training_loss(loss)
        self.n_views = self.loss.n_views

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean over all examples, with labels of either kind."""
        comp_labels, true_labels = labels.unbind(1)
        comp_loss = self.loss(logits, comp_labels)
        views = logits.reshape(-1, len(labels), logits.shape[-1])  # also if there is one view
        scores = self.log_scores(views.flatten(0, 1))
        true_loss = nll_loss(
            scores, true_labels.repeat(len(views)), ignore_index=_IGNORED, reduction="sum"
        ) / len(views)
        n_complementary = (true_labels == _IGNORED).sum()
        return (comp_loss * n_complementary + true_loss) / len(labels)


def pair_labels(comp_labels: Tensor, true_labels: Tensor) -> Tensor:
    """Make pairs (complementary label, true label) for two sets; -100 is a missing label."""
    pairs = comp_labels.new_full((len(comp_labels) + len(true_labels), 2), _IGNORED)
    pairs[: len(comp_labels), 0] = comp_labels
    pairs[len(comp_labels) :, 1] = true_labels
    return pairs


_MOST_CLASSES = 1000  # matrices of more classes are not inverted
_WORST_CONDITION = 1e3  # condition number of Q above which the estimate is mostly noise


def accuracy_measure(
    loss: nn.Module, Q: TransitionMatrix, targets: Targets
) -> Callable[[Tensor, Tensor], dict[str, float]]:
    """Make a function that estimates the accuracy from logits and complementary labels.

    The expectation of the mean of Q⁻¹[ȳ, f(x)] is the accuracy. If Q cannot be inverted, or targets
    are not label indices, the function measures nothing.
    """
    values = np.asarray(Q) if Q.n_classes <= _MOST_CLASSES else np.zeros((1, 1))
    if targets.values.ndim > 1 or np.linalg.cond(values) > _WORST_CONDITION:
        return lambda logits, labels: {}
    inverse = torch.from_numpy(np.linalg.inv(values))

    def measure(logits: Tensor, labels: Tensor) -> dict[str, float]:
        predicted = as_training_loss(loss).log_scores(logits).argmax(1)
        return {"held_out_accuracy": inverse.to(labels.device)[labels, predicted].mean().item()}

    return measure
