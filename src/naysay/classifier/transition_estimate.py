"""Estimate the transition matrix Q from anchors, as the first part of fitting a classifier.

1. A network learns to predict the complementary labels. Held-out labels decide when training
   stops, and calibrate its predictions.
2. Its predictions at the anchors are the rows of a first matrix (the estimate of the paper).
3. Other networks predict the true classes by cross-fitting, and the matrix is refined on these
   out-of-fold predictions.
4. Anchors that have a complementary label too are pairs drawn from the matrix. They are counted,
   and the estimate from predictions is weighted by how well it predicts them. The held-out labels
   decide whether the result is better than the estimate alone.
5. Where the annotators are known, the matrix of each is refined in the same way, starting from
   the common matrix.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn
from torch.nn.functional import cross_entropy

from naysay._base.checks import check_anchor_counts, shorten
from naysay._base.mapped import argsort, compute, find_rows, parts_of, places_of, take
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.learner import Pool
from naysay.classifier.targets import RobustHeldOut, add_prior_matching, make_targets
from naysay.classifier.trainer import Trainer
from naysay.estimation import (
    MistakeRate,
    Uncertainty,
    calibrate,
    combine_with_pairs,
    from_anchors,
    rate_of_mistakes,
    refine,
    uncertainty,
)
from naysay.estimation.anchors import describe_few_anchors
from naysay.methods import METHODS, Method, Setting
from naysay.observations import Observations
from naysay.training import Examples
from naysay.transition import TransitionMatrix

_LEAST_RIGHT = 0.5  # share of the anchors, most of them learned from, that networks must get right
_FAR = 0.1  # distance of matrices: with nearer ones networks learn much the same
_FAR_FOR_KERNELS = 0.03
_MOST_ROUNDS, _MOST_ROUNDS_OF_KERNELS = 2, 4
_MOST_HELD_OUT = 5_000  # examples: more would slow down every epoch and change little
_N_DRAWN = 50  # matrices from resampled anchors
_FEWEST_ANSWERS = 4  # fewer cannot be split into two halves to train on
_FEWEST_PER_CLASS = 5  # answers of one annotator: fewer do not determine a matrix
_MANY_PER_CLASS = 500  # answers of one annotator: enough to show most of a difference
_MOST_REFINED = 250_000  # examples; with 10 classes, sampling changes entries by 0.2 % at best


class TransitionEstimate(NamedTuple):
    """An estimated transition matrix, and what it was estimated from."""

    transition: TransitionMatrix
    from_anchors: TransitionMatrix  # the first estimate, from the anchors alone
    uncertainty: Uncertainty | None  # intervals of the entries; None if they were not refined
    predictions: NDArray[np.float64] | None  # out-of-fold P(Y | x) for `examples`
    at_anchors: NDArray[np.float64] | None  # the same for anchors; NaN for those trained on
    by_annotator: Mapping[str, TransitionMatrix]  # empty if no annotator differs from the others
    warnings: tuple[str, ...] = ()
    mistakes: MistakeRate | None = None  # how often annotators err; None if they were not allowed
    examples: NDArray[np.int64] | None = None  # those predicted, ascending; None if all were

    def __str__(self) -> str:
        """Write the matrix, and how uncertain it is."""
        parts = [str(self.transition)]
        if self.uncertainty is not None:
            parts.append(str(self.uncertainty))
        if self.by_annotator:
            parts.append(f"A matrix of their own: {shorten(list(self.by_annotator))}.")
        return "\n".join([*parts, *self.warnings])

    def __repr__(self) -> str:
        return f"TransitionEstimate(transition={self.transition!r}, …)"

    @property
    def sample(self) -> str | None:
        """A sentence about the sample that the matrix was refined on; None if it was on all."""
        if self.examples is None or self.uncertainty is None:
            return None
        return f"The matrix was refined on a random sample of {len(self.examples):,} examples"

    @property
    def judgements(self) -> NDArray[np.float64] | None:
        """Earlier name of `predictions`."""
        return self.predictions


#: Predictions for the examples, for the anchors, and whether they are reliable.
Predicted = tuple[NDArray[np.float64], NDArray[np.float64], bool]


class CrossFit(Protocol):
    """Predict P(Y | x) out of fold, for the examples and for the anchors, as `cross_fit` does."""

    def __call__(
        self, Q: TransitionMatrix, Q_samples: NDArray[np.float64] | None, *, name: str
    ) -> Predicted:
        """Predict with Q, of which there may be samples; `name` is shown as progress."""
        ...


def estimate_transition(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    names: Sequence[str],
    *,
    refining: bool,
    allow_diagonal: bool,
    match_prior: float,
    method: Method,
    pool: Pool | None = None,
) -> TransitionEstimate:
    """Estimate Q from complementary labels and anchors, by the steps of this module.

    `refining` is whether to do steps 3 and 4. Step 5 is done if `method`, by which the classifier
    will learn, accepts likelihoods as evidence. The networks of step 3 learn by it too if it also
    has a strong view, else by ``forward``. Answers of other kinds than complementary labels are
    evidence for them, but not about Q. With a `pool`, kernels take the place of these
    networks, and a first refinement is on predictions that anchors alone give.
    """
    trainer = replace(trainer, anchor_repeats=max(1, trainer.anchor_repeats))
    by_annotator = method.takes_evidence
    evidence, answers = answers, answers.comp_labels
    n_each = _MANY_PER_CLASS * len(names) if by_annotator else 0
    examples = _choose_examples(evidence, answers, trainer.order, n_each)
    if pool is not None:
        pool.predicted = examples
    cross_fit_by = partial(
        cross_fit,
        trainer,
        evidence,
        anchors,
        match_prior=match_prior,
        method=method if method.needs_strong_view and by_annotator else METHODS["forward"],
        examples=examples,
    )
    if not len(answers.label):  # no annotator chose a class to exclude: there is no matrix
        Q = TransitionMatrix.uniform(len(names), classes=names)
        probs = out_of_fold = None
        if pool is not None:
            probs, out_of_fold, _ = pool.cross_fit(Q, mistakes=trainer.mistakes)
        elif refining and len(evidence.label) >= _FEWEST_ANSWERS:
            seed = trainer.draw_seed()
            probs, out_of_fold, _ = cross_fit_by(Q, None, seed=seed, name="predicting anchors")
        return TransitionEstimate(Q, Q, None, probs, out_of_fold, {}, examples=examples)
    check_anchor_counts(np.bincount(anchors.y, minlength=len(names)), names)  # before training
    trained, held_out = trainer.split(*_label_shares(answers, len(names)))
    equal = replace(trainer, weights=None)  # Q is about all labels, whatever their weights
    network, _ = equal.train(cross_entropy, trained, held_out, "estimating Q")
    single = None  # held-out labels one by one, where `held_out` has their shares
    if held_out is not None:
        example = answers.example
        chosen = find_rows(example, len(example), lambda part: trainer.is_held_out[example[part]])
        single = trainer.pick(take(example, chosen), take(answers.label, chosen))
    at_anchors = predict_labels(trainer, network, anchors.X, single)
    seed = trainer.draw_seed() if refining else 0
    by_pool = None if pool is None else partial(pool.cross_fit, mistakes=trainer.mistakes)
    return estimate_from_predictions(
        at_anchors,
        by_pool or partial(cross_fit_by, seed=seed),
        answers,
        anchors,
        names,
        refining=refining,
        allow_diagonal=allow_diagonal,
        by_annotator=by_annotator,
        resampling=bool(match_prior),
        seed=seed,
        by_anchors=by_pool and partial(by_pool, None),
        examples=examples,
    )


def _choose_examples(
    evidence: Observations, labels: Observations, order: NDArray[np.int64], n_each: int
) -> NDArray[np.int64] | None:
    """Draw the examples to refine on, first those with evidence; None if all can be used.

    Further examples are drawn for annotators with fewer than `n_each` labels of these. Predictions
    for all examples of a table larger than memory would not fit either.
    """
    if len(order) <= _MOST_REFINED:
        return None
    n, example = len(order), evidence.example
    is_silent = compute(example, n, bool, lambda _: True)
    for part in parts_of(len(example)):
        is_silent[example[part]] = False
    ranked = argsort(compute(example, n, np.int64, lambda part: order[part] + n * is_silent[part]))
    is_chosen = compute(example, n, bool, lambda _: False)
    is_chosen[ranked[:_MOST_REFINED]] = True
    example, who = labels.example, labels.annotator
    if who is not None and n_each:
        names = np.unique(np.concatenate([np.unique(who[part]) for part in parts_of(len(who))]))
        n_given = np.zeros(len(names), dtype=np.int64)
        by_rank = argsort(take(places_of(ranked, n), example))
        for part in parts_of(len(example)):
            answer = by_rank[part]
            code = np.searchsorted(names, who[answer])
            n_more = np.bincount(code, minlength=len(names))
            nth = np.empty(len(code), dtype=np.int64)  # of the labels of the same annotator
            nth[np.argsort(code, kind="stable")] = np.arange(len(code))
            nth += (n_given - np.cumsum(n_more) + n_more)[code]
            is_chosen[example[answer[nth < n_each]]] = True
            n_given += n_more
    return find_rows(is_chosen, n, is_chosen.__getitem__)


def estimate_from_predictions(
    at_anchors: NDArray[np.float64],
    predict_out_of_fold: CrossFit,
    answers: Observations,
    anchors: Anchors,
    names: Sequence[str],
    *,
    refining: bool,
    allow_diagonal: bool,
    by_annotator: bool,
    resampling: bool,
    seed: int,
    by_anchors: Callable[[], Predicted] | None = None,
    examples: NDArray[np.int64] | None = None,
) -> TransitionEstimate:
    """Estimate Q by steps 2 to 5 from the predictions of any model.

    The answers are complementary labels, and `at_anchors` has predictions of them at the anchors.
    `predict_out_of_fold` predicts true classes, given Q and samples of it, which `resampling`
    draws for the first time. `by_anchors` predicts them from the anchors alone, as the first of
    all refinements. Both predict for `examples`, by default for all.
    """
    pairs = anchors.count_pairs(answers, len(names))
    named = {"n_classes": len(names), "classes": names}
    estimate = partial(from_anchors, **named, allow_diagonal=allow_diagonal, warn=False)
    first = estimate(at_anchors, anchors.y)
    few = describe_few_anchors(anchors.y, names)
    warnings = () if few is None else (few,)
    if not allow_diagonal and pairs.trace():
        warnings += (
            f"{pairs.trace()} of {pairs.sum()} answers about examples of known class exclude that "
            "class. They were not used to estimate Q. If annotators make mistakes, allow for them: "
            "allow_diagonal=True (--allow-diagonal).",
        )
        np.fill_diagonal(pairs, 0)
    if not refining or len(answers.label) < _FEWEST_ANSWERS:
        return TransitionEstimate(first, first, None, None, None, {}, warnings)

    answers = answers if examples is None else answers[examples]
    options = {"allow_diagonal": allow_diagonal, "seed": seed}
    Q_samples = None
    if resampling or pairs.any():
        Q_samples = _resample(estimate, at_anchors, anchors.y, seed)
    Q = combine_with_pairs(first, pairs, Q_samples=Q_samples, **options).matrix
    rows = answers.example if examples is None else examples[answers.example]
    is_pair = np.isin(rows, anchors.row[anchors.row >= 0])

    def likelihood_of(probs: NDArray[np.float64], Q: TransitionMatrix) -> float:
        """Compute the log-likelihood of the labels, with the true classes of the anchors."""
        values = np.asarray(Q)
        of_others = values.T[answers.label[~is_pair]]
        of_pairs = float((pairs * np.log(np.maximum(values, 1e-4))).sum())
        return of_pairs + _log_likelihood(probs[answers.example[~is_pair]], of_others)

    def refine_on(predictions: Predicted) -> tuple[float, TransitionEstimate]:
        """Refine Q, and compute how likely labels and anchors are; minus infinity if unreliable."""
        probs, out_of_fold, is_reliable = predictions
        if allow_diagonal:
            probs, out_of_fold = _calibrate_at_anchors(probs, out_of_fold, anchors.y)
        predicted, Q = (probs[answers.example], answers.label), first
        if is_reliable:
            Q = refine(*predicted, first, from_these_labels=True, **options)
        known, counted = uncertainty(*predicted, Q, **options), Q
        if pairs.any():
            combined = combine_with_pairs(Q, pairs, Q_samples=known.samples, **options)
            counted = combined.matrix
            known = Uncertainty.of_samples(counted, combined.samples)
        score = likelihood_of(probs, counted)
        if not is_reliable or score >= likelihood_of(probs, Q):
            Q = counted
        else:
            score, known = likelihood_of(probs, Q), Uncertainty.of_samples(Q, known.samples)
        score += _log_likelihood(out_of_fold, np.eye(len(names))[anchors.y])
        mistakes = None
        if allow_diagonal:
            seen = ~np.isnan(out_of_fold[:, 0])
            known_probs = out_of_fold[seen] if seen.any() else None
            mistakes = rate_of_mistakes(
                probs, Q, known.samples, anchor_probs=known_probs, anchor_labels=anchors.y[seen]
            )
        found = TransitionEstimate(
            Q, first, known, probs, out_of_fold, {}, warnings, mistakes, examples
        )
        return score if is_reliable else -np.inf, found

    # Models learn with the first matrix, and with the one refined on what anchors alone predict.
    # They learn again with the best refined matrix if it is far from all that they learned with.
    # The best is that under which held-out evidence, labels and true classes, is most likely.
    most, far = _MOST_ROUNDS, _FAR
    starts, refined = [(Q, Q_samples)], list[tuple[float, TransitionEstimate]]()
    if by_anchors is not None:
        most, far = _MOST_ROUNDS_OF_KERNELS, _FAR_FOR_KERNELS
        if first.distance(Q) >= far:
            starts.append((first, Q_samples))
        score, found = refine_on(by_anchors())
        if score > -np.inf:
            assert found.uncertainty is not None
            refined, start = [(score, found)], found.transition
            starts = [each for each in starts if start.distance(each[0]) >= far]
            starts.append((start, found.uncertainty.samples))
    learned: list[TransitionMatrix] = []
    while True:
        Q, Q_samples = starts.pop()
        name = "refining Q again," if learned else "refining Q"
        predicted = predict_out_of_fold(_make_labels_possible(Q), Q_samples, name=name)
        refined.append(refine_on(predicted))
        learned.append(Q)
        if starts:
            continue
        score, best = max(refined, key=itemgetter(0))
        is_far = all(best.transition.distance(each) >= far for each in learned)
        if score == -np.inf or not is_far or len(learned) == most:
            break
        assert best.uncertainty is not None
        starts = [(best.transition, best.uncertainty.samples)]
    by_annotator &= score > -np.inf
    if not by_annotator or answers.annotator is None:
        return best
    assert best.predictions is not None  # because it was refined
    matrices, few = _refine_by_annotator(answers, best.predictions, best.transition, **options)
    warnings += () if few is None else (few,)
    return best._replace(by_annotator=matrices, warnings=warnings)


def cross_fit(
    trainer: Trainer,
    answers: Observations,
    anchors: Anchors,
    Q: TransitionMatrix,
    Q_samples: NDArray[np.float64] | None,
    *,
    match_prior: float,
    method: Method,
    seed: int,
    name: str,
    examples: NDArray[np.int64] | None = None,
) -> Predicted:
    """Predict P(Y | x) for examples, by default all, by a network not trained on their labels.

    Two networks are trained with Q, under which every label must be possible, each on one half of
    the examples, and predict the other half. Together they cost as much as one network trained on
    all examples. Anchors that are a random sample are split in the same way, and predicted by the
    network that was not trained on them; the predictions of other anchors, the second value
    returned, are NaN. The networks are reliable, the third value, if they classify most anchors
    correctly.
    """
    n_classes, n_examples = Q.n_classes, len(trainer.inputs)
    setting, mistakes = Setting(Q=Q, prior=None), trainer.mistakes
    targets = make_targets(answers, Q, method, setting, mistakes=mistakes)
    base_loss = RobustHeldOut(targets.loss) if mistakes else targets.loss
    base_loss = add_prior_matching(base_loss, answers, Q, match_prior, Q_samples)
    rng = np.random.default_rng(seed)
    half = rng.permutation(n_examples) % 2
    anchor_half = anchors.folds(2, rng)
    is_example = (anchors.row >= 0) & (anchor_half >= 0)
    half[anchors.row[is_example]] = anchor_half[is_example]
    examples = np.arange(n_examples) if examples is None else examples
    probs = np.empty((len(examples), n_classes))
    out_of_fold = np.full((len(anchors.y), n_classes), np.nan)
    right = []
    for fold in range(2):
        in_fold = half[targets.example] == fold
        in_held_out = rng.permutation(np.flatnonzero(in_fold))[:_MOST_HELD_OUT]
        trained, held_out = (
            trainer.pick(targets.example[part], targets.values[part])
            for part in (np.flatnonzero(~in_fold), in_held_out)
        )
        of_other = anchor_half == fold
        learned = anchors.select(~of_other)
        trained, loss = trainer.add_anchors(trained, targets, base_loss, learned)
        network, _ = trainer.train(
            loss.to(trainer.device), trained, held_out, f"{name} {fold + 1} of 2"
        )
        of_fold = half[examples] == fold
        rows = examples[of_fold]
        probs[of_fold] = softmax(trainer.log_probs(network, trainer.pick(rows, rows)), axis=1)
        at_anchors = trainer.log_probs(network, torch.as_tensor(anchors.X, device=trainer.device))
        out_of_fold[of_other] = softmax(at_anchors[of_other], axis=1)
        right.append(at_anchors.argmax(axis=1) == anchors.y)
    return probs, out_of_fold, float(np.mean(right)) > _LEAST_RIGHT


def _calibrate_at_anchors(
    probs: NDArray[np.float64], out_of_fold: NDArray[np.float64], true: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Calibrate predictions on the anchors that their networks have not seen, if there are any.

    Complementary labels alone hardly distinguish an overconfident network from annotators who err.
    """
    seen = ~np.isnan(out_of_fold[:, 0])
    if not seen.any():
        return probs, out_of_fold
    logs, at_anchors = (np.log(np.maximum(each, 1e-300)) for each in (probs, out_of_fold))
    temperature = calibrate(at_anchors[seen], true[seen])
    return softmax(logs / temperature, axis=1), softmax(at_anchors / temperature, axis=1)


