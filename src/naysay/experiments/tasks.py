"""Draw the tasks of the paper and the data of a run: examples, labels, matrix and anchors.

The randomised functions take a `seed` and return the same result for the same seed. The data of a
run are the same for every method.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay import datasets
from naysay._base.checks import check_count, check_number, named, shorten
from naysay._base.errors import DatasetUnavailable, InvalidData, InvalidInput, InvalidLabels
from naysay.datasets import Dataset, Split
from naysay.datasets.official.entry import data_folder
from naysay.experiments.spec import RunSpec
from naysay.transition import TransitionMatrix
from naysay.transition.algebra import joint_counts
from naysay.transition.csv import parse_matrix, read_matrix
from naysay.transition.matrix import PAPER_SETTINGS

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

    The notation is ``"1 ~ 5"``, ``"even #"`` or ``"odd #"``, and `class_numbers` are those of a
    `Dataset`. A range may include numbers that do not exist there (satimage has no class 6).

    Examples
    --------
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
    matches = split.y[:, None] == np.asarray(classes)
    is_kept = matches.any(axis=1)
    return Split(split.take(is_kept).X, matches[is_kept].argmax(axis=1))


def draw_per_class(
    labels: ArrayLike, sizes: int | Sequence[int], *, seed: int | np.random.Generator
) -> tuple[NDArray[np.int64], ...]:
    """Draw disjoint groups of examples at random, each with a fixed number from every class.

    `sizes` are the numbers of examples of each class in each group. The result has the indices of
    the examples of each group, in ascending order.

    Examples
    --------
    >>> train, test = draw_per_class([0, 0, 0, 1, 1, 1], (2, 1), seed=0)
    >>> sorted([*train, *test]) == list(range(6))
    True
    """
    y = np.asarray(labels)
    wanted = [check_count(size, "sizes") for size in ([sizes] if isinstance(sizes, int) else sizes)]
    ends = np.cumsum(wanted)
    rng = np.random.default_rng(seed)
    drawn: list[list[NDArray[np.int64]]] = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        if len(members) < ends[-1]:
            raise InvalidLabels(
                f"Each class must have at least {ends[-1]} examples to draw from. "
                f"Class {label} has {len(members)}."
            )
        drawn.append(np.split(rng.permutation(members)[: ends[-1]], ends[:-1]))
    return tuple(np.sort(np.concatenate(group)) for group in zip(*drawn, strict=True))


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
    examples are drawn from the one file. `classes` are in the notation of `select_classes`;
    `n_train` and `n_test` are "#train" (validation included) and "#test" in the paper.
    """
    selected = select_classes(classes, dataset.class_numbers)
    names = tuple(dataset.classes[index] for index in selected)
    rng = np.random.default_rng(seed)

    def draw(split: Split, *sizes: int) -> list[Split]:
        kept = keep_classes(split, selected)
        counts = np.bincount(kept.y, minlength=len(names))
        scarcest = int(counts.argmin())
        if counts[scarcest] < sum(sizes):
            raise InvalidInput(
                f"{dataset.name} must have {sum(sizes)} examples of each class to draw from. "
                f"Class {named(scarcest, names)} has {counts[scarcest]}."
            )
        return [kept.take(rows) for rows in draw_per_class(kept.y, sizes, seed=rng)]

    if dataset.test is None:
        train, test = draw(dataset.train, n_train, n_test)
    else:
        (train,), (test,) = draw(dataset.train, n_train), draw(dataset.test, n_test)
    return Task(train, test, names)


