"""What is learned: a network alone, or a mixture of models that held-out evidence chooses."""

import copy
import math
import time
from collections.abc import Mapping, Sequence
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
from naysay._base.mapped import compute, count_up, find_rows, parts_of, take
from naysay.classifier import candidates as kinds
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.candidates import Candidate
from naysay.classifier.pooling import Evidence, Floats, normalised, pool_evidence, shares_of_classes
from naysay.classifier.targets import RobustHeldOut, Targets, log_evidence
from naysay.classifier.trainer import Trainer, accuracy_measure, train_with_restarts
from naysay.losses import LikelihoodLoss
from naysay.methods import METHODS, Method
from naysay.observations import Observations
from naysay.training import processes
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions

LEARNERS = ("auto", "network", "kernel", "trees", "linear")
# Parameters that only networks have; their defaults are None, False or 0.
_ONLY_FOR_NETWORKS = (
    "network",
    "augment",
    "checkpoint",
    "compile",
    "restarts",
    "match_prior",
    "warm_start",
)
_FEWEST = 20  # examples from which "auto" is more than a network
_MOST, _SAMPLE = 6_000, 5_000  # examples up to which all kinds learn from all, and from which else
_MOST_WORK = 60_000_000  # examples times classes times features; fewer examples if there are many
_LEAST_SAMPLE = 1_000
_FEWEST_FOR_NETWORKS = 200
_N_FOLDS = 5
_STEPS = 300  # of training on posteriors, and as many on the evidence
MOST_STEPS = 20_000  # of the networks of large tables, all together
_MOST_NETWORKS = 100_000  # examples times networks of large tables
_MOST_HELD_OUT = 10_000  # examples, for each of these networks
_FEWEST_TO_WARN = 500  # labels; those of small tables often show little about good models too
_CLEARLY = 1.65  # standard errors by which a model must be better than guessing


class Learned(NamedTuple):
    """A network or a mixture of models, and predictions that were made without the labels of each.

    ``held_out`` has the numbers of examples and the predictions for them. ``at_anchors`` has those
    for the anchors, NaN where they were never held out, if all predictions are those of folds.
    """

    network: nn.Module
    history: list[dict[str, float]]
    held_out: tuple[NDArray[np.int64], Floats]
    at_anchors: Floats | None = None
    candidates: Sequence[dict[str, Any]] = ()
    warnings: tuple[str, ...] = ()


