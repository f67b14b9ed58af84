"""Information in answers about the class: mutual and Fisher information, error bounds.

Questions are given by ``columns`` of shape (n_classes, n_answers), P(answer | class) for the
answers of all questions side by side, and ``weights`` of shape (n_answers,), for each answer the
share of examples that get its question. One matrix Q for all examples has columns = Q, weights = 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from naysay.transition.algebra import Floats

_TARGET = 0.05  # error rate at which schemes are compared
_OPTIMAL = 1.01  # tolerance of the optimality condition of shares


@dataclass(frozen=True, kw_only=True)
class SchemeDiagnosis:
    """Information in the answers to a scheme, compared with uniform labels; ``print`` it.

    Attributes
    ----------
    rank : int
        Rank of the matrices of all lists side by side; n_classes if all classes are identified.
    condition_number : float
        Condition number of the covariance of estimated class shares: 1 if all differences between
        classes are estimated equally well, large if some are hardly identified.
    bits_per_label, uniform_bits_per_label, bits_per_true_label : float
    examples_at_first : float
        Examples needed at the start of training, relative to uniform labels: the ratio of the
        variances of class shares estimated by maximum likelihood.
    examples_at_last : float
        Examples needed once classes are well separated, relative to uniform labels: the ratio of
        the numbers of examples of one class that identify it with 5 % error (Bhattacharyya bound).
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
        """Whether the class probabilities are identified by those of the answers."""
        return self.rank == self.n_classes

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON; infinity becomes None."""
        figures = {
            name: value if np.isfinite(value) else None for name, value in vars(self).items()
        }
        return {**figures, "identifiable": self.identifiable}

    def __str__(self) -> str:
        if not self.identifiable:
            return f"rank {self.rank} of {self.n_classes}: some classes cannot be distinguished"
        low, high = sorted((self.examples_at_first, self.examples_at_last))
        gain = self.bits_per_label / self.uniform_bits_per_label
        lines = {
            "rank": f"{self.rank} of {self.n_classes}: all classes can be distinguished",
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


def compare_with_uniform(columns: Floats, weights: Floats, prior: Floats) -> SchemeDiagnosis:
    """Compare the information in the answers with that of uniform labels."""
    n_classes = len(prior)
    everywhere = np.ones(n_classes)
    uniform = (1 - np.eye(n_classes)) / (n_classes - 1)
    rank_of_all = rank(columns, weights)
    variances, condition = np.full(n_classes - 1, np.inf), float("inf")
    if rank_of_all == n_classes:
        variances = _variances(columns, weights, prior)
        condition = float(variances[-1] / variances[0])
    uniform_variances = _variances(uniform, everywhere, prior)
    return SchemeDiagnosis(
        n_classes=n_classes,
        rank=rank_of_all,
        condition_number=condition,
        uniform_condition_number=float(uniform_variances[-1] / uniform_variances[0]),
        bits_per_label=bits(columns, weights, prior),
        uniform_bits_per_label=bits(uniform, everywhere, prior),
        bits_per_true_label=bits(np.eye(n_classes), everywhere, prior),
        examples_at_first=float(variances.sum() / uniform_variances.sum()),
        examples_at_last=(
            examples_if_clear(columns, weights, prior)
            / examples_if_clear(uniform, everywhere, prior)
        ),
    )


def bits(columns: Floats, weights: Floats, prior: Floats) -> float:
    """Compute the mutual information I(class; answer | question) in bits."""
    answers = prior @ columns
    given_class = prior @ (columns * np.log2(np.where(columns > 0, columns, 1)))
    marginal = answers * np.log2(np.where(answers > 0, answers, 1))
    return max(0.0, float(weights @ (given_class - marginal)))


def rank(columns: Floats, weights: Floats) -> int:
    """Compute the rank of all matrices side by side; n_classes if all classes are identified."""
    return int(np.linalg.matrix_rank(_gram(columns, weights), hermitian=True))


def covariance(columns: Floats, weights: Floats, prior: Floats) -> Floats:
    r"""Compute n times the asymptotic covariance of class shares estimated from n answers.

    .. math:: V = M^{-1} - π π^\top, \quad M = \sum_a \frac{w_a}{(c_a^\top π)} c_a c_a^\top

    M is the Fisher information of one answer about the shares at π. As M π = 1, subtracting
    π πᵀ accounts for the constraint that shares sum to 1. The columns must have full rank.
    """
    return np.linalg.inv(_gram(columns, weights / (prior @ columns))) - np.outer(prior, prior)


def best_shares(
    columns: Floats, question: NDArray[np.int64], prior: Floats, *, n_rounds: int
) -> Floats:
    """Compute the share of examples per question that minimises the total variance (A-optimal).

    ``question`` is the question that each column is an answer to. In the multiplicative algorithm
    the share of a question grows with the derivative of the variance; at the optimum the
    derivatives of all questions in use are equal.
    """
    shares = np.full(question.max() + 1, 1 / (question.max() + 1))
    differences = csr_array(columns - _common(columns))
    for _ in range(n_rounds):
        variances = covariance(columns, shares[question], prior)
        projected = differences.T @ variances  # V 1 = 0: the common part cancels
        slopes = np.bincount(question, (projected**2).sum(axis=1) / (prior @ columns))
        if slopes.max() <= _OPTIMAL * np.trace(variances):
            break
        shares = shares * np.sqrt(slopes)
        shares /= shares.sum()
    return shares


def examples_if_clear(columns: Floats, weights: Floats, prior: Floats) -> float:
    r"""Compute the number of examples of one class that identify this class.

    This is the n at which the Bhattacharyya union bound on the error of the most likely class,

    .. math:: \sum_{i < j} \sqrt{π_i π_j} \Bigl( \sum_a w_a \sqrt{c_{ia} c_{ja}} \Bigr)^n

    falls to 5 %, or to a twentieth of its value for n = 0 if that is less. It is infinite if two
    classes have the same distribution of answers.
    """
    pairs = np.triu_indices(len(prior), 1)
    overlaps = _gram(np.sqrt(columns), weights)[pairs]
    masses = np.sqrt(np.outer(prior, prior))[pairs]
    if overlaps.max() >= 1 - 1e-12:
        return float("inf")
    logs = np.log(np.maximum(overlaps, 1e-300))
    target = min(_TARGET, masses.sum() / 20)
    low, high = 0.0, float(np.log(target / masses.sum()) / logs.max())
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        too_few = masses @ np.exp(middle * logs) > target
        low, high = (middle, high) if too_few else (low, middle)
    return high


def _variances(columns: Floats, weights: Floats, prior: Floats) -> Floats:
    """Compute the variances of class shares along the principal axes, in increasing order."""
    return np.asarray(np.linalg.eigvalsh(covariance(columns, weights, prior))[1:], np.float64)


def _common(columns: Floats) -> Floats:
    """Guess the most frequent value of each column; results are exact for any guess."""
    return np.median(columns[:: max(1, len(columns) // 9)], axis=0)


def _gram(columns: Floats, weights: Floats) -> Floats:
    """Compute Σ w c cᵀ over columns, fast if most entries of a column are equal."""
    common = _common(columns)
    differences = csr_array(columns - common)
    cross = differences @ (weights * common)
    squares = differences.multiply(weights).tocsr() @ differences.T
    return squares.toarray() + cross[:, None] + cross[None, :] + weights @ common**2
