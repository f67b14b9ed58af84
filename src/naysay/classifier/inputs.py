"""Check labels, anchors and matrices, and turn class names into indices."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from naysay._base.checks import check_label_indices, shorten
from naysay._base.choices import Choices
from naysay._base.errors import InvalidInput, InvalidLabels, NoAnchorPoints
from naysay._base.mapped import compute, find_rows
from naysay.classifier.anchor_folds import Anchors
from naysay.observations import Observations
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.alignment import Transitions, align, are_text

_MOST_ROWS, _MOST_COLUMNS = 2_000, 500  # of X, to compare anchors with


def check_transition(transition: Any) -> Transitions | None:
    """Check the parameter `transition`; None stands for ``"uniform"`` and ``"estimate"``."""
    if isinstance(transition, Mapping):
        if not transition:
            raise InvalidInput("transition must have a matrix for each annotator. It is empty.")
        return {str(name): as_transition_matrix(Q) for name, Q in transition.items()}
    if isinstance(transition, str):
        if transition in ("uniform", "estimate"):
            return None
        raise InvalidInput(
            "transition must be 'uniform', 'estimate' or a matrix. "
            f"Got {transition!r}. To read a file: TransitionMatrix.read(path)."
        )
    return transition if isinstance(transition, TransitionMatrix) else TransitionMatrix(transition)


def read_labels(
    y: Any,
    n_examples: int,
    classes: Sequence[Any] | None,
    given: Transitions | None,
    *,
    is_estimated: bool = False,
) -> tuple[Observations, NDArray[Any], Transitions | None]:
    """Turn labels into indices, find all classes, and put the matrix in their order.

    The classes are those given, else those of the matrix, else those among the labels, sorted. A
    class that no label names is an error, unless a matrix is given or estimated from anchors.
    """
    if not isinstance(y, Observations) and not is_ruled_out(y):
        label = column_or_1d(y, warn=True)
        check_consistent_length(np.arange(n_examples), label)
        y = Observations(example=np.arange(n_examples), label=label)
    matrices = list(given.values()) if isinstance(given, Mapping) else [given] if given else []
    Q = next((Q for Q in matrices if Q.has_names), matrices[0] if matrices else None)
    if isinstance(y, Observations):
        if y.n_examples > n_examples:
            raise InvalidLabels(
                f"y must be about the {n_examples} examples of X. Got {y.n_examples}."
            )
        _check_no_gaps(y.label, "y")
        if classes is None:  # it warns if most labels differ, as they may with given classes
            check_classification_targets(y.label)
        lists = [] if y.offered is None else [np.array(each) for each in y.offered.lists]
        named = np.concatenate([y.label, *lists]) if lists and classes is None else y.label
        found = _check_classes(_find_classes(named, Q) if classes is None else classes)
        offered = y.offered
        if offered is not None:
            lists = [tuple(_encode(each, found, name="y").tolist()) for each in lists]
            offered = Choices(offered.codes, lists)
        label = _encode(y.label, found, name="y")
        labels = replace(y, n_examples=n_examples, label=label, offered=offered)
    else:
        n_rows, n_columns = np.shape(y)
        columns = Q.classes if Q is not None and Q.has_names else range(n_columns)
        found = _check_classes(columns if classes is None else classes)
        if n_columns != len(found):
            raise InvalidLabels(
                f"y must have one column per class, {len(found)}. Got shape {np.shape(y)}."
            )
        if n_rows != n_examples:
            raise InvalidLabels(f"y must be about the {n_examples} examples of X. Got {n_rows}.")
        labels = Observations.from_ruled_out(y)
    if given is None:
        if not is_estimated:
            _check_all_named(labels, found)
        return labels, found, None
    hint = "" if classes is not None else " Pass classes= if some class does not occur in y."
    return labels, found, align(given, found, hint=hint)


def is_ruled_out(y: Any) -> bool:
    """Check whether y is a boolean matrix of excluded classes."""
    try:
        array = np.asarray(y)
    except ValueError:  # ragged, which the check of scikit-learn reports
        return False
    return array.ndim == 2 and array.dtype == bool


class TrainingData(NamedTuple):
    """The data that a classifier learns from: checked, and with classes as indices."""

    X: NDArray[Any]
    labels: Observations
    given: Transitions | None  # the matrix, in the order of the classes; None if it is not given
    anchors: Anchors | None
    weights: NDArray[np.float64] | None  # of the examples; None if all count the same
    warnings: tuple[str, ...]


def refuse_anchors_in_pipeline(anchors: Any) -> None:
    """Refuse anchors that a Pipeline has passed to the calling `fit`, because it transforms only X.

    They need not look unlike X: after a PCA that scales, they only have other directions.
    """
    if anchors is None:
        return
    frame = inspect.currentframe()
    for _ in range(2):  # to `fit`, and to its caller
        frame = None if frame is None else frame.f_back
    pipeline = None if frame is None else frame.f_locals.get("self")
    steps = pipeline.steps[:-1] if isinstance(pipeline, Pipeline) else ()
    if any(step not in (None, "passthrough") for _, step in steps):
        raise InvalidInput(
            "anchors cannot be passed through a Pipeline, which transforms X, but not them. Pass "
            "true_labels=, the true classes of some examples of X, instead of anchors=, or fit "
            "the classifier outside the Pipeline, with X and anchors transformed."
        )


def gather_anchors(
    X: NDArray[Any],
    anchors: tuple[NDArray[Any], Any] | None,
    true_labels: Any,
    anchors_are: str,
    classes: NDArray[Any],
    *,
    are_needed: bool = False,
) -> Anchors | None:
    """Join anchors and the examples of X whose true class is known; None if there are none.

    They are needed to estimate the matrix; none is then an error.
    """
    if anchors_are not in ("random", "picked"):
        raise InvalidInput(f"anchors_are must be 'random' or 'picked'. Got {anchors_are!r}.")
    rows, known = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    if true_labels is not None:
        known = read_known_classes(true_labels, len(X), classes)
        rows = find_rows(known, len(known), lambda part: known[part] >= 0)
    parts = [(as_inputs(X[rows]), known[rows])]
    if anchors is not None:
        parts.append(
            (as_inputs(anchors[0]), read_true_labels(anchors[1], len(anchors[0]), classes))
        )
    inputs, indices = (np.concatenate(each) for each in zip(*parts, strict=True))
    if not len(indices):
        if are_needed:
            raise NoAnchorPoints(
                "transition='estimate' needs anchors: examples whose true class is known, 5 or 10 "
                "of each class. Pass fit(X, comp_labels, anchors=(X_anchor, y_anchor)), or "
                "true_labels= with the true classes of some examples of X."
            )
        return None
    others = np.full(len(indices) - len(rows), -1)
    return Anchors(inputs, indices, np.concatenate([rows, others]), anchors_are == "random")


def check_anchor_pair(anchors: Any) -> tuple[Any, Any]:
    """Check that anchors are examples and their true classes."""
    if not isinstance(anchors, tuple | list) or len(anchors) != 2:
        raise InvalidInput(f"anchors must be a pair (X_anchor, y_anchor). Got {shorten(anchors)}.")
    return anchors[0], anchors[1]


def read_true_labels(y_anchor: Any, n_anchors: int, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Turn the true classes of anchors into indices."""
    labels = column_or_1d(y_anchor)
    if len(labels) != n_anchors:
        raise InvalidLabels(
            f"anchors must have one true class per example. Got {n_anchors} examples and "
            f"{len(labels)} classes."
        )
    return _encode(labels, classes, name="y_anchor")


