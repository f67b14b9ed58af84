"""Anchors as a classifier uses them: examples of known class, their folds, and their labels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from naysay._base.mapped import compute, find_rows
from naysay.observations import Observations


class Anchors(NamedTuple):
    """Examples whose true class is known."""

    X: NDArray[np.generic]
    y: NDArray[np.int64]  # true classes, as indices
    row: NDArray[np.int64]  # number of the same example in the training data; -1 if it is not there
    are_random: bool  # whether they are a random sample, of all examples or of each class

    def select(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Anchors":
        """Select some of the anchors."""
        return Anchors(self.X[chosen], self.y[chosen], self.row[chosen], self.are_random)

    def folds(self, n_folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Distribute the anchors of each class over folds.

        The fold is -1, never held out, for anchors that are not a random sample, and for the only
        anchor of a class.
        """
        fold = np.full(len(self.y), -1)
        for label in np.unique(self.y) if self.are_random else ():
            members = rng.permutation(np.flatnonzero(self.y == label))
            if len(members) > 1:
                fold[members] = (np.arange(len(members)) + rng.integers(n_folds)) % n_folds
        return fold

    def count_pairs(self, answers: Observations, n_classes: int) -> NDArray[np.int64]:
        """Count how often each label (column) was given to anchors of each class (row)."""
        example = answers.example
        true = compute(example, answers.n_examples, np.int64, lambda _: -1)
        is_example = self.row >= 0
        true[self.row[is_example]] = self.y[is_example]
        pairs = find_rows(example, len(example), lambda part: true[example[part]] >= 0)
        counts = np.zeros((n_classes, n_classes), dtype=np.int64)
        np.add.at(counts, (true[example[pairs]], answers.label[pairs]), 1)
        return counts
