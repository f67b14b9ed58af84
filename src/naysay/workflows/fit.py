"""What is said of a fit: figures, and the examples a person should look at."""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import __version__, metrics, quality
from naysay._base.checks import check_number, check_seed, shorten
from naysay._base.errors import InvalidData, InvalidLabels, NaysayWarning, NoAnchorPoints
from naysay.classifier import ComplementaryClassifier
from naysay.classifier.habit import Habit
from naysay.classifier.model_files import NetworkFactory
from naysay.classifier.targets import pool
from naysay.datasets.own import OwnData
from naysay.datasets.own.recipe import Recipe
from naysay.datasets.own.summary import Summary, summarise
from naysay.methods import Method, find_method
from naysay.metrics.accuracy import BEYOND_CHANCE, describe_outside, errors_outside
from naysay.observations import Observations
from naysay.quality.collapsed import WHAT_TO_DO
from naysay.transition import TransitionMatrix
from naysay.workflows.advice import find_problems, give_advice
from naysay.workflows.annotators import (
    NOBODY,
    check_matrices,
    complete,
    find_wrong_answers,
    who_answered,
)

__all__ = [
    "FitReport",
    "ShownExample",
    "estimate_accuracy",
    "estimate_own",
    "fit_own",
    "least_sure",
    "suspects",
]

_N_SHOWN = 12  # examples of each kind
_UNLIKELY = 2.33  # standard errors; by chance 1 in 100 estimates of a perfect model is so far above


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownExample:
    """One example that a person should look at."""

    name: str
    image: NDArray[np.uint8] | None
    """(channels, height, width); None for a table."""
    cells: dict[str, str]
    """The row of a table; empty for images."""
    said: tuple[str, ...]
    """The classes that annotators excluded."""
    guesses: tuple[tuple[str, float], ...]
    """The two most probable classes, with their probabilities."""
    doubt: float
    """What it is listed by: how unsure the model is, or how probably a label is wrong."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FitReport:
    """What was learned from, how well it went, and what to do next; no network in it."""

    summary: Summary
    method: str
    transition: TransitionMatrix
    transition_from: str
    """``uniform``, ``estimate`` or ``given``."""
    transitions: dict[str, TransitionMatrix]
    """The matrix of each annotator, who answered most first; empty where one serves for all."""
    habits: dict[str, NDArray[np.float64]]
    """The share of each class among the answers of each annotator."""
    n_anchors: int
    n_training: int
    n_held_out: int
    accuracy: metrics.Estimate
    """On the examples set aside, from their complementary labels."""
    precision: tuple[metrics.Estimate, ...]
    """How often a prediction of each class is right."""
    matrix_fits: bool
    """False where the accuracy shows that the matrix is not that of the labels."""
    n_predicted: tuple[int, ...]
    """How often each class is predicted, over all examples."""
    unsure: tuple[ShownExample, ...]
    suspects: tuple[ShownExample, ...] | None
    """Labels that look wrong; None where the matrix says that none is."""
    warnings: tuple[str, ...]
    advice: tuple[str, ...]
    seed: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON."""
        classes = self.transition.classes
        return {
            "data": self.summary.to_dict(),
            "method": self.method,
            "transition": {
                "from": self.transition_from,
                "values": np.asarray(self.transition).tolist(),
                "identifiable": self.transition.diagnose().identifiable,
                "fits": self.matrix_fits,
            },
            "transitions": {name: np.asarray(Q).tolist() for name, Q in self.transitions.items()},
            "anchors": self.n_anchors,
            "training_examples": self.n_training,
            "held_out_examples": self.n_held_out,
            "accuracy": self.accuracy.to_dict(),
            "precision": {
                name: each.to_dict() for name, each in zip(classes, self.precision, strict=True)
            },
            "predicted": dict(zip(classes, self.n_predicted, strict=True)),
            "unsure": [each.name for each in self.unsure],
            "suspects": None if self.suspects is None else [each.name for each in self.suspects],
            "warnings": list(self.warnings),
            "advice": list(self.advice),
            "seed": self.seed,
            "seconds": self.seconds,
        }


