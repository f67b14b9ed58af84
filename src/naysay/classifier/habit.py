"""Estimate the annotators' habit, the matrix Q, on the way to a classifier.

1. A network learns to predict the complementary labels; held-out labels stop and calibrate it.
2. Its predictions at the anchors are the rows of a first matrix (the paper's estimate).
3. Networks judge the examples, and on what they say the matrix is refined.
4. Where it is known who answered, the same is done for each annotator, from the matrix of all.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn
from torch.nn.functional import cross_entropy

from naysay._base.checks import shorten
from naysay._base.errors import NaysayWarning
from naysay.classifier.targets import add_prior_matching, make_targets
from naysay.classifier.trainer import Trainer
from naysay.estimation import Uncertainty, calibrate, from_anchors, refine, uncertainty
from naysay.methods import METHODS, Method, Setting
from naysay.observations import Observations
from naysay.training import Examples
from naysay.transition import TransitionMatrix

# Refine the matrix Q on what networks say of examples whose answers they have not learned.
#
# 1. Two networks learn true classes with a first matrix and the anchors, each from one half of the
#    examples, and judge the other half. They cost as much as one on all examples, and no example is
#    judged by a network that knows its label.
# 2. On those judgements the matrix is refined, if that makes it surely better. Networks that do not
#    even get most anchors right, from which they learn, are no judges: the matrix stays then.
# 3. If the refined matrix is far from the one they learned with, two more networks learn with it,
#    and the first matrix is refined on what these say. They count if they make the labels more
#    likely.

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
        held = add_prior_matching(targets.loss, self.answers, possible, self.match_prior, Q_samples)
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


_N_DRAWN = 50  # matrices from other anchors
_FEWEST = 4  # answers: fewer make no two halves to train on
_FEWEST_OF_ONE = 5  # answers per class of one annotator: fewer say nothing of habits


class Habit(NamedTuple):
    """The matrix, what the anchors alone gave, and how sure it is, where answers can say.

    ``judgements`` are P(Y | x) of all examples, each from a network that has not learned its
    answers: what `naysay.quality` wants. ``by_annotator`` has a matrix for each annotator by name,
    drawn towards that of all, or exactly it where their answers do not surely differ; it is empty
    where nobody's do.
    """

    transition: TransitionMatrix
    from_anchors: TransitionMatrix
    uncertainty: Uncertainty | None
    judgements: NDArray[np.float64] | None
    by_annotator: Mapping[str, TransitionMatrix]


def estimate_habit(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    names: Sequence[str],
    *,
    refining: bool = True,
    allow_diagonal: bool = False,
    tell_apart: bool = True,
    match_prior: float = 0.0,
    anchor_repeats: int = 1,
    method: Method = METHODS["forward"],
) -> Habit:
    """Estimate Q from answers, with labels as indices, and anchors.

    Parameters
    ----------
    trainer : Trainer
        Holds the inputs, and trains networks on them.
    anchors : pair of inputs and true classes
    names : sequence of str
        Of the classes.
    refining : bool
        Whether to go beyond step 2.
    allow_diagonal : bool
        Whether annotators may exclude the true class by mistake.
    tell_apart : bool
        Whether annotators, where answers name them, may have matrices of their own.
    match_prior : float
        How strongly the networks that judge are held near the class prior.
    anchor_repeats : int
        How often an epoch of those networks shows each anchor.
    method : Method
        By which those networks learn; it must take evidence of any kind.
    """
    trained, held_out = trainer.split(*_label_shares(answers, len(names)))
    network, _ = trainer.train(cross_entropy, trained, held_out, "estimating Q")
    scored = None
    if held_out is not None:
        kept = trainer.is_held_out[answers.example]
        labels = answers.label[kept]
        scored = trainer.log_probs(network, trainer.pick(answers.example[kept], labels)), labels
    at_anchors = calibrated(score_anchors(trainer, network, anchors), scored)
    read = partial(from_anchors, n_classes=len(names), classes=names, allow_diagonal=allow_diagonal)
    first = read(at_anchors, anchors[1])
    if not refining or len(answers.label) < _FEWEST:
        return Habit(first, first, None, None, {})
    seed = int(trainer.random.randint(2**31 - 1))
    judges = Judges(
        trainer=trainer,
        answers=answers,
        anchors=anchors,
        first=first,
        allow_diagonal=allow_diagonal,
        match_prior=match_prior,
        anchor_repeats=anchor_repeats,
        method=method,
        seed=seed,
    )
    others = _read_again(read, at_anchors, anchors[1], seed) if match_prior else None
    last = judge_twice(judges.judge, first, others)
    own = {}
    if tell_apart and last.are_judges and answers.annotator is not None:
        own = _habits_apart(
            answers, last.probs, last.refined, allow_diagonal=allow_diagonal, seed=seed
        )
    return Habit(last.refined, first, last.known, last.probs, own)


def _read_again(
    read: Callable[[NDArray[np.floating], NDArray[np.int64]], TransitionMatrix],
    at_anchors: NDArray[np.floating],
    true: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float64]:
    """Return what other anchors could have given: matrices from anchors drawn again, by class.

    A single anchor of a class does not tell how another would differ. It is mixed with any other.
    """
    rng = np.random.default_rng(seed)
    by_class = [np.flatnonzero(true == label) for label in np.unique(true)]
    single = np.array([each[0] for each in by_class if len(each) == 1], dtype=np.int64)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NaysayWarning)  # said once, of the anchors themselves
        for _ in range(_N_DRAWN):
            drawn = at_anchors.copy()
            if len(single):
                share = rng.random((len(single), 1))
                others = at_anchors[rng.choice(len(true), len(single))]
                drawn[single] += share * (others - at_anchors[single])
            rows = np.concatenate([rng.choice(each, len(each)) for each in by_class])
            found.append(np.asarray(read(drawn[rows], true[rows])))
    return np.stack(found)


def _label_shares(
    answers: Observations, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Return examples with the label of each, or where some have several, the shares of labels."""
    if len(np.unique(answers.example)) == len(answers.example):
        return answers.example, answers.label
    counts = np.zeros((answers.n_examples, n_classes), dtype=np.float32)
    np.add.at(counts, (answers.example, answers.label), 1)
    example = np.flatnonzero(counts.any(axis=1))
    return example, counts[example] / counts[example].sum(axis=1, keepdims=True)