def standardise(train: ArrayLike, *others: ArrayLike) -> tuple[NDArray[np.floating[Any]], ...]:
    """Shift and scale each column to mean 0 and standard deviation 1 on the training part.

    The other parts (validation, test) are shifted and scaled by the same amounts, so that no
    information about them is used. A column that is constant on the training part is only shifted.
    float64 stays float64; other types become float32.

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

    The result has the indices of the training and of the validation part, in ascending order.
    Neither is empty.

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


def _from_file(name: str) -> TransitionMatrix:
    """Read a matrix of this package; entries of the paper are rounded to four digits."""
    file = resources.files("naysay.experiments") / "matrices" / f"{name}.csv"
    values = parse_matrix(file.read_text("utf-8"), name).values
    return TransitionMatrix(values / values.sum(axis=1, keepdims=True))


def _manual_without_zeros() -> TransitionMatrix:
    """Make a matrix in which the next three digits share 0.6, three more 0.3, the last 0.1."""
    row = np.concatenate([[0.0], np.repeat([0.6, 0.3, 0.1], 3) / 3])
    return TransitionMatrix(np.stack([np.roll(row, digit) for digit in range(10)]))


#: Functions that make a matrix for a number of classes and a seed, by the name of the setting. The
#: last four always make the same matrix of 10 classes: "non-invertible" is printed in the
#: discussion of the paper, and of rank 9. The paper shows its manual matrices as pictures only, so
#: that ours are of our own design. Its text says that a 0 is labelled "not 1", "not 5" or "not 7",
#: and that only a 1 is labelled "not 6"; both are true of "manual-with0".
SETTINGS: dict[str, Callable[[int, int], TransitionMatrix]] = {
    **PAPER_SETTINGS,
    "with0-5": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, 5, seed=seed),
    "non-invertible": lambda n_classes, seed: _from_file("non-invertible"),
    "manual-without0": lambda n_classes, seed: _manual_without_zeros(),
    "manual-with0": lambda n_classes, seed: _from_file("manual-with0"),
    "human": lambda n_classes, seed: TransitionMatrix(  # without names: classes are indices
        np.asarray(TransitionMatrix.human("clcifar10-released")), allow_diagonal=True
    ),
}

#: Settings that are files in the data folder, which are not downloaded: a matrix for each data set,
#: or labels that a model gave to the training images of CIFAR-10, in their order.
FILES = {"llava": "habits/llava-{}.csv", "aclcifar10": "machine-labels-aclcifar10.npz"}


def make_transition(setting: str, n_classes: int, *, seed: int) -> TransitionMatrix:
    """Make the transition matrix of a setting.

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


