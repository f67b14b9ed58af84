"""Estimate the annotators' habit, the matrix Q, on the way to a classifier.

1. A network learns to predict the complementary labels; held-out labels stop and calibrate it.
2. Its predictions at the anchors are the rows of a first matrix (the paper's estimate).
3. Networks judge the examples, and on what they say the matrix is refined.
4. Where it is known who answered, the same is done for each annotator, from the matrix of all.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn
from torch.nn.functional import cross_entropy

from naysay._base.checks import shorten
from naysay.classifier.targets import hold_prior, make_targets
from naysay.classifier.trainer import Trainer
from naysay.estimation import Uncertainty, calibrate, from_anchors, refine, uncertainty
from naysay.estimation.anchors import describe_few_anchors
from naysay.methods import METHODS, Method, Setting
from naysay.observations import Observations
from naysay.training import Examples
from naysay.transition import TransitionMatrix

Anchors = tuple[NDArray[np.generic], NDArray[np.int64]]  # inputs, and true classes as indices
Samples = NDArray[np.float64] | None  # matrices that may be the true one, if that matters

_LEAST_RIGHT = 0.5  # share of the anchors that networks must know to judge others
_FAR = 0.1  # distance of matrices: with nearer ones networks learn much the same
_MOST_TO_STOP_ON = 5_000  # examples: more take long in every epoch, and change little
_N_DRAWN = 50  # matrices from other anchors
_FEWEST = 4  # answers: fewer make no two halves to train on
_FEWEST_OF_ONE = 5  # answers per class of one annotator: fewer say nothing of habits


class Habit(NamedTuple):
    """The matrix, what the anchors alone gave, and how sure it is, where answers can say.

    ``judgements`` are P(Y | x) of all examples, each from a network that has not learned its
    answers: what `naysay.quality` wants. ``by_annotator`` has a matrix for each annotator by name,
    drawn towards that of all, or exactly it where their answers do not surely differ; it is empty
    where nobody's do. ``warnings`` says what should be known about the estimate.
    """

    transition: TransitionMatrix
    from_anchors: TransitionMatrix
    uncertainty: Uncertainty | None
    judgements: NDArray[np.float64] | None
    by_annotator: Mapping[str, TransitionMatrix]
    warnings: tuple[str, ...] = ()


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
    read = partial(
        from_anchors,
        n_classes=len(names),
        classes=names,
        allow_diagonal=allow_diagonal,
        warn=False,
    )
    first = read(at_anchors, anchors[1])
    few = describe_few_anchors(at_anchors, anchors[1], names)
    warnings = () if few is None else (few,)
    if not refining or len(answers.label) < _FEWEST:
        return Habit(first, first, None, None, {}, warnings)
    seed = int(trainer.random.randint(2**31 - 1))
    best = refine_by_cross_fitting(
        trainer,
        answers,
        anchors,
        first,
        Q_samples=_read_again(read, at_anchors, anchors[1], seed) if match_prior else None,
        allow_diagonal=allow_diagonal,
        match_prior=match_prior,
        anchor_repeats=anchor_repeats,
        method=method,
        seed=seed,
    )
    by_annotator: dict[str, TransitionMatrix] = {}
    if tell_apart and best.is_reliable and answers.annotator is not None:
        by_annotator, few = _refine_by_annotator(
            answers, best.probs, best.matrix, allow_diagonal=allow_diagonal, seed=seed
        )
        warnings += () if few is None else (few,)
    return Habit(best.matrix, first, best.uncertainty, best.probs, by_annotator, warnings)


class Refinement(NamedTuple):
    """A refined matrix, and the out-of-fold predictions that it was refined on."""

    matrix: TransitionMatrix
    uncertainty: Uncertainty
    probs: NDArray[np.float64]
    is_reliable: bool
    log_likelihood: float


def refine_by_cross_fitting(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    first: TransitionMatrix,
    *,
    Q_samples: Samples,
    allow_diagonal: bool,
    match_prior: float,
    anchor_repeats: int,
    method: Method,
    seed: int,
) -> Refinement:
    """Refine the first matrix on out-of-fold predictions of networks that learn with it.

    If the refined matrix is far from the one that these networks learned with, two more learn
    with the refined one, and the first matrix is refined on their predictions. This second
    refinement is used if it makes the labels more likely. Networks that do not even get most
    anchors right, from which they learn, are not reliable: the matrix stays as it is then.
    """
    best = None
    Q = first
    for name in ("refining Q", "refining Q again,"):
        probs, is_reliable = cross_fit(
            trainer,
            answers,
            anchors,
            Q,
            Q_samples=Q_samples,
            match_prior=match_prior,
            anchor_repeats=anchor_repeats,
            method=method,
            seed=seed,
            name=name,
        )
        found = _refine_on(
            probs, is_reliable, answers, first, allow_diagonal=allow_diagonal, seed=seed
        )
        if best is None or (is_reliable and found.log_likelihood > best.log_likelihood):
            best = found
        if found.matrix.distance(Q) < _FAR:
            break
        Q, Q_samples = found.matrix, found.uncertainty.samples
    assert best is not None
    return best


def cross_fit(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    Q: TransitionMatrix,
    *,
    Q_samples: Samples,
    match_prior: float,
    anchor_repeats: int,
    method: Method,
    seed: int,
    name: str,
) -> tuple[NDArray[np.float64], bool]:
    """Predict P(Y | x) of all examples, each by a network that has not learned its answers.

    Two networks learn with Q and the anchors, each from one half of the examples, and predict the
    other half: together they cost as much as one on all examples. The second value returned is
    whether both get most anchors right.
    """
    n_classes, n_examples = Q.n_classes, len(trainer.inputs)
    possible = _possible(Q)
    setting = Setting(Q=possible, prior=None)
    targets = make_targets(answers, possible, method, setting)
    held = hold_prior(targets.loss, answers, possible, match_prior, Q_samples)
    rng = np.random.default_rng(seed)
    half = rng.permutation(n_examples) % 2
    probs = np.empty((n_examples, n_classes))
    right = []
    for fold in range(2):
        in_fold = half[targets.example] == fold
        to_stop_on = rng.permutation(np.flatnonzero(in_fold))[:_MOST_TO_STOP_ON]
        trained, held_out = (
            trainer.pick(targets.example[part], targets.values[part])
            for part in (np.flatnonzero(~in_fold), to_stop_on)
        )
        trained, loss = trainer.add_anchors(
            trained, targets, held, anchors, n_classes=n_classes, repeats=anchor_repeats
        )
        network, _ = trainer.train(
            loss.to(trainer.device), trained, held_out, f"{name} {fold + 1} of 2"
        )
        rows = np.flatnonzero(half == fold)
        probs[rows] = softmax(trainer.log_probs(network, trainer.pick(rows, rows)), axis=1)
        at_anchors = score_anchors(trainer, network, anchors)
        right.append(at_anchors.argmax(axis=1) == anchors[1])
    return probs, float(np.mean(right)) > _LEAST_RIGHT


def _refine_on(
    probs: NDArray[np.float64],
    is_reliable: bool,
    answers: Observations,
    first: TransitionMatrix,
    *,
    allow_diagonal: bool,
    seed: int,
) -> Refinement:
    """Refine the first matrix on out-of-fold predictions, if these are reliable."""
    predicted = (probs[answers.example], answers.label)
    matrix = first
    if is_reliable:
        matrix = refine(
            *predicted, first, allow_diagonal=allow_diagonal, from_these_labels=True, seed=seed
        )
    known = uncertainty(*predicted, matrix, allow_diagonal=allow_diagonal, seed=seed)
    return Refinement(matrix, known, probs, is_reliable, _log_likelihood(*predicted, matrix))


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


def _refine_by_annotator(
    answers: Observations,
    probs: NDArray[np.float64],
    common: TransitionMatrix,
    *,
    allow_diagonal: bool,
    seed: int,
) -> tuple[dict[str, TransitionMatrix], str | None]:
    """Return a matrix for each annotator, none if all are the common one; and a warning if any."""
    names, codes = np.unique(np.asarray(answers.annotator), return_inverse=True)
    few = np.bincount(codes) < _FEWEST_OF_ONE * common.n_classes
    matrices = dict.fromkeys(names.tolist(), common)
    for number in np.flatnonzero(~few).tolist():
        by_them = codes == number
        matrices[str(names[number])] = refine(
            probs[answers.example[by_them]],
            answers.label[by_them],
            common,
            allow_diagonal=allow_diagonal,
            seed=seed,
        )
    warning = None
    if few.any():
        warning = (
            f"A matrix of one's own needs {_FEWEST_OF_ONE} answers per class, "
            f"{_FEWEST_OF_ONE * common.n_classes} in all. Of {len(names)} annotators {few.sum()} "
            f"gave fewer, {shorten(names[few].tolist())}: for them the matrix of all is used."
        )
    return ({} if all(common == Q for Q in matrices.values()) else matrices), warning
