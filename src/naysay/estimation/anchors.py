"""First estimates of Q: from predictions at anchors, or at the corners of all predictions.

Predictions of complementary labels are mixtures of the rows of Q, so at examples whose class is
clear they are a row of Q.
"""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import logsumexp

from naysay._base.checks import (
    as_real_numbers,
    check_anchor_counts,
    check_class_names,
    check_count,
    check_n_classes,
    check_number,
    check_one_label_each,
    check_probabilities,
    shorten,
)
from naysay._base.errors import InvalidInput, NaysayWarning, NotIdentifiable
from naysay.estimation.mixture import Probs, normalise
from naysay.transition import TransitionMatrix
from naysay.transition.algebra import Floats

FEW_ANCHORS = 5  # per class, the smallest number in the paper
_CORNER = 0.01  # share of the examples of a class that are averaged for a corner
_TEMPERATURES = (0.1, 10.0)
_MAX_ROWS = 50_000  # evenly spaced: enough to estimate one number to 1 %


def from_anchors(
    comp_probs: ArrayLike,
    anchor_labels: ArrayLike,
    n_classes: int,
    *,
    classes: Sequence[str] | None = None,
    allow_diagonal: bool = False,
    warn: bool = True,
) -> TransitionMatrix:
    r"""Estimate Q from predictions at anchors, examples whose true class is known.

    .. math:: \hat Q_{y \cdot} = \mathrm{mean}_{x \in S_y} \hat P(Ȳ = \cdot \mid x)

    An anchor x of class y has P(Y = y | x) = 1, so P(Ȳ | x) is row y of Q.

    Parameters
    ----------
    comp_probs : array of shape (n_anchors, n_classes)
        P(Ȳ | x) at the anchors, from any model trained on the complementary labels.
    anchor_labels : array of shape (n_anchors,)
        True classes of the anchors, as indices or names; 5 or 10 per class are usual.
    n_classes : int
    classes : sequence of str, optional
    allow_diagonal : bool, default=False
        Keep the diagonal, for annotators who make mistakes. By default it is set to zero and each
        row is divided by its sum.
    warn : bool, default=True
        Warn if a class has fewer than 5 anchors.

    References
    ----------
    Yu et al. 2018, section 7, equation (15). https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    >>> Q = from_anchors([[0, 0.9, 0.1], [0.4, 0, 0.6], [1, 0, 0]] * 5, [0, 1, 2] * 5, 3)
    >>> np.asarray(Q)
    array([[0. , 0.9, 0.1],
           [0.4, 0. , 0.6],
           [1. , 0. , 0. ]])
    """
    n_classes = check_n_classes(n_classes)
    names = check_class_names(classes, n_classes)
    probs = check_probabilities(comp_probs, n_classes=n_classes, name="comp_probs")
    probs = probs.astype(np.float64, copy=False)
    labels = check_one_label_each(
        anchor_labels,
        names,
        len(probs),
        name="anchor_labels",
        of="row of comp_probs",
        allow_empty=True,  # check_anchor_counts gives a better message
    )
    counts = np.bincount(labels, minlength=n_classes)
    check_anchor_counts(counts, names)
    rows = np.stack([probs[labels == label].mean(axis=0) for label in range(n_classes)])
    if not allow_diagonal:
        np.fill_diagonal(rows, 0)
    totals = rows.sum(axis=1, keepdims=True)
    if (totals == 0).any():
        name = names[int(np.argmin(totals))]
        raise InvalidInput(
            f"comp_probs must leave class {name!r} some other label; at its anchors all "
            "probability is on the class itself. For annotators who make mistakes pass "
            "allow_diagonal=True."
        )
    if warn and (few := describe_few_anchors(labels, names)) is not None:
        warnings.warn(few, NaysayWarning, stacklevel=2)
    return TransitionMatrix(rows / totals, names, allow_diagonal=allow_diagonal)


def choose_anchors(
    comp_probs: ArrayLike, labels: ArrayLike, n_per_class: int = 10
) -> NDArray[np.int64]:
    r"""Choose the most typical examples of each class as anchors.

    `from_anchors` assumes P(Y = y | x) = 1 at an anchor of class y, so that no complementary label
    names y. The best anchors therefore have the smallest predicted P(Ȳ = y | x).

    Parameters
    ----------
    comp_probs : array of shape (n, n_classes)
        P(Ȳ | x) of the examples, from a model trained on complementary labels.
    labels : array of shape (n,)
        Their true classes, as indices.
    n_per_class : int, default=10
        Number of anchors per class; all examples of a class that has fewer.

    Returns
    -------
    int array
        Row numbers of comp_probs, sorted by class.

    Examples
    --------
    >>> choose_anchors([[0.1, 0.9], [0.4, 0.6], [0.8, 0.2]], [0, 0, 1], 1).tolist()
    [0, 2]
    """
    probs = check_probabilities(comp_probs, name="comp_probs")
    n_classes = check_n_classes(probs.shape[1])
    names = check_class_names(None, n_classes)
    true = check_one_label_each(
        labels, names, len(probs), name="labels", of="row of comp_probs", allow_empty=True
    )
    n_per_class = check_count(n_per_class, "n_per_class")
    order = np.argsort(probs[np.arange(len(probs)), true], kind="stable")
    return np.concatenate([order[true[order] == k][:n_per_class] for k in range(n_classes)])


