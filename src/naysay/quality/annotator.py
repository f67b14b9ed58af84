"""The habits and mistakes of each annotator."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_label_indices, check_number, check_probabilities
from naysay._base.errors import InvalidInput
from naysay.estimation.mixture import Rows
from naysay.observations import Observations
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats

__all__ = ["Annotator", "Annotators", "annotators"]

_STEPS = 20  # of expectation and maximisation, at most
_SMALL_CHANGE = 1e-4
_FIRST_GUESS = 0.02  # share of mistakes to start from, where Q has none
_IMPOSSIBLE = 1e-30  # an answer less likely than this, by the model, says nothing about anyone
_SHOWN = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Annotator:
    """How one annotator answers."""

    name: str
    n_answers: int
    transition: TransitionMatrix
    """Their matrix, shrunk to that of all."""
    bias: float
    """Mean distance of its rows from those of all annotators, 0 to 1 (total variation)."""
    distance_from_uniform: float
    """The same from an annotator without habit: all other classes alike, no mistake."""
    error_rate: float
    """Share of the answers that exclude the true class."""
    standard_error: float
    """Of the error rate; 1 where their answers say nothing about it."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "name": self.name,
            "n_answers": self.n_answers,
            "bias": self.bias,
            "distance_from_uniform": self.distance_from_uniform,
            "error_rate": self.error_rate,
            "standard_error": self.standard_error,
            "transition": np.asarray(self.transition).tolist(),
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Annotators:
    """All annotators, the one with the most mistakes first; ``print`` it to read it."""

    listed: tuple[Annotator, ...]
    pooled: TransitionMatrix
    """The matrix of all answers together."""

    @property
    def transitions(self) -> dict[str, TransitionMatrix]:
        """A matrix for each annotator, as ``ComplementaryClassifier(transition=…)`` takes them."""
        return {each.name: each.transition for each in self.listed}

    def __iter__(self) -> Iterator[Annotator]:
        return iter(self.listed)

    def __len__(self) -> int:
        return len(self.listed)

    def __str__(self) -> str:
        width = max(len("annotator"), *(len(each.name) for each in self.listed[:_SHOWN]))
        lines = [f"{'annotator':<{width}}  answers  wrong answers  bias"]
        lines += [
            f"{each.name:<{width}}  {each.n_answers:>7,}  "
            f"{100 * each.error_rate:>4.1f} ± {100 * each.standard_error:.1f} %    {each.bias:.2f}"
            for each in self.listed[:_SHOWN]
        ]
        if len(self.listed) > _SHOWN:
            lines.append(f"… and {len(self.listed) - _SHOWN:,} more")
        return "\n".join(lines)


def annotators(
    observations: Observations,
    probs: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    strength: float = 10.0,
    allow_diagonal: bool = True,
) -> Annotators:
    r"""Estimate the matrix, the bias and the mistakes of each annotator.

    .. math:: r_{ik} ∝ Q^a_{kȳ_i} \, p_k(x_i), \quad
        Q^a_{kj} ∝ \sum_{i: ȳ_i = j} r_{ik} + s \, \bar Q_{kj}

    First for all answers together without the last term, which gives :math:`\bar Q`, then for
    each annotator a. The last term counts as s further answers of each class that follow the
    habits of all, so an annotator of few answers stays near them. The probabilities should be
    calibrated and come from examples the model was not trained on: what an overconfident model
    gets wrong looks like a mistake of the annotators.

    Parameters
    ----------
    observations : Observations
        With annotators; labels as indices, or as names where Q has names.
    probs : array of shape (n_examples, n_classes)
        P(Y | x) from any model.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The first guess for all. If its diagonal is zero, 2 % of mistakes are the first guess.
    strength : float, default=10
        The number s.
    allow_diagonal : bool, default=True
        Whether annotators may exclude the true class by mistake. False: where Q says that they
        never do, so do the matrices of all.

    Returns
    -------
    Annotators
        Most mistakes first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> true = rng.integers(3, size=2000)
    >>> said = TransitionMatrix.uniform(3).sample(true, seed=1)
    >>> said = np.where((np.arange(2000) % 2 == 1) & (rng.random(2000) < 0.3), true, said)
    >>> answers = Observations(example=np.arange(2000), label=said, annotator=["a", "b"] * 1000)
    >>> found = annotators(answers, 0.9 * np.eye(3)[true] + 0.1 / 3, TransitionMatrix.uniform(3))
    >>> [(each.name, round(each.error_rate, 1)) for each in found]
    [('b', 0.3), ('a', 0.0)]
    """
    matrix = as_transition_matrix(Q)
    may_err = allow_diagonal or matrix.allow_diagonal
    check_number(strength, "strength", above=0)
    if observations.annotator is None or not len(observations.example):
        raise InvalidInput("observations must hold answers with annotator=, and at least one.")
    array = check_probabilities(probs, n_classes=matrix.n_classes, name="probs")
    if len(array) != observations.n_examples:
        raise InvalidInput(
            f"probs must have one row per example, {observations.n_examples}. Got {len(array)}."
        )
    indices = check_label_indices(observations.label, matrix.classes, name="label")
    names, codes = np.unique(observations.annotator, return_inverse=True)
    start = np.asarray(matrix)
    if allow_diagonal and not start.diagonal().any():
        start = (1 - _FIRST_GUESS) * start + _FIRST_GUESS * np.eye(matrix.n_classes)
    answers = _by_annotator(array[observations.example], indices, codes)
    pooled = _fit(answers, start, np.zeros_like(start))
    uniform = np.asarray(TransitionMatrix.uniform(matrix.n_classes))
    listed = []
    for name, rows in zip(names.tolist(), answers, strict=True):
        values = _fit([rows], pooled, strength * pooled)
        weights = _class_shares(rows, values)
        rate, error = _error_rate(rows, values) if start.diagonal().any() else (0.0, 0.0)
        listed.append(
            Annotator(
                name=name,
                n_answers=len(rows.probs),
                transition=TransitionMatrix(values, matrix.classes, allow_diagonal=may_err),
                bias=_distance(values, pooled, weights),
                distance_from_uniform=_distance(values, uniform, weights),
                error_rate=rate,
                standard_error=error,
            )
        )
    return Annotators(
        listed=tuple(sorted(listed, key=lambda each: -each.error_rate)),
        pooled=TransitionMatrix(pooled, matrix.classes, allow_diagonal=may_err),
    )


