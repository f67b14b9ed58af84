"""Draw the tasks of the paper: select classes and examples, standardise, split for validation.

These are small pure functions. The randomised ones take a `seed` and return the same result for
the same seed. Complementary labels are drawn with ``Q.sample(task.train.y, seed=…)``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_count, check_number, named, shorten
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.datasets import Dataset, Split

__all__ = [
    "Task",
    "draw_per_class",
    "draw_task",
    "keep_classes",
    "select_classes",
    "split_validation",
    "standardise",
]

_RANGE = re.compile(r"(\d+)\s*~\s*(\d+)")
_PARITY = {"even #": 0, "odd #": 1}


@dataclass(frozen=True, eq=False)
class Task:
    """A classification task with some classes of a data set, renumbered 0..n_classes-1."""

    train: Split
    test: Split
    classes: tuple[str, ...]


def select_classes(notation: str, class_numbers: Sequence[int]) -> NDArray[np.int64]:
    """Select classes by the notation of the paper's Table 1, and return their indices.

    The paper counts classes from 1: in USPS, class 1 is the digit 0, and "even #" means the
    classes 2, 4, …, that is the digits 1, 3, 5, 7, 9.

    Parameters
    ----------
    notation : str
        ``"1 ~ 5"``, ``"even #"`` or ``"odd #"``.
    class_numbers : sequence of int
        The number of each class, as in `Dataset.class_numbers`. A range may include numbers that
        do not exist there (satimage has no class 6).

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
    """Select the examples of some classes, and renumber the classes 0, 1, … in the order given.

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
    """Draw disjoint groups of examples at random, each with a fixed number from every class.

    Parameters
    ----------
    labels : int array of shape (n_samples,)
    sizes : int or sequence of int
        Number of examples of each class in each group.
    seed : int or numpy.random.Generator

    Returns
    -------
    tuple of int64 arrays
        The indices of the examples of each group, in ascending order.

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
    """Draw the task of a row of the paper's Table 1, with a fixed number of examples per class.

    Test examples come from the official test split. If there is none, disjoint training and test
    examples are drawn from the one file.

    Parameters
    ----------
    dataset : Dataset
    classes : str
        Classes in the notation of the paper, see `select_classes`.
    n_train, n_test : int
        Number of examples of each class: "#train" (validation included) and "#test" in the paper.
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

    The other parts (validation, test) are shifted and scaled by the same amounts, so that no
    information about them is used. A column that is constant on the training part is only shifted.

    Parameters
    ----------
    train, *others : arrays of shape (n_samples, …)

    Returns
    -------
    tuple of arrays
        One array per argument. float64 stays float64; other types become float32.

    Examples
    --------
    >>> train, test = standardise([[0.0, 7.0], [2.0, 7.0]], [[4.0, 8.0]])
    >>> train.tolist(), test.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [[3.0, 1.0]])
    """
    parts = [np.asarray(part) for part in (train, *others)]
    mean = parts[0].mean(axis=0, dtype=np.float64)
    spread = parts[0].std(axis=0, dtype=np.float64)
    constant = (parts[0] == parts[0][:1]).all(axis=0)  # the computed spread may be only close to 0
    spread[constant] = 1
    mean[constant] = parts[0][0][constant]
    return tuple(
        ((part - mean) / spread).astype(np.float64 if part.dtype == np.float64 else np.float32)
        for part in parts
    )


def split_validation(
    n_samples: int, *, fraction: float = 0.1, seed: int | np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split off a random part of the examples for validation, without using labels.

    Returns
    -------
    train, validation : int64 arrays
        Indices in ascending order. Neither array is empty.

    Examples
    --------
    >>> train, validation = split_validation(50, seed=0)
    >>> len(train), len(validation)
    (45, 5)
    """
    n_samples = check_count(n_samples, "n_samples")
    fraction = check_number(fraction, "fraction", above=0, below=1)
    if n_samples < 2:
        raise InvalidInput("n_samples must be at least 2 to split one off. Got 1.")
    n_validation = min(max(round(n_samples * fraction), 1), n_samples - 1)
    order = np.random.default_rng(seed).permutation(n_samples)
    return np.sort(order[n_validation:]), np.sort(order[:n_validation])
