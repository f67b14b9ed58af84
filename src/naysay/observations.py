"""Evidence of any kind: several complementary labels per example, from different annotators.

The evidence about an example is a likelihood over its classes, ``L_k = P(observed | Y = k)``: the
product of entries of Q, one per answer, with the matrix of the annotator who gave it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidLabels, InvalidTransitionMatrix
from naysay.transition import TransitionMatrix

__all__ = ["Observations", "log_likelihoods"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Observations:
    """Answers of annotators, "this example is not of that class": m answers in all.

    Parameters
    ----------
    example : int array of shape (m,)
        The example that each answer is about, 0..n_examples-1.
    label : array of shape (m,)
        The class that each answer excludes.
    annotator : array of shape (m,), optional
        Name of the annotator who gave each answer.
    n_examples : int, optional
        Number of examples; by default one more than the largest number in `example`.

    Examples
    --------
    >>> Observations(example=[0, 0, 1], label=["cat", "dog", "cat"], annotator=["a", "b", "a"])
    Observations(3 answers about 2 examples by 2 annotators)
    """

    example: NDArray[np.int64]
    label: NDArray[Any]
    annotator: NDArray[Any] | None = None
    n_examples: int = -1

    def __post_init__(self) -> None:
        example, label = np.asarray(self.example), np.asarray(self.label)
        annotator = None if self.annotator is None else np.asarray(self.annotator).astype(str)
        for name, column in (("example", example), ("label", label), ("annotator", annotator)):
            if column is not None and column.shape != (example.size,):
                raise InvalidInput(
                    f"{name} must hold one entry per answer, shape ({example.size},). "
                    f"Got shape {column.shape}."
                )
        if example.size and example.dtype.kind not in "iu":
            raise InvalidInput(
                f"example must hold integers: the row of X of each answer. Got {example.dtype}."
            )
        n_seen = int(example.max(initial=-1)) + 1
        n_examples = n_seen if self.n_examples == -1 else int(self.n_examples)
        if n_seen > n_examples or example.min(initial=0) < 0:
            raise InvalidInput(
                f"example must hold integers 0..{n_examples - 1}. "
                f"Got {example.min()} to {example.max()}."
            )
        # the dataclass is frozen
        object.__setattr__(self, "example", example.astype(np.int64))
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "annotator", annotator)
        object.__setattr__(self, "n_examples", n_examples)

    @classmethod
    def from_table(cls, table: Any, *, n_examples: int = -1) -> Self:
        """Create observations from columns ``example``, ``label`` and optionally ``annotator``."""
        missing = [name for name in ("example", "label") if name not in table]
        if missing:
            raise InvalidInput(
                f"An observations table must have columns 'example' and 'label', and may have "
                f"'annotator'. It lacks {shorten(missing)}."
            )
        columns = {name: table.get(name) for name in ("example", "label", "annotator")}
        return cls(**columns, n_examples=n_examples)

    @classmethod
    def from_ruled_out(cls, ruled_out: ArrayLike) -> Self:
        """Create observations from a boolean matrix (n, K) of excluded classes."""
        matrix = np.asarray(ruled_out)
        if matrix.ndim != 2 or matrix.dtype != bool:
            raise InvalidLabels(
                "Several labels per example must be a boolean matrix (n_samples, n_classes), True "
                f"where a class is excluded. Got {matrix.dtype} of shape {matrix.shape}."
            )
        example, label = np.nonzero(matrix)
        return cls(example=example, label=label, n_examples=len(matrix))

    def __repr__(self) -> str:
        by = "" if self.annotator is None else f" by {len(np.unique(self.annotator))} annotators"
        return f"Observations({len(self.example)} answers about {self.n_examples} examples{by})"


def log_likelihoods(
    observations: Observations, transition: TransitionMatrix | Mapping[str, TransitionMatrix]
) -> NDArray[np.float64]:
    """Compute log P(all answers about an example | class), shape (n_examples, n_classes).

    Answers are assumed to be independent given the class. Examples without an answer get zeros:
    every class is equally compatible with no evidence. Answers about an example that are possible
    for no class contradict each other, which is an error.

    Parameters
    ----------
    observations : Observations
        With labels as indices 0..n_classes-1.
    transition : TransitionMatrix, or one for each annotator by name
        A non-zero diagonal is the probability that an annotator excludes the true class by
        mistake.

    Examples
    --------
    >>> answers = Observations(example=[0, 0], label=[1, 2])
    >>> np.exp(log_likelihoods(answers, TransitionMatrix.uniform(4))).round(3)
    array([[0.111, 0.   , 0.   , 0.111]])
    """
    per_annotator = _by_annotator(observations, transition)
    total = np.zeros((observations.n_examples, per_annotator[0][0].n_classes))
    for Q, answers in per_annotator:
        with np.errstate(divide="ignore"):
            log_columns = np.log(np.asarray(Q).T)
        np.add.at(total, observations.example[answers], log_columns[observations.label[answers]])
    impossible = np.flatnonzero(np.isneginf(total).all(axis=1))
    if len(impossible):
        first = int(impossible[0])
        excluded = observations.label[observations.example == first].tolist()
        raise InvalidLabels(
            "The answers about an example must be possible for some class. Those about example "
            f"{first} exclude {shorten(excluded)}, which Q allows for no class; this holds for "
            f"{len(impossible)} examples. Drop them, or use a Q with a non-zero diagonal, which "
            "allows for mistakes."
        )
    return total


def _by_annotator(
    observations: Observations, transition: TransitionMatrix | Mapping[str, TransitionMatrix]
) -> list[tuple[TransitionMatrix, NDArray[np.int64]]]:
    """Look up the matrix and the answers of each annotator."""
    if isinstance(transition, TransitionMatrix):
        return [(transition, np.arange(len(observations.example)))]
    if observations.annotator is None:
        raise InvalidInput(
            "A matrix for each annotator needs answers with annotators. Pass Observations with "
            "annotator=."
        )
    names = np.unique(observations.annotator).tolist()
    unknown = [name for name in names if name not in transition]
    if unknown:
        raise InvalidTransitionMatrix(
            f"transition must have a matrix for each annotator. It lacks {shorten(unknown)}."
        )
    if len({transition[name].n_classes for name in names}) > 1:
        raise InvalidTransitionMatrix("The matrices of all annotators must have the same classes.")
    return [(transition[name], np.flatnonzero(observations.annotator == name)) for name in names]
