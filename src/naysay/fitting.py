"""From a user's own data to a model and what can be said of it, without a true label.

One part of the examples is set aside before anything is learned. Its complementary labels say at
the end how often the model is right.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import __version__, metrics, quality
from naysay._advice import find_problems, give_advice
from naysay._checks import check_number, check_seed
from naysay._errors import InvalidData, NaysayWarning, NoAnchorPoints
from naysay.classifier import ComplementaryClassifier
from naysay.datasets._preprocess import Recipe
from naysay.datasets.own import OwnData
from naysay.datasets.summary import Summary, summarise
from naysay.methods import Method
from naysay.observations import Observations
from naysay.persistence import NetworkFactory
from naysay.transition import TransitionMatrix

__all__ = ["FitReport", "ShownExample", "estimate_own", "fit_own"]

_FEWEST_EXAMPLES = 10
_N_SHOWN = 12  # examples of each kind in the report

Anchors = tuple[NDArray[Any], NDArray[np.int64]]


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
    habits: dict[str, NDArray[np.float64]]
    """The share of each class among the answers of each annotator."""
    n_anchors: int
    n_training: int
    n_held_out: int
    accuracy: metrics.Estimate
    """On the examples set aside, from their complementary labels."""
    precision: tuple[metrics.Estimate, ...]
    """How often a prediction of each class is right."""
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
            },
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


def fit_own(
    own: OwnData,
    *,
    anchors: Anchors | None = None,
    transition: str | TransitionMatrix = "uniform",
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
        More anchors, as `naysay.datasets.anchors.read_anchors` gives them.
    transition : {"uniform", "estimate"} or TransitionMatrix
        As in `ComplementaryClassifier`.
    method, network, epochs, progress
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
    is_held_out = _set_aside(own, held_out, rng)
    X_anchor, y_anchor = _join(own.anchors, anchors)
    names = np.array(own.classes)
    clf = ComplementaryClassifier(
        method=method,
        transition=transition,
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
    Q = TransitionMatrix(
        np.asarray(clf.transition_), own.classes, allow_diagonal=clf.transition_.allow_diagonal
    )
    probs = clf.predict_proba(own.X)
    predicted = probs.argmax(axis=1)
    examples, labels = _one_answer_each(own, is_held_out, rng)
    known = _uncertainty_of(clf)
    doubts = None if known is None or not Q.diagnose().identifiable else known.samples
    about = (predicted[examples], labels, Q)
    accuracy = metrics.accuracy_without_labels(*about, Q_samples=doubts)
    precision = metrics.precision_without_labels(*about, Q_samples=doubts)
    summary = summarise(own)
    name = transition if isinstance(transition, str) else "given"
    found = [str(each.message) for each in caught if issubclass(each.category, NaysayWarning)]
    if name == "estimate" and doubts is None:
        found.append("Q is an estimate too, and the intervals of the accuracy take it as exact")
    report = FitReport(
        summary=summary,
        method=clf.method if isinstance(clf.method, str) else clf.method.name,
        transition=Q,
        transition_from=name,
        habits=_habits(own),
        n_anchors=len(y_anchor),
        n_training=len(kept),
        n_held_out=len(examples),
        accuracy=accuracy,
        precision=precision,
        n_predicted=tuple(np.bincount(predicted, minlength=own.n_classes).tolist()),
        unsure=_least_sure(own, probs),
        suspects=_suspects(own, probs, Q) if np.diagonal(np.asarray(Q)).any() else None,
        warnings=(*summary.warnings, *found, *find_problems(Q, y_anchor, predicted)),
        advice=give_advice(summary, Q, accuracy, precision, y_anchor, name, known),
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
    progress: bool = False,
) -> tuple[TransitionMatrix, Any]:
    """Estimate how the annotators of a user's own data choose, from anchors.

    Parameters are those of `fit_own`; nothing is set aside.

    Returns
    -------
    Q : TransitionMatrix
    uncertainty : naysay.estimation.Uncertainty or None
        With ``lower`` and ``upper``, the bounds of each entry; None where they are not known.

    Raises
    ------
    NoAnchorPoints
        If a class has no anchor.
    """
    X_anchor, y_anchor = _join(own.anchors, anchors)
    if not len(y_anchor):
        raise NoAnchorPoints(
            "The estimate needs anchors: examples whose true class is known, 5 or 10 of each "
            "class. Name their column in true_label, or pass a file of them."
        )
    labelled = np.flatnonzero(own.labels_per_example > 0)
    if len(labelled) < _FEWEST_EXAMPLES:
        raise InvalidData(
            f"{own.source} must have at least {_FEWEST_EXAMPLES} examples with a label. "
            f"It has {len(labelled)}."
        )
    clf = ComplementaryClassifier(
        transition="estimate",
        classes=own.classes,
        epochs=epochs,
        progress=progress,
        random_state=seed,
    )
    known = X_anchor, np.array(own.classes)[y_anchor]
    clf.fit(own.X[labelled], _answers_about(own, labelled), anchors=known)
    return clf.transition_, _uncertainty_of(clf)


def _uncertainty_of(clf: ComplementaryClassifier) -> Any:
    """Return how sure an estimated matrix is; None of one that was given."""
    habit = getattr(clf, "habit_", None)
    return None if habit is None else habit.uncertainty


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
    if (own.labels_per_example[examples] == 1).all():
        return labels  # answers are in the order of the examples
    return Observations(example=place[own.example[chosen]], label=labels, n_examples=len(examples))


def _one_answer_each(
    own: OwnData, is_held_out: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the examples set aside and one answer about each.

    Several answers about one example are not independent; one each keeps the interval honest.
    """
    order = rng.permutation(np.flatnonzero(is_held_out[own.example]))
    examples, first = np.unique(own.example[order], return_index=True)
    return examples, own.label[order[first]]


def _habits(own: OwnData) -> dict[str, NDArray[np.float64]]:
    if own.annotator is None:
        return {}
    shares: dict[str, NDArray[np.float64]] = {}
    for index, name in enumerate(own.annotators):
        counts = np.bincount(own.label[own.annotator == index], minlength=own.n_classes)
        shares[name] = counts / max(counts.sum(), 1)
    return shares


def _least_sure(own: OwnData, probs: NDArray[np.float64]) -> tuple[ShownExample, ...]:
    doubt = 1 - probs.max(axis=1)
    return _shown(own, probs, np.argsort(-doubt, kind="stable")[:_N_SHOWN], doubt)


def _suspects(
    own: OwnData, probs: NDArray[np.float64], Q: TransitionMatrix
) -> tuple[ShownExample, ...]:
    shares = probs / probs.sum(axis=1, keepdims=True)  # some methods give scores only
    found = quality.find_wrong_labels(shares[own.example], own.label, Q)
    doubt = np.zeros(own.n_examples)
    np.maximum.at(doubt, own.example[found.indices], found.probabilities)
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
