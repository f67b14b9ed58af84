"""Convert complementary labels to targets of a loss, and adapt the loss to them.

A single label per example stays an integer. Several labels, or labels of annotators who have
matrices of their own, become a likelihood over the classes, a set of excluded classes or one
training row for each answer, depending on the method.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from naysay._base.errors import InvalidInput, InvalidLabels
from naysay._base.mapped import compute, count_up, is_count, is_sorted, parts_of
from naysay.estimation import class_prior
from naysay.losses import PriorMatching
from naysay.losses.protocol import LossWrapper, TrainingLoss
from naysay.methods import Method, Setting
from naysay.observations import Observations, log_likelihoods
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions

_IGNORED = -100  # torch's default ignore_index
_MOST_CLASSES = 1000  # the diagonal of matrices of more classes is not raised


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
    answers: Observations,
    transitions: Transitions,
    method: Method,
    setting: Setting,
    *,
    mistakes: float = 0.0,
) -> Targets:
    """Convert answers, whose labels are indices, to targets that the method takes.

    Methods that learn from likelihoods allow for a rate of `mistakes`, see `allow_mistakes`.
    """
    check_accepted(method, answers)
    n_classes = setting.Q.n_classes
    is_single = answers.are_labels and _have_one_each(answers)
    by_annotator = not isinstance(transitions, TransitionMatrix)
    if method.make_evidence_loss is not None and (by_annotator or not is_single):
        values = _evidence_in_parts(answers, transitions, mistakes, n_classes)
        certain = np.where(np.eye(n_classes, dtype=bool), np.float32(0), np.float32(-np.inf))
        example = count_up(answers.example, len(values))
        return Targets(example, values, certain, method.make_evidence_loss())
    if by_annotator:
        raise InvalidInput(
            f"Method {method.name!r} cannot use a matrix for each annotator. Use 'forward', "
            "'two-views' or 'weak-to-strong', or pass one matrix for all."
        )
    if mistakes and method.takes_evidence:
        setting = replace(setting, Q=allow_mistakes(setting.Q, mistakes))
    loss = method.make_loss(setting)
    if method.takes_several and not is_single:
        ruled_out = np.zeros((answers.n_examples, n_classes), dtype=bool)
        ruled_out[answers.example, answers.label] = True
        return Targets(np.arange(len(ruled_out)), ruled_out, ~np.eye(n_classes, dtype=bool), loss)
    return Targets(answers.example, answers.label, None, loss)


def _have_one_each(answers: Observations) -> bool:
    """Check whether there is one answer about each example."""
    if len(answers.example) != answers.n_examples:
        return False
    return is_count(answers.example) or bool((np.bincount(answers.example) == 1).all())


def check_accepted(method: Method, answers: Observations) -> None:
    """Check that a method that is given more than complementary labels takes likelihoods."""
    if not answers.are_labels and not method.takes_evidence:
        raise InvalidInput(
            f"Method {method.name!r} learns from complementary labels only, not from answers to "
            "suggestions or choices out of some classes. Use 'forward', 'two-views' or "
            "'weak-to-strong'."
        )


def allow_mistakes(Q: TransitionMatrix, rate: float) -> TransitionMatrix:
    """Raise the diagonal of Q to at least `rate`: a label that is impossible would cost infinity.

    Labels that are impossible for every class remain so, because then Q is wrong. Matrices of very
    many classes are left as they are: the uniform one would need a number for each entry.
    """
    if Q.n_classes > _MOST_CLASSES:
        return Q
    values = np.asarray(Q)
    diagonal = values.diagonal()
    share = np.maximum(rate - diagonal, 0) / (1 - np.minimum(diagonal, rate)) * values.any(axis=0)
    if not share.any():
        return Q
    raised = values * (1 - share[:, None]) + np.diag(share)
    return TransitionMatrix(raised, Q.classes if Q.has_names else None, allow_diagonal=True)


def log_evidence(
    answers: Observations, transitions: Transitions, mistakes: float
) -> NDArray[np.float64]:
    """Compute log P(answers | class) for each example, allowing for a rate of mistakes."""
    if isinstance(transitions, Mapping):
        transitions = {name: allow_mistakes(Q, mistakes) for name, Q in transitions.items()}
    else:
        transitions = allow_mistakes(transitions, mistakes)
    least = np.maximum(answers.mistakes, mistakes)
    return log_likelihoods(replace(answers, mistakes=least), transitions)


def _evidence_in_parts(
    answers: Observations, transitions: Transitions, mistakes: float, n_classes: int
) -> NDArray[np.float32]:
    """Compute the evidence in float32, some examples at a time if answers are in their order."""
    example = answers.example
    if not is_sorted(example):
        return log_evidence(answers, transitions, mistakes).astype(np.float32)

    def evidence(part: slice) -> NDArray[np.float64]:
        about = np.arange(*np.searchsorted(example, (part.start, part.stop)))
        chosen = answers.select(about)
        shifted = chosen.example - part.start
        chosen = replace(chosen, example=shifted, n_examples=part.stop - part.start)
        return log_evidence(chosen, transitions, mistakes)

    with contextlib.suppress(InvalidLabels):  # the error about all examples counts them
        shape = (n_classes,)
        return compute(example, answers.n_examples, np.float32, evidence, shape=shape)
    return log_evidence(answers, transitions, mistakes).astype(np.float32)


class RobustHeldOut(LossWrapper):
    """A loss whose held-out value leaves out the two examples with the largest losses.

    Among few held-out examples a single label that is a mistake would decide which epoch is best.
    Of fewer than ten examples one is left out, and of fewer than five none.
    """

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the mean over the other examples, if the loss has a value for each."""
        each = self.loss.per_example(labels)
        if each is None or type(self.loss).held_out is not TrainingLoss.held_out:
            return self.loss.held_out(logits, labels)
        return each(logits, labels).sort().values[: n_kept(len(labels))].mean()

    def per_example(self, labels: Tensor) -> TrainingLoss | None:
        """Make a copy that returns one value per example, if the loss has one."""
        return self.loss.per_example(labels)


