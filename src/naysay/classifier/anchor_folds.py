"""Anchors as a classifier uses them: examples of known class, their folds, and their labels."""

from hashlib import blake2b
from typing import Any, NamedTuple

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

    @property
    def first(self) -> NDArray[np.int64]:
        """For each anchor, the number of the first that is the same example: it has equal features.

        A table with a row for each answer, whose column of ids was not named, repeats its examples.
        Where equal anchors have different classes they are different examples, as in a table of few
        categories, and so are anchors without features.
        """
        every, seen = np.arange(len(self.y)), dict[bytes, int]()
        if not self.X.size:
            return every
        rows: NDArray[Any] = self.X.reshape(len(self.X), -1)
        rows = np.ascontiguousarray(rows + 0)  # -0.0 is 0.0
        digests = (blake2b(row, digest_size=16).digest() for row in rows)
        first = np.array([seen.setdefault(each, i) for i, each in enumerate(digests)], np.int64)
        return first if (self.y == self.y[first]).all() else every

    def folds(self, n_folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Distribute the anchors of each class over folds, equal ones together.

        The fold is -1, never held out, for anchors that are not a random sample, and for the only
        anchor of a class.
        """
        fold, first = np.full(len(self.y), -1), self.first
        is_first = first == np.arange(len(first))
        for label in np.unique(self.y) if self.are_random else ():
            members = rng.permutation(np.flatnonzero(is_first & (self.y == label)))
            if len(members) > 1:
                fold[members] = (np.arange(len(members)) + rng.integers(n_folds)) % n_folds
        return fold[first]

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
