"""Estimate Q without any true label, from its zero diagonal."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from naysay._base.checks import (
    check_class_names,
    check_n_classes,
    check_number,
    check_probabilities,
    shorten,
)
from naysay._base.errors import InvalidInput, NotIdentifiable
from naysay.estimation.mixture import Probs, normalise
from naysay.transition import TransitionMatrix

_CORNER = 0.01  # share of the examples of a class that are averaged for a corner


def from_structure(
    comp_probs: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    allow_diagonal: bool = False,
    min_margin: float = 0.3,
) -> TransitionMatrix:
    r"""Estimate Q from predictions of complementary labels alone, if it is identifiable.

    :math:`P(Ȳ \mid x) = Q^\top p(x)` is a mixture of the rows of Q, so the predictions lie in a
    simplex whose corners are the rows; examples with p near one-hot lie in the corners. The
    corners are found one after another, each at the largest distance from the span of those
    before. The zero diagonal assigns corners to classes: annotators do not exclude the true class,
    so row k is the corner whose entry k is near zero. The assignment with the smallest sum of
    these entries is chosen.

    The assignment is identified only if every other assignment is clearly worse. Uniform labels
    have one zero per row, so they identify it. With annotators who use few labels the rows have
    many zeros and several assignments fit; an error is raised then. Use `from_anchors` with a few
    anchors instead.

    Parameters
    ----------
    comp_probs : array of shape (n, n_classes)
        P(Ȳ | x) of many examples, from any model trained on complementary labels with early
        stopping. Every class needs examples that the model classifies with high probability.
    classes : sequence of str, optional
    allow_diagonal : bool, default=False
        Keep the estimated diagonal, for annotators who make mistakes. It must still be the
        smallest entry of each row.
    min_margin : float, default=0.3
        Required distance to the second-best assignment, in units of 1 / (n_classes - 1).

    Raises
    ------
    NotIdentifiable
        If several assignments fit; the message names the classes.

    References
    ----------
    Araújo et al. 2001: the successive projections algorithm, which finds the corners.

    Examples
    --------
    >>> Q = TransitionMatrix.uniform(4)
    >>> probs = np.random.default_rng(0).dirichlet(np.full(4, 0.1), size=4000)
    >>> found = from_structure(probs @ np.asarray(Q))
    >>> bool(np.abs(np.asarray(found) - np.asarray(Q)).max() < 0.02)
    True
    """
    probs = check_probabilities(comp_probs, name="comp_probs")
    n_classes = check_n_classes(probs.shape[1])
    names = check_class_names(classes, n_classes)
    min_margin = check_number(min_margin, "min_margin", above=0)
    if len(probs) < n_classes:
        raise InvalidInput(
            f"comp_probs must have at least one row per class, {n_classes}. Got {len(probs)} rows."
        )
    rows = _corners(probs, n_classes)
    corner_of, ambiguous = _assign(rows, min_margin / (n_classes - 1))
    if ambiguous.any():
        listed = [names[index] for index in np.flatnonzero(ambiguous).tolist()]
        raise NotIdentifiable(
            "Without anchors the zero diagonal of Q must identify the classes. It does not for "
            f"{shorten(listed)}: their rows can be exchanged. Pass a few examples of known class "
            "to from_anchors."
        )
    matched = normalise(rows[corner_of], rows[corner_of], allow_diagonal=allow_diagonal)
    return TransitionMatrix(
        matched, None if classes is None else names, allow_diagonal=allow_diagonal
    )


def _corners(probs: Probs, n_corners: int) -> NDArray[np.float64]:
    """Find the corners of a simplex of points, each the mean of a few extreme points."""
    n_mean = max(1, round(_CORNER * len(probs) / n_corners))
    # squared distances from the span, in float64 because they are repeatedly subtracted
    squares = np.einsum("ij,ij->i", probs, probs, dtype=np.float64)
    directions = np.zeros((0, probs.shape[1]))
    corners = []
    for _ in range(n_corners):
        farthest = probs[squares.argmax()].astype(np.float64)
        residual = farthest - (directions @ farthest) @ directions
        direction = residual / max(np.linalg.norm(residual), 1e-300)
        # orthogonal to earlier directions: points and their residuals have the same projection
        reach = (probs @ direction.astype(probs.dtype)).astype(np.float64)
        far = np.argpartition(-reach, n_mean - 1)[:n_mean]
        corners.append(probs[far].mean(axis=0, dtype=np.float64))
        squares -= reach**2
        directions = np.vstack([directions, direction])
    return np.array(corners)


def _assign(
    rows: NDArray[np.float64], min_margin: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Assign a corner to each class, and find the classes whose corner is ambiguous."""
    cost = rows.T  # cost of class k at corner v: the entry that should be zero
    classes, best = linear_sum_assignment(cost)
    least = cost[classes, best].sum()
    ambiguous = np.zeros(len(rows), dtype=bool)
    for index in classes:
        forbidden = cost.copy()
        forbidden[index, best[index]] = len(rows) + 1.0
        _, other = linear_sum_assignment(forbidden)
        if cost[classes, other].sum() - least < min_margin:
            ambiguous |= other != best
    return best, ambiguous
