"""Put matrices in the order of the classes, and average those of several annotators."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidTransitionMatrix
from naysay._base.mapped import parts_of
from naysay.transition.matrix import TransitionMatrix

Transitions = TransitionMatrix | Mapping[str, TransitionMatrix]  # for all, or by annotator


def align(
    transitions: Transitions, classes: Sequence[Any] | NDArray[Any], *, hint: str = ""
) -> Transitions:
    """Put the rows and columns of a matrix, or of one for each annotator, in the order of classes.

    Classes are matched by name where both the matrix and the labels have names. Otherwise they are
    matched by position, and a matrix without names gets those of the classes.

    An error message about the number of classes ends with `hint`.

    Examples
    --------
    >>> Q = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]], ["cat", "dog", "owl"])
    >>> np.asarray(align(Q, ["owl", "cat", "dog"]))
    array([[0. , 1. , 0. ],
           [0.1, 0. , 0.9],
           [0.5, 0.5, 0. ]])
    """
    if isinstance(transitions, TransitionMatrix):
        return _align_one(transitions, classes, "transition", hint)
    return {
        name: _align_one(Q, classes, f"The matrix of annotator {name!r}", hint)
        for name, Q in transitions.items()
    }


def _align_one(
    Q: TransitionMatrix, classes: Sequence[Any] | NDArray[Any], name: str, hint: str
) -> TransitionMatrix:
    names = tuple(map(str, classes))
    if Q.classes == names:
        return Q
    by_name = Q.has_names and are_text(classes)
    if by_name and set(Q.classes) != set(names):
        missing = [each for each in names if each not in Q.classes]
        unknown = [each for each in Q.classes if each not in names]
        differences = [f"lacks {shorten(missing)}"] * bool(missing)
        differences += [f"also has {shorten(unknown)}"] * bool(unknown)
        raise InvalidTransitionMatrix(
            f"{name} must have the classes {shorten(names)}. It {' and '.join(differences)}."
        )
    if Q.n_classes != len(names):
        raise InvalidTransitionMatrix(
            f"{name} must have one row per class: {len(names)} classes, "
            f"{shorten(list(classes))}. Got {Q.n_classes} rows.{hint}"
        )
    if Q.has_names and not by_name:
        return Q  # the labels are numbers, which index the rows of Q
    if Q.is_uniform:
        return TransitionMatrix.uniform(Q.n_classes, classes=names)
    values = Q.entries
    if by_name:
        place = {each: index for index, each in enumerate(Q.classes)}
        order = [place[each] for each in names]
        values = values[order][:, order]
    return TransitionMatrix(values, names, allow_diagonal=Q.allow_diagonal)


def pool(
    annotator: NDArray[Any] | Mapping[str, float] | None, transitions: Transitions
) -> TransitionMatrix:
    """Average the matrices of annotators, weighted by the number of answers of each.

    `annotator` has the annotator of each answer, or the number or the share of those of each.
    """
    if isinstance(transitions, TransitionMatrix):
        return transitions
    counted = annotator if isinstance(annotator, Mapping) else count_names(annotator)
    names = sorted(name for name, count in counted.items() if count)
    used = [transitions[name] for name in names]
    if not used:
        return next(iter(transitions.values()))
    counts = np.array([counted[name] for name in names])
    shares = counts / counts.sum()
    values = sum(share * Q.entries for share, Q in zip(shares, used, strict=True))
    may_err = any(Q.allow_diagonal for Q in used)
    return TransitionMatrix(values, used[0].classes, allow_diagonal=may_err)


def count_names(names: NDArray[Any] | None) -> Counter[str]:
    """Count how often each name occurs, in parts."""
    counts = Counter[str]()
    for part in parts_of(0 if names is None else len(names)):
        assert names is not None  # there are parts
        distinct, numbers = np.unique(names[part], return_counts=True)
        counts.update(dict(zip(distinct.tolist(), numbers.tolist(), strict=True)))
    return counts


def are_text(values: Any) -> bool:
    """Check whether values are text."""
    array = np.asarray(values)
    return array.dtype.kind == "U" or (
        array.dtype.kind == "O" and all(isinstance(each, str) for each in array.flat)
    )
