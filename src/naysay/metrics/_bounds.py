"""What labels say about correct predictions where Q has no inverse: bounds.

Any table u with ``(Q u)[y, k] ≥ 1[y = k]`` bounds the accuracy from above: given the true class,
u[ȳ, f(x)] is on average at least as large as "the prediction is right". (With an invertible Q,
u = Q⁻¹ makes that an equality.) The best such u is the dual solution of a linear programme: the
largest accuracy among the joint distributions of class and prediction that explain the labels.
Every u that the programme may return gives a valid bound, so the labels are needed to choose a
tight one only.
"""

import numpy as np
from numpy.typing import NDArray

from naysay.transition.algebra import Floats

__all__ = ["bounding_terms", "bounds_of_mean"]


def bounding_terms(values: Floats, counts: NDArray[np.int64], z: float) -> tuple[Floats, Floats]:
    """Return the tables u of a lower and an upper bound, each of shape (label, prediction).

    They are best where mistakes fall on all other classes alike; how many there are is the one
    number taken from the counts, so that no table is fitted to chance.
    """
    n_classes, n = len(values), int(counts.sum())
    tolerance = n_classes * np.finfo(np.float64).eps
    lower = np.linalg.pinv(values, rtol=tolerance).astype(np.float64, copy=False)
    upper = lower.copy()
    misses = np.abs(values @ lower - np.eye(n_classes)).max(axis=0)
    # a class that a singular Q still tells from all others needs no programme
    is_known = (misses < 1e-9) & (np.abs(lower).max(axis=0) <= n_classes)
    labels = _likely_labels(values, counts)
    # what sampling error costs per unit of u: an upper bound of z · standard error
    penalty = z * np.sqrt((labels + 1 / n) / (n * n_classes))
    for predicted in np.flatnonzero(counts.any(axis=0) & ~is_known):
        target = np.zeros(n_classes)
        target[predicted] = 1
        costs = (labels[:, predicted], penalty[:, predicted])
        upper[:, predicted] = _cheapest_above(values, target, *costs)
        lower[:, predicted] = -_cheapest_above(values, -target, *costs)
    return lower, upper


def bounds_of_mean(shares: Floats, terms: Floats, n: int, z: float) -> tuple[float, float]:
    """Return an interval for the mean of terms that have these shares in a sample of n.

    The second part of its half-width, as in Bernstein's inequality, is for terms so rare that
    the sample may hold none.
    """
    mean = float((shares * terms).sum())
    variance = float((shares * (terms - mean) ** 2).sum())
    half = z * np.sqrt(variance / n) + z**2 * float(np.ptp(terms)) / (2 * n)
    return mean - half, mean + half


def _likely_labels(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return P(label | prediction), if a share of the predictions are right and the rest random.

    The share is the most likely one of a grid.
    """
    n_classes = len(values)
    rest = (values.sum(axis=0, keepdims=True) - values) / (n_classes - 1)
    candidates = [(a * values + (1 - a) * rest).T for a in np.linspace(0, 0.99, 34)]
    seen = counts > 0
    likelihoods = []
    for probabilities in candidates:
        with np.errstate(divide="ignore"):
            likelihoods.append((counts[seen] * np.log(probabilities[seen])).sum())
    return candidates[int(np.argmax(likelihoods))]


def _cheapest_above(values: Floats, target: Floats, shares: Floats, penalty: Floats) -> Floats:
    """Return u with Q u ≥ target that minimises Σ_j shares_j u_j + penalty_j |u_j|."""
    from scipy.optimize import linprog  # half a second to load, for singular matrices only

    # |u| is the sum of two non-negative parts; the inverse of a uniform Q is within their limit.
    solution = linprog(
        np.concatenate([shares + penalty, penalty - shares]),
        A_ub=np.concatenate([-values, values], axis=1),
        b_ub=-target,
        bounds=(0, len(values)),
        method="highs",
    )
    parts = solution.x.reshape(2, -1)
    return parts[0] - parts[1]