def read_known_classes(
    true_labels: Any, n_examples: int, classes: NDArray[Any]
) -> NDArray[np.int64]:
    """Turn true classes, most of which may be missing, into indices; -1 where they are missing."""
    values = np.ma.filled(true_labels, -1) if np.ma.isMaskedArray(true_labels) else true_labels
    labels = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if labels.shape != (n_examples,):
        raise InvalidLabels(
            f"true_labels must have one entry for each of the {n_examples} examples of X, NaN, "
            f"None or -1 where the class is not known. Got shape {labels.shape}."
        )
    gap = -1 if -1 not in classes.tolist() else None  # what a missing class is beside NaN and None

    def is_known(part: slice) -> NDArray[np.bool_]:
        if labels.dtype.kind in "iuf":
            return ~np.isnan(labels[part]) & (gap is None or labels[part] != gap)
        every = labels[part].tolist()
        return np.array([each is not None and each == each != gap for each in every], dtype=bool)

    rows = find_rows(labels, n_examples, is_known)
    known = compute(labels, n_examples, np.int64, lambda _: -1)
    if len(rows):
        given = labels[rows]
        if np.issubdtype(given.dtype, np.floating) and not np.issubdtype(
            classes.dtype, np.floating
        ):
            given = given.astype(np.int64)  # integers became floats to make room for NaN
        known[rows] = _encode(np.array(given.tolist()), classes, name="true_labels")
    return known


def read_weights(
    sample_weight: Any, X: NDArray[Any], labels: Observations
) -> NDArray[np.float64] | None:
    """Check the weights of examples; None if there are none, or all are equal."""
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    named = np.unique(labels.label[weights[labels.example] > 0])
    if len(named) < 2:
        raise InvalidLabels(
            f"y must name at least 2 classes in examples with a weight above 0. Got {len(named)} "
            "class."
        )
    return None if np.ptp(weights) == 0 else weights