def calibrated(
    scores: NDArray[np.floating],
    held_out: tuple[NDArray[np.floating], NDArray[np.int64]] | None,
) -> NDArray[np.floating]:
    """Return the probabilities of scores, calibrated on held-out scores with their labels.

    Scores are logits or logarithms of probabilities.
    """
    temperature = 1.0 if held_out is None else calibrate(*held_out)
    return softmax(scores / temperature, axis=1)


def _habits_apart(
    answers: Observations,
    probs: NDArray[np.float64],
    common: TransitionMatrix,
    *,
    allow_diagonal: bool,
    seed: int,
) -> dict[str, TransitionMatrix]:
    """Return a matrix for each annotator; none at all if everyone's is the common one."""
    names, codes = np.unique(np.asarray(answers.annotator), return_inverse=True)
    few = np.bincount(codes) < _FEWEST_OF_ONE * common.n_classes
    found = dict.fromkeys(names.tolist(), common)
    for number in np.flatnonzero(~few).tolist():
        mine = codes == number
        found[str(names[number])] = refine(
            probs[answers.example[mine]],
            answers.label[mine],
            common,
            allow_diagonal=allow_diagonal,
            seed=seed,
        )
    if few.any():
        warnings.warn(
            f"A matrix of one's own needs {_FEWEST_OF_ONE} answers per class, "
            f"{_FEWEST_OF_ONE * common.n_classes} in all. Of {len(names)} annotators {few.sum()} "
            f"gave fewer, {shorten(names[few].tolist())}: for them the matrix of all is used.",
            NaysayWarning,
            stacklevel=4,
        )
    return {} if all(each == common for each in found.values()) else found
