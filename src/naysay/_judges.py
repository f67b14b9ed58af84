"""Refine the matrix Q on what networks say of examples whose answers they have not learned.

1. Two networks learn true classes with a first matrix and the anchors, each from one half of the
   examples, and judge the other half. They cost as much as one on all examples, and no example is
   judged by a network that knows its label.
2. On those judgements the matrix is refined, if that makes it surely better. Networks that do not
   even get most anchors right, from which they learn, are no judges: the matrix stays then.
3. If the refined matrix is far from the one they learned with, two more networks learn with it, and
   the first matrix is refined on what these say. They count if they make the labels more likely.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn

from naysay._targets import hold_prior, make_targets
from naysay._trainer import Trainer
from naysay.estimation import Uncertainty, refine, uncertainty
from naysay.methods import Method, Setting
from naysay.observations import Observations
from naysay.training import Examples
from naysay.transition import TransitionMatrix

Anchors = tuple[NDArray[np.generic], NDArray[np.int64]]  # inputs, and true classes as indices
Samples = NDArray[np.float64] | None  # matrices that may be the true one, if that matters

_LEAST_RIGHT = 0.5  # share of the anchors that networks must know to judge others
_FAR = 0.1  # distance of matrices: with nearer ones networks learn much the same
_MOST_TO_STOP_ON = 5_000  # examples: more take long in every epoch, and change little


class Round(NamedTuple):
    """What two networks judged, the matrix refined on it, and how likely both make the labels."""

    refined: TransitionMatrix
    known: Uncertainty
    probs: NDArray[np.float64]
    are_judges: bool
    log_likelihood: float


@dataclass(frozen=True, kw_only=True)
class Judges:
    """Networks that judge examples, and what they learn from.

    `first` is the matrix that is refined, `match_prior` how strongly they are held near the class
    shares, `anchor_repeats` how often an epoch shows each anchor.
    """

    trainer: Trainer
    answers: Observations
    anchors: Anchors
    first: TransitionMatrix
    allow_diagonal: bool
    match_prior: float
    anchor_repeats: int
    method: Method
    seed: int

    def judge(self, Q: TransitionMatrix, Q_samples: Samples, name: str) -> Round:
        """Refine the first matrix on the judgements of networks that learn with Q."""
        probs, are_judges = self._judge_halves(Q, Q_samples, name)
        judged = (probs[self.answers.example], self.answers.label)
        refined = self.first
        if are_judges:
            refined = refine(
                *judged,
                self.first,
                allow_diagonal=self.allow_diagonal,
                from_these_labels=True,
                seed=self.seed,
            )
        known = uncertainty(*judged, refined, allow_diagonal=self.allow_diagonal, seed=self.seed)
        return Round(refined, known, probs, are_judges, _log_likelihood(*judged, refined))

    def _judge_halves(
        self, Q: TransitionMatrix, Q_samples: Samples, name: str
    ) -> tuple[NDArray[np.float64], bool]:
        """Return P(Y | x) of all examples, each from a network that has not learned its answers.

        And whether both get most anchors right, which they learn from.
        """
        trainer = self.trainer
        n_classes, n_examples = Q.n_classes, len(trainer.inputs)
        possible = _possible(Q)
        setting = Setting(Q=possible, prior=None)
        targets = make_targets(self.answers, possible, self.method, setting)
        held = hold_prior(targets.loss, self.answers, possible, self.match_prior, Q_samples)
        rng = np.random.default_rng(self.seed)
        half = rng.permutation(n_examples) % 2
        probs = np.empty((n_examples, n_classes))
        right = []
        for own in range(2):
            is_own = half[targets.example] == own
            to_stop_on = rng.permutation(np.flatnonzero(is_own))[:_MOST_TO_STOP_ON]
            others, judged = (
                trainer.pick(targets.example[part], targets.values[part])
                for part in (np.flatnonzero(~is_own), to_stop_on)
            )
            others, loss = trainer.add_anchors(
                others,
                targets,
                held,
                self.anchors,
                n_classes=n_classes,
                repeats=self.anchor_repeats,
            )
            network, _ = trainer.train(
                loss.to(trainer.device), others, judged, f"{name} {own + 1} of 2"
            )
            rows = np.flatnonzero(half == own)
            probs[rows] = softmax(trainer.log_probs(network, trainer.pick(rows, rows)), axis=1)
            at_anchors = score_anchors(trainer, network, self.anchors)
            right.append(at_anchors.argmax(axis=1) == self.anchors[1])
        return probs, float(np.mean(right)) > _LEAST_RIGHT


def judge_twice(
    judge: Callable[[TransitionMatrix, Samples, str], Round],
    Q: TransitionMatrix,
    Q_samples: Samples,
) -> Round:
    """Judge again with the refined matrix, if that is far from the one that judges learned with."""
    once = judge(Q, Q_samples, "refining Q")
    if once.refined.distance(Q) < _FAR:
        return once
    again = judge(once.refined, once.known.samples, "refining Q again,")
    is_better = again.are_judges and again.log_likelihood > once.log_likelihood
    return again if is_better else once


def score_anchors(trainer: Trainer, network: nn.Module, anchors: Anchors) -> NDArray[np.float64]:
    """Return the logarithms of what a network predicts at the anchors."""
    return trainer.log_probs(
        network, Examples(*(torch.as_tensor(each, device=trainer.device) for each in anchors))
    )


def _log_likelihood(
    probs: NDArray[np.float64], labels: NDArray[np.int64], Q: TransitionMatrix
) -> float:
    """Return the mean of log P(ȳ | x), where no label is less likely than once in 10,000.

    Unlike in `metrics.log_likelihood`, labels that Q rules out cannot decide alone, or be refused.
    """
    likely = np.einsum("ik,ik->i", probs, np.asarray(Q).T[labels])
    return float(np.log(np.maximum(likely, 1e-4)).mean())


def _possible(Q: TransitionMatrix) -> TransitionMatrix:
    """Return Q with every label possible: anchors may have missed one that occurs."""
    values = np.asarray(Q)
    if values.any(axis=0).all():
        return Q
    uniform = np.asarray(TransitionMatrix.uniform(Q.n_classes))
    return TransitionMatrix(0.99 * values + 0.01 * uniform, allow_diagonal=True)
