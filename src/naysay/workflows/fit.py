"""From a user's data to a model, and an estimate of how good it is, without a true label.

Part of the examples is held out before training. Afterwards the accuracy of the model is estimated
from their complementary labels.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import __version__, metrics
from naysay._base.checks import check_number, check_seed, shorten
from naysay._base.errors import InvalidData
from naysay._base.mapped import (
    compute,
    count_values,
    find_rows,
    parts_of,
    take,
    take_rows,
    window_for,
)
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.learner import explain_network
from naysay.classifier.targets import allow_mistakes
from naysay.datasets.own import OwnData
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.summary import Summary, summarise
from naysay.estimation import MistakeRate
from naysay.methods import Method, find_method
from naysay.quality import Agreement, WrongLabels
from naysay.quality.goodness_of_fit import check_by_all_labels
from naysay.quality.wrong_labels import PROBABLE
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, pool
from naysay.transition.diagnosis import Diagnosis
from naysay.workflows.advice import find_problems, give_advice, give_log_advice
from naysay.workflows.annotators import (
    FEWEST_EXAMPLES,
    UNKNOWN_ANNOTATOR,
    AnchorPair,
    anchors_without_label,
    check_consistent,
    check_matrices,
    check_mistakes,
    count_answers,
    find_wrong_answers,
    matrix_of_lists,
    observations,
)
from naysay.workflows.evaluation import (
    describe_refutation,
    evaluate_answers,
    one_of_each,
    predict_in_parts,
)

_FIRST_A_MATRIX = (
    "5 to 10 true labels per class, from which to estimate Q: the present Q does not describe "
    "these labels, and all figures depend on it."
)
_N_SHOWN = 12  # examples of each kind
_MANY_EQUAL = 0.1  # share of the examples that have the features of an earlier one
_DOUBTFUL, _N_DOUBTFUL = 0.1, 3  # labels that are listed where none is probably wrong


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownExample:
    """One example that a person should look at."""

    name: str
    image: NDArray[np.uint8] | None  # (channels, height, width); None for a table
    cells: dict[str, str]  # the row of a table; empty for images
    answers: tuple[str, ...]  # such as "not cat" and "is dog"
    guesses: tuple[tuple[str, float], ...]  # the two most probable classes and probabilities
    error_probability: float  # that the prediction is wrong, or that a label is


@dataclass(frozen=True, kw_only=True, eq=False)
class FitReport:
    """The results of a fit: data, matrix, estimated accuracy, warnings and advice."""

    summary: Summary
    method: str
    transition: TransitionMatrix
    diagnosis: Diagnosis
    transition_from: str  # "uniform", "estimate", "given", or "log" if no answer depends on it
    transitions: dict[str, TransitionMatrix]
    """The matrix of each annotator, most answers first; empty if there is one for all."""
    label_shares: dict[str, NDArray[np.float64]]  # share of each class among an annotator's answers
    n_anchors: int
    n_training: int
    n_held_out: int
    anchors_are: str  # "random" or "picked", as the user stated
    accuracy: metrics.Estimate
    """From the anchors if the matrix was estimated from a random sample of them, otherwise from the
    complementary labels of the held-out examples; unknown if these refute the matrix."""
    accuracy_without_labels: metrics.Estimate  # from the complementary labels in any case
    precision: tuple[metrics.Estimate, ...]  # how often a prediction of each class is correct
    agreement: Agreement  # of the matrix with held-out labels, or with all if it was not estimated
    matrix_fits: bool  # whether the labels do not refute the matrix
    candidates: tuple[dict[str, Any], ...]
    """The kinds of models that were fitted, as `candidates_`; empty if there was no choice."""
    n_predicted: tuple[int, ...]  # how often each class is predicted among all examples
    unsure: tuple[ShownExample, ...]  # examples with the least certain predictions
    suspects: tuple[ShownExample, ...] | None
    """Examples with a label that is probably wrong; None if no label was allowed to be."""
    suspects_unknown: str | None  # why the probabilities of `suspects` cannot be stated
    doubtful: tuple[ShownExample, ...]
    """Examples whose label is wrong with a probability of 10 to 50 %, where `suspects` is empty."""
    assumed_mistakes: float | None
    """Share of mistakes that both lists assume; None where it was estimated or given."""
    mistakes: MistakeRate | None
    """Estimated with `allow_diagonal`; for a log, by known classes or repeated questions."""
    fit_warnings: tuple[str, ...]  # `summary.warnings` has those about the data
    advice: tuple[str, ...]
    seed: int
    seconds: float
    probs: NDArray[np.float32]  # (n_examples, n_classes) predictions for all examples
    wrong_answers: WrongLabels | None
    """All answers, ranked by the probability of being wrong, as `suspects`."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the data and about the fit, one sentence each."""
        return (*self.summary.warnings, *self.fit_warnings)

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON."""
        classes = self.transition.classes
        return {
            "data": self.summary.to_dict(),
            "method": self.method,
            "transition": {
                "from": self.transition_from,
                "values": np.asarray(self.transition).tolist(),
                "identifiable": self.diagnosis.identifiable,
                "fits": self.matrix_fits,
            },
            "transitions": {name: np.asarray(Q).tolist() for name, Q in self.transitions.items()},
            "anchors": self.n_anchors,
            "anchors_are": self.anchors_are,
            "training_examples": self.n_training,
            "held_out_examples": self.n_held_out,
            "accuracy": self.accuracy.to_dict(),
            "accuracy_without_labels": self.accuracy_without_labels.to_dict(),
            "agreement": self.agreement.to_dict(),
            "precision": {
                name: each.to_dict() for name, each in zip(classes, self.precision, strict=True)
            },
            "candidates": list(self.candidates),
            "predicted": dict(zip(classes, self.n_predicted, strict=True)),
            "unsure": [each.name for each in self.unsure],
            "suspects": None if self.suspects is None else [each.name for each in self.suspects],
            "suspects_unknown": self.suspects_unknown,
            "assumed_mistakes": self.assumed_mistakes,
            "doubtful": {each.name: each.error_probability for each in self.doubtful},
            "mistakes": None if self.mistakes is None else asdict(self.mistakes),
            "warnings": list(self.warnings),
            "advice": list(self.advice),
            "seed": self.seed,
            "seconds": self.seconds,
        }


def _show(
    own: OwnData, probs: NDArray[Any], error: NDArray[np.floating[Any]], *, above: float = -1.0
) -> tuple[ShownExample, ...]:
    """Select the examples with the largest probability of an error, the most probable first."""
    largest = np.zeros(0)
    for part in parts_of(len(error)):
        largest = np.sort(np.concatenate([largest, error[part]]))[-_N_SHOWN:]
    ranked = find_rows(error, len(error), lambda part: error[part] >= largest[:1])
    ranked = ranked[np.argsort(-error[ranked], kind="stable")][:_N_SHOWN]
    excludes = own.excludes
    return tuple(
        ShownExample(
            name=own.name_of(int(index)),
            image=None if isinstance(own.recipe, Recipe) else own.X[index],
            cells=own.describe(int(index)),
            answers=tuple(
                f"{'not' if excludes[place] else 'is'} {own.classes[own.label[place]]}"
                for place in range(len(excludes))[own.answers_about(slice(index, index + 1))]
            ),
            guesses=tuple(
                (own.classes[place], float(probs[index, place]))
                for place in np.argsort(-probs[index], kind="stable")[:2]
            ),
            error_probability=float(error[index]),
        )
        for index in ranked
        if error[index] > above
    )


def refuted_at_once(
    own: OwnData, *, anchors: AnchorPair | None, transition: Any, seed: int = 0
) -> tuple[str, ...]:
    """Warn before training if the frequencies of labels refute the matrix assumed or given.

    The parameters are those of `fit_own`.
    """
    given, _ = choose_matrix(own, transition, 0 if anchors is None else len(anchors[1]))
    if isinstance(given, str):
        if given != "uniform":
            return ()
        given = TransitionMatrix.uniform(own.n_classes, classes=own.classes)
    unknown = compute(own.label, own.n_examples, np.int64, lambda _: -1)
    found = _test_by_all_labels(own, given, unknown, seed)
    return () if found is None or found.reason is None else (describe_refutation(found.reason),)


def choose_matrix(own: OwnData, transition: Any, n_more_anchors: int) -> tuple[Any, str]:
    """Choose between the given, the uniform and an estimated matrix, and name its origin."""
    if isinstance(transition, TransitionMatrix | Mapping):
        given, origin = check_matrices(own, transition), "given"
    else:
        has_anchors = n_more_anchors or own.true_labels.max(initial=-1) >= 0
        given = origin = transition or ("estimate" if has_anchors else "uniform")
        if given == "uniform" and own.offered_at_random and own.offered is not None:
            given = matrix_of_lists(own)
    return given, "log" if own.is_yes_no.all() else origin


def _test_by_all_labels(
    own: OwnData, matrices: Transitions, predicted: NDArray[np.int64], seed: int
) -> Agreement | None:
    """Test a matrix, or those of annotators, by one label of each example."""
    used = own.is_label if own.asked_at_random is None else own.is_label & own.asked_at_random
    if not used.any():
        return None
    answers: Any = slice(None)  # copies nothing
    if not used.all():
        answers = find_rows(used, len(used), used.__getitem__)
    Q = pool(count_answers(own, answers), matrices)
    example, label = take(own.example, answers), take(own.label, answers)
    chosen = one_of_each(example, seed)
    of_each = take(predicted, take(example, chosen))
    return check_by_all_labels(take(label, chosen), Q, of_each, seed=seed)


def explain_learner(own: OwnData, **parameters: Any) -> tuple[str, ...]:
    """Explain before training why the model is a network alone, if this may be unexpected.

    The parameters are those of `ComplementaryClassifier`.
    """
    parameters = ComplementaryClassifier(**parameters).get_params(deep=False)
    found = explain_network(parameters, find_method(parameters["method"]), own.X)
    return () if found is None else (found,)


def fit_own(
    own: OwnData,
    *,
    anchors: AnchorPair | None = None,
    transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] | None = "uniform",
    anchors_are: str = "random",
    allow_diagonal: bool = False,
    mistakes: float = 0.0,
    method: str | Method = "forward",
    held_out: float = 0.2,
    seed: int = 0,
    command: str | None = None,
    summary: Summary | None = None,
    memory: float = 1.0,
    **parameters: Any,
) -> tuple[ComplementaryClassifier, FitReport]:
    """Fit a classifier to a user's data, and estimate its accuracy without true labels.

    The classifier has a recipe and a provenance, ready to be saved.

    Parameters
    ----------
    own : OwnData
        The data, as `naysay.datasets.own.read_own` returns them. Examples whose true class is
        known are anchors.
    anchors : pair of arrays, optional
        Further anchors, as `naysay.datasets.own.read_anchors` returns them.
    transition : {"uniform", "estimate"}, TransitionMatrix, dict or None, default="uniform"
        As in `ComplementaryClassifier`. None is ``"estimate"`` if there are anchors, and
        ``"uniform"`` otherwise.
    anchors_are : {"random", "picked"}, default="random"
        As in `ComplementaryClassifier.fit`.
    allow_diagonal, method
        As in `ComplementaryClassifier`.
    mistakes : float, default=0
        Rate of mistaken answers to suggestions, as in `naysay.observations.from_log`.
    held_out : float, default=0.2
        Fraction of the examples that is held out to estimate the accuracy. The model is not
        trained on them, and no anchor is among them.
    command : str, optional
        The command line, which is saved with the model.
    summary : Summary, optional
        The summary of the data, if it has been computed already.
    memory : float, default=1.0
        As in `naysay.datasets.own.read_own`, for data that are in a file. If they are larger,
        training shuffles them through windows of about this size; see `window` of
        `ComplementaryClassifier`.
    **parameters
        Further parameters of `ComplementaryClassifier`, such as ``learner``, ``network``,
        ``epochs``, ``lr``, ``checkpoint`` and ``progress``.

    Examples
    --------
    >>> import pandas
    >>> from naysay.datasets.own import read_own
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> frame = pandas.DataFrame(X, columns=list("abcd"))
    >>> frame["not"] = TransitionMatrix.uniform(3).sample(y, seed=0)
    >>> clf, report = fit_own(read_own(frame, label="not"), epochs=50)
    >>> report.n_held_out, [each.n_labels > 0 for each in report.precision]
    (30, [True, True, True])
    """
    start = time.perf_counter()
    rng = check_seed(seed)
    X_anchor, y_anchor = anchors_without_label(own, anchors)
    given, origin = choose_matrix(own, transition, len(y_anchor))
    check_consistent(own, transition if isinstance(given, str) else given, allow_diagonal)
    is_held_out = hold_out(own, held_out, rng)
    counts = own.labels_per_example
    training = find_rows(counts, len(counts), lambda part: ~is_held_out[part] & (counts[part] > 0))
    true_labels = take(own.true_labels, training)
    n_known = int(count_values(true_labels, own.n_classes, least=-1)[1:].sum())
    n_anchors = len(y_anchor) + n_known
    parameters.setdefault("window", window_for(own.X, memory, own.label))
    clf = ComplementaryClassifier(
        method=method,
        transition=given,
        allow_diagonal=allow_diagonal,
        classes=own.classes,
        **parameters,
        random_state=int(rng.integers(2**31)),
    )
    fit_warnings = clf.fit_quietly(
        take_rows(own.X, training, most_bytes=memory * 1e9),
        observations(own, training, mistakes=mistakes),
        anchors=(X_anchor, y_anchor) if len(y_anchor) else None,
        true_labels=true_labels,
        anchors_are=anchors_are,
    )
    known = find_rows(counts, len(counts), lambda part: own.true_labels[part] >= 0)
    anchor_labels = np.concatenate([y_anchor, own.true_labels[known]])
    del true_labels
    Q, diagnosis = clf.transition_, clf.transition_.diagnose()
    estimate = clf.transition_estimate_
    uncertainty = None if estimate is None else estimate.uncertainty
    Q_samples = clf.transition_samples_ if diagnosis.identifiable else None
    n_answers = count_answers(own)
    matrices = {name: clf.transitions_.get(name, Q) for name in n_answers}
    probs = predict_in_parts(clf, own.X, memory=memory)
    predicted = compute(
        own.label, own.n_examples, np.int64, lambda part: probs[part].argmax(axis=1)
    )

    def is_used(part: slice) -> NDArray[np.bool_]:
        found = is_held_out[own.example[part]]
        return found if own.asked_at_random is None else found & own.asked_at_random[part]

    answers = find_rows(own.label, len(own.label), is_used)
    matrix_for_evaluation, agreement = Q, None
    if estimate is None:  # the mean of the given matrices, over exactly the held-out answers
        is_label = take(own.is_label, answers)
        labels = take(answers, find_rows(is_label, len(is_label), is_label.__getitem__))
        matrix_for_evaluation = pool(count_answers(own, labels), matrices)
        unseen = compute(
            own.label,
            own.n_examples,
            np.int64,
            lambda part: np.where(is_held_out[part], predicted[part], -1),
        )
        rows, classes = clf.unseen_
        for part in parts_of(len(rows)):
            unseen[training[rows[part]]] = classes[part]
        agreement = _test_by_all_labels(own, matrices, unseen, seed)
        del unseen  # as large as the data may be
    evaluation = evaluate_answers(
        predicted,
        own,
        answers,
        matrix_for_evaluation,
        mistakes=mistakes,
        Q_samples=Q_samples,
        is_exact=estimate is None or Q_samples is not None,
        agreement=agreement,
        seed=seed,
    )
    accuracy = clf.accuracy_ or evaluation.accuracy
    summary = summarise(own) if summary is None else summary
    warnings = [*fit_warnings]
    advice = give_advice(
        summary, diagnosis, accuracy, evaluation.precision, anchor_labels, origin, uncertainty
    )
    if evaluation.warning is not None:
        warnings.insert(0, evaluation.warning)
        advice = (_FIRST_A_MATRIX,)  # all other advice depends on Q
    if origin == "log":
        advice = give_log_advice(summary, accuracy)
    if origin == "estimate" and Q_samples is None:
        warnings.append("Q is an estimate, but the intervals of the accuracy treat it as exact")
    if own.ids is None and summary.n_duplicates > _MANY_EQUAL * own.n_examples:
        warnings.append(
            f"{summary.n_duplicates:,} of {own.n_examples:,} examples have the same features as an "
            "earlier one. If several rows are about one example, name the column that identifies "
            "it: example_id (--id). The accuracy may otherwise be overstated, because the model "
            "has learned from other labels of the examples that it is evaluated on"
        )
    warnings += _describe_matrices(own, clf, transition)
    warnings += find_problems(diagnosis, anchor_labels, predicted, origin)
    if clf.mistakes and find_method(method).takes_evidence:  # as in training
        matrices = {name: allow_mistakes(each, clf.mistakes) for name, each in matrices.items()}
    wrong = find_wrong_answers(
        own,
        probs,
        matrices,
        held_out=is_held_out,
        mistakes=max(mistakes, clf.mistakes),
        rate=clf.mistake_rate_,
        matrix_fits=evaluation.matrix_fits,
    )
    rate = None if estimate is None else estimate.mistakes
    if own.accepted is not None:
        rate, warning = check_mistakes(own, mistakes)
        warnings += [] if warning is None else [warning]
    suspects, doubtful, assumed = None, (), None
    if wrong is not None:
        n_wrong = len(wrong.probably_wrong)
        if own.is_label.all() and not (allow_diagonal or Q.allow_diagonal):
            assumed = clf.mistakes
        if n_wrong and evaluation.matrix_fits and assumed is not None:
            warnings.append(
                f"{n_wrong:,} of {len(own.label):,} labels contradict the model: they exclude a "
                f"class of which it is almost certain. If {100 * assumed:g} % of all labels are "
                "mistakes, they are probably wrong. To estimate how often this happens, allow for "
                "it: allow_diagonal (--allow-diagonal)"
            )
        # probability that some answer about it is wrong
        is_wrong = compute(own.label, own.n_examples, np.float64, lambda _: 0)
        for part in parts_of(len(wrong.indices)):
            about = own.example[wrong.indices[part]]
            np.maximum.at(is_wrong, about, wrong.probabilities[part])
        suspects = _show(own, probs, is_wrong, above=PROBABLE)
        if not suspects and wrong.unknown is None:
            doubtful = _show(own, probs, is_wrong, above=_DOUBTFUL)[:_N_DOUBTFUL]
    doubt = compute(own.label, own.n_examples, np.float32, lambda part: 1 - probs[part].max(axis=1))
    by_answers = sorted(n_answers, key=lambda name: -n_answers[name])
    report = FitReport(
        summary=summary,
        method=find_method(method).name,
        transition=Q,
        diagnosis=diagnosis,
        transition_from=origin,
        transitions={
            name: clf.transitions_[name] for name in by_answers if name in clf.transitions_
        },
        label_shares=_shares_by_annotator(own),
        n_anchors=n_anchors,
        anchors_are=anchors_are,
        n_training=len(training),
        n_held_out=int(is_held_out.sum()),
        accuracy=accuracy,
        accuracy_without_labels=evaluation.accuracy,
        precision=evaluation.precision,
        agreement=evaluation.agreement,
        matrix_fits=evaluation.matrix_fits,
        candidates=tuple(clf.candidates_),
        n_predicted=tuple(count_values(predicted, own.n_classes).tolist()),
        unsure=_show(own, probs, doubt),
        suspects=suspects,
        suspects_unknown=None if wrong is None else wrong.unknown,
        doubtful=doubtful,
        assumed_mistakes=assumed,
        mistakes=rate,
        fit_warnings=tuple(warnings),
        advice=advice,
        seed=seed,
        seconds=time.perf_counter() - start,
        probs=probs,
        wrong_answers=wrong,
    )
    provenance = {
        "naysay": __version__,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "data": Path(own.source).name,
        "examples": own.n_examples,
        "answers": len(own.label),
        "anchors": n_anchors,
        "seed": seed,
        "command": command,
        "accuracy": accuracy.to_dict(),
    }
    return clf.set_origin(recipe=own.recipe, provenance=provenance), report


def _describe_matrices(
    own: OwnData, clf: ComplementaryClassifier, transition: Any
) -> Iterator[str]:
    """Describe which matrices were used and how they were estimated, where it may be unexpected."""
    estimate = clf.transition_estimate_
    if estimate is not None and estimate.sample is not None:
        yield estimate.sample
    if estimate is not None and own.annotators and own.is_label.any() and not clf.transitions_:
        method = find_method(clf.method)
        yield "One matrix was estimated for all annotators: " + (
            "their answers do not differ significantly"
            if method.takes_evidence
            else f"method {method.name!r} cannot use a matrix for each annotator"
        )
    if isinstance(transition, Mapping):
        idle = sorted(set(transition) - set(own.annotators))
        if idle:
            yield f"{shorten(idle)}: a matrix was given, but there are no answers"
        if UNKNOWN_ANNOTATOR in clf.transitions_:
            yield "Some answers have no annotator; the mean of all matrices was used for them"


def hold_out(own: OwnData, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw the held-out examples, and leave at least one label of every class to train on."""
    check_number(fraction, "held_out", above=0, below=1)
    counts = own.labels_per_example

    def is_fair(part: slice) -> NDArray[np.bool_]:
        found = (counts[part] > 0) & (own.true_labels[part] < 0)
        if own.asked_at_random is not None:  # those that a model chose are harder than others
            answers = own.answers_about(part)
            at_random = own.example[answers][own.asked_at_random[answers]] - part.start
            found &= np.bincount(at_random, minlength=len(found)) > 0
        return found

    eligible = find_rows(counts, len(counts), is_fair)
    n_held_out = round(fraction * len(eligible))
    n_answered = sum(int(np.count_nonzero(counts[part])) for part in parts_of(len(counts)))
    if n_answered < FEWEST_EXAMPLES or not n_held_out:
        raise InvalidData(
            f"{own.source} must have at least {FEWEST_EXAMPLES} examples with a label, and some "
            f"whose true class is not known, to train on and to estimate the accuracy with. It has "
            f"{n_answered} and {len(eligible)}."
        )
    is_held_out = compute(counts, len(counts), bool, lambda _: False)
    rng.shuffle(eligible)
    for part in parts_of(n_held_out):
        is_held_out[eligible[part]] = True
    n_all, n_training = (np.zeros(own.n_classes, dtype=np.int64) for _ in range(2))
    for part in parts_of(len(own.label)):
        labels, is_training = own.label[part], ~is_held_out[own.example[part]]
        n_all += np.bincount(labels, minlength=own.n_classes)
        n_training += np.bincount(labels[is_training], minlength=own.n_classes)
    for label in np.flatnonzero((n_all > 0) & (n_training == 0)):
        is_held_out[own.example[own.label == label]] = False
    if not is_held_out.any():
        raise InvalidData(
            f"{own.source} must name each class several times, to train on and to estimate the "
            f"accuracy with. It has {len(own.label)} answers for {own.n_classes} classes."
        )
    return is_held_out


def _shares_by_annotator(own: OwnData) -> dict[str, NDArray[np.float64]]:
    """Compute the share of each class among the answers of each annotator."""
    is_label, shape = own.is_label, (len(own.annotators), own.n_classes)
    if own.annotator is None or not is_label.any():
        return {}
    counts = np.zeros(shape, dtype=np.int64)
    for part in parts_of(len(is_label)):
        who = own.annotator[part]
        chosen = is_label[part] & (who >= 0)
        cells = who[chosen] * own.n_classes + own.label[part][chosen]
        counts += np.bincount(cells, minlength=counts.size).reshape(shape)
    return {
        name: each / max(each.sum(), 1) for name, each in zip(own.annotators, counts, strict=True)
    }