def _by_annotator(
    probs: NDArray[Any], labels: NDArray[np.int64], annotator: NDArray[np.int64]
) -> list[Rows]:
    """Gather the answers of each annotator, grouped by label."""
    order = np.argsort(annotator, kind="stable")
    ends = np.cumsum(np.bincount(annotator))[:-1]
    parts = zip(np.split(probs[order], ends), np.split(labels[order], ends), strict=True)
    return [Rows.group(*part) for part in parts]


def _fit(answers: list[Rows], start: Floats, prior_counts: Floats) -> Floats:
    values = start
    for _ in range(_STEPS):
        counts = _expected_counts(answers, values) + prior_counts
        totals = counts.sum(axis=1, keepdims=True)
        # a class that no answer is about keeps its row
        updated = np.where(totals > 0, counts / np.where(totals > 0, totals, 1), values)
        if np.abs(updated - values).max() < _SMALL_CHANGE:
            return updated
        values = updated
    return values


def _expected_counts(answers: list[Rows], values: Floats) -> Floats:
    """Return how often class k was answered with label j, in expectation, shape (K, K)."""
    counts = np.zeros_like(values)
    for rows in answers:
        for label in np.flatnonzero(rows.counts).tolist():
            probs, column = rows.of_label(label), values[:, label]
            counts[:, label] += column * (_inverse_likelihood(probs, column) @ probs)
    return counts


def _class_shares(rows: Rows, values: Floats) -> Floats:
    """Return the expected share of each class among the examples that were answered."""
    counts = _expected_counts([rows], values).sum(axis=1)
    if not counts.any():  # all their answers are impossible: all classes count alike
        counts = np.ones_like(counts)
    return counts / counts.sum()


def _inverse_likelihood(probs: NDArray[Any], column: Floats) -> NDArray[Any]:
    likelihood = probs @ column.astype(probs.dtype)
    possible = likelihood > _IMPOSSIBLE
    return np.where(possible, 1 / np.where(possible, likelihood, 1), 0)


def _error_rate(rows: Rows, values: Floats) -> tuple[float, float]:
    """Return the mean probability that an answer is wrong, and the standard error.

    With w_i the probability that answer i is wrong, the observed information about the rate e
    is Σ (w_i - e)² / (e (1 - e))²: with certain w_i the error is the binomial one, and it grows
    as the model knows less, up to 1. It is at least the binomial one of two further answers, one
    right and one wrong, so that a few answers of one kind do not look certain.
    """
    parts = []
    for label in np.flatnonzero(rows.counts).tolist():
        probs = rows.of_label(label)
        inverse = _inverse_likelihood(probs, values[:, label])
        wrong = values[label, label] * probs[:, label] * inverse
        parts.append(wrong[inverse > 0])  # without those that say nothing
    wrong = np.concatenate(parts).astype(np.float64)
    n = len(wrong)
    if not n:  # no answer says anything: nothing is held against them, nor known
        return 0.0, 1.0
    rate = float(np.clip(wrong.mean(), 0, 1))
    root = float(np.sqrt(((wrong - rate) ** 2).sum()))
    variance = rate * (1 - rate)
    smoothed = (n * rate + 1) / (n + 2)
    least = float(np.sqrt(smoothed * (1 - smoothed) / (n + 2)))
    return rate, max(least, variance / max(root, variance) if variance else 0.0)


def _distance(values: Floats, others: Floats, weights: Floats) -> float:
    return float(weights @ np.abs(values - others).sum(axis=1) / 2)
