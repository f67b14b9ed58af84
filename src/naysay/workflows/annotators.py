"""Answers in a user's data, who gave them, and the matrix of each annotator."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay.classifier.inputs import align
from naysay.classifier.targets import pool
from naysay.datasets.own import OwnData
from naysay.observations import Observations
from naysay.quality import WrongLabels, find_wrong_labels
from naysay.transition import TransitionMatrix
from naysay.transition.folder import file_name

__all__ = [
    "FEWEST_EXAMPLES",
    "UNKNOWN_ANNOTATOR",
    "Anchors",
    "annotator_names",
    "check_consistent",
    "check_matrices",
    "complete",
    "find_wrong_answers",
    "join_anchors",
    "observations",
]

Anchors = tuple[NDArray[Any], NDArray[np.int64]]  # inputs, and true classes as indices

FEWEST_EXAMPLES = 10  # with a label, to learn from
UNKNOWN_ANNOTATOR = ""  # gave the answers of which the data do not say whose they are


def annotator_names(own: OwnData) -> NDArray[np.str_]:
    """Return who gave each answer, by name."""
    if own.annotator is None:
        return np.full(len(own.label), UNKNOWN_ANNOTATOR)
    return np.array([*own.annotators, UNKNOWN_ANNOTATOR])[own.annotator]  # -1 is the last


def observations(own: OwnData, examples: NDArray[np.int64]) -> Observations:
    """Return the answers about some examples as the classifier takes them, labels as indices."""
    place = np.full(own.n_examples, -1)
    place[examples] = np.arange(len(examples))
    example = place[own.example]
    chosen = example >= 0
    return Observations(
        example=example[chosen],
        label=own.label[chosen],
        annotator=annotator_names(own)[chosen] if own.annotators else None,
        n_examples=len(examples),
    )


def check_consistent(own: OwnData, transition: Any, allow_diagonal: bool) -> None:
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


def join_anchors(own: OwnData, more: Anchors | None) -> Anchors:
    """Return the anchors among the data, and more that were given beside them."""
    if more is None:
        return own.anchors
    X, y = (np.concatenate(parts) for parts in zip(own.anchors, more, strict=True))
    return X, y


def complete(
    who: NDArray[np.str_], matrices: Mapping[str, TransitionMatrix], others: TransitionMatrix
) -> dict[str, TransitionMatrix]:
    """Return a matrix for everybody who answered; `others` is that of those who have none."""
    return {name: matrices.get(name, others) for name in np.unique(who).tolist()}


def check_matrices(
    own: OwnData, matrices: Mapping[str, TransitionMatrix]
) -> dict[str, TransitionMatrix]:
    """Return the matrices, with the mean of all for answers by nobody, if they fit the data.

    Raises
    ------
    InvalidInput
        If the data do not say who answered.
    InvalidTransitionMatrix
        If an annotator has no matrix, or one is not about the classes of the data.
    InvalidLabels
        If an annotator said what their matrix holds for impossible.
    """
    if not own.annotators:
        raise InvalidInput(
            "A matrix for each annotator needs data that say who gave each answer. Name that "
            "column: annotator (--annotator)."
        )
    missing = [name for name in own.annotators if name not in matrices]
    if missing:
        raise InvalidTransitionMatrix(
            f"Each of the {len(own.annotators)} annotators in {own.source} must have a matrix. "
            f"{shorten(missing)} has none: add {file_name(missing[0])!r} to the folder. It has "
            f"matrices of {shorten(sorted(matrices))}."
        )
    found = {
        name: align(Q, own.classes, name=f"The matrix of annotator {name!r}")
        for name, Q in matrices.items()
    }
    who = annotator_names(own)
    if (who == UNKNOWN_ANNOTATOR).any():
        found[UNKNOWN_ANNOTATOR] = pool(who[who != UNKNOWN_ANNOTATOR], found)
    for name in np.unique(who).tolist():
        _check_possible(own, who, name, found[name])
    return found


def _check_possible(own: OwnData, who: NDArray[np.str_], name: str, Q: TransitionMatrix) -> None:
    said = np.bincount(own.label[who == name], minlength=own.n_classes)
    impossible = np.flatnonzero((said > 0) & ~np.asarray(Q).any(axis=0))
    if len(impossible):
        label = int(impossible[0])
        answer = int(np.flatnonzero((who == name) & (own.label == label))[0])
        raise InvalidLabels(
            f"An annotator must only say what their matrix allows. {name!r} says 'not "
            f"{own.classes[label]}' {said[label]} times, first about "
            f"{own.name_of(int(own.example[answer]))}, but that column of their matrix is all "
            "zero. Mend the matrix, or drop these answers."
        )


def find_wrong_answers(
    own: OwnData, probs: NDArray[np.float64], matrices: Mapping[str, TransitionMatrix]
) -> WrongLabels | None:
    """Rank all answers by the probability that they are wrong; None where no matrix knows mistakes.

    Parameters
    ----------
    probs : array of shape (n_examples, n_classes)
    matrices : mapping
        Of everybody who answered, as `complete` gives them.
    """
    who = annotator_names(own)
    wrong = np.zeros(len(own.label))
    erring = [name for name, Q in matrices.items() if np.asarray(Q).diagonal().any()]
    for name in erring:
        answers = np.flatnonzero(who == name)
        found = find_wrong_labels(probs[own.example[answers]], own.label[answers], matrices[name])
        wrong[answers[found.indices]] = found.probabilities
    order = np.argsort(-wrong, kind="stable")
    return (
        WrongLabels(
            indices=order,
            probabilities=wrong[order],
            labels=own.label[order],
            classes=own.classes,
        )
        if erring
        else None
    )