def n_kept(n_held_out: int) -> int:
    """Count the held-out examples that are not left out."""
    return n_held_out - min(2, n_held_out // 5)


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
    answers = answers.comp_labels
    if not len(answers.label):
        raise InvalidInput(
            "match_prior needs complementary labels, which show the shares of the classes. There "
            "are only answers to suggestions or choices out of some classes: leave it out."
        )
    prior = torch.from_numpy(class_prior(answers.label, Q, shrink=True, Q_samples=Q_samples))
    return PriorMatching(loss, prior, strength=strength)


def find_prior(
    answers: Observations, Q: TransitionMatrix, Q_samples: NDArray[np.floating] | None
) -> NDArray[np.float64] | None:
    """Estimate the class prior from complementary labels; None if they do not determine it.

    Answers to suggestions alone do not show it. A class that is hardly ever accepted is what
    remains for examples whose suggestions were rejected, so that equal shares are the best guess.
    """
    labels = answers.comp_labels.label
    if not len(labels):
        return np.full(Q.n_classes, 1 / Q.n_classes)
    if not Q.diagnose().identifiable:
        return None
    return class_prior(labels, Q, shrink=True, Q_samples=Q_samples)


class MixedLabelLoss(LossWrapper):
    """A loss on complementary labels that also learns from the true labels of some examples.

    Labels are pairs as made by `pair_labels`, shape (N, 2). Likelihoods over the classes would be
    equivalent, but they need K numbers per example, which is 800 MB for a million examples of 200
    classes, and most methods have no loss for them. Held-out examples have complementary labels
    only, shape (N,).
    """

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

    def per_example(self, labels: Tensor) -> "TrainingLoss | None":
        """Make a copy that returns one value per example, if the loss has one."""
        if labels.ndim == 1:  # held-out examples
            return self.loss.per_example(labels)
        each = self.loss.per_example(labels[:, 0].clamp(min=0))
        return None if each is None or self.n_views > 1 else _MixedEach(each)


class _MixedEach(LossWrapper):
    """The values of a `MixedLabelLoss` for each example."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        comp_labels, true_labels = labels.unbind(1)
        of_comp = self.loss(logits, comp_labels.clamp(min=0))
        of_true = nll_loss(
            self.log_scores(logits), true_labels, ignore_index=_IGNORED, reduction="none"
        )
        return torch.where(true_labels == _IGNORED, of_comp, of_true)


class WeightedLoss(LossWrapper):
    """A loss as the weighted mean over examples.

    Labels are positions in ``labels`` and ``weights``, or in those of the held-out examples, so
    that labels of any type can be weighted. The weights are scaled to mean 1, and a batch is not
    normalised by its weights, which would count an example less in a batch of large weights.
    """

    labels: Tensor
    weights: Tensor
    held_out_labels: Tensor
    held_out_weights: Tensor

    def __init__(
        self, loss: TrainingLoss, trained: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]
    ) -> None:
        super().__init__(loss)
        for prefix, (labels, weights) in (("", trained), ("held_out_", held_out)):
            self.register_buffer(f"{prefix}labels", labels)
            self.register_buffer(f"{prefix}weights", (weights / weights.mean()).float())

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the weighted mean of the losses of examples."""
        weights, labels = self.weights[labels], self.labels[labels]
        each = self.loss.per_example(labels)
        assert each is not None  # `Trainer.weigh` has checked this
        return (each(logits, labels) * weights).mean()

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the weighted mean over held-out examples, without those that are left out."""
        loss, is_robust = self.loss, False
        while isinstance(loss, LossWrapper):
            is_robust |= isinstance(loss, RobustHeldOut)
            loss = loss.loss
        weights, labels = self.held_out_weights[labels], self.held_out_labels[labels]
        each = loss.per_example(labels)
        assert each is not None
        values, order = each(logits, labels).sort()
        kept = weights[order][: n_kept(len(labels)) if is_robust else len(labels)]
        return (values[: len(kept)] * kept).sum() / kept.sum()


def pair_labels(
    comp_labels: Tensor, true_labels: Tensor, *, like: NDArray[Any] | None = None
) -> Tensor:
    """Make pairs (complementary label, true label) for two sets; -100 is a missing label.

    In the memory of the host they are in a file if `like` is in one.
    """
    n, n_all = len(comp_labels), len(comp_labels) + len(true_labels)
    like = np.zeros(0) if like is None else like
    pairs = torch.from_numpy(compute(like, n_all, np.int64, lambda _: _IGNORED, shape=(2,)))
    for part in parts_of(n):
        pairs[part, 0] = comp_labels[part].cpu()
    pairs[n:, 1] = true_labels.cpu()
    return pairs.to(comp_labels.device)
