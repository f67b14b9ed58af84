"""The default learner for tables: a mixture of models that held-out evidence chooses."""

import copy
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import cross_entropy

from naysay import training
from naysay._base.errors import InvalidInput
from naysay.classifier import candidates as kinds
from naysay.classifier.candidates import Candidate
from naysay.classifier.inputs import Anchors, Transitions
from naysay.classifier.pooling import Evidence, Floats, pool_evidence
from naysay.classifier.trainer import RobustHeldOut, Trainer, allow_mistakes
from naysay.losses import LikelihoodLoss
from naysay.networks import Mixture
from naysay.observations import Observations, log_likelihoods
from naysay.training import Examples

LEARNERS = ("auto", "network", "kernel", "trees", "linear")
FEWEST, MOST = 20, 6_000  # examples from and up to which "auto" is more than a network
_FEWEST_FOR_NETWORKS = 200
_N_FOLDS = 5
_STEPS = 300  # of training on posteriors, and as many on the evidence


class Learned(NamedTuple):
    """A mixture of models, and what it was chosen by."""

    network: Mixture
    history: list[dict[str, float]]
    candidates: list[dict[str, Any]]
    probs: Floats  # out-of-fold predictions for the examples
    at_anchors: Floats  # and for the anchors; NaN for those that were never held out


class Pool:
    """Examples and anchors together, in folds."""

    def __init__(
        self, X: NDArray[Any], labels: Observations, anchors: Anchors | None, seed: int
    ) -> None:
        self.labels, self.anchors, self.seed, self.n = labels, anchors, seed, len(X)
        X = X.astype(np.float32)
        rng = np.random.default_rng(seed)
        fold = rng.permutation(len(X)) % _N_FOLDS
        self.rows = np.zeros(0, dtype=np.int64)  # of the anchors
        if anchors is not None:
            is_new = anchors.row < 0
            self.rows = np.where(is_new, len(X) + np.cumsum(is_new) - 1, anchors.row)
            X = np.concatenate([X, anchors.X[is_new].astype(np.float32)])
            fold = np.concatenate([fold, np.full(is_new.sum(), -1)])
            fold[self.rows] = _fold_anchors(anchors, rng)
            _keep_together(X, self.rows, fold)
        self.evidence = Evidence(X, np.ones((len(X), 1)), fold, seed)

    def judge(
        self,
        transitions: Transitions | None,
        n_classes: int,
        *,
        mistakes: float,
        with_anchors: bool = True,
    ) -> Evidence:
        """Compute the evidence under a matrix; None uses the anchors alone."""
        likelihood = np.ones((len(self.evidence.X), n_classes))
        if transitions is not None:
            if isinstance(transitions, Mapping):
                transitions = {k: allow_mistakes(Q, mistakes) for k, Q in transitions.items()}
            else:
                transitions = allow_mistakes(transitions, mistakes)
            least = np.maximum(self.labels.mistakes, mistakes)
            logs = log_likelihoods(replace(self.labels, mistakes=least), transitions)
            likelihood[: self.n] = np.exp(logs - logs.max(axis=1, keepdims=True))
        if self.anchors is not None and with_anchors:
            likelihood[self.rows] = np.eye(n_classes)[self.anchors.y]
        evidence = self.evidence.with_likelihood(likelihood)
        if self.anchors is not None and with_anchors:
            evidence.true[self.rows] = self.anchors.y
        return evidence

    def split(self, probs: Floats) -> tuple[Floats, Floats]:
        """Split predictions for all rows into those for examples and for held-out anchors."""
        at_anchors = probs[self.rows]
        at_anchors[self.evidence.fold[self.rows] < 0] = np.nan
        return probs[: self.n], at_anchors

    def cross_fit(
        self, transitions: Transitions | None, n_classes: int, *, mistakes: float
    ) -> tuple[Floats, Floats, float]:
        """Predict without the evidence of each example, by kernels.

        The values are predictions for the examples and for the anchors (NaN for those that were
        never held out), and the share of the anchors that were predicted correctly.
        """
        evidence = self.judge(transitions, n_classes, mistakes=mistakes)
        probs, at_anchors = self.split(kinds.cross_fit_kernel(evidence))
        seen = ~np.isnan(at_anchors[:, 0])
        assert self.anchors is not None
        right = (at_anchors.argmax(axis=1) == self.anchors.y)[seen]
        return probs, at_anchors, float(right.mean()) if seen.any() else 1.0


def _fold_anchors(anchors: Anchors, rng: np.random.Generator) -> NDArray[np.int64]:
    """Distribute the anchors of each class over the folds.

    The fold is -1, never held out, for anchors that are no random sample and for the only one of a
    class.
    """
    fold = np.full(len(anchors.y), -1)
    if anchors.are_random:
        for label in np.unique(anchors.y):
            members = rng.permutation(np.flatnonzero(anchors.y == label))
            if len(members) > 1:
                fold[members] = (np.arange(len(members)) + rng.integers(_N_FOLDS)) % _N_FOLDS
    return fold