_MOST_DRAWS = 100
_DRAWS = ("examples", "labels", "test labels", "anchors")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunData:
    """Training and test data of a run.

    `comp_labels` are drawn from `y` with the transition matrix `Q`, with a second axis if there are
    several of each example. So are `comp_labels_test`, one of each, which are not used in training
    but to estimate the accuracy without true labels. Labels that were not drawn come from a file;
    `Q` is then counted with the true classes, and there are no labels of test examples. `anchors`
    are indices of training examples. If the spec has no complementary labels, they are empty and
    `Q` is None.
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
    """Load and draw the data of a run, which depend on its trial but not on its method.

    Nothing is downloaded: if the data set is not on disk, `DatasetUnavailable` is raised.
    """
    dataset = _load(spec.dataset, data_dir)
    rng = _rng(spec, "examples")
    if spec.classes is not None:
        if spec.n_train is None or spec.n_test is None:
            raise InvalidInput("A spec with classes must have n_train and n_test.")
        task = draw_task(dataset, spec.classes, n_train=spec.n_train, n_test=spec.n_test, seed=rng)
        train, test, n_classes = task.train, task.test, len(task.classes)
    elif dataset.test is None:
        raise InvalidInput(f"{spec.dataset} has no official test split. Give classes in the spec.")
    else:
        train = _draw(dataset.train, spec.n_train, rng)
        test = _draw(dataset.test, spec.n_test, rng)
        n_classes = len(dataset.classes)
    X, X_test = train.X, test.X
    if X.ndim != 4:  # networks for images take bytes and scale them
        X, X_test = (part.astype(np.float32) for part in standardise(X, X_test))
    Q, comp_labels, comp_labels_test = None, np.empty(0, np.int64), np.empty(0, np.int64)
    if spec.setting == "aclcifar10":
        if len(train) != len(dataset.train):
            raise InvalidInput("Labels from a file need all training examples. Leave out n_train.")
        comp_labels = _read_labels(spec, len(train), n_classes, data_dir)
        n_each = comp_labels.size // len(train)
        counts = joint_counts(train.y.repeat(n_each), comp_labels.ravel(), n_classes)
        Q = TransitionMatrix(counts / counts.sum(axis=1, keepdims=True), allow_diagonal=True)
    elif spec.setting != "none":
        if spec.setting in FILES:
            values = read_matrix(_find_file(spec, data_dir)).values  # rounded
            Q = TransitionMatrix(values / values.sum(axis=1, keepdims=True), allow_diagonal=True)
        else:
            Q = make_transition(spec.setting, n_classes, seed=spec.trial)
        rng = _rng(spec, "labels")
        comp_labels = _draw_labels(Q, train.y, rng)
        if spec.labels:
            more = [Q.sample(train.y, seed=rng) for _ in range(spec.labels - 1)]
            comp_labels = np.stack([comp_labels, *more], axis=1)
        comp_labels_test = Q.sample(test.y, seed=_rng(spec, "test labels"))
    anchors = np.empty(0, np.int64)
    if spec.anchors:
        (anchors,) = draw_per_class(train.y, spec.anchors, seed=_rng(spec, "anchors"))
    return RunData(
        X=X,
        y=train.y,
        X_test=X_test,
        y_test=test.y,
        n_classes=n_classes,
        Q=Q,
        comp_labels=comp_labels,
        comp_labels_test=comp_labels_test,
        anchors=anchors,
    )


def _find_file(spec: RunSpec, data_dir: Path | None) -> Path:
    """Find the file of a setting in the data folder."""
    folder = data_folder(data_dir)
    path = folder / FILES[spec.setting].format(spec.dataset.replace("cifar-", "cifar"))
    if not path.is_file():
        raise DatasetUnavailable(
            f"The setting {spec.setting!r} needs the file {path.name}. Put it there: {path}"
        )
    return path


def _read_labels(
    spec: RunSpec, n_examples: int, n_classes: int, data_dir: Path | None
) -> NDArray[np.int64]:
    """Read the first complementary labels of each example from the file of a setting."""
    path = _find_file(spec, data_dir)
    try:
        with np.load(path) as arrays:
            labels = arrays[spec.setting].astype(np.int64)
    except (OSError, KeyError, ValueError) as problem:
        raise InvalidData(f"{path} must have an array {spec.setting!r}: {problem}") from None
    wanted = spec.labels or 1
    if labels.ndim != 2 or len(labels) != n_examples or labels.shape[1] < wanted:
        raise InvalidData(
            f"{path} must have at least {wanted} labels of each of {n_examples} examples. "
            f"Got shape {labels.shape}."
        )
    if labels.min() < 0 or labels.max() >= n_classes:
        raise InvalidData(f"{path} must have labels from 0 to {n_classes - 1}.")
    return labels[:, 0] if spec.labels is None else labels[:, :wanted]


@lru_cache(maxsize=2)
def _load(name: str, data_dir: Path | None) -> Dataset:
    return datasets.load(name, data_dir=data_dir, download=False)


def _rng(spec: RunSpec, draw: str) -> np.random.Generator:
    """Make a separate generator for each kind of draw, so that none depends on the others."""
    return np.random.default_rng([spec.trial, _DRAWS.index(draw)])


def _draw(split: Split, size: int | None, rng: np.random.Generator) -> Split:
    if size is None or size >= len(split):
        return split
    return split.take(np.sort(rng.permutation(len(split))[:size]))


def _draw_labels(
    Q: TransitionMatrix, y: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw complementary labels until every possible class occurs: others cannot be learned.

    With many classes and few examples, a class may by chance not occur among the labels.
    """
    n_possible = Q.n_classes - len(Q.diagnose().unused_labels)
    for _ in range(_MOST_DRAWS):
        labels = Q.sample(y, seed=rng)
        if len(np.unique(labels)) == n_possible:
            return labels
    raise InvalidInput(
        "There must be enough examples for every class to occur as a complementary label. Got "
        f"{len(y)} examples of {Q.n_classes} classes, and some class was missing in each of "
        f"{_MOST_DRAWS} draws. Increase n_train."
    )
