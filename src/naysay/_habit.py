"""Estimate the annotators' habit, the matrix Q, on the way to a classifier.

1. A network learns to predict the complementary labels; held-out labels stop and calibrate it.
2. Its predictions at the anchors are the rows of a first matrix (the paper's estimate).
3. Networks judge the examples, and on what they say the matrix is refined (`naysay._judges`).
4. Where it is known who answered, the same is done for each annotator, from the matrix of all.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from torch.nn.functional import cross_entropy

from naysay._base.checks import shorten
from naysay._base.errors import NaysayWarning
from naysay._judges import Anchors, Judges, judge_twice, score_anchors
from naysay._trainer import Trainer
from naysay.estimation import Uncertainty, calibrate, from_anchors, refine
from naysay.methods import METHODS, Method
from naysay.observations import Observations
from naysay.transition import TransitionMatrix

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
