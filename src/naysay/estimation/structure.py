"""Estimate Q without any true label, where its zero diagonal says which class is which."""

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
from naysay.estimation.mixture import Floats, normalise
from naysay.transition import TransitionMatrix

_CORNER = 0.01  # share of the examples of a class that make up a corner


def from_structure(
    comp_probs: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    allow_diagonal: bool = False,
    min_margin: float = 0.3,
) -> TransitionMatrix:
    r"""Estimate Q from predictions of complementary labels alone, or say that it cannot be.

    :math:`P(Ȳ \mid x) = Q^\top p(x)` is a mixture of the rows of Q, and sure examples lie in the
    corners: the corners of all predictions are the rows. They are found one after another, each
    farthest from the space of those before. Which corner is which class must come from the
    diagonal: annotators do not exclude the true class, so row k is the one whose entry k is near
    zero. The assignment with the least sum of those entries is taken.

    That is an answer only if every other assignment is clearly worse. Uniform labels have one zero
    per row and settle it. Annotators who use few labels leave many zeros, and several assignments
    fit: then this raises an error. A few anchors and `from_anchors` settle it.

    Parameters
    ----------
    comp_probs : array of shape (n, n_classes)
        P(Ȳ | x) of many examples, from any model trained on complementary labels, stopped early.
        Every class needs examples of which the model is sure.
    classes : sequence of str, optional
    allow_diagonal : bool, default=False
        Keep the diagonal found (annotators who err); it must still be the least entry.
    min_margin : float, default=0.3
        By how much the next assignment must be worse, in mean entries 1 / (n_classes - 1).

    Raises
    ------
    NotIdentifiable
        With the classes that cannot be told apart.

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
            "Without anchors the diagonal of Q must say which class is which. It leaves open "
            f"{shorten(listed)}: their rows fit each other's place as well. Pass a few examples of "
            "known class to from_anchors."
        )
    matched = normalise(rows[corner_of], rows[corner_of], allow_diagonal=allow_diagonal)
    return TransitionMatrix(
        matched, None if classes is None else names, allow_diagonal=allow_diagonal
    )


def _corners(probs: Floats, n_corners: int) -> NDArray[np.float64]:
    """Return points in the corners of a cloud, each a mean of the few that reach farthest."""
    n_mean = max(1, round(_CORNER * len(probs) / n_corners))
    # of what is left of each point; differences of them need all digits
    squares = np.einsum("ij,ij->i", probs, probs, dtype=np.float64)
    directions = np.zeros((0, probs.shape[1]))
    corners = []
    for _ in range(n_corners):
        farthest = probs[squares.argmax()].astype(np.float64)
        left = farthest - (directions @ farthest) @ directions
        direction = left / max(np.linalg.norm(left), 1e-300)
        # at right angles to all directions before: the same of the points and of what is left
        reach = (probs @ direction.astype(probs.dtype)).astype(np.float64)
        far = np.argpartition(-reach, n_mean - 1)[:n_mean]
        corners.append(probs[far].mean(axis=0, dtype=np.float64))
        squares -= reach**2
        directions = np.vstack([directions, direction])
    return np.array(corners)


def _assign(
    rows: NDArray[np.float64], min_margin: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the corner of each class, and which classes could as well have another."""
    cost = rows.T  # of class k at corner v: the entry that should be zero
    everyone, best = linear_sum_assignment(cost)
    least = cost[everyone, best].sum()
    ambiguous = np.zeros(len(rows), dtype=bool)
    for index in everyone:
        forbidden = cost.copy()
        forbidden[index, best[index]] = len(rows) + 1.0
        _, other = linear_sum_assignment(forbidden)
        if cost[everyone, other].sum() - least < min_margin:
            ambiguous |= other != best
    return best, ambiguous