def _keep_together(X: NDArray[Any], rows: NDArray[np.int64], fold: NDArray[np.int64]) -> None:
    """Put rows that equal an anchor into its fold: they may be the same example."""
    keys = X @ np.random.default_rng(0).standard_normal(X.shape[1]).astype(np.float32)
    order = np.argsort(keys, kind="stable")
    first, last = (
        np.searchsorted(keys[order], keys[rows], side=side) for side in ("left", "right")
    )
    for row, begin, end in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
        for other in order[begin:end]:
            if other not in rows and np.array_equal(X[other], X[row]):
                fold[other] = fold[row]


def learn(
    pool: Pool,
    evidence: Evidence,
    trainer: Trainer,
    *,
    learner: str,
    prior: Floats | None,
    input_shape: tuple[int, ...],
) -> Learned:
    """Fit the candidates, and mix them."""
    pooled = pool_evidence(evidence, prior)
    kernel, posteriors = kinds.fit_kernel(evidence, pooled)
    found: list[Candidate] = []
    history: list[dict[str, float]] = []
    if learner in ("auto", "kernel"):
        found.append(kernel)
    if learner in ("auto", "linear"):
        found.append(kinds.fit_linear(evidence, posteriors))
    if learner in ("auto", "trees"):
        found.append(kinds.fit_trees(evidence, posteriors))
    if learner == "auto" and len(evidence.X) >= _FEWEST_FOR_NETWORKS:
        networks, history = fit_networks(evidence, posteriors, trainer)
        found += networks
    if learner == "auto":
        alone = kinds.fit_anchors(evidence, pooled)
        found += [] if alone is None else [alone]
    weights, mixed = kinds.mix(evidence, found)
    network = kinds.combine(evidence, found, weights, input_shape)
    probs, at_anchors = pool.split(mixed)
    return Learned(network, history, _describe(found, weights), probs, at_anchors)


def fit_networks(
    evidence: Evidence, posteriors: list[Floats], trainer: Trainer
) -> tuple[list[Candidate], list[dict[str, float]]]:
    """Train networks on posteriors, and on from there by forward correction.

    Each candidate has a network for each fold, and predicts by their mean.
    """
    start = time.perf_counter()
    device = trainer.device
    inputs = torch.as_tensor(evidence.X, device=device)
    names = ("network", "network, forward")
    probs = [np.full(evidence.likelihood.shape, 1 / evidence.likelihood.shape[1]) for _ in names]
    members: list[list[nn.Module]] = [[], []]
    loss = RobustHeldOut(LikelihoodLoss())
    history: list[dict[str, float]] = []
    for fold in range(evidence.n_folds):
        rows, held_out = (
            np.flatnonzero(each) for each in (evidence.fold != fold, evidence.fold == fold)
        )
        n_batches = math.ceil(len(rows) / trainer.options.batch_size)
        epochs = min(trainer.options.epochs, math.ceil(_STEPS / n_batches))
        seed = int(trainer.random.randint(2**31 - 1))
        options = replace(trainer.options, epochs=epochs, seed=seed)
        with np.errstate(divide="ignore"):
            logs = np.log(evidence.likelihood).astype(np.float32)

        def pick(which: NDArray[Any], values: NDArray[Any]) -> Examples:
            targets = torch.as_tensor(values[which].astype(np.float32), device=device)
            return Examples(inputs, targets, torch.as_tensor(which, device=device))

        examples = pick(rows, posteriors[fold])
        network, augment = trainer.new_network(examples, seed)
        training.fit(network, examples, cross_entropy, options, augment=augment)
        members[0].append(copy.deepcopy(network))
        history = training.fit(
            network,
            pick(rows, logs),
            loss,
            options,
            held_out=pick(held_out, logs),
            augment=augment,
        )
        members[1].append(network)
        for each, member in zip(probs, members, strict=True):
            scores = training.predict_logits(member[-1], inputs[torch.as_tensor(held_out)])
            each[held_out] = scores.double().softmax(1).cpu().numpy()
            member[-1].cpu()
    seconds = (time.perf_counter() - start) / 2
    found = [
        Candidate(name, each, evidence.judge(each), lambda member=member: member, seconds)
        for name, each, member in zip(names, probs, members, strict=True)
    ]
    return found, history


def _describe(found: list[Candidate], weights: Floats) -> list[dict[str, Any]]:
    """List the candidates, the best first, with how far each is behind it."""
    order = sorted(range(len(found)), key=lambda number: -found[number].judgement.total)
    best = found[order[0]].judgement.scores
    n = max(1, len(best))
    table = []
    for number in order:
        each = found[number]
        difference = each.judgement.scores - best
        error = 1.96 * float(difference.std()) / math.sqrt(n)
        mean = float(difference.sum()) / n
        table.append(
            {
                "name": each.name,
                "score": each.judgement.total / n,
                "difference": mean,
                "interval": (mean - error, mean + error),
                "weight": float(weights[number]),
                "seconds": each.seconds,
            }
        )
    return table


def check_learner(learner: Any) -> str:
    """Check the parameter `learner`."""
    if learner not in LEARNERS:
        raise InvalidInput(f"learner must be one of {', '.join(LEARNERS)}. Got {learner!r}.")
    return str(learner)
