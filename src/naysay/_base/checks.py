"""Checks of arguments, and the wording of their errors.

Each error says what is required, what was passed and where, and what to do. A check returns its
argument in the form that the code behind it relies on, so that nothing is checked twice.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from naysay._base.errors import (
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayError,
    NoAnchorPoints,
)

ROW_SUM_TOLERANCE = 1e-6  # allows a softmax in float32, but not values rounded to 4 digits


def named(index: int, classes: Sequence[str]) -> str:
    """Format a class for an error message: ``7``, or ``7 ('horse')`` if it has a name."""
    name = classes[index]
    return f"{index}" if name == str(index) else f"{index} ({name!r})"


def check_n_classes(n_classes: Any) -> int:
    """Check that the number of classes is an integer of at least two, and return it as an int."""
    reason = ": one class leaves nothing to exclude"
    return check_count(n_classes, "n_classes", least=2, reason=reason)


def check_class_names(classes: Any, n_classes: int) -> tuple[str, ...]:
    """Check class names and return them as strings; the default names are ``'0', '1', …``."""
    if classes is None:
        return tuple(map(str, range(n_classes)))
    try:
        names = tuple(map(str, classes))
    except TypeError:
        raise InvalidTransitionMatrix(
            f"classes must be a list of {n_classes} names. Got {shorten(classes)}."
        ) from None
    if len(names) != n_classes:
        raise InvalidTransitionMatrix(
            f"classes must name each of the {n_classes} classes of Q once. "
            f"Got {len(names)} names: {shorten(names)}."
        )
    if len(set(names)) != n_classes:
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidTransitionMatrix(f"classes must differ from each other; {twice!r} is twice.")
    return names


def check_transition_values(
    values: Any, classes: Any, *, allow_diagonal: bool
) -> tuple[csr_array, tuple[str, ...]]:
    """Check the entries of Q, and return them in sparse form with the class names."""
    matrix = _as_float_matrix(values)
    n_classes = len(matrix.indptr) - 1
    if n_classes < 2:
        raise InvalidTransitionMatrix(f"Q must have at least 2 classes. Got {n_classes}.")
    names = check_class_names(classes, n_classes)
    _refuse_entries(matrix, names, ~np.isfinite(matrix.data), "must have finite entries")
    _refuse_entries(matrix, names, matrix.data < 0, "must not have negative entries")
    _check_row_sums(matrix, names)
    diagonal = matrix.diagonal()
    if diagonal.any() and not allow_diagonal:
        i = int(np.flatnonzero(diagonal)[0])
        raise InvalidTransitionMatrix(
            "Q must have a zero diagonal: a complementary label never names the true class. "
            f"Q[{named(i, names)}, {named(i, names)}] is {diagonal[i]:.4g}. "
            "If annotators err, pass allow_diagonal=True."
        )
    return matrix, names


def _as_float_matrix(values: Any) -> csr_array:
    rule = "Q must be a matrix of numbers, shape (n_classes, n_classes)"
    if not issparse(values):
        values = as_real_numbers(values, rule, InvalidTransitionMatrix)
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        raise InvalidTransitionMatrix(f"{rule}. Got shape {values.shape}, {values.dtype}.")
    matrix = csr_array(values, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    n_rows, n_columns = cast("tuple[int, int]", matrix.shape)
    if n_rows != n_columns:
        raise InvalidTransitionMatrix(
            "Q must be square, one row per true class and one column per complementary label. "
            f"Got shape ({n_rows}, {n_columns})."
        )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _refuse_entries(
    matrix: csr_array, names: Sequence[str], bad: NDArray[np.bool_], rule: str
) -> None:
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
        column = int(matrix.indices[at])
        raise InvalidTransitionMatrix(
            f"Q {rule}. Q[{named(row, names)}, {named(column, names)}] is {matrix.data[at]:.4g}."
        )


def _check_row_sums(matrix: csr_array, names: Sequence[str]) -> None:
    with np.errstate(over="ignore"):  # an infinite sum is refused like any other that is not 1
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        column_sums = np.asarray(matrix.sum(axis=0)).ravel()
    wrong = np.abs(sums - 1) > ROW_SUM_TOLERANCE
    if not wrong.any():
        return
    row = int(np.argmax(wrong))
    message = f"Q must have rows that sum to 1; row {named(row, names)} sums to {sums[row]:.6g}."
    if np.allclose(column_sums, 1, atol=ROW_SUM_TOLERANCE):
        message += " Its columns do sum to 1, so this looks transposed: pass Q.T."
    else:
        message += " If they are counts or rounded, divide each row by its sum."
    raise InvalidTransitionMatrix(message)


def check_label_indices(
    labels: ArrayLike, classes: Sequence[str], *, name: str = "labels"
) -> NDArray[np.int64]:
    """Convert labels, given as indices or as class names, to indices of the same shape."""
    try:
        array = np.asarray(labels)
    except (ValueError, RuntimeError) as problem:
        raise InvalidLabels(
            f"{name} must be an array of integers 0..{len(classes) - 1} or of class names. "
            f"Got {shorten(labels)}: {problem}."
        ) from None
    if not array.size:
        return np.empty(array.shape, dtype=np.int64)
    if array.dtype.kind in "USO":
        return _indices_of_names(array, classes, name)
    if array.dtype.kind not in "iu":
        raise InvalidLabels(
            f"{name} must be integers 0..{len(classes) - 1} or class names. "
            f"Got {array.dtype} of shape {array.shape}. Whole numbers: pass {name}.astype(int)."
        )
    if array.min() < 0 or array.max() >= len(classes):
        outside = (array < 0) | (array >= len(classes))
        raise InvalidLabels(
            f"{name} must be integers 0..{len(classes) - 1}. Got {array[outside].flat[0]}, and "
            f"{int(outside.sum())} of {array.size} labels are out of range."
        )
    return array.astype(np.int64, copy=False)


def _indices_of_names(array: NDArray[Any], classes: Sequence[str], name: str) -> NDArray[np.int64]:
    index_of = {class_name: index for index, class_name in enumerate(classes)}
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    found, inverse = np.unique(array.astype(str), return_inverse=True)
    unknown = [str(label) for label in found if label not in index_of]
    if unknown:
        raise InvalidLabels(
            f"{name} must name the classes {shorten(tuple(classes))}. Got {shorten(unknown)}."
        )
    positions = np.array([index_of[label] for label in found], dtype=np.int64)
    return positions[inverse].reshape(array.shape)


def check_one_label_each(
    labels: ArrayLike,
    classes: Sequence[str],
    n: int,
    *,
    name: str,
    of: str,
    allow_empty: bool = False,
) -> NDArray[np.int64]:
    """Check that there is one label for each of n rows, and convert labels to indices."""
    indices = check_label_indices(labels, classes, name=name)
    if indices.shape != (n,) or not (n or allow_empty):
        least = "" if allow_empty else ", and at least one"
        raise InvalidLabels(
            f"{name} must have one label per {of}, shape ({n},){least}. Got shape {indices.shape}."
        )
    return indices


def impossible_label(label: int, n_rows: int, classes: Sequence[str]) -> InvalidLabels:
    """Create the error about a complementary label whose column of Q is all zero."""
    return InvalidLabels(
        f"comp_labels contains class {named(label, classes)}, but Q[:, {label}] is all zero, so "
        f"that label could never occur. Re-estimate Q or drop the {n_rows} rows."
    )


def check_probabilities(
    probs: ArrayLike, *, name: str, n_classes: int | None = None
) -> NDArray[np.floating[Any]]:
    """Check that the rows of an ``(n, n_classes)`` array are probability vectors.

    float32 arrays keep their precision; all other input becomes float64.
    """
    if isinstance(probs, np.ndarray) and probs.dtype == np.float32:
        array = probs
    else:
        array = as_real_numbers(probs, f"{name} must be an array of numbers", InvalidInput)
    if array.ndim != 2 or n_classes not in (None, array.shape[1]):
        raise InvalidInput(
            f"{name} must have one row per example and one column per class, shape "
            f"(n, {'n_classes' if n_classes is None else n_classes}). Got shape {array.shape}."
        )
    for rows in row_slices(*array.shape):  # in parts: a float64 copy of a million rows is large
        part = array[rows].astype(np.float64, copy=False)
        if not np.isfinite(part).all() or (part < 0).any():
            raise InvalidInput(
                f"{name} must be finite and not negative: probabilities, not logits."
            )
        off = np.abs(part.sum(axis=1) - 1)
        if off.max() > 1e-3:
            row = int(off.argmax())
            raise InvalidInput(
                f"{name} must have rows that sum to 1; row {rows.start + row} sums to "
                f"{part[row].sum():.4g}. For logits apply a softmax first."
            )
    return array


def check_class_prior(prior: ArrayLike | None, n_classes: int) -> NDArray[np.float64]:
    """Check a class prior and divide it by its sum; uniform if it is None."""
    if prior is None:
        return np.full(n_classes, 1 / n_classes)
    pi = as_real_numbers(prior, f"prior must be {n_classes} probabilities", InvalidInput)
    if pi.shape != (n_classes,) or not (pi >= 0).all() or abs(pi.sum() - 1) > 1e-6:
        raise InvalidInput(
            f"prior must be {n_classes} probabilities that sum to 1. Got {shorten(prior)}."
        )
    pi = pi / pi.sum()
    if (pi == 1).any():
        raise InvalidInput("prior must leave at least two classes possible. Got one class certain.")
    return pi


def check_anchor_counts(counts: NDArray[np.int64], classes: Sequence[str]) -> None:
    """Check that every class has at least one anchor."""
    missing = [classes[index] for index in np.flatnonzero(counts == 0).tolist()]
    if missing:
        raise NoAnchorPoints(
            "Every class needs at least one anchor, an example whose true class is known "
            f"(5 or 10 are usual). None was given for {shorten(missing)}. "
            "Add such examples to the anchors or true labels (--true-label, --anchors), or do not "
            "estimate Q: transition='uniform' (--transition uniform)."
        )


def check_number(value: Any, name: str, *, above: float, below: float = np.inf) -> float:
    """Check that a number lies strictly between two bounds, and return it as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InvalidInput(f"{name} must be a number. Got {value!r}.")
    if not above < value < below:
        bounds = f"above {above:g}" + (f" and below {below:g}" if np.isfinite(below) else "")
        raise InvalidInput(f"{name} must be {bounds}. Got {value!r}.")
    return float(value)