def estimate_accuracy(
    predicted: NDArray[np.int64],
    labels: NDArray[np.int64],
    Q: TransitionMatrix,
    *,
    Q_samples: Any = None,
    is_exact: bool = True,
) -> tuple[metrics.Estimate, str | None]:
    """Estimate the accuracy; say what is wrong with Q where no accuracy can be like that.

    Without `is_exact` the standard error leaves out that of an estimated Q, so more is needed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NaysayWarning)  # said below, and sooner
        found = metrics.accuracy_without_labels(predicted, labels, Q, Q_samples=Q_samples)
    shares = np.bincount(predicted, minlength=Q.n_classes) / len(predicted)
    outside = errors_outside(found, shares, np.asarray(Q))
    if outside <= (_UNLIKELY if is_exact else BEYOND_CHANCE):
        return found, None
    explained = "hardly explains" if outside <= BEYOND_CHANCE else "does not explain"
    return found, (
        f"{describe_outside(found)} {explained}: Q does not describe these labels. {WHAT_TO_DO}"
    )


def least_sure(own: OwnData, probs: NDArray[np.float64]) -> tuple[ShownExample, ...]:
    """Return the examples with the least probable best guess."""
    doubt = 1 - probs.max(axis=1)
    return _shown(own, probs, np.argsort(-doubt, kind="stable")[:_N_SHOWN], doubt)


def suspects(
    own: OwnData, probs: NDArray[np.float64], wrong: quality.WrongLabels
) -> tuple[ShownExample, ...]:
    """Return the examples of which an answer is more likely wrong than right, the worst first."""
    doubt = np.zeros(own.n_examples)
    np.maximum.at(doubt, own.example[wrong.indices], wrong.probabilities)
    listed = [index for index in np.argsort(-doubt, kind="stable")[:_N_SHOWN] if doubt[index] > 0.5]
    return _shown(own, probs, listed, doubt)


def _shown(
    own: OwnData,
    probs: NDArray[np.float64],
    examples: Sequence[int] | NDArray[np.int64],
    doubt: NDArray[np.float64],
) -> tuple[ShownExample, ...]:
    is_table = isinstance(own.recipe, Recipe)
    return tuple(
        ShownExample(
            name=own.name_of(int(index)),
            image=None if is_table else own.X[index],
            cells=own.recipe.describe(own.X[index]) if isinstance(own.recipe, Recipe) else {},
            said=tuple(own.classes[label] for label in own.label[own.example == index]),
            guesses=tuple(
                (own.classes[place], float(probs[index, place]))
                for place in np.argsort(-probs[index], kind="stable")[:2]
            ),
            doubt=float(doubt[index]),
        )
        for index in examples
    )


# From a user's own data to a model and what can be said of it, without a true label.
#
# One part of the examples is set aside before anything is learned. Its complementary labels say at
# the end how often the model is right.

_FEWEST_EXAMPLES = 10
_FIRST_A_MATRIX = (
    "5 to 10 true labels per class, to estimate Q from: the present Q does not describe these "
    "answers, and all figures rest on it."
)

Anchors = tuple[NDArray[Any], NDArray[np.int64]]


def fit_own(
    own: OwnData,
    *,
    anchors: Anchors | None = None,
    transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] = "uniform",
    allow_diagonal: bool = False,
    method: str | Method = "forward",
    network: NetworkFactory | None = None,
    epochs: int = 100,
    held_out: float = 0.2,
    seed: int = 0,
    progress: bool = False,
    command: str | None = None,
) -> tuple[ComplementaryClassifier, FitReport]:
    """Learn from a user's own data, and estimate how good the model is without a true label.

    Parameters
    ----------
    own : OwnData
        What `naysay.datasets.own.read_own` gave. True classes in it are anchors.
    anchors : pair of arrays, optional
        More anchors, as `naysay.datasets.own.read.read_anchors` gives them.
    transition : {"uniform", "estimate"}, TransitionMatrix, or one for each annotator by name
        As in `ComplementaryClassifier`.
    allow_diagonal, method, network, epochs, progress
        As in `ComplementaryClassifier`.
    held_out : float, default=0.2
        Share of the examples that is set aside to estimate the accuracy; none of them is learned
        from, and no anchor is among them.
    seed : int, default=0
    command : str, optional
        The command line that asked for the model; kept in the model file.

    Returns
    -------
    classifier : ComplementaryClassifier
        With `recipe_` and `provenance_`, ready to be saved.
    report : FitReport

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
    given = check_matrices(own, transition) if isinstance(transition, Mapping) else transition
    _check_consistent(own, given, allow_diagonal)
    is_held_out = _set_aside(own, held_out, rng)
    X_anchor, y_anchor = _join(own.anchors, anchors)
    names = np.array(own.classes)
    clf = ComplementaryClassifier(
        method=method,
        transition=given,
        allow_diagonal=allow_diagonal,
        network=network,
        classes=own.classes,
        epochs=epochs,
        progress=progress,
        random_state=int(rng.integers(2**31)),
    )
    kept = np.flatnonzero(~is_held_out & (own.labels_per_example > 0))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NaysayWarning)
        clf.fit(
            own.X[kept],
            _answers_about(own, kept),
            anchors=(X_anchor, names[y_anchor]) if len(y_anchor) else None,
        )
    habit = clf.habit_
    Q = _named(clf.transition_ if habit is None else habit.transition, own.classes)
    who = who_answered(own)
    matrices = complete(who, clf.transitions_, clf.transition_)
    probs = clf.predict_proba(own.X)
    predicted = probs.argmax(axis=1)
    answers = _one_answer_each(own, is_held_out, rng)
    known = None if habit is None else habit.uncertainty
    doubts = None if known is None or not Q.diagnose().identifiable else known.samples
    # of given matrices the mean over the very answers that are judged by it
    judge = Q if habit is not None else _named(pool(who[answers], matrices), own.classes)
    about = (predicted[own.example[answers]], own.label[answers], judge)
    is_exact = habit is None or doubts is not None
    accuracy, wrong_matrix = estimate_accuracy(*about, Q_samples=doubts, is_exact=is_exact)
    precision = metrics.precision_without_labels(*about, Q_samples=doubts)
    summary = summarise(own)
    name = transition if isinstance(transition, str) else "given"
    found = [str(each.message) for each in caught if issubclass(each.category, NaysayWarning)]
    advice = give_advice(summary, Q, accuracy, precision, y_anchor, name, known)
    if wrong_matrix is not None:
        found.insert(0, wrong_matrix)
        advice = (_FIRST_A_MATRIX,)  # the rest of it rests on Q
    if name == "estimate" and doubts is None:
        found.append("Q is an estimate too, and the intervals of the accuracy take it as exact")
    found += _about_annotators(own, clf, transition)
    wrong = find_wrong_answers(own, _as_shares(probs), matrices)
    report = FitReport(
        summary=summary,
        method=clf.method if isinstance(clf.method, str) else clf.method.name,
        transition=Q,
        transition_from=name,
        transitions=_by_answers(own, clf.transitions_),
        habits=_habits(own),
        n_anchors=len(y_anchor),
        n_training=len(kept),
        n_held_out=len(answers),
        accuracy=accuracy,
        precision=precision,
        matrix_fits=wrong_matrix is None,
        n_predicted=tuple(np.bincount(predicted, minlength=own.n_classes).tolist()),
        unsure=least_sure(own, probs),
        suspects=None if wrong is None else suspects(own, probs, wrong),
        warnings=(*summary.warnings, *found, *find_problems(Q, y_anchor, predicted)),
        advice=advice,
        seed=seed,
        seconds=time.perf_counter() - start,
    )
    clf.recipe_ = own.recipe
    clf.provenance_ = {
        "naysay": __version__,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "data": Path(own.source).name,
        "examples": own.n_examples,
        "answers": len(own.label),
        "anchors": len(y_anchor),
        "seed": seed,
        "command": command,
        "accuracy": accuracy.to_dict(),
    }
    return clf, report


