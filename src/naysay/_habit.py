"""Estimate the annotators' habit, the matrix Q, on the way to a classifier.

1. A network learns to predict the complementary labels; held-out labels stop and calibrate it.
2. Its predictions at the anchors are the rows of a first matrix (the paper's estimate).
3. Two networks learn true classes with that matrix and the anchors, each from one half of the
   examples, and say of the other half what they think. They cost as much as one on all examples,
   and no example is judged by a network that knows its label.
4. On those judgements the matrix is refined, if that makes it surely better.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from naysay import training
from naysay._targets import TrueLabelsToo
from naysay.estimation import Uncertainty, calibrate, from_anchors, refine, uncertainty
from naysay.losses import ForwardCrossEntropy
from naysay.observations import Observations
from naysay.transition import TransitionMatrix

Examples = tuple[Tensor, Tensor]  # inputs, and what the loss takes
Train = Callable[[training.Loss, Examples, Examples, str], nn.Module]

_FEWEST = 4  # answers: fewer make no two halves to train on


class Habit(NamedTuple):
    """The matrix, what the anchors alone gave, and how sure it is, where answers can say."""

    transition: TransitionMatrix
    from_anchors: TransitionMatrix
    uncertainty: Uncertainty | None


def estimate_habit(
    inputs: Tensor,
    answers: Observations,
    anchors: tuple[Tensor, NDArray[np.int64]],
    names: Sequence[str],
    *,
    train: Train,
    rows: tuple[Examples, Examples],
    seed: int,
    allow_diagonal: bool = False,
) -> Habit:
    """Estimate Q from answers, with labels as indices, and anchors.

    Parameters
    ----------
    inputs : Tensor
        All examples, on the device.
    anchors : pair of inputs and true classes
    names : sequence of str
        Of the classes.
    train : callable
        ``train(loss, examples, held_out, what)`` returns a new network, trained on the examples
        and stopped on those held out, if any.
    rows : pair
        The answers to train on and those held out.
    seed : int
        Of the halves.
    allow_diagonal : bool
        Whether annotators may exclude the true class by mistake.
    """
    network = train(cross_entropy, *rows, "estimating Q")
    held_out = rows[1]
    temperature = 1.0
    if len(held_out[0]):
        temperature = calibrate(_log_probs(network, held_out[0]), held_out[1].cpu().numpy())
    at_anchors = _log_probs(network, anchors[0]) / temperature
    first = from_anchors(
        _softmax(at_anchors), anchors[1], len(names), classes=names, allow_diagonal=allow_diagonal
    )
    if len(answers.label) < _FEWEST:
        return Habit(first, first, None)
    probs = _judge_halves(inputs, answers, anchors, first, train, seed)
    judged = (probs[answers.example], answers.label)
    refined = refine(*judged, first, allow_diagonal=allow_diagonal, seed=seed)
    known = uncertainty(*judged, refined, allow_diagonal=allow_diagonal, seed=seed)
    return Habit(refined, first, known)


def _judge_halves(
    inputs: Tensor,
    answers: Observations,
    anchors: tuple[Tensor, NDArray[np.int64]],
    Q: TransitionMatrix,
    train: Train,
    seed: int,
) -> NDArray[np.float64]:
    """Return P(Y | x) of all examples, each from a network that has not seen its answers."""
    n_classes = Q.n_classes
    half = np.random.default_rng(seed).permutation(len(inputs)) % 2
    anchor_labels = torch.as_tensor(anchors[1] + n_classes, device=inputs.device)
    probs = np.empty((len(inputs), n_classes))
    for own in range(2):
        others, judged = (
            (inputs[answers.example[part]], torch.as_tensor(answers.label[part]).to(inputs.device))
            for part in (half[answers.example] != own, half[answers.example] == own)
        )
        examples = (torch.cat([others[0], anchors[0]]), torch.cat([others[1], anchor_labels]))
        loss = TrueLabelsToo(ForwardCrossEntropy(_possible(Q)), n_classes).to(inputs.device)
        network = train(loss, examples, judged, "refining Q")
        probs[half == own] = _softmax(_log_probs(network, inputs[half == own]))
    return probs


def _possible(Q: TransitionMatrix) -> TransitionMatrix:
    """Return Q with every label possible: anchors may have missed one that occurs."""
    values = np.asarray(Q)
    if values.any(axis=0).all():
        return Q
    uniform = np.asarray(TransitionMatrix.uniform(Q.n_classes))
    return TransitionMatrix(0.99 * values + 0.01 * uniform, allow_diagonal=True)


def _log_probs(network: nn.Module, inputs: Tensor) -> NDArray[np.float64]:
    return training.predict_logits(network, inputs).double().log_softmax(1).cpu().numpy()


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
