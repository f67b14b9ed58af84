"""The default learner for tables: a mixture of models that held-out evidence chooses."""

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
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
from naysay.classifier.pooling import Evidence, Floats, normalised, pool_evidence
from naysay.classifier.trainer import RobustHeldOut, Trainer, allow_mistakes
from naysay.losses import LikelihoodLoss
from naysay.networks import Mixture
from naysay.observations import Observations, log_likelihoods
from naysay.training import Examples

LEARNERS = ("auto", "network", "kernel", "trees", "linear")
FEWEST = 20  # examples from which "auto" is more than a network
_MOST, _SAMPLE = 6_000, 5_000  # examples up to which all kinds learn from all, and from which else
_MOST_WORK = 60_000_000  # examples times classes times features; fewer examples if there are many
_LEAST_SAMPLE = 1_000
_FEWEST_FOR_NETWORKS = 200
_N_FOLDS = 5
_STEPS = 300  # of training on posteriors, and as many on the evidence
MOST_STEPS = 20_000  # of the networks of large tables, all together
_MOST_NETWORKS = 100_000  # examples times networks of large tables
_MOST_HELD_OUT = 10_000  # examples, for each of these networks


class Learned(NamedTuple):
    """A mixture of models, and what it was chosen by."""

    network: Mixture
    history: list[dict[str, float]]
    candidates: list[dict[str, Any]]
    probs: Floats  # out-of-fold predictions for the examples
    at_anchors: Floats  # and for the anchors; NaN for those that were never held out
    found: list[Candidate]
    judged: NDArray[np.int64]  # the examples of `probs`

    def predict(self, rows: NDArray[np.int64]) -> Floats:
        """Select the predictions for some of the examples that were judged."""
        order = np.argsort(self.judged)
        return self.probs[order[np.searchsorted(self.judged[order], rows)]]