def warn_if_unlike(X: NDArray[Any], X_anchor: NDArray[Any], n_classes: int) -> tuple[str, ...]:
    """Return a warning if the anchors were not transformed as X was, for instance scaled.

    A value of an anchor is unusual if it is far outside the range of X, if its column of X has only
    a few different values and it is none of them, or if the anchors cover less than half of the
    ranks of X. Anchors from the same source as X, balanced or not, have few unusual values; the
    warning is given if more than a tenth of the values of the median anchor are unusual.
    """
    rows, columns = (
        np.linspace(0, size - 1, min(size, most)).astype(int)
        for size, most in ((len(X), _MOST_ROWS), (int(np.prod(X.shape[1:])), _MOST_COLUMNS))
    )
    inputs = X[rows].reshape(len(rows), -1)[:, columns].astype(np.float64)
    anchors = X_anchor.reshape(len(X_anchor), -1)[:, columns].astype(np.float64)
    is_unusual = np.zeros(anchors.shape, dtype=bool)
    for column, values in enumerate(anchors.T):
        known, counts = np.unique(inputs[:, column], return_counts=True)
        after = np.searchsorted(known, values)
        if (counts == 1).sum() < 0.05 * len(rows):
            nearest = np.minimum(
                np.abs(values - known[after.clip(max=len(known) - 1)]),
                np.abs(values - known[(after - 1).clip(min=0)]),
            )
            is_unusual[:, column] = nearest > 1e-5 * np.abs(known).max()  # float32 rounds
        else:
            margin = 0.1 * (known[-1] - known[0])
            is_unusual[:, column] = (values < known[0] - margin) | (values > known[-1] + margin)
            is_unusual[:, column] |= len(values) >= 20 and np.ptp(after) < len(known) / 2
    share = float(np.median(is_unusual.mean(axis=1)))
    if share <= 0.1 + 2 * n_classes / len(rows):
        return ()
    return (
        f"The anchors do not look like X: for the median anchor, {share:.0%} of the values are "
        "unlike those of X, as if only X had been scaled. Transform X_anchor as X, or pass "
        "true_labels=, the true classes of some examples of X, instead of anchors=.",
    )


def _find_classes(labels: NDArray[Any], Q: TransitionMatrix | None) -> NDArray[Any]:
    """Find all classes: those of Q, or those among the labels, sorted."""
    seen = np.unique(labels)
    if Q is not None and len(seen):
        if labels.dtype.kind in "iu" and seen[0] >= 0 and seen[-1] < Q.n_classes:
            return np.arange(Q.n_classes)
        if labels.dtype.kind in "USO" and Q.has_names:
            return np.array(Q.classes)
    return seen


def _check_classes(classes: Any) -> NDArray[Any]:
    found = np.asarray(classes)
    if found.ndim != 1 or len(np.unique(found)) != len(found):
        raise InvalidInput(f"classes must be a list without repeats. Got {shorten(classes)}.")
    if len(found) < 2:
        raise InvalidLabels(
            f"y must name at least 2 classes. Got one class: {found[:1].tolist()}. If more classes "
            "exist, pass classes=."
        )
    return found


def _encode(labels: NDArray[Any], classes: NDArray[Any], *, name: str) -> NDArray[np.int64]:
    """Find the index of each label; integers are indices already if the classes are text."""
    if labels.dtype.kind in "iu" and are_text(classes):
        return check_label_indices(labels, classes.tolist(), name=name)
    _check_no_gaps(labels, name)
    order = np.argsort(classes)
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InvalidLabels(
            f"{name} must contain only the classes {shorten(classes.tolist())}. "
            f"Got also {shorten(unknown.tolist())}."
            + ("" if name == "y" else " If they are classes that no label names, pass classes=.")
        )
    return order[np.searchsorted(classes, labels, sorter=order)].astype(np.int64)


def _check_no_gaps(labels: NDArray[Any], name: str) -> None:
    if labels.dtype.kind != "O":
        return
    is_gap = [each is None or each != each for each in labels.flat]
    if any(is_gap):
        raise InvalidLabels(
            f"{name} must contain a label everywhere. Entry {is_gap.index(True)} is "
            f"{labels.flat[is_gap.index(True)]}: leave out examples without a label."
        )


def _check_all_named(labels: Observations, classes: NDArray[Any]) -> None:
    """Check that every class is named, except one if there are acceptances and rejections.

    An example of none of the suggested classes belongs to the one that is never suggested.
    """
    never = classes[np.bincount(labels.label, minlength=len(classes)) == 0].tolist()
    if len(never) > (labels.accepted is not None):
        raise InvalidLabels(
            f"y must name every class at least once; it never says 'not {never[0]}'"
            + (f" (nor {shorten(never[1:])})" if never[1:] else "")
            + ". Such a class cannot be learned. Collect such labels, leave the class out of "
            "classes=, pass the matrix that explains it, or pass anchors, examples whose true "
            "class is known, with transition='estimate'."
        )


def as_inputs(X: NDArray[Any]) -> NDArray[Any]:
    """Convert X to bytes or float32, without a copy if it has the type, as a mapped file may."""
    if X.dtype in (np.uint8, np.float32):
        return np.ascontiguousarray(X)
    with np.errstate(over="ignore"):
        inputs = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(inputs).all():
        raise InvalidInput("X must fit into float32; some values are larger. Scale them first.")
    return inputs