def predict_labels(
    trainer: Trainer, network: nn.Module, X: NDArray[np.generic], held_out: Examples | None
) -> NDArray[np.float64]:
    """Predict complementary labels at anchors, calibrated on held-out labels if there are any."""
    scored = None
    if held_out is not None:
        scored = trainer.log_probs(network, held_out), held_out.labels.cpu().numpy()
    at_anchors = trainer.log_probs(network, torch.as_tensor(X, device=trainer.device))
    return calibrated(at_anchors, scored)


def _log_likelihood(probs: NDArray[np.float64], likelihood: NDArray[np.float64]) -> float:
    """Compute the log-likelihood of evidence, with probabilities of at least 1 in 10,000.

    The bound keeps a few labels that are impossible under Q from deciding alone. Rows of NaN, for
    anchors that were never held out, do not count.
    """
    by_row = np.einsum("ik,ik->i", probs, likelihood)
    return float(np.nansum(np.log(np.maximum(by_row, 1e-4))))


def _make_labels_possible(Q: TransitionMatrix) -> TransitionMatrix:
    """Mix in the uniform matrix if a label has probability 0: it may occur at other examples."""
    values = np.asarray(Q)
    if values.any(axis=0).all():
        return Q
    uniform = np.asarray(TransitionMatrix.uniform(Q.n_classes))
    return TransitionMatrix(0.99 * values + 0.01 * uniform, allow_diagonal=True)


