"""What a scheme of questions is worth, beside uniform labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay import _answer_information as information

Array = NDArray[np.float64]


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
    """Diagnose questions given by the columns and weights of `_answer_information`."""
    n_classes = len(prior)
    everywhere = np.ones(n_classes)
    uniform = (1 - np.eye(n_classes)) / (n_classes - 1)
    rank = information.rank(columns, weights)
    spread = np.full(n_classes - 1, np.inf)
    if rank == n_classes:
        spread = _variances(columns, weights, prior)
    uniform_spread = _variances(uniform, everywhere, prior)
    return SchemeDiagnosis(
        n_classes=n_classes,
        rank=rank,
        condition_number=float(spread[-1] / spread[0]) if rank == n_classes else float("inf"),
        uniform_condition_number=float(uniform_spread[-1] / uniform_spread[0]),
        bits_per_label=information.bits(columns, weights, prior),
        uniform_bits_per_label=information.bits(uniform, everywhere, prior),
        bits_per_true_label=information.bits(np.eye(n_classes), everywhere, prior),
        examples_at_first=float(spread.sum() / uniform_spread.sum()),
        examples_at_last=(
            information.examples_if_clear(columns, weights, prior)
            / information.examples_if_clear(uniform, everywhere, prior)
        ),
    )


def _variances(columns: Array, weights: Array, prior: Array) -> Array:
    """Return the variances of class shares along the principal axes, the least first."""
    covariance = information.covariance(columns, weights, prior)
    return np.asarray(np.linalg.eigvalsh(covariance)[1:], dtype=np.float64)