class Pool:
    """Examples and anchors together, in folds.

    Of a large table they are a random sample: `chosen` has the numbers of its examples. Anchors are
    in the sample, up to half of it.
    """

    def __init__(
        self,
        X: NDArray[Any],
        labels: Observations,
        anchors: Anchors | None,
        seed: int,
        n_classes: int,
    ) -> None:
        self.table, self.all_labels, self.anchors, self.seed = X, labels, anchors, seed
        rng = np.random.default_rng(seed)
        most = _MOST_WORK // (n_classes * (X.shape[1] + 100))
        self.is_sample = len(X) > max(_LEAST_SAMPLE, min(_MOST, most))
        self.chosen, self.kept = np.arange(len(X)), np.zeros(0, dtype=np.int64)
        if anchors is not None:
            self.kept = np.arange(len(anchors.y))
        if self.is_sample:
            size = min(2 * len(X) // 3, max(_LEAST_SAMPLE, min(_SAMPLE, most)))
            self.kept = np.sort(rng.permutation(self.kept)[: size // 2])
            first = np.zeros(0, dtype=np.int64) if anchors is None else anchors.row[self.kept]
            order = np.concatenate([first[first >= 0], rng.permutation(len(X))])
            _, places = np.unique(order, return_index=True)
            self.chosen = np.sort(order[np.sort(places)[:size]])
        X = X[self.chosen].astype(np.float32)
        self.labels, self.n = select_examples(labels, self.chosen), len(X)
        fold = rng.permutation(len(X)) % _N_FOLDS
        self.rows = np.zeros(0, dtype=np.int64)  # of the anchors
        if anchors is not None:
            kept = anchors.select(self.kept)
            is_new = kept.row < 0
            rows = np.searchsorted(self.chosen, kept.row)
            self.rows = np.where(is_new, len(X) + np.cumsum(is_new) - 1, rows)
            X = np.concatenate([X, kept.X[is_new].astype(np.float32)])
            fold = np.concatenate([fold, np.full(is_new.sum(), -1)])
            fold[self.rows] = _fold_anchors(kept, rng)
            _keep_together(X, self.rows, fold)
        self.evidence = Evidence(X, np.ones((len(X), 1)), fold, seed)

    @property
    def others(self) -> NDArray[np.int64]:
        """The examples with labels that are not in the sample, in random order."""
        is_other = np.bincount(self.all_labels.example, minlength=len(self.table)) > 0
        is_other[self.chosen] = False
        if self.anchors is not None:
            is_other[self.anchors.row[self.anchors.row >= 0]] = False
        return np.random.default_rng(self.seed).permutation(np.flatnonzero(is_other))

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
            likelihood[: self.n] = find_likelihood(self.labels, transitions, mistakes)
        if self.anchors is not None and with_anchors:
            likelihood[self.rows] = np.eye(n_classes)[self.anchors.y[self.kept]]
        evidence = self.evidence.with_likelihood(likelihood)
        if self.anchors is not None and with_anchors:
            evidence.true[self.rows] = self.anchors.y[self.kept]
        return evidence

    def split(self, probs: Floats) -> tuple[Floats, Floats]:
        """Split predictions for all rows into those for examples and for held-out anchors."""
        n_anchors = 0 if self.anchors is None else len(self.anchors.y)
        at_anchors = np.full((n_anchors, probs.shape[1]), np.nan)
        seen = self.evidence.fold[self.rows] >= 0
        at_anchors[self.kept[seen]] = probs[self.rows[seen]]
        return probs[: self.n], at_anchors

    def cross_fit(
        self, transitions: Transitions | None, n_classes: int, *, mistakes: float
    ) -> tuple[Floats, Floats, float]:
        """Predict without the evidence of each example, by kernels.

        The values are predictions for the examples and for the anchors (NaN for those that were
        never held out), and the share of the anchors that were predicted correctly.
        """
        evidence = self.judge(transitions, n_classes, mistakes=mistakes)
        kernel = kinds.cross_fit_kernel(evidence)
        probs, at_anchors = self.split(kernel.probs)
        if self.is_sample:
            of_sample, (network,) = probs, kernel.finish()
            probs = kernel.judgement.calibrate(kinds.predict(network, self.table))
            probs[self.chosen] = of_sample
        seen = ~np.isnan(at_anchors[:, 0])
        assert self.anchors is not None
        right = (at_anchors.argmax(axis=1) == self.anchors.y)[seen]
        return probs, at_anchors, float(right.mean()) if seen.any() else 1.0


def select_examples(labels: Observations, rows: NDArray[np.int64]) -> Observations:
    """Select the answers about some examples, which are numbered anew."""
    place = np.full(labels.n_examples, -1)
    place[rows] = np.arange(len(rows))
    part = labels.select(place[labels.example] >= 0)
    return replace(part, example=place[part.example], n_examples=len(rows))


def find_likelihood(labels: Observations, transitions: Transitions, mistakes: float) -> Floats:
    """Compute the likelihood of the labels of each example, whose greatest value is 1."""
    if isinstance(transitions, Mapping):
        transitions = {name: allow_mistakes(Q, mistakes) for name, Q in transitions.items()}
    else:
        transitions = allow_mistakes(transitions, mistakes)
    least = np.maximum(labels.mistakes, mistakes)
    logs = log_likelihoods(replace(labels, mistakes=least), transitions)
    return np.exp(logs - logs.max(axis=1, keepdims=True))


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
    if learner == "auto" and len(evidence.X) >= _FEWEST_FOR_NETWORKS and not pool.is_sample:
        networks, history = fit_networks(evidence, posteriors, trainer)
        found += networks
    if learner == "auto":
        alone = kinds.fit_anchors(evidence, pooled)
        found += [] if alone is None else [alone]
    found = [each._replace(finish=cache(each.finish)) for each in found]
    weights, mixed = kinds.mix(evidence, found)
    network = kinds.combine(evidence, found, weights, input_shape)
    probs, at_anchors = pool.split(mixed)
    table = _describe(found, weights)
    return Learned(network, history, table, probs, at_anchors, found, pool.chosen)


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
        seed = int(trainer.random.randint(2**31 - 1))
        options = replace(bound_steps(trainer.options, len(rows), _STEPS), seed=seed)
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


def learn_from_all(
    pool: Pool,
    learned: Learned,
    trainer: Trainer,
    transitions: Transitions,
    split: Callable[[Trainer], tuple[Examples, Examples | None, nn.Module]],
) -> Learned:
    """Train networks on a large table, and mix them with what was learned from a sample of it.

    Each network starts at the posteriors that the sample gives, and learns on by forward correction
    from all examples that are not held out for it; `split` selects them, and makes the loss. The
    weights make labels most likely that are neither in the sample nor were learned by the network.
    """
    start = time.perf_counter()
    others, n = pool.others, len(pool.table)
    if len(others) < _FEWEST_FOR_NETWORKS:  # hardly any example has a label
        return learned
    n_networks = max(1, min(_N_FOLDS, _MOST_NETWORKS // n))
    size = min(_MOST_HELD_OUT, len(others) // n_networks)
    folds = [np.sort(each) for each in np.split(others[: n_networks * size], n_networks)]
    judged = np.concatenate(folds)
    options = bound_steps(trainer.options, n, MOST_STEPS // n_networks)
    networks: list[nn.Module] = []
    history: list[dict[str, float]] = []
    probs = []
    for number, fold in enumerate(folds):
        is_held_out = np.zeros(n, dtype=bool)
        is_held_out[fold] = True
        seed = int(trainer.random.randint(2**31 - 1))
        rows = np.random.default_rng(seed).permutation(np.flatnonzero(~is_held_out))
        rows = np.sort(rows[: _STEPS * options.batch_size])
        likelihood = find_likelihood(
            select_examples(pool.all_labels, rows), transitions, trainer.mistakes
        )
        posterior = normalised(kinds.predict(learned.network, pool.table[rows]) * likelihood)
        examples = trainer.pick(rows, posterior.astype(np.float32))
        network, augment = trainer.new_network(examples, seed)
        first = replace(bound_steps(options, len(rows), _STEPS), seed=seed)
        training.fit(network, examples, cross_entropy, first, augment=augment)
        warm = replace(
            trainer,
            is_held_out=is_held_out,
            options=options,
            make_network=lambda sample, network=network, augment=augment: (network, augment),
        )
        trained, held_out, loss = split(warm)
        network, history = warm.train(loss, trained, held_out, f"network {number + 1}")
        probs.append(np.exp(trainer.log_probs(network, trainer.pick(fold, fold))))
        networks.append(network.cpu())
    seconds = time.perf_counter() - start
    likelihood = find_likelihood(
        select_examples(pool.all_labels, judged), transitions, trainer.mistakes
    )
    X = pool.table[judged].astype(np.float32)
    evidence = Evidence(X, likelihood, np.zeros(len(judged), dtype=np.int64), pool.seed)
    found = []
    for each in learned.found:
        its_probs = kinds.predict(each.finish()[0], X)
        found.append(each._replace(probs=its_probs, judgement=evidence.judge(its_probs)))
    of_networks = np.concatenate(probs)
    judgement = evidence.judge(of_networks)
    name = "network, all examples"
    found.append(Candidate(name, of_networks, judgement, lambda: networks, seconds))
    weights, mixed = kinds.mix(evidence, found)
    network = kinds.combine(evidence, found, weights, (X.shape[1],))
    table = _describe(found, weights)
    return Learned(network, history, table, mixed, learned.at_anchors, found, judged)


def bound_steps(options: training.Options, n_examples: int, n_steps: int) -> training.Options:
    """Lower the number of epochs so that there are about as many steps at most."""
    n_batches = math.ceil(n_examples / options.batch_size)
    return replace(options, epochs=min(options.epochs, math.ceil(n_steps / n_batches)))


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
