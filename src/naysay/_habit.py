"""Estimate the annotators' habit, the matrix Q, on the way to a classifier.

1. A network learns to predict the complementary labels; held-out labels stop and calibrate it.
2. Its predictions at the anchors are the rows of a first matrix (the paper's estimate).
3. Two networks learn true classes with that matrix and the anchors, each from one half of the
   examples, and say of the other half what they think. They cost as much as one on all examples,
   and no example is judged by a network that knows its label.
4. On those judgements the matrix is refined, if that makes it surely better. Networks that do not
   even get most anchors right, from which they learn, are no judges: the matrix stays then.
5. Networks that learned with a matrix far from the refined one learn again, with that one, and
   the first matrix is refined on what these say. They count if they make the labels more likely.
6. Where it is known who answered, the same is done for each annotator, from the matrix of all.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from naysay._checks import shorten
from naysay._errors import NaysayWarning
from naysay._targets import hold_prior, make_targets
from naysay._trainer import Trainer
from naysay.estimation import Uncertainty, calibrate, from_anchors, refine, uncertainty
from naysay.methods import METHODS, Method, Setting
from naysay.observations import Observations
from naysay.training import Examples
from naysay.transition import TransitionMatrix

Anchors = tuple[NDArray[np.generic], NDArray[np.int64]]  # inputs, and true classes as indices
_Samples = NDArray[np.float64] | None  # matrices that may be the true one, if that matters

_LEAST_RIGHT = 0.5  # share of the anchors that networks must know to judge others
_FAR = 0.1  # distance of matrices: with nearer ones networks learn much the same
_N_DRAWN = 50
_FEWEST = 4  # answers: fewer make no two halves to train on
_MOST_TO_STOP_ON = 5_000  # examples: more take long in every epoch, and change little
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
        How strongly the networks of step 3 are held near the class prior.
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
    at_anchors = calibrated(trainer.log_probs(network, _examples_of(trainer, anchors)), scored)
    read = partial(from_anchors, n_classes=len(names), classes=names, allow_diagonal=allow_diagonal)
    first = read(at_anchors, anchors[1])
    if not refining or len(answers.label) < _FEWEST:
        return Habit(first, first, None, None, {})
    seed = int(trainer.random.randint(2**31 - 1))

    def judge(Q: TransitionMatrix, Q_samples: _Samples, name: str) -> _Round:
        probs, are_judges = _judge_halves(
            trainer, answers, anchors, Q, Q_samples, seed, match_prior, anchor_repeats, method, name
        )
        judged = (probs[answers.example], answers.label)
        refined = first
        if are_judges:
            refined = refine(
                *judged, first, allow_diagonal=allow_diagonal, from_these_labels=True, seed=seed
            )
        known = uncertainty(*judged, refined, allow_diagonal=allow_diagonal, seed=seed)
        return _Round(refined, known, probs, are_judges, _log_likelihood(*judged, refined))

    others = _read_again(read, at_anchors, anchors[1], seed) if match_prior else None
    last = _judge_twice(judge, first, others)
    own = {}
    if tell_apart and last.are_judges and answers.annotator is not None:
        own = _habits_apart(
            answers, last.probs, last.refined, allow_diagonal=allow_diagonal, seed=seed
        )
    return Habit(last.refined, first, last.known, last.probs, own)


class _Round(NamedTuple):
    """What two networks judged, the matrix refined on it, and how likely both make the labels."""

    refined: TransitionMatrix
    known: Uncertainty
    probs: NDArray[np.float64]
    are_judges: bool
    log_likelihood: float


def _judge_twice(
    judge: Callable[[TransitionMatrix, _Samples, str], _Round],
    Q: TransitionMatrix,
    Q_samples: _Samples,
) -> _Round:
    """Judge again with the refined matrix, if that is far from the one that judges learned with."""
    once = judge(Q, Q_samples, "refining Q")
    if once.refined.distance(Q) < _FAR:
        return once
    again = judge(once.refined, once.known.samples, "refining Q again,")
    is_better = again.are_judges and again.log_likelihood > once.log_likelihood
    return again if is_better else once


def _read_again(
    read: Callable[[NDArray[np.floating], NDArray[np.int64]], TransitionMatrix],
    at_anchors: NDArray[np.floating],
    true: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float64]:
    """Return what other anchors could have given: matrices from anchors drawn again, by class."""
    rng = np.random.default_rng(seed)
    by_class = [np.flatnonzero(true == label) for label in np.unique(true)]
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NaysayWarning)  # said once, of the anchors themselves
        for _ in range(_N_DRAWN):
            rows = np.concatenate([rng.choice(each, len(each)) for each in by_class])
            found.append(np.asarray(read(at_anchors[rows], true[rows])))
    return np.stack(found)


def _log_likelihood(
    probs: NDArray[np.float64], labels: NDArray[np.int64], Q: TransitionMatrix
) -> float:
    """Return the mean of log P(ȳ | x), where no label is less likely than once in 10,000."""
    likely = np.einsum("ik,ik->i", probs, np.asarray(Q).T[labels])
    return float(np.log(np.maximum(likely, 1e-4)).mean())


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
    return _softmax(scores / temperature)


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


def _judge_halves(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    Q: TransitionMatrix,
    Q_samples: _Samples,
    seed: int,
    match_prior: float,
    anchor_repeats: int,
    method: Method,
    name: str,
) -> tuple[NDArray[np.float64], bool]:
    """Return P(Y | x) of all examples, each from a network that has not learned its answers.

    And whether both get most anchors right, which they learn from.
    """
    n_classes, n_examples = Q.n_classes, len(trainer.inputs)
    possible = _possible(Q)
    targets = make_targets(answers, possible, method, Setting(Q=possible, prior=None))
    rng = np.random.default_rng(seed)
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
        held = hold_prior(targets.loss, answers, possible, match_prior, Q_samples)
        others, loss = trainer.add_anchors(
            others, targets, held, anchors, n_classes=n_classes, repeats=anchor_repeats
        )
        network, _ = trainer.train(
            loss.to(trainer.device), others, judged, f"{name} {own + 1} of 2"
        )
        rows = np.flatnonzero(half == own)
        probs[rows] = _softmax(trainer.log_probs(network, trainer.pick(rows, rows)))
        at_anchors = trainer.log_probs(network, _examples_of(trainer, anchors))
        right.append(at_anchors.argmax(axis=1) == anchors[1])
    return probs, float(np.mean(right)) > _LEAST_RIGHT


def _examples_of(trainer: Trainer, anchors: Anchors) -> Examples:
    return Examples(*(torch.as_tensor(each, device=trainer.device) for each in anchors))


def _possible(Q: TransitionMatrix) -> TransitionMatrix:
    """Return Q with every label possible: anchors may have missed one that occurs."""
    values = np.asarray(Q)
    if values.any(axis=0).all():
        return Q
    uniform = np.asarray(TransitionMatrix.uniform(Q.n_classes))
    return TransitionMatrix(0.99 * values + 0.01 * uniform, allow_diagonal=True)


def _softmax(scores: NDArray[np.floating]) -> NDArray[np.floating]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
