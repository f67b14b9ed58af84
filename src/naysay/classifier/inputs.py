"""Labels, anchors and matrices as the user writes them, checked and turned into indices."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay.classifier.targets import Transitions
from naysay.functional import as_transition
from naysay.observations import Observations
from naysay.transition import TransitionMatrix


def read_transition(transition: Any, classes: Sequence[Any] | None) -> Transitions | None:
    """Return what the user gave; None when it is uniform or to be estimated."""
    if isinstance(transition, TransitionMatrix):
        return transition
    if isinstance(transition, Mapping):
        if not transition:
            raise InvalidInput("transition must have a matrix for each annotator. It is empty.")
        return {str(name): as_transition(Q) for name, Q in transition.items()}
    if isinstance(transition, str):
        if transition in ("uniform", "estimate"):
            return None
        raise InvalidInput(
            "transition must be 'uniform', 'estimate' or a matrix. "
            f"Got {transition!r}. To read a file: TransitionMatrix.read(path)."
        )
    names = None if classes is None else list(map(str, classes))
    return TransitionMatrix(transition, names)


def is_ruled_out(y: Any) -> bool:
    """Say whether y is a boolean matrix of excluded classes."""
    try:
        array = np.asarray(y)
    except ValueError:  # ragged: scikit-learn's own check says so
        return False
    return array.ndim == 2 and array.dtype == bool


def read_labels(
    y: Any, n_samples: int, classes: Sequence[Any] | None, given: Transitions | None
) -> tuple[Observations, NDArray[Any]]:
    """Return the answers about `n_samples` examples, with labels as indices, and the classes."""
    matrices = list(given.values()) if isinstance(given, Mapping) else [given]
    answers, named = _read_answers(y, n_samples, classes, matrices[0])
    check_classification_targets(answers.label)
    *_, found = (_find_classes(answers.label, named, Q) for Q in matrices)  # every Q must fit
    labels = _encode(answers.label, found, name="y")
    if given is None:
        _check_all_named(labels, found)
    return replace(answers, label=labels), found


def check_pair(anchors: Any) -> tuple[Any, Any]:
    """Check that anchors are a pair of inputs and true classes."""
    if not isinstance(anchors, tuple | list) or len(anchors) != 2:
        raise InvalidInput(f"anchors must be a pair (X_anchor, y_anchor). Got {shorten(anchors)}.")
    return anchors[0], anchors[1]


def read_true_labels(y_anchor: Any, n_anchors: int, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the true classes of anchors as indices."""
    labels = column_or_1d(y_anchor)
    if len(labels) != n_anchors:
        raise InvalidLabels(
            f"anchors must have one true class per example. Got {n_anchors} examples and "
            f"{len(labels)} classes."
        )
    return _encode(labels, classes, name="y_anchor")


def _read_answers(
    y: Any, n_samples: int, classes: Sequence[Any] | None, given: TransitionMatrix | None
) -> tuple[Observations, Sequence[Any] | None]:
    """Return answers about `n_samples` examples, and the classes as far as y or Q names them.

    The columns of a boolean matrix are the classes given, else those that Q names, else numbers.
    """
    if isinstance(y, Observations):
        if y.n_examples > n_samples:
            raise InvalidLabels(
                f"y must be about the {n_samples} examples of X. Got {y.n_examples}."
            )
        return replace(y, n_examples=n_samples), classes
    n_rows, n_columns = np.shape(y)
    if classes is None:
        classes = given.classes if given is not None and given.has_names else range(n_columns)
    if len(classes) != n_columns:
        raise InvalidLabels(
            f"y must have one column per class, {len(classes)}. Got shape {(n_rows, n_columns)}."
        )
    if n_rows != n_samples:
        raise InvalidLabels(f"y must be about the {n_samples} examples of X. Got {n_rows}.")
    answers = Observations.from_ruled_out(y)
    return replace(answers, label=np.asarray(classes)[answers.label]), classes


def _find_classes(
    y: NDArray[Any], classes: Sequence[Any] | None, given: TransitionMatrix | None
) -> NDArray[Any]:
    """Return all classes, in the order of the rows of Q."""
    seen = np.unique(y)
    if classes is not None:
        found = np.asarray(classes)
        if found.ndim != 1 or len(np.unique(found)) != len(found):
            raise InvalidInput(f"classes must be a list without repeats. Got {shorten(classes)}.")
    elif given is None:
        found = seen
    elif y.dtype.kind in "iu" and seen[0] >= 0 and seen[-1] < given.n_classes:
        found = np.arange(given.n_classes)
    elif y.dtype.kind in "USO" and given.has_names:
        found = np.array(given.classes)
    else:
        found = seen
    if len(found) < 2:
        raise InvalidLabels(
            f"y must name at least 2 classes. Got one class: {found[:1].tolist()}. If more classes "
            "exist, pass classes=."
        )
    if given is not None:
        _check_fits(found, given)
    return found


def _check_fits(classes: NDArray[Any], Q: TransitionMatrix) -> None:
    if len(classes) != Q.n_classes:
        raise InvalidTransitionMatrix(
            f"transition must have one row per class: {len(classes)} classes, "
            f"{shorten(classes.tolist())}. Got {Q.n_classes} rows. Pass classes= if some class "
            "does not occur in y."
        )
    by_name = classes.dtype.kind in "USO" and Q.has_names
    if by_name and tuple(map(str, classes)) != Q.classes:
        raise InvalidTransitionMatrix(
            "transition must have its rows in the order of the classes, "
            f"{shorten(classes.tolist())}. Its rows are {shorten(Q.classes)}."
        )


def _encode(labels: NDArray[Any], classes: NDArray[Any], *, name: str) -> NDArray[np.int64]:
    """Return the index of each label among the classes."""
    order = np.argsort(classes)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InvalidLabels(
            f"{name} must hold only the classes {shorten(classes.tolist())}. "
            f"Got also {shorten(unknown.tolist())}."
        )
    return order[np.searchsorted(classes, labels, sorter=order)].astype(np.int64)


def _check_all_named(labels: NDArray[np.int64], classes: NDArray[Any]) -> None:
    never = classes[np.bincount(labels, minlength=len(classes)) == 0].tolist()
    if never:
        raise InvalidLabels(
            f"y must name every class at least once; it never says 'not {never[0]}'"
            + (f" (nor {shorten(never[1:])})" if never[1:] else "")
            + ". Such a class cannot be learned. Collect such labels, leave the class out of "
            "classes=, or pass the matrix that explains it."
        )
