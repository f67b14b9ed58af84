"""Diagnose a transition matrix: rank, conditioning and information of its labels."""

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from naysay._base.checks import check_class_prior, shorten

_LARGEST_SVD = 2000  # classes; beyond this a singular value decomposition takes minutes


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """Diagnosis of a transition matrix; ``print`` it for a summary.

    ``rank``, ``condition_number`` and ``smallest_singular_value`` are None for sparse matrices
    of more than 2,000 classes, whose singular values would take minutes and a dense array.
    """

    classes: tuple[str, ...]
    rank: int | None
    condition_number: float | None
    smallest_singular_value: float | None
    unused_labels: tuple[int, ...]
    bits_per_label: float
    bits_per_true_label: float

    @property
    def identifiable(self) -> bool | None:
        """Whether Q is invertible, so that P(Y|X) follows from P(Ȳ|X) (theorem 1 of the paper)."""
        if self.unused_labels:
            return False
        return None if self.rank is None else self.rank == len(self.classes)

    @property
    def share_of_true_label(self) -> float:
        """Information of one complementary label as a share of that of a true label."""
        return self.bits_per_label / self.bits_per_true_label

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON; infinity becomes None."""
        condition = self.condition_number
        return {
            "n_classes": len(self.classes),
            "classes": list(self.classes),
            "rank": self.rank,
            "condition_number": condition if condition is None or isfinite(condition) else None,
            "smallest_singular_value": self.smallest_singular_value,
            "unused_labels": [self.classes[label] for label in self.unused_labels],
            "identifiable": self.identifiable,
            "bits_per_label": self.bits_per_label,
            "bits_per_true_label": self.bits_per_true_label,
            "share_of_true_label": self.share_of_true_label,
        }

    def __str__(self) -> str:
        n_classes = len(self.classes)
        unknown = f"not computed for more than {_LARGEST_SVD} classes"
        known = self.rank is not None
        lines = {
            "rank": f"{self.rank} of {n_classes}" if known else unknown,
            "condition number": f"{self.condition_number:.4g}" if known else unknown,
            "smallest singular value": (
                f"{self.smallest_singular_value:.4g}" if known else unknown
            ),
            "unused labels": (
                shorten([self.classes[label] for label in self.unused_labels])
                + ": never named as complementary, so these classes cannot be learned"
                if self.unused_labels
                else "none"
            ),
            "identifiable": {
                True: "yes: Q is invertible, the classifier learned is the one of true labels",
                False: "no: Q is singular; clear-cut examples may still be learned",
                None: unknown,
            }[self.identifiable],
            "information": (
                f"{self.bits_per_label:.3f} bits: one such label carries "
                f"{self.share_of_true_label:.1%} of a true label"
            ),
        }
        listed = "\n".join(f"  {key:<24}{value}" for key, value in lines.items())
        return f"Transition matrix of {n_classes} classes\n{listed}"


def diagnose(
    entries: csr_array | None, classes: tuple[str, ...], prior: ArrayLike | None
) -> Diagnosis:
    """Diagnose a matrix given by its non-zero entries; None stands for the uniform one."""
    n_classes = len(classes)
    pi = check_class_prior(prior, n_classes)
    singular_values = None  # largest first
    if entries is None:  # of (J - I) / (K - 1)
        singular_values = np.repeat([1.0, 1 / (n_classes - 1)], [1, n_classes - 1])
    elif n_classes <= _LARGEST_SVD:
        singular_values = np.linalg.svd(entries.toarray(), compute_uv=False)
    rank = smallest = condition = None
    if singular_values is not None:
        tolerance = singular_values[0] * n_classes * np.finfo(np.float64).eps
        rank = int((singular_values > tolerance).sum())
        smallest = float(singular_values[-1]) if rank == n_classes else 0.0
        condition = float(singular_values[0] / smallest) if smallest else float("inf")
    used = _label_prior(entries, np.ones(n_classes)) > 0
    return Diagnosis(
        classes=classes,
        rank=rank,
        condition_number=condition,
        smallest_singular_value=smallest,
        unused_labels=tuple(np.flatnonzero(~used).tolist()),
        bits_per_label=_information(entries, pi),
        bits_per_true_label=_entropy(pi),
    )


def _label_prior(entries: csr_array | None, pi: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute Qᵀ π."""
    return (pi.sum() - pi) / (len(pi) - 1) if entries is None else entries.T @ pi


def _information(entries: csr_array | None, pi: NDArray[np.float64]) -> float:
    """Compute I(Y; Ȳ) = H(Ȳ) - H(Ȳ | Y) in bits."""
    if entries is None:
        given_class = np.log2(len(pi) - 1)
    else:
        shares = np.repeat(pi, np.diff(entries.indptr))  # of the class of each entry
        given_class = -shares @ (entries.data * np.log2(entries.data))
    # rounding can give a tiny negative number where the information is zero
    return max(0.0, _entropy(_label_prior(entries, pi)) - float(given_class))


def _entropy(probs: NDArray[np.float64]) -> float:
    positive = probs[probs > 0]
    return float(-(positive * np.log2(positive)).sum())
