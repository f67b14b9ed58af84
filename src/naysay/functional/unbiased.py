"""Unbiased estimates of the ordinary risk through the inverse of Q, and their corrections."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidTransitionMatrix
from naysay.functional.batch import (
    Batch,
    as_transition,
    check_prior_tensor,
    flatten_with_columns,
    reduce,
)
from naysay.functional.cache import once_per_matrix
from naysay.transition import TransitionMatrix

_WORST_CONDITION = 1e10  # of Q in the 1-norm; beyond it the inverse has few digits left


def backward_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Backward-corrected cross-entropy: an unbiased estimate of the one under true labels.

    .. math:: \ell(f, ȳ) = \sum_k (Q^{-1})_{ȳ k} \, l_k, \quad l_k = -\log \mathrm{softmax}(f)_k

    Averaged over ȳ as Q draws it, it equals :math:`l_y`. It is not bounded below, so a flexible
    network overfits it. A uniform Q takes the closed form :math:`\sum_k l_k - (K - 1) l_ȳ`
    ("free"), without any matrix. Parameters as for `forward_cross_entropy`.

    Raises
    ------
    InvalidTransitionMatrix
        If Q is singular.

    References
    ----------
    Ishida et al. 2019, Theorem 1, for uniform labels: https://doi.org/10.48550/arXiv.1810.04327.
    Patrini et al. 2017, Theorem 1, for any invertible matrix:
    https://doi.org/10.1109/CVPR.2017.240
    """
    matrix = as_transition(Q)
    batch, _ = flatten_with_columns(logits, comp_labels, ignore_index, matrix)
    losses = -batch.logits.log_softmax(1)
    return reduce(_corrected(losses, batch, matrix).sum(1), batch, weight, reduction)


def non_negative_risk(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    prior: Tensor | None = None,
    *,
    ignore_index: int = -100,
) -> Tensor:
    r"""Backward-corrected risk of a batch, each ordinary class kept from going below zero ("NN").

    .. math:: \sum_k \max(R_k, 0), \quad
              R_k = \sum_j \barπ_j \, \mathrm{mean}_{i: ȳ_i = j} (Q^{-1})_{j k} \, l_k(x_i)

    :math:`R_k` estimates the part of the ordinary risk that class k has, which cannot be negative;
    :math:`l_k = -\log \mathrm{softmax}(f)_k`. The maximum is taken per ordinary class k, not per
    complementary label j.

    Parameters
    ----------
    logits, comp_labels, Q, ignore_index
        As for `forward_cross_entropy`.
    prior : Tensor of shape (K,), optional
        Class prior π; the prior of the labels is then :math:`\barπ = Q^\top π`. A label that does
        not occur in the batch contributes 0. Left out, :math:`\barπ` are the frequencies in the
        batch, whose chance alone makes some :math:`R_k` negative where batches are small.

    Returns
    -------
    Tensor of shape ()
        0 for an empty batch.

    Raises
    ------
    InvalidTransitionMatrix
        If Q is singular.

    References
    ----------
    Ishida et al. 2019, equation (14), the number that issue 2 of the authors' code gives it.
    https://doi.org/10.48550/arXiv.1810.04327
    """
    return _class_risks(logits, comp_labels, Q, prior, ignore_index).clamp_min(0).sum()


def gradient_ascent_risk(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    prior: Tensor | None = None,
    *,
    ignore_index: int = -100,
) -> Tensor:
    r"""Backward-corrected risk of a batch that climbs back where a class went below zero ("GA").

    With :math:`R_k` as in `non_negative_risk`, training descends on

    .. math:: -\sum_k \min(R_k, 0) \text{ if any } R_k < 0, \quad \sum_k R_k \text{ otherwise.}

    The two branches are on different scales, so the value returned is not what is descended on:
    the value is :math:`\sum_k \max(R_k, 0)`, which can be compared between batches and epochs,
    and the gradient is that of the expression above. They agree wherever no :math:`R_k` is
    negative. Parameters as for `non_negative_risk`.

    Raises
    ------
    InvalidTransitionMatrix
        If Q is singular.

    References
    ----------
    Ishida et al. 2019, Algorithm 1. https://doi.org/10.48550/arXiv.1810.04327
    """
    risks = _class_risks(logits, comp_labels, Q, prior, ignore_index)
    negative = risks.clamp_max(0).sum()
    descended = torch.where(negative < 0, -negative, risks.sum())
    value = risks.detach().clamp_min(0).sum()
    return value + (descended - descended.detach())  # the bracket is 0, with the gradient wanted


def _class_risks(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    prior: Tensor | None,
    ignore_index: int,
) -> Tensor:
    """Return R_k for every ordinary class k, shape (K,)."""
    matrix = as_transition(Q)
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, matrix)
    included = batch.included_as_float()
    if prior is None:
        shares = included / included.sum().clamp_min(1)
    else:
        label_prior = columns.q(check_prior_tensor(prior, batch.logits)[None])[0]
        counts = torch.zeros_like(label_prior).index_add(0, batch.labels, included)
        shares = included * (label_prior / counts.clamp_min(1))[batch.labels]
    losses = -batch.logits.log_softmax(1)
    return (shares[:, None] * _corrected(losses, batch, matrix)).sum(0)


def _corrected(losses: Tensor, batch: Batch, Q: TransitionMatrix) -> Tensor:
    """Return Q⁻¹[ȳ, k] l_k for every example and class, shape (n, K)."""
    if Q.is_uniform:
        # the inverse is 1 everywhere but 1 - (K - 1) on the diagonal
        n_classes = losses.shape[1]
        excluded = losses.gather(1, batch.labels[:, None])
        return losses.scatter(1, batch.labels[:, None], (2 - n_classes) * excluded)
    return _inverse_of(Q, losses.dtype, losses.device)[batch.labels] * losses


@once_per_matrix
def _inverse_of(Q: TransitionMatrix, dtype: torch.dtype, device: torch.device) -> Tensor:
    values = np.asarray(Q)
    try:
        inverse = np.linalg.inv(values)
        condition = np.linalg.norm(values, 1) * np.linalg.norm(inverse, 1)
    except np.linalg.LinAlgError:
        inverse, condition = None, np.inf
    if not condition < _WORST_CONDITION:
        raise InvalidTransitionMatrix(
            "Q must be invertible for a backward correction, which weighs losses by its inverse. "
            f"This one is singular (condition number {condition:.2g}). "
            "Use forward_cross_entropy, method 'forward', which needs no inverse."
        )
    return torch.as_tensor(inverse).to(device, dtype)
