"""Answers in a user's data, who gave them, and the matrix of each annotator."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay.classifier.targets import pool
from naysay.datasets.own import OwnData
from naysay.quality import WrongLabels, find_wrong_labels
from naysay.transition import TransitionMatrix
from naysay.transition.folder import file_name

__all__ = ["NOBODY", "check_matrices", "complete", "find_wrong_answers", "who_answered"]

NOBODY = ""  # gave the answers of which the data do not say whose they are


def who_answered(own: OwnData) -> NDArray[np.str_]:
    """Return who gave each answer, by name."""
    if own.annotator is None:
        return np.full(len(own.label), NOBODY)
    return np.array([*own.annotators, NOBODY])[own.annotator]  # -1 is the last


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
        name: in_order_of_classes(Q, own, f"The matrix of annotator {name!r}")
        for name, Q in matrices.items()
    }
    who = who_answered(own)
    if (who == NOBODY).any():
        found[NOBODY] = pool(who[who != NOBODY], found)
    for name in np.unique(who).tolist():
        _check_possible(own, who, name, found[name])
    return found


def in_order_of_classes(Q: TransitionMatrix, own: OwnData, what: str) -> TransitionMatrix:
    """Return the matrix with its classes in the order of the data; refuse one of other classes."""
    if Q.classes == own.classes or (Q.n_classes == own.n_classes and not Q.has_names):
        return Q
    lacking = [name for name in own.classes if name not in Q.classes]
    strange = [name for name in Q.classes if name not in own.classes]
    if lacking or strange:
        differ = [f"lacks {shorten(lacking)}"] * bool(lacking)
        differ += [f"also has {shorten(strange)}"] * bool(strange)
        raise InvalidTransitionMatrix(
            f"{what} must have the classes {shorten(own.classes)}. It {' and '.join(differ)}."
        )
    if Q.is_uniform:
        return TransitionMatrix.uniform(Q.n_classes, classes=own.classes)
    order = [Q.classes.index(name) for name in own.classes]
    values = Q.entries[order][:, order]
    return TransitionMatrix(values, own.classes, allow_diagonal=Q.allow_diagonal)


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
    who = who_answered(own)
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