def as_real_numbers(values: Any, rule: str, error: type[NaysayError]) -> NDArray[np.float64]:
    """Convert values to a float64 array, or raise `error` with a message that opens with `rule`."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array.astype(np.float64, copy=False)
        if array.dtype.kind in "cmM":  # numpy would drop the imaginary part or convert dates
            raise TypeError(f"{array.dtype} is not a kind of real number")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError) as problem:
        raise error(f"{rule}. Got {shorten(values)}: {problem}.") from None


def check_seed(seed: Any) -> np.random.Generator:
    """Make a random generator from a seed; a generator is returned as it is."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidInput(
            "seed must be an integer of at least 0 or a numpy.random.Generator. "
            f"Got {shorten(seed)}."
        ) from None


def check_count(value: Any, name: str, *, least: int = 1, reason: str = "") -> int:
    """Check that a value is an integer of at least `least`, and return it as an int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be an integer of at least {least}{reason}. Got {value!r}.")
    return int(value)


def shorten(values: Any, most: int = 6) -> str:
    """Format values for an error message, and shorten them if they are long."""
    if isinstance(values, list | tuple):
        listed = ", ".join(_cut(repr(value)) for value in values[:most])
        return listed + (f", … ({len(values)} in all)" if len(values) > most else "")
    return _cut(repr(values))


def _cut(text: str) -> str:
    line = text.replace("\n", " ")
    return line if len(line) <= 60 else line[:57] + "…"


def row_slices(n_rows: int, n_columns: int, n_elements: int = 2**20) -> Iterator[slice]:
    """Yield slices that together cover all rows, of about a million elements each."""
    size = max(1, n_elements // max(1, n_columns))  # 8 MB in float64 fit into a processor's cache
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))
