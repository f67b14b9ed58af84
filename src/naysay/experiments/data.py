"""Draw the examples and labels of a run, which are the same for every method."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import datasets
from naysay._base.errors import InvalidInput
from naysay.experiments.spec import RunSpec
from naysay.experiments.tasks import draw_per_class, draw_task, standardise
from naysay.transition import TransitionMatrix
from naysay.transition.matrix import PAPER_SETTINGS

__all__ = [
    "MANUAL_WITH0",
    "NON_INVERTIBLE",
    "SETTINGS",
    "RunData",
    "load_run_data",
    "make_transition",
]

#: The matrix printed in the discussion of the paper, rounded to four digits. Its rank is 9.
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

#: A matrix of our own design: for each digit three labels, with probabilities 0.5, 0.3 and 0.2. The
#: paper shows its matrix as a picture only. Its text says that a 0 is labelled "not 1", "not 5" or
#: "not 7", and that only a 1 is labelled "not 6"; both are true of this matrix.
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
    """Make a matrix in which the next three digits share 0.6, three more 0.3, the last 0.1."""
    row = np.concatenate([[0.0], np.repeat([0.6, 0.3, 0.1], 3) / 3])
    return TransitionMatrix(np.stack([np.roll(row, digit) for digit in range(10)]))


#: Functions that make a matrix for a number of classes and a seed, by the name of the setting. The
#: last three always make the same matrix of 10 classes.
SETTINGS: dict[str, Callable[[int, int], TransitionMatrix]] = {
    **PAPER_SETTINGS,
    "with0-5": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, 5, seed=seed),
    "non-invertible": lambda n_classes, seed: _printed(),
    "manual-without0": lambda n_classes, seed: _manual_without_zeros(),
    "manual-with0": lambda n_classes, seed: _manual_with_zeros(),
}


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

    `comp_labels` are drawn from `y` with the transition matrix `Q`. So are `comp_labels_test`,
    which are not used in training but to estimate the accuracy without true labels. `anchors` are
    indices of training examples. If the spec draws no complementary labels, they are empty and `Q`
    is None.
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

    Raises
    ------
    DatasetUnavailable
        If the data set is not on disk; nothing is downloaded.
    InvalidInput
        If the data set has fewer examples than the spec requires.
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
    """Draw complementary labels until every class occurs, since one that does not is not learned.

    With many classes and few examples, a class may by chance not occur among the labels.
    """
    for _ in range(_MOST_DRAWS):
        labels = Q.sample(y, seed=rng)
        if len(np.unique(labels)) == Q.n_classes:
            return labels
    raise InvalidInput(
        "There must be enough examples for every class to occur as a complementary label. Got "
        f"{len(y)} examples of {Q.n_classes} classes, and some class was missing in each of "
        f"{_MOST_DRAWS} draws. Increase n_train."
    )


def _rng(spec: RunSpec, draw: str) -> np.random.Generator:
    """Make a separate generator for each kind of draw, so that none depends on the others."""
    return np.random.default_rng([spec.trial, _DRAWS.index(draw)])


def _draw_examples(spec: RunSpec, data_dir: Path | None) -> tuple[Any, Any, Any, Any, int]:
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
    if train.X.ndim == 4:  # networks for images take bytes and scale them
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