class Pool:
    """Examples and anchors together, in folds.

    Of a large table they are a random sample: `chosen` has the numbers of its examples. Anchors are
    in the sample, up to half of it. `predicted` has the examples of the table for which there are
    predictions without their labels, None for all.
    """

    predicted: NDArray[np.int64] | None = None

    def __init__(
        self,
        X: NDArray[Any],
        labels: Observations,
        anchors: Anchors | None,
        seed: int,
        n_classes: int,
    ) -> None:
        self.table, self.all_labels, self.anchors, self.seed = X, labels, anchors, seed
        self.n_classes = n_classes
        rng = np.random.default_rng(seed)
        most = _MOST_WORK // (n_classes * (X.shape[1] + 100))
        self.is_sample = len(X) > max(_LEAST_SAMPLE, min(_MOST, most))
        self.chosen = count_up(labels.example, len(X))
        self.kept = np.arange(0 if anchors is None else len(anchors.y))
        if self.is_sample:
            size = min(2 * len(X) // 3, max(_LEAST_SAMPLE, min(_SAMPLE, most)))
            self.kept = np.sort(rng.permutation(self.kept)[: size // 2])
            first = np.zeros(0, dtype=np.int64) if anchors is None else anchors.row[self.kept]
            rng.shuffle(self.chosen)
            first = first[first >= 0]
            # at most so many are among the first already
            order = np.concatenate([first, self.chosen[: size + len(first)]])
            _, places = np.unique(order, return_index=True)
            self.chosen = np.sort(order[np.sort(places)[:size]])
        X = X[self.chosen].astype(np.float32)
        self.labels, self.n = labels[self.chosen], len(X)
        fold = rng.permutation(len(X)) % _N_FOLDS
        self.rows = np.zeros(0, dtype=np.int64)  # of the anchors
        if anchors is not None:
            kept = anchors.select(self.kept)
            is_new = kept.row < 0
            rows = np.searchsorted(self.chosen, kept.row)
            self.rows = np.where(is_new, len(X) + np.cumsum(is_new) - 1, rows)
            X = np.concatenate([X, kept.X[is_new].astype(np.float32)])
            fold = np.concatenate([fold, np.full(is_new.sum(), -1)])
            fold[self.rows] = kept.folds(_N_FOLDS, rng)
            _keep_together(X, self.rows, fold)
        self.evidence = Evidence(X, np.ones((len(X), 1)), fold, seed)

    @property
    def others(self) -> NDArray[np.int64]:
        """The examples with labels that are not in the sample, in random order.

        Those that are predicted come first, to be compared with these predictions.
        """
        like, n = self.all_labels.example, len(self.table)
        is_other = compute(like, n, bool, lambda _: False)
        for part in parts_of(len(like)):
            is_other[like[part]] = True
        is_other[self.chosen] = False
        if self.anchors is not None:
            is_other[self.anchors.row[self.anchors.row >= 0]] = False
        others = find_rows(like, n, is_other.__getitem__)
        np.random.default_rng(self.seed).shuffle(others)
        if self.predicted is None:
            return others
        is_predicted = compute(like, n, bool, lambda _: False)
        is_predicted[self.predicted] = True
        first = find_rows(like, len(others), lambda part: is_predicted[others[part]])
        rest = find_rows(like, len(others), lambda part: ~is_predicted[others[part]])
        found = count_up(others, len(others))
        found[: len(first)] = take(others, first)
        found[len(first) :] = take(others, rest)
        return found

    def find_evidence(
        self, transitions: Transitions | None, *, mistakes: float, with_anchors: bool = True
    ) -> Evidence:
        """Compute the evidence under a matrix; None uses the anchors alone."""
        likelihood = np.ones((len(self.evidence.X), self.n_classes))
        if transitions is not None:
            likelihood[: self.n] = find_likelihood(self.labels, transitions, mistakes)
        if self.anchors is None or not with_anchors:
            return self.evidence.with_likelihood(likelihood)
        true = self.anchors.y[self.kept]
        likelihood[self.rows] = np.eye(self.n_classes)[true]
        evidence = self.evidence.with_likelihood(likelihood)
        evidence.true[self.rows] = true
        return evidence

    def split(self, probs: Floats) -> tuple[Floats, Floats]:
        """Split predictions for all rows into those for examples and for held-out anchors."""
        n_anchors = 0 if self.anchors is None else len(self.anchors.y)
        at_anchors = np.full((n_anchors, probs.shape[1]), np.nan)
        seen = self.evidence.fold[self.rows] >= 0
        at_anchors[self.kept[seen]] = probs[self.rows[seen]]
        return probs[: self.n], at_anchors

    def cross_fit(
        self,
        Q: TransitionMatrix | None,
        Q_samples: Floats | None = None,
        *,
        mistakes: float,
        name: str = "",
    ) -> tuple[Floats, Floats, bool]:
        """Predict without the evidence of each example, by kernels, which need no samples of Q.

        The values are predictions for the examples, or for those that are `predicted`, and for the
        anchors (NaN for those that were never held out), and whether they are reliable.
        """
        evidence = self.find_evidence(Q, mistakes=mistakes)
        kernel = kinds.cross_fit_kernel(evidence)
        probs, at_anchors = self.split(kernel.probs)
        if self.is_sample:
            of_sample, (network,) = probs, kernel.finish()
            probs = kinds.predict(network, self.table, self.predicted)
            probs = kernel.calibration.calibrate(probs)
            if self.predicted is None:
                probs[self.chosen] = of_sample
            else:
                _, here, there = np.intersect1d(self.predicted, self.chosen, return_indices=True)
                probs[here] = of_sample[there]
        seen = ~np.isnan(at_anchors[:, 0])
        assert self.anchors is not None
        right = (at_anchors.argmax(axis=1) == self.anchors.y)[seen]
        is_reliable = not seen.any() or float(right.mean()) > least_right(self.n_classes)
        return probs, at_anchors, is_reliable


def least_right(n_classes: int) -> float:
    """Compute the share of held-out anchors that a reliable model must classify correctly.

    It is clearly above chance, and at most one half, because classes may overlap.
    """
    return min(0.5, 1 / n_classes + 0.2)


def find_likelihood(labels: Observations, transitions: Transitions, mistakes: float) -> Floats:
    """Compute the likelihood of the labels of each example, whose greatest value is 1."""
    logs = log_evidence(labels, transitions, mistakes)
    return np.exp(logs - logs.max(axis=1, keepdims=True))


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


def learn_network(
    trainer: Trainer,
    targets: Targets,
    loss: nn.Module,
    anchors: Anchors | None,
    Q: TransitionMatrix,
    *,
    restarts: int,
) -> Learned:
    """Train a network on the examples that are not held out, and on the anchors."""
    examples, held_out = trainer.split(targets.example, targets.values)
    examples, loss = trainer.add_anchors(examples, targets, loss, anchors)
    measure = accuracy_measure(Q, targets)
    network, history = train_with_restarts(trainer, loss, examples, held_out, Q, restarts, measure)
    rows, probs = np.flatnonzero(trainer.is_held_out), np.zeros((0, Q.n_classes))
    if anchors is None:
        rows = rows[:_MOST_HELD_OUT]  # enough to test Q
    if len(rows):
        probs = np.exp(trainer.log_probs(network, trainer.pick(rows, rows)))
    return Learned(network, history, (rows, probs))


def learn_mixture(
    pool: Pool,
    trainer: Trainer,
    targets: Targets,
    loss: nn.Module,
    transitions: Transitions,
    prior: Floats | None,
    *,
    learner: str,
) -> Learned:
    """Fit the candidates to the evidence, and mix them; the prior is that of the classes.

    Networks learn from all examples of a large table, of which the other candidates see a sample.
    """
    evidence = pool.find_evidence(
        transitions, mistakes=trainer.mistakes, with_anchors=trainer.anchor_repeats > 0
    )
    # that of suggestions is a guess: where a class is hardly suggested, no answer contradicts it
    is_guess = not len(pool.labels.comp_labels.label)
    pooled = pool_evidence(evidence, prior, prefers_prior=is_guess)
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
        found += kinds.fit_anchors(evidence, pooled)
    found = [each._replace(finish=cache(each.finish)) for each in found]
    learned = _mix(evidence, found, history, pool.chosen)
    probs, at_anchors = pool.split(learned.held_out[1])
    learned = learned._replace(held_out=(pool.chosen, probs), at_anchors=at_anchors)
    if pool.is_sample and learner == "auto":
        return _learn_from_all(pool, learned, found, trainer, targets, loss, transitions)
    return learned


def fit_networks(
    evidence: Evidence, posteriors: list[Floats], trainer: Trainer
) -> tuple[list[Candidate], list[dict[str, float]]]:
    """Train networks on posteriors, and then by forward correction.

    Each candidate has a network for each fold, and predicts by their mean.
    """
    start = time.perf_counter()
    trainer = replace(trainer, inputs=torch.as_tensor(evidence.X, device=trainer.device))
    with np.errstate(divide="ignore"):
        logs = np.log(evidence.likelihood).astype(np.float32)
    names = ("network", "network, forward")
    probs = [np.full(evidence.likelihood.shape, 1 / evidence.likelihood.shape[1]) for _ in names]
    members: list[list[nn.Module]] = [[], []]
    loss = RobustHeldOut(LikelihoodLoss())
    history: list[dict[str, float]] = []
    for fold in range(evidence.n_folds):
        rows, held_out = (
            np.flatnonzero(each) for each in (evidence.fold != fold, evidence.fold == fold)
        )
        seed = trainer.draw_seed()
        options = replace(bound_steps(trainer.options, len(rows), _STEPS), seed=seed)
        examples = trainer.pick(rows, posteriors[fold][rows].astype(np.float32))
        network, augment = trainer.new_network(examples, seed)
        training.fit(network, examples, cross_entropy, options, augment=augment)
        members[0].append(copy.deepcopy(network))
        history = training.fit(
            network,
            trainer.pick(rows, logs[rows]),
            loss,
            options,
            held_out=trainer.pick(held_out, logs[held_out]),
            augment=augment,
        )
        members[1].append(network)
        for each, member in zip(probs, members, strict=True):
            scores = training.predict_logits(member[-1], trainer.inputs[held_out])
            each[held_out] = scores.double().softmax(1).cpu().numpy()
            member[-1].cpu()
    seconds = (time.perf_counter() - start) / 2
    found = [
        Candidate(name, each, evidence.fit_calibration(each), lambda member=member: member, seconds)
        for name, each, member in zip(names, probs, members, strict=True)
    ]
    return found, history


def _learn_from_all(
    pool: Pool,
    learned: Learned,
    candidates: list[Candidate],
    trainer: Trainer,
    targets: Targets,
    loss: nn.Module,
    transitions: Transitions,
) -> Learned:
    """Train networks on a large table, and mix them with the models of a sample of it.

    Each network starts at the posteriors that the sample gives, and continues by forward correction
    on all examples that are not held out for it. The weights make labels most likely that are
    neither in the sample nor were learned by the network.
    """
    start = time.perf_counter()
    others, n = pool.others, len(pool.table)
    if len(others) < _FEWEST_FOR_NETWORKS:  # hardly any example has a label
        return learned._replace(at_anchors=None)
    n_networks = max(1, min(_N_FOLDS, _MOST_NETWORKS // n))
    size = min(_MOST_HELD_OUT, len(others) // n_networks)
    folds = [np.sort(each) for each in np.split(others[: n_networks * size], n_networks)]
    scored = np.concatenate(folds)
    options = bound_steps(trainer.options, n, MOST_STEPS // n_networks)
    networks: list[nn.Module] = []
    history: list[dict[str, float]] = []
    probs = []
    for number, fold in enumerate(folds):
        is_held_out = compute(others, n, bool, lambda _: False)
        is_held_out[fold] = True
        seed = trainer.draw_seed()
        rows = find_rows(others, n, lambda part, held_out=is_held_out: ~held_out[part])
        np.random.default_rng(seed).shuffle(rows)
        rows = np.sort(rows[: _STEPS * options.batch_size])
        likelihood = find_likelihood(pool.all_labels[rows], transitions, trainer.mistakes)
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
        trained, held_out = warm.split(targets.example, targets.values)
        trained, its_loss = warm.add_anchors(trained, targets, loss, pool.anchors)
        network, history = warm.train(its_loss, trained, held_out, f"network {number + 1}")
        probs.append(np.exp(trainer.log_probs(network, trainer.pick(fold, fold))))
        networks.append(network.cpu())
    seconds = time.perf_counter() - start
    likelihood = find_likelihood(pool.all_labels[scored], transitions, trainer.mistakes)
    X = pool.table[scored].astype(np.float32)
    evidence = Evidence(X, likelihood, np.zeros(len(scored), dtype=np.int64), pool.seed)
    found = []
    for each in candidates:
        its_probs = kinds.predict(each.finish()[0], X)
        found.append(
            each._replace(probs=its_probs, calibration=evidence.fit_calibration(its_probs))
        )
    of_networks = np.concatenate(probs)
    calibration = evidence.fit_calibration(of_networks)
    name = "network, all examples"
    found.append(Candidate(name, of_networks, calibration, lambda: networks, seconds))
    return _mix(evidence, found, history, scored)


def _mix(
    evidence: Evidence,
    candidates: list[Candidate],
    history: list[dict[str, float]],
    rows: NDArray[np.int64],
) -> Learned:
    """Mix candidates by held-out evidence, whose rows are about these examples."""
    weights, mixed = kinds.mix(evidence, candidates)
    return Learned(
        kinds.combine(evidence, candidates, weights),
        history,
        (rows, mixed),
        candidates=_describe(candidates, weights),
        warnings=warn_if_guessing(evidence, mixed),
    )


def warn_if_guessing(evidence: Evidence, probs: Floats) -> tuple[str, ...]:
    """Warn if predictions explain the evidence that they were made without no better than shares.

    The shares are those of the classes among all examples, which are the same for each.
    """
    likelihood = evidence.likelihood[evidence.is_scored]
    if len(likelihood) < _FEWEST_TO_WARN:
        return ()
    by_model = (probs[evidence.is_scored] * likelihood).sum(axis=1)
    gain = np.log(by_model + 1e-300) - np.log(likelihood @ shares_of_classes(evidence.likelihood))
    if gain.mean() > _CLEARLY * gain.std() / math.sqrt(len(gain)):
        return ()
    return (
        "the labels do not show that the model is better than guessing: those that were held out "
        "are no more likely under its predictions than under the shares of the classes. More "
        "labels, several for each example, or true classes of some would help, and so would "
        "leaving out features that are unrelated to the class",
    )


def bound_steps(options: training.Options, n_examples: int, n_steps: int) -> training.Options:
    """Lower the number of epochs so that there are at most about `n_steps` steps."""
    n_batches = math.ceil(n_examples / options.batch_size)
    return replace(options, epochs=min(options.epochs, math.ceil(n_steps / n_batches)))


def _describe(found: list[Candidate], weights: Floats) -> list[dict[str, Any]]:
    """List the candidates, the best first, with the difference of each from the best."""
    order = sorted(range(len(found)), key=lambda number: -found[number].calibration.total)
    best = found[order[0]].calibration.scores
    n = max(1, len(best))
    table = []
    for number in order:
        each = found[number]
        difference = each.calibration.scores - best
        error = 1.96 * float(difference.std()) / math.sqrt(n)
        mean = float(difference.sum()) / n
        table.append(
            {
                "name": each.name,
                "score": each.calibration.total / n,
                "difference": mean,
                "interval": (mean - error, mean + error),
                "weight": float(weights[number]),
                "seconds": each.seconds,
            }
        )
    return table


def parameters_of_networks(parameters: Mapping[str, Any], method: Method) -> list[str]:
    """List the parameters of a classifier that are set and that only networks have."""
    only_for_networks = {
        name: parameters[name] not in (None, False, 0) for name in _ONLY_FOR_NETWORKS
    }
    only_for_networks |= {
        "method": method is not METHODS["forward"],
        "learn_from_anchors": parameters["learn_from_anchors"] not in (True, False),
    }
    return [name for name, is_used in only_for_networks.items() if is_used]


def explain_network(parameters: Mapping[str, Any], method: Method, X: NDArray[Any]) -> str | None:
    """Explain that a network takes the place of a mixture of models, if parameters cause it.

    `parameters` are those of the classifier. None is returned if a network was asked for.
    """
    if parameters["learner"] != "auto" or X.ndim != 2 or len(X) < _FEWEST:
        return None
    causes = parameters_of_networks(parameters, method)
    if not causes or {"network", "method"} & set(causes):  # both ask for a network
        return None
    listed = " and ".join(f"{name} (--{name.replace('_', '-')})" for name in causes)
    return (
        f"because of {listed}, only networks are trained. Other kinds of models, which are fitted "
        "too by default, may be more accurate on tables"
    )


def choose_learner(
    parameters: Mapping[str, Any], method: Method, X: NDArray[Any], *, has_weights: bool
) -> str:
    """Choose the learner for ``"auto"``, and check that other learners support the parameters.

    `parameters` are those of the classifier.
    """
    learner = parameters["learner"]
    if learner not in LEARNERS:
        raise InvalidInput(f"learner must be one of {', '.join(LEARNERS)}. Got {learner!r}.")
    only_for_networks = {
        "sample_weight": has_weights,
        "images as X": X.ndim != 2,
        f"fewer than {_FEWEST} examples": len(X) < _FEWEST,
        "several processes": processes.count() > 1,
    }
    reasons = parameters_of_networks(parameters, method)
    reasons += [name for name, is_used in only_for_networks.items() if is_used]
    if learner == "auto":
        return "network" if reasons else "auto"
    if learner != "network" and reasons:
        raise InvalidInput(
            f"learner={learner!r} cannot be used with {reasons[0]}. Use learner='network'."
        )
    return learner
