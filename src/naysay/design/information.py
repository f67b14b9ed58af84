"""What answers to questions tell about the class: bits, Fisher information, error bounds.

Questions are given by ``columns`` of shape (n_classes, n_answers): P(answer | class), the answers
of all questions side by side, and ``weights`` of shape (n_answers,), for each answer the share of
examples that its question is asked about. One matrix Q for all examples: columns = Q, weights = 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]

_TARGET = 0.05  # the error at which two questionnaires are compared
_OPTIMAL = 1.01  # shares this near to the best are the best


@dataclass(frozen=True, kw_only=True)
class SchemeDiagnosis:
    """What answers to the lists of a scheme tell, beside uniform labels; ``print`` it to read it.

    Attributes
    ----------
    rank : int
        Of the matrices of all lists side by side; n_classes if all classes can be told apart.
    condition_number : float
        Of the covariance of estimated class shares: 1 if all differences between classes are
        known equally well, large if some are hardly known.
    bits_per_label, uniform_bits_per_label, bits_per_true_label : float
    examples_at_first : float
        Examples needed, as a share of those needed with uniform labels, while the classifier
        knows little: the ratio of the variances of class shares estimated by maximum likelihood.
    examples_at_last : float
        The same once classes are clear: the ratio of how many examples of one class it takes to
        know which class it is (a bound of Bhattacharyya's, 5 % error).
    """

    n_classes: int
    rank: int
    condition_number: float
    uniform_condition_number: float
    bits_per_label: float
    uniform_bits_per_label: float
    bits_per_true_label: float
    examples_at_first: float
    examples_at_last: float

    @property
    def identifiable(self) -> bool:
        """Whether the class probabilities follow from those of the answers."""
        return self.rank == self.n_classes

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values for JSON; an infinite number becomes None."""
        figures = {
            name: value if np.isfinite(value) else None for name, value in vars(self).items()
        }
        return {**figures, "identifiable": self.identifiable}

    def __str__(self) -> str:
        if not self.identifiable:
            return f"rank {self.rank} of {self.n_classes}: some classes cannot be told apart"
        low, high = sorted((self.examples_at_first, self.examples_at_last))
        gain = self.bits_per_label / self.uniform_bits_per_label
        lines = {
            "rank": f"{self.rank} of {self.n_classes}: all classes can be told apart",
            "condition number": (
                f"{self.condition_number:.3g} (uniform labels: {self.uniform_condition_number:.3g})"
            ),
            "information": (
                f"{self.bits_per_label:.3f} bits per label, {gain:.2f} times the "
                f"{self.uniform_bits_per_label:.3f} of uniform labels; a true label has "
                f"{self.bits_per_true_label:.3f}"
            ),
            "examples needed": (
                f"{low:.2f} to {high:.2f} of those with uniform labels: "
                f"{self.examples_at_first:.2f} while little is known, "
                f"{self.examples_at_last:.2f} once classes are clear"
            ),
        }
        return "\n".join(f"  {key:<18}{value}" for key, value in lines.items())


def compare_with_uniform(columns: Array, weights: Array, prior: Array) -> SchemeDiagnosis:
    """Diagnose questions, beside one matrix of uniform labels for all examples."""
    n_classes = len(prior)
    everywhere = np.ones(n_classes)
    uniform = (1 - np.eye(n_classes)) / (n_classes - 1)
    rank_of_all = rank(columns, weights)
    spread = np.full(n_classes - 1, np.inf)
    if rank_of_all == n_classes:
        spread = _variances(columns, weights, prior)
    uniform_spread = _variances(uniform, everywhere, prior)
    return SchemeDiagnosis(
        n_classes=n_classes,
        rank=rank_of_all,
        condition_number=(
            float(spread[-1] / spread[0]) if rank_of_all == n_classes else float("inf")
        ),
        uniform_condition_number=float(uniform_spread[-1] / uniform_spread[0]),
        bits_per_label=bits(columns, weights, prior),
        uniform_bits_per_label=bits(uniform, everywhere, prior),
        bits_per_true_label=bits(np.eye(n_classes), everywhere, prior),
        examples_at_first=float(spread.sum() / uniform_spread.sum()),
        examples_at_last=(
            examples_if_clear(columns, weights, prior)
            / examples_if_clear(uniform, everywhere, prior)
        ),
    )


def bits(columns: Array, weights: Array, prior: Array) -> float:
    """Return I(class; answer | question) in bits."""
    answers = prior @ columns
    given_class = prior @ (
        columns * np.log2(columns, out=np.zeros_like(columns), where=columns > 0)
    )
    marginal = answers * np.log2(np.where(answers > 0, answers, 1))
    return max(0.0, float(weights @ (given_class - marginal)))


def rank(columns: Array, weights: Array) -> int:
    """Return the rank of all matrices side by side: n_classes if every class can be told apart."""
    return int(np.linalg.matrix_rank(_gram(columns, weights), hermitian=True))


def covariance(columns: Array, weights: Array, prior: Array) -> Array:
    r"""Return n times the covariance of the best estimate of class shares from n answers.

    .. math:: V = M^{-1} - π π^\top, \quad M = \sum_a \frac{w_a}{(c_a^\top π)} c_a c_a^\top

    M is the Fisher information of one answer about the shares at π; M π = 1 takes care of the sum
    of shares being 1. The columns must have full rank.
    """
    return np.linalg.inv(_gram(columns, weights / (prior @ columns))) - np.outer(prior, prior)


def best_shares(
    columns: Array, question: NDArray[np.int64], prior: Array, *, n_rounds: int
) -> Array:
    """Return the share of examples for each question that gives the shares least variance in all.

    ``question`` says which question each column is an answer to. The multiplicative algorithm:
    a question gets more where the variance falls fastest; at the best shares it falls equally
    fast for all that are asked.
    """
    shares = np.full(question.max() + 1, 1 / (question.max() + 1))
    differences = csr_array(columns - _common(columns))
    for _ in range(n_rounds):
        variances = covariance(columns, shares[question], prior)
        projected = differences.T @ variances  # blind to what is common to all classes
        slopes = np.bincount(question, (projected**2).sum(axis=1) / (prior @ columns))
        if slopes.max() <= _OPTIMAL * np.trace(variances):
            break
        shares = shares * np.sqrt(slopes)
        shares /= shares.sum()
    return shares


def examples_if_clear(columns: Array, weights: Array, prior: Array) -> float:
    r"""Return how many examples of one and the same class it takes to know that class.

    The number n at which the union bound of Bhattacharyya on the error of the likeliest class,

    .. math:: \sum_{i < j} \sqrt{π_i π_j} \Bigl( \sum_a w_a \sqrt{c_{ia} c_{ja}} \Bigr)^n

    falls to 5 %, or to a twentieth of what it is without any answer where that is less. Infinite
    if two classes are answered alike.
    """
    overlaps = _gram(np.sqrt(columns), weights)[np.triu_indices(len(prior), 1)]
    masses = np.sqrt(np.outer(prior, prior))[np.triu_indices(len(prior), 1)]
    if overlaps.max() >= 1 - 1e-12:
        return float("inf")
    logs = np.log(np.maximum(overlaps, 1e-300))
    target = min(_TARGET, masses.sum() / 20)
    low, high = 0.0, float(np.log(target / masses.sum()) / logs.max())
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if masses @ np.exp(middle * logs) > target:
            low = middle
        else:
            high = middle
    return high


def _variances(columns: Array, weights: Array, prior: Array) -> Array:
    """Return the variances of class shares along the principal axes, the least first."""
    axes = np.linalg.eigvalsh(covariance(columns, weights, prior))
    return np.asarray(axes[1:], dtype=np.float64)


def _common(columns: Array) -> Array:
    """Return what most classes have in each column (a guess: any value keeps results exact)."""
    return np.median(columns[:: max(1, len(columns) // 9)], axis=0)


def _gram(columns: Array, weights: Array) -> Array:
    """Return the sum of w c cᵀ over columns, fast where classes differ in few of them."""
    common = _common(columns)
    differences = csr_array(columns - common)
    cross = differences @ (weights * common)
    squares = differences.multiply(weights).tocsr() @ differences.T
    return squares.toarray() + cross[:, None] + cross[None, :] + weights @ common**2