def estimate_own(
    own: OwnData,
    *,
    anchors: Anchors | None = None,
    epochs: int = 100,
    seed: int = 0,
    allow_diagonal: bool = False,
    progress: bool = False,
) -> Habit:
    """Estimate how the annotators of a user's own data choose, from anchors.

    Parameters are those of `fit_own`; nothing is set aside.

    Returns
    -------
    Habit
        ``transition`` is the matrix; ``uncertainty`` has ``lower`` and ``upper``, the bounds of
        each entry, and is None where they are not known; ``by_annotator`` has a matrix for each
        annotator, where the data say who answered and show that they differ.

    Raises
    ------
    NoAnchorPoints
        If a class has no anchor.
    """
    X_anchor, y_anchor = _join(own.anchors, anchors)
    if not len(y_anchor):
        raise NoAnchorPoints(
            "The estimate needs anchors: examples whose true class is known, 5 or 10 of each "
            "class. Name their column in true_label (--true-label), or pass a file of them "
            "(--anchors)."
        )
    _check_consistent(own, None, allow_diagonal)
    labelled = np.flatnonzero(own.labels_per_example > 0)
    if len(labelled) < _FEWEST_EXAMPLES:
        raise InvalidData(
            f"{own.source} must have at least {_FEWEST_EXAMPLES} examples with a label. "
            f"It has {len(labelled)}."
        )
    clf = ComplementaryClassifier(
        transition="estimate",
        allow_diagonal=allow_diagonal,
        classes=own.classes,
        epochs=epochs,
        progress=progress,
        random_state=seed,
    )
    known = X_anchor, np.array(own.classes)[y_anchor]
    clf.fit(own.X[labelled], _answers_about(own, labelled), anchors=known)
    assert clf.habit_ is not None  # it is, with transition="estimate"
    return clf.habit_


def _named(Q: TransitionMatrix, classes: Sequence[str]) -> TransitionMatrix:
    """Return a matrix with the class names of the data."""
    if Q.classes == tuple(classes):
        return Q
    return TransitionMatrix(np.asarray(Q), classes, allow_diagonal=Q.allow_diagonal)