def describe_few_anchors(labels: NDArray[np.int64], names: Sequence[str]) -> str | None:
    """Describe which classes have few anchors; None if no class has.

    The anchors do not show how large the errors of these rows are: predictions that agree may all
    be wrong.
    """
    counts = np.bincount(labels, minlength=len(names))
    few = np.flatnonzero(counts < FEW_ANCHORS)
    if not len(few):
        return None
    least, most = int(counts[few].min()), int(counts[few].max())
    number = f"{least} anchor{'' if least == 1 else 's'}"
    if least < most:
        number = f"{least} to {most} anchors"
    listed = shorten([names[int(index)] for index in few])
    of, rows = ("class", "its row") if len(few) == 1 else ("each of", "these rows")
    return (
        f"Q was estimated from {number} for {of} {listed}, so that {rows} may be far off. "
        f"{FEW_ANCHORS} to 10 true labels per class are usual."
    )


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
    many zeros and several assignments fit: `NotIdentifiable` is raised then, and names the
    classes. Use `from_anchors` with a few anchors instead.

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
    return TransitionMatrix(matched, names, allow_diagonal=allow_diagonal)


def _corners(probs: Probs, n_corners: int) -> Floats:
    """Find the corners of a simplex of points, each the mean of a few extreme points."""
    n_mean = max(1, round(_CORNER * len(probs) / n_corners))
    # squared distances from the span, in float64 because they are repeatedly subtracted
    squares = np.einsum("ij,ij->i", probs, probs, dtype=np.float64)
    directions = np.zeros((0, probs.shape[1]))
    corners: list[Floats] = []
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


def _assign(rows: Floats, min_margin: float) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
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


def calibrate(log_probs: ArrayLike, labels: ArrayLike) -> float:
    r"""Fit the temperature that calibrates predictions on held-out labels.

    .. math:: \hat T = \arg\max_T \sum_i \log \mathrm{softmax}(\log p(x_i) / T)_{l_i}

    A temperature above 1 means that the model is overconfident. The labels must be of the kind
    that the model predicts: complementary labels for a model of P(Ȳ | x), true labels for P(Y | x).
    To calibrate, divide the logits or log-probabilities by the temperature and apply a softmax. The
    result is 1 unless the Bayesian information criterion supports another temperature between 0.1
    and 10. At most 50,000 examples are used, evenly spaced.

    Parameters
    ----------
    log_probs : array of shape (n, n_classes)
        Log-probabilities or logits of examples that the model was not trained on.
    labels : array of shape (n,)
        As indices.

    References
    ----------
    Guo et al. 2017: On Calibration of Modern Neural Networks.

    Examples
    --------
    >>> overconfident = np.log([[0.99, 0.01]] * 100)  # 75 % are correct
    >>> round(calibrate(overconfident, [0, 0, 0, 1] * 25), 1)
    4.2
    """
    rule = "log_probs must be logarithms of probabilities, or logits, shape (n, n_classes)"
    scores = as_real_numbers(log_probs, rule, InvalidInput)
    # the maximum of a row is NaN if the row has a NaN, and -inf if all entries are -inf
    if scores.ndim != 2 or not np.isfinite(scores.max(axis=1, initial=-np.inf)).all():
        raise InvalidInput(
            f"{rule}, none of them NaN or +inf, and a finite one in every row. "
            f"Got shape {scores.shape}."
        )
    names = check_class_names(None, check_n_classes(scores.shape[1]))
    indices = check_one_label_each(labels, names, len(scores), name="labels", of="row of log_probs")
    some = slice(None, None, -(-len(scores) // _MAX_ROWS))
    scores, indices = scores[some], indices[some]
    # relative to the largest, and not below the logarithm of the smallest float
    scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -700.0)
    chosen = scores[np.arange(len(scores)), indices]

    def loss(log_temperature: float) -> float:
        inverse = np.exp(-log_temperature)
        return float((logsumexp(scores * inverse, axis=1) - chosen * inverse).sum())

    found = minimize_scalar(
        loss, bounds=np.log(_TEMPERATURES), method="bounded", options={"xatol": 1e-3}
    )
    gain = loss(0.0) - found.fun
    return float(np.exp(found.x)) if gain > max(1.0, 0.5 * np.log(len(scores))) else 1.0
