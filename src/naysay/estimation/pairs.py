"""Combine an estimate of Q with pairs of a true class and the complementary label given to it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from naysay._base.checks import as_real_numbers, check_count, check_seed
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_samples

_CONCENTRATIONS = np.geomspace(1, 1000, 13)  # pseudo-labels per row that an estimate may be worth
_EXACT = 0.3  # prior probability that the estimate is as precise as its samples suggest
_FLOOR = 0.02  # share of the uniform matrix that is mixed in: a pair may contradict a zero


class Combined(NamedTuple):
    """A matrix estimated from pairs and from an earlier estimate."""

    matrix: TransitionMatrix
    samples: Floats
    """Posterior samples, shape (n_samples, n_classes, n_classes)."""
    worth: float
    """Number of pairs of each class that the earlier estimate is worth; infinite if the pairs
    agree with it as well as chance allows."""


def combine_with_pairs(
    Q: TransitionMatrix | ArrayLike,
    counts: ArrayLike,
    *,
    Q_samples: ArrayLike | None = None,
    allow_diagonal: bool = False,
    n_samples: int = 200,
    seed: int | np.random.Generator = 0,
) -> Combined:
    r"""Combine an estimate of Q with counted pairs of a true class and a complementary label.

    A pair is a draw from the row of its class, however good the model behind the estimate is.
    The rows have Dirichlet priors around the estimate,

    .. math:: Q_k \sim \text{Dirichlet}(s \hat Q_k), \qquad
              Q_k \mid \text{pairs} \sim \text{Dirichlet}(s \hat Q_k + N_k)

    and each weight s counts by the marginal likelihood of the pairs: an estimate that predicts the
    pairs well gets a large weight, and a biased one a small weight. A priori, the estimate has no
    error beyond that of its samples with probability 0.3. It is returned unchanged if the pairs do
    not make this less probable.

    Parameters
    ----------
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The estimate, from predictions for instance. It must not have been counted from the pairs.
    counts : array of shape (n_classes, n_classes)
        Number of pairs of each true class (row) and label (column).
    Q_samples : array of shape (n, n_classes, n_classes), optional
        Samples of the estimate, as `uncertainty` gives them; the estimate counts as exact without.
    allow_diagonal : bool, default=False
        Allow labels that name the true class by mistake.
    n_samples : int, default=200
    seed : int or numpy.random.Generator, default=0

    Examples
    --------
    >>> Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    >>> true = np.repeat(np.arange(4), 10)
    >>> counts = np.zeros((4, 4))
    >>> np.add.at(counts, (true, Q.sample(true, seed=0)), 1)
    >>> combine_with_pairs(Q, counts).matrix == Q
    True
    >>> combine_with_pairs(TransitionMatrix.uniform(4), counts).worth < 50
    True
    """
    estimate = as_transition_matrix(Q, allow_diagonal=allow_diagonal)
    n_classes, n_samples = estimate.n_classes, check_count(n_samples, "n_samples")
    rule = f"counts must be numbers of pairs, at least 0, shape ({n_classes}, {n_classes})"
    pairs = as_real_numbers(counts, rule, InvalidInput)
    if pairs.shape != (n_classes, n_classes) or not (np.isfinite(pairs) & (pairs >= 0)).all():
        raise InvalidInput(f"{rule}. Got shape {pairs.shape} and the least number {pairs.min():g}.")
    if not allow_diagonal and pairs.diagonal().any():
        raise InvalidLabels(
            "Some examples have their true class as complementary label, so annotators make "
            "mistakes. Allow for them: allow_diagonal=True (--allow-diagonal)."
        )
    rng = check_seed(seed)
    uniform = np.full((n_classes, n_classes), 1 / n_classes)
    if not allow_diagonal:
        uniform = np.asarray(TransitionMatrix.uniform(n_classes))
    center = (1 - _FLOOR) * np.asarray(estimate) + _FLOOR * uniform
    slab = [_log_marginal(pairs, s * center) for s in _CONCENTRATIONS]
    spike = float((pairs[pairs > 0] * np.log(center[pairs > 0])).sum())
    log_weights = np.array(
        [each + np.log((1 - _EXACT) / len(slab)) for each in slab] + [spike + np.log(_EXACT)]
    )
    weights = np.exp(log_weights - logsumexp(log_weights))
    drawn = np.asarray(estimate)[None]
    if Q_samples is not None:
        drawn = check_samples(Q_samples, n_classes)
    samples = np.empty((n_samples, n_classes, n_classes))
    kinds = rng.choice(len(weights), n_samples, p=weights)
    for number, kind in enumerate(kinds):
        of_estimate = drawn[number % len(drawn)]
        if kind == len(_CONCENTRATIONS):
            samples[number] = of_estimate
            continue
        s = _CONCENTRATIONS[kind]
        shape = s * ((1 - _FLOOR) * of_estimate + _FLOOR * uniform) + pairs
        gammas = rng.gamma(np.where(shape > 0, shape, 1)) * (shape > 0)
        samples[number] = gammas / gammas.sum(axis=1, keepdims=True)
    if weights[-1] >= _EXACT or not pairs.any():
        return Combined(estimate, samples, float("inf"))
    shares = weights[:-1] / weights[:-1].sum()
    n_pairs = pairs.sum(axis=1, keepdims=True)
    means = [(s * center + pairs) / (s + n_pairs) for s in _CONCENTRATIONS]
    matrix = TransitionMatrix(
        np.tensordot(shares, np.stack(means), 1),
        estimate.classes if estimate.has_names else None,
        allow_diagonal=allow_diagonal,
    )
    return Combined(matrix, samples, float(np.exp(shares @ np.log(_CONCENTRATIONS))))


def _log_marginal(counts: Floats, shape: Floats) -> float:
    """Compute the log-probability of the pairs if rows are Dirichlet with these parameters."""
    seen = counts > 0
    totals = shape.sum(axis=1)
    of_entries = gammaln(shape[seen] + counts[seen]) - gammaln(shape[seen])
    of_rows = gammaln(totals) - gammaln(totals + counts.sum(axis=1))
    return float(of_entries.sum() + of_rows.sum())