def _by_answers(
    own: OwnData, matrices: Mapping[str, TransitionMatrix]
) -> dict[str, TransitionMatrix]:
    """Return the matrices of those annotators who answered, most answers first."""
    names, counts = np.unique(who_answered(own), return_counts=True)
    order = names[np.argsort(-counts, kind="stable")].tolist()
    return {
        name: _named(matrices[name], own.classes)
        for name in order
        if name in matrices and name != NOBODY
    }


def _check_consistent(own: OwnData, transition: Any, allow_diagonal: bool) -> None:
    """Refuse answers that exclude every class of an example, where annotators never err."""
    matrices = transition.values() if isinstance(transition, Mapping) else [transition]
    if allow_diagonal or any(getattr(Q, "allow_diagonal", False) for Q in matrices):
        return
    excluded = np.flatnonzero(own.ruled_out.all(axis=1))
    if len(excluded):
        raise InvalidLabels(
            f"The answers about an example must leave it some class. Those about "
            f"{own.name_of(int(excluded[0]))} exclude every class (examples like that: "
            f"{len(excluded)}). Drop them, or say that annotators err: allow_diagonal "
            "(--allow-diagonal)."
        )


def _about_annotators(own: OwnData, clf: ComplementaryClassifier, transition: Any) -> Iterator[str]:
    """Say what was done about annotators that a reader might not expect."""
    if transition == "estimate" and own.annotators and not clf.transitions_:
        method = find_method(clf.method)
        yield "One matrix was estimated for all annotators together: " + (
            "these answers do not show that their habits differ"
            if method.takes_evidence
            else f"method {method.name!r} cannot use one for each"
        )
    if isinstance(transition, Mapping):
        idle = sorted(set(transition) - set(own.annotators))
        if idle:
            yield f"{shorten(idle)}: a matrix, but no answer"
        if NOBODY in clf.transitions_:
            yield (
                "Some answers do not say who gave them; they are taken to follow the mean of all "
                "matrices"
            )


def _set_aside(own: OwnData, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose the examples that are only for the estimate; every class stays to be learned."""
    check_number(share, "held_out", above=0, below=1)
    answered = own.labels_per_example > 0
    eligible = np.flatnonzero(answered & (own.true_labels < 0))
    n_held_out = round(share * len(eligible))
    if answered.sum() < _FEWEST_EXAMPLES or not n_held_out:
        raise InvalidData(
            f"{own.source} must have at least {_FEWEST_EXAMPLES} examples with a label, and some "
            f"whose true class is not known, to learn from and to estimate with. It has "
            f"{int(answered.sum())} and {len(eligible)}."
        )
    is_held_out = np.zeros(own.n_examples, dtype=bool)
    is_held_out[rng.permutation(eligible)[:n_held_out]] = True
    is_training_answer = ~is_held_out[own.example]
    for label in np.setdiff1d(own.label, own.label[is_training_answer]):
        is_held_out[own.example[own.label == label]] = False
    if not is_held_out.any():
        raise InvalidData(
            f"{own.source} must name each class several times, to learn from and to estimate with. "
            f"It has {len(own.label)} answers for {own.n_classes} classes."
        )
    return is_held_out


def _join(first: Anchors, second: Anchors | None) -> Anchors:
    if second is None:
        return first
    X, y = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    return X, y


def _answers_about(own: OwnData, examples: NDArray[np.int64]) -> Any:
    """Return the answers about some examples as the classifier takes them, by class name."""
    place = np.full(own.n_examples, -1)
    place[examples] = np.arange(len(examples))
    chosen = place[own.example] >= 0
    labels = np.array(own.classes)[own.label[chosen]]
    if not own.annotators and (own.labels_per_example[examples] == 1).all():
        return labels  # answers are in the order of the examples
    return Observations(
        example=place[own.example[chosen]],
        label=labels,
        annotator=who_answered(own)[chosen] if own.annotators else None,
        n_examples=len(examples),
    )


def _one_answer_each(
    own: OwnData, is_held_out: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return one answer about each of the examples set aside.

    Several answers about one example are not independent; one each keeps the interval honest.
    """
    order = rng.permutation(np.flatnonzero(is_held_out[own.example]))
    _, first = np.unique(own.example[order], return_index=True)
    return order[first]


def _habits(own: OwnData) -> dict[str, NDArray[np.float64]]:
    if own.annotator is None:
        return {}
    shares: dict[str, NDArray[np.float64]] = {}
    for index, name in enumerate(own.annotators):
        counts = np.bincount(own.label[own.annotator == index], minlength=own.n_classes)
        shares[name] = counts / max(counts.sum(), 1)
    return shares


def _as_shares(probs: NDArray[np.float64]) -> NDArray[np.float64]:
    return probs / probs.sum(axis=1, keepdims=True)  # some methods give scores only