def _resample(
    estimate: Callable[[NDArray[np.floating], NDArray[np.int64]], TransitionMatrix],
    at_anchors: NDArray[np.floating],
    true: NDArray[np.int64],
    seed: int,
) -> NDArray[np.float64]:
    """Estimate matrices from bootstrap samples of the anchors, drawn within each class.

    The only anchor of a class has no spread. It is mixed with an anchor of any class instead.
    """
    rng = np.random.default_rng(seed)
    by_class = [np.flatnonzero(true == label) for label in np.unique(true)]
    single = np.array([each[0] for each in by_class if len(each) == 1], dtype=np.int64)
    matrices = []
    for _ in range(_N_DRAWN):
        drawn = at_anchors.copy()
        if len(single):
            share = rng.random((len(single), 1))
            others = at_anchors[rng.choice(len(true), len(single))]
            drawn[single] += share * (others - at_anchors[single])
        rows = np.concatenate([rng.choice(each, len(each)) for each in by_class])
        matrices.append(np.asarray(estimate(drawn[rows], true[rows])))
    return np.stack(matrices)


def _label_shares(
    answers: Observations, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """List examples and their labels, or the shares of labels where examples have several."""
    overlapping = (slice(part.start, part.stop + 1) for part in parts_of(len(answers.example)))
    if all((np.diff(answers.example[part]) > 0).all() for part in overlapping) or (
        np.bincount(answers.example).max(initial=0) <= 1
    ):
        return answers.example, answers.label
    counts = np.zeros((answers.n_examples, n_classes), dtype=np.float32)
    np.add.at(counts, (answers.example, answers.label), 1)
    example = np.flatnonzero(counts.any(axis=1))
    return example, counts[example] / counts[example].sum(axis=1, keepdims=True)


def calibrated(
    scores: NDArray[np.float64], held_out: tuple[NDArray[np.float64], NDArray[np.int64]] | None
) -> NDArray[np.float64]:
    """Compute probabilities from scores, calibrated on held-out scores and labels if given."""
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
    """Refine the common matrix on the answers of each annotator; the result is empty if all agree.

    `refine` changes a matrix only where the answers show a significant difference, so annotators
    who answer alike share one matrix. (`naysay.quality.annotators`, which describes annotators,
    gives each annotator a separate matrix, which is noisy where answers are few.) The second
    value returned warns about annotators who gave too few answers.
    """
    names, codes = np.unique(np.asarray(answers.annotator), return_inverse=True)
    few = np.bincount(codes) < _FEWEST_PER_CLASS * common.n_classes
    matrices = dict.fromkeys(names.tolist(), common)
    for number in np.flatnonzero(~few).tolist():
        is_theirs = codes == number
        matrices[str(names[number])] = refine(
            probs[answers.example[is_theirs]],
            answers.label[is_theirs],
            common,
            allow_diagonal=allow_diagonal,
            seed=seed,
        )
    warning = None
    if few.any():
        warning = (
            f"A separate matrix for an annotator needs {_FEWEST_PER_CLASS} answers per class, "
            f"{_FEWEST_PER_CLASS * common.n_classes} in all. {few.sum()} of {len(names)} "
            f"annotators gave fewer, so the common matrix is used for them: "
            f"{shorten(names[few].tolist())}."
        )
    return ({} if all(common == Q for Q in matrices.values()) else matrices), warning
