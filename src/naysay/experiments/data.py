"""The examples of a run: drawn, labelled and scaled as its spec says, the same for every method."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay import datasets
from naysay._base.checks import check_count, check_number, named, shorten
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.datasets.official.entry import Dataset, Split
from naysay.experiments.spec import RunSpec
from naysay.transition import TransitionMatrix
from naysay.transition.matrix import PAPER_SETTINGS

__all__ = [
    "MANUAL_WITH0",
    "NON_INVERTIBLE",
    "SETTINGS",
    "RunData",
    "Task",
    "draw_per_class",
    "draw_task",
    "keep_classes",
    "load_run_data",
    "make_transition",
    "select_classes",
    "split_validation",
    "standardise",
]

# The paper's tasks: which classes, how many examples, standardised how, validated on what.
#
# Small pure functions; the randomised ones take a `seed` and give the same answer for the same
# seed. Complementary labels are drawn with ``Q.sample(task.train.y, seed=…)``.

_RANGE = re.compile(r"(\d+)\s*~\s*(\d+)")
_PARITY = {"even #": 0, "odd #": 1}


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task: some classes of a data set, numbered 0..n_classes-1 anew."""

    train: Split
    test: Split
    classes: tuple[str, ...]


def select_classes(notation: str, class_numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return the classes that a row of the paper's Table 1 means, as indices.

    The paper counts classes from 1: in USPS, class 1 is the digit 0, and "even #" means the
    classes 2, 4, …, that is the digits 1, 3, 5, 7, 9.

    Parameters
    ----------
    notation : str
        ``"1 ~ 5"``, ``"even #"`` or ``"odd #"``.
    class_numbers : sequence of int
        The number of each class, as in `Dataset.class_numbers`. Numbers that are skipped there
        (satimage has no class 6) may lie inside a range.

    Returns
    -------
    int64 array of shape (n_selected,)

    Examples
    --------
    >>> select_classes("6 ~ 10", range(1, 11)).tolist()
    [5, 6, 7, 8, 9]
    >>> select_classes("1 ~ 7", (1, 2, 3, 4, 5, 7)).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    numbers = np.asarray(class_numbers, dtype=np.int64)
    written = notation.strip()
    if written in _PARITY:
        return np.flatnonzero(numbers % 2 == _PARITY[written])
    match = _RANGE.fullmatch(written)
    if match is None:
        raise InvalidInput(
            "Classes must be written as in the paper: '1 ~ 5', 'even #' or 'odd #'. "
            f"Got {shorten(notation)}."
        )
    first, last = map(int, match.groups())
    if not numbers.min() <= first < last <= numbers.max():
        raise InvalidInput(
            f"Classes must be a range within {numbers.min()} ~ {numbers.max()}. "
            f"Got {shorten(notation)}."
        )
    return np.flatnonzero((numbers >= first) & (numbers <= last))


def keep_classes(split: Split, classes: ArrayLike) -> Split:
    """Return the examples of some classes, numbered 0, 1, … in the order given.

    Examples
    --------
    >>> split = Split(np.arange(4), np.array([7, 3, 5, 7]))
    >>> kept = keep_classes(split, [3, 7])
    >>> kept.X.tolist(), kept.y.tolist()
    ([0, 1, 3], [1, 0, 1])
    """
    wanted = np.asarray(classes, dtype=np.int64)
    new_number = np.full(max(int(wanted.max()), int(split.y.max(initial=0))) + 1, -1)
    new_number[wanted] = np.arange(len(wanted))
    kept = split.take(new_number[split.y] >= 0)
    return Split(kept.X, new_number[kept.y])


def draw_per_class(
    labels: ArrayLike, sizes: int | Sequence[int], *, seed: int | np.random.Generator
) -> tuple[NDArray[np.int64], ...]:
    """Draw disjoint groups of examples at random, each with a fixed number of every class.

    Parameters
    ----------
    labels : int array of shape (n_samples,)
    sizes : int or sequence of int
        How many examples of each class go into each group.
    seed : int or numpy.random.Generator

    Returns
    -------
    tuple of int64 arrays
        For each group the indices of its examples, in ascending order.

    Raises
    ------
    InvalidLabels
        If a class has too few examples.

    Examples
    --------
    >>> train, test = draw_per_class([0, 0, 0, 1, 1, 1], (2, 1), seed=0)
    >>> sorted([*train, *test]) == list(range(6))
    True
    """
    y = np.asarray(labels)
    wanted = [check_count(size, "sizes") for size in ([sizes] if isinstance(sizes, int) else sizes)]
    ends = np.cumsum([0, *wanted])
    rng = np.random.default_rng(seed)
    groups: list[list[NDArray[np.int64]]] = [[] for _ in wanted]
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if len(members) < ends[-1]:
            raise InvalidLabels(
                f"Each class must have at least {ends[-1]} examples to draw from. "
                f"Class {label} has {len(members)}."
            )
        shuffled = rng.permutation(members)
        for group, start, end in zip(groups, ends[:-1], ends[1:], strict=True):
            group.append(shuffled[start:end])
    return tuple(np.sort(np.concatenate(group)) for group in groups)


def draw_task(
    dataset: Dataset,
    classes: str,
    *,
    n_train: int,
    n_test: int,
    seed: int | np.random.Generator,
) -> Task:
    """Draw a row of the paper's Table 1: its classes, and a fixed number of examples of each.

    Test examples come from the official test split; where there is none, training and test
    examples are drawn from the one file, without overlap.

    Parameters
    ----------
    dataset : Dataset
    classes : str
        As the paper writes them, see `select_classes`.
    n_train, n_test : int
        Examples of each class; the paper's "#train" (validation included) and "#test".
    seed : int or numpy.random.Generator
    """
    selected = select_classes(classes, dataset.class_numbers)
    names = tuple(dataset.classes[index] for index in selected)
    rng = np.random.default_rng(seed)
    train = keep_classes(dataset.train, selected)
    _refuse_scarce(dataset, train, names, n_train if dataset.test else n_train + n_test)
    if dataset.test is None:
        train_at, test_at = draw_per_class(train.y, (n_train, n_test), seed=rng)
        return Task(train.take(train_at), train.take(test_at), names)
    test = keep_classes(dataset.test, selected)
    _refuse_scarce(dataset, test, names, n_test)
    (train_at,) = draw_per_class(train.y, n_train, seed=rng)
    (test_at,) = draw_per_class(test.y, n_test, seed=rng)
    return Task(train.take(train_at), test.take(test_at), names)


def _refuse_scarce(dataset: Dataset, split: Split, names: Sequence[str], n_needed: int) -> None:
    counts = np.bincount(split.y, minlength=len(names))
    scarcest = int(counts.argmin())
    if counts[scarcest] < n_needed:
        raise InvalidInput(
            f"{dataset.name} must have {n_needed} examples of each class to draw from. "
            f"Class {named(scarcest, names)} has {counts[scarcest]}."
        )


def standardise(train: ArrayLike, *others: ArrayLike) -> tuple[NDArray[np.floating[Any]], ...]:
    """Shift and scale each column to mean 0 and standard deviation 1 on the training part.

    The other parts (validation, test) get the same shift and scale, so nothing about them is
    used. A column that is constant on the training part is shifted only.

    Parameters
    ----------
    train, *others : arrays of shape (n_samples, …)

    Returns
    -------
    tuple of arrays
        One for each argument; float64 stays float64, everything else becomes float32.

    Examples
    --------
    >>> train, test = standardise([[0.0, 7.0], [2.0, 7.0]], [[4.0, 8.0]])
    >>> train.tolist(), test.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[3.0, 1.0]])
    """
    parts = [np.asarray(part) for part in (train, *others)]
    mean = parts[0].mean(axis=0, dtype=np.float64)
    spread = parts[0].std(axis=0, dtype=np.float64)
    constant = (parts[0] == parts[0][:1]).all(axis=0)  # exact, where `spread` is only close to 0
    spread[constant] = 1
    mean[constant] = parts[0][0][constant]
    return tuple(
        ((part - mean) / spread).astype(np.float64 if part.dtype == np.float64 else np.float32)
        for part in parts
    )


def split_validation(
    n_samples: int, *, fraction: float = 0.1, seed: int | np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Set a random part of the examples aside for validation, without looking at any label.

    Returns
    -------
    train, validation : int64 arrays
        Indices in ascending order; both have at least one.

    Examples
    --------
    >>> train, validation = split_validation(50, seed=0)
    >>> len(train), len(validation)
    (45, 5)
    """
    n_samples = check_count(n_samples, "n_samples")
    fraction = check_number(fraction, "fraction", above=0, below=1)
    if n_samples < 2:
        raise InvalidInput("There must be at least 2 examples to set one aside. Got 1.")
    n_validation = min(max(round(n_samples * fraction), 1), n_samples - 1)
    order = np.random.default_rng(seed).permutation(n_samples)
    return np.sort(order[n_validation:]), np.sort(order[:n_validation])


#: The matrix that the paper prints in its discussion, four digits each. Its rank is 9.
NON_INVERTIBLE = (
    (0, 0.3042, 0, 0, 0.5197, 0, 0, 0.1762, 0, 0),
    (0, 0, 0, 0.6141, 0, 0.0478, 0, 0.3381, 0, 0),
    (0, 0, 0, 0, 0, 0.0213, 0, 0.7834, 0.1953, 0),
    (0, 0.4489, 0, 0, 0.1034, 0, 0, 0.4477, 0, 0),
    (0, 0.2596, 0, 0, 0, 0.3836, 0, 0, 0.3568, 0),
    (0, 0.4416, 0, 0.5412, 0, 0, 0, 0, 0.0172, 0),
    (0, 0.3049, 0, 0, 0, 0.5828, 0, 0.1123, 0, 0),
    (0, 0.1499, 0, 0, 0, 0.3134, 0, 0, 0, 0.5367),
    (0.1061, 0.4718, 0, 0, 0, 0, 0, 0.4220, 0, 0),
    (0, 0.4261, 0.0579, 0, 0, 0, 0.5160, 0, 0, 0),
)

#: For each digit the three labels of our own design, given with 0.5, 0.3 and 0.2. The paper's
#: matrix is a picture; two facts of it are in the text and hold here: a 0 is called "not 1", "not
#: 5" or "not 7", and only a 1 is ever called "not 6".
MANUAL_WITH0 = (
    (1, 5, 7),
    (0, 6, 8),
    (4, 9, 1),
    (1, 0, 4),
    (2, 3, 8),
    (9, 7, 0),
    (7, 1, 9),
    (8, 2, 5),
    (3, 5, 7),
    (2, 0, 3),
)
_MANUAL_SHARES = (0.5, 0.3, 0.2)


def _printed() -> TransitionMatrix:
    values = np.array(NON_INVERTIBLE)
    return TransitionMatrix(values / values.sum(axis=1, keepdims=True))


def _manual_with_zeros() -> TransitionMatrix:
    values = np.zeros((10, 10))
    for digit, labels in enumerate(MANUAL_WITH0):
        values[digit, labels] = _MANUAL_SHARES
    return TransitionMatrix(values)


def _manual_without_zeros() -> TransitionMatrix:
    """Return the matrix where the next three digits share 0.6, three more 0.3, the last 0.1."""
    row = np.concatenate([[0.0], np.repeat([0.6, 0.3, 0.1], 3) / 3])
    return TransitionMatrix(np.stack([np.roll(row, digit) for digit in range(10)]))


#: A matrix for a number of classes and a seed; the last three are one matrix of 10 classes each.
SETTINGS: dict[str, Callable[[int, int], TransitionMatrix]] = {
    **PAPER_SETTINGS,
    "with0-5": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, 5, seed=seed),
    "non-invertible": lambda n_classes, seed: _printed(),
    "manual-without0": lambda n_classes, seed: _manual_without_zeros(),
    "manual-with0": lambda n_classes, seed: _manual_with_zeros(),
}


def make_transition(setting: str, n_classes: int, *, seed: int) -> TransitionMatrix:
    """Return the matrix of a setting.

    Examples
    --------
    >>> make_transition("non-invertible", 10, seed=0).diagnose().identifiable
    False
    """
    if setting not in SETTINGS:
        raise InvalidInput(f"setting must be one of {', '.join(SETTINGS)}. Got {setting!r}.")
    matrix = SETTINGS[setting](n_classes, seed)
    if matrix.n_classes != n_classes:
        raise InvalidInput(
            f"setting {setting!r} is for {matrix.n_classes} classes. The task has {n_classes}."
        )
    return matrix


@dataclass(frozen=True, kw_only=True, eq=False)
class RunData:
    """What a run learns from and is tested on.

    `comp_labels` are drawn by `Q` from `y`; so are `comp_labels_test`, which no training sees, to
    judge without true labels. `anchors` are indices of training examples. `Q` is None, and the
    complementary labels are empty, where the spec draws none.
    """

    X: NDArray[Any]
    y: NDArray[np.int64]
    X_test: NDArray[Any]
    y_test: NDArray[np.int64]
    n_classes: int
    Q: TransitionMatrix | None
    comp_labels: NDArray[np.int64]
    comp_labels_test: NDArray[np.int64]
    anchors: NDArray[np.int64]


def load_run_data(spec: RunSpec, *, data_dir: Path | None = None) -> RunData:
    """Return the examples of a run. The same trial has the same ones whatever the method.

    Raises
    ------
    DatasetUnavailable
        If the data set is not on disk; nothing is downloaded here.
    InvalidInput
        If it has too few examples for what the spec asks.
    """
    X, y, X_test, y_test, n_classes = _draw_examples(spec, data_dir)
    Q, comp_labels, comp_labels_test = None, np.empty(0, np.int64), np.empty(0, np.int64)
    if spec.setting != "none":
        Q = make_transition(spec.setting, n_classes, seed=spec.trial)
        comp_labels = _draw_labels(Q, y, _rng(spec, "labels"))
        comp_labels_test = Q.sample(y_test, seed=_rng(spec, "test labels"))
    anchors = np.empty(0, np.int64)
    if spec.anchors:
        (anchors,) = draw_per_class(y, spec.anchors, seed=_rng(spec, "anchors"))
    return RunData(
        X=X,
        y=y,
        X_test=X_test,
        y_test=y_test,
        n_classes=n_classes,
        Q=Q,
        comp_labels=comp_labels,
        comp_labels_test=comp_labels_test,
        anchors=anchors,
    )


def _draw_labels(
    Q: TransitionMatrix, y: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return labels that name every class: what is never named cannot be learned.

    With many classes and few examples a class may be named by chance in no draw; then the labels
    are drawn again.
    """
    for _ in range(_MOST_DRAWS):
        labels = Q.sample(y, seed=rng)
        if len(np.unique(labels)) == Q.n_classes:
            return labels
    raise InvalidInput(
        f"The examples must be enough for every class to be named. Got {len(y)} of "
        f"{Q.n_classes} classes: in {_MOST_DRAWS} draws a class was never named. Raise n_train."
    )


_MOST_DRAWS = 100
_DRAWS = ("examples", "labels", "test labels", "anchors")


def _rng(spec: RunSpec, draw: str) -> np.random.Generator:
    """Return a generator of its own for each thing drawn: one more draw changes no other."""
    return np.random.default_rng([spec.trial, _DRAWS.index(draw)])


def _draw_examples(spec: RunSpec, data_dir: Path | None) -> tuple[Any, Any, Any, Any, int]:
    dataset = _load(spec.dataset, data_dir)
    rng = _rng(spec, "examples")
    if spec.classes is not None:
        if spec.n_train is None or spec.n_test is None:
            raise InvalidInput("A spec with classes must say n_train and n_test of each class.")
        task = draw_task(dataset, spec.classes, n_train=spec.n_train, n_test=spec.n_test, seed=rng)
        train, test, n_classes = task.train, task.test, len(task.classes)
    elif dataset.test is None:
        raise InvalidInput(f"{spec.dataset} has no official test split. Say classes in the spec.")
    else:
        train = _draw(dataset.train, spec.n_train, rng)
        test = _draw(dataset.test, spec.n_test, rng)
        n_classes = len(dataset.classes)
    if train.X.ndim == 4:  # images: the networks for them take bytes, and scale them
        X, X_test = train.X, test.X
    else:
        X, X_test = (part.astype(np.float32) for part in standardise(train.X, test.X))
    return X, train.y, X_test, test.y, n_classes


@lru_cache(maxsize=2)
def _load(name: str, data_dir: Path | None) -> datasets.Dataset:
    return datasets.load(name, data_dir=data_dir, download=False)


def _draw(split: datasets.Split, size: int | None, rng: np.random.Generator) -> datasets.Split:
    if size is None or size >= len(split):
        return split
    return split.take(np.sort(rng.permutation(len(split))[:size]))
