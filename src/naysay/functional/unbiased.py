"""Unbiased estimates of the ordinary risk, which use the inverse of Q, and corrected variants."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidTransitionMatrix
from naysay.functional.batch import Batch, check_prior_tensor, flatten_with_columns, reduce
from naysay.functional.columns import once_per_matrix
from naysay.transition import TransitionMatrix, as_transition_matrix

_WORST_CONDITION = 1e10  # of Q in the 1-norm; above it the inverse is numerically meaningless


def backward_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Backward-corrected cross-entropy, an unbiased estimate of the one on true labels.

    .. math:: \ell(f, ȳ) = \sum_k (Q^{-1})_{ȳ k} \, l_k, \quad l_k = -\log \mathrm{softmax}(f)_k

    Its mean over labels ȳ drawn from row y of Q is :math:`l_y`. It is not bounded below, so a
    flexible network overfits it. For a uniform Q it has the closed form
    :math:`\sum_k l_k - (K - 1) l_ȳ` ("free"), which needs no matrix. Any other Q must be
    invertible. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Ishida et al. 2019, Theorem 1, for uniform labels: https://doi.org/10.48550/arXiv.1810.04327.
    Patrini et al. 2017, Theorem 1, for any invertible matrix:
    https://doi.org/10.1109/CVPR.2017.240
    """
    matrix = as_transition_matrix(Q)
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
    r"""Backward-corrected risk of a batch with a non-negative part for each true class ("NN").

    .. math:: \sum_k \max(R_k, 0), \quad
              R_k = \sum_j \barπ_j \, \mathrm{mean}_{i: ȳ_i = j} (Q^{-1})_{j k} \, l_k(x_i)

    :math:`R_k` estimates the contribution of class k to the ordinary risk, which cannot be
    negative, and :math:`l_k = -\log \mathrm{softmax}(f)_k`. The maximum is taken for each true
    class k, not for each complementary label j. The risk of an empty batch is 0.

    Parameters
    ----------
    logits, comp_labels, Q, ignore_index
        As in `forward_cross_entropy`; Q must be invertible.
    prior : Tensor of shape (K,), optional
        Class prior π, which gives the label prior :math:`\barπ = Q^\top π`. A label that does not
        occur in the batch contributes 0. By default :math:`\barπ` are the frequencies in the batch;
        in small batches their chance alone makes some :math:`R_k` negative.

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
    r"""Backward-corrected risk of a batch with gradient ascent on negative parts ("GA").

    With :math:`R_k` as in `non_negative_risk`, training descends on

    .. math:: -\sum_k \min(R_k, 0) \text{ if any } R_k < 0, \quad \sum_k R_k \text{ otherwise.}

    The two branches are on different scales, so the value returned is another one:
    :math:`\sum_k \max(R_k, 0)`, which can be compared between batches and epochs. The gradient is
    that of the expression above. The two agree where no :math:`R_k` is negative. The parameters
    are those of `non_negative_risk`.

    References
    ----------
    Ishida et al. 2019, Algorithm 1. https://doi.org/10.48550/arXiv.1810.04327
    """
    risks = _class_risks(logits, comp_labels, Q, prior, ignore_index)
    negative = risks.clamp_max(0).sum()
    descended = torch.where(negative < 0, -negative, risks.sum())
    value = risks.detach().clamp_min(0).sum()
    return value + (descended - descended.detach())  # the bracket is 0 but has the gradient


def _class_risks(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    prior: Tensor | None,
    ignore_index: int,
) -> Tensor:
    """Compute R_k for every true class k, shape (K,)."""
    matrix = as_transition_matrix(Q)
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
    """Compute Q⁻¹[ȳ, k] l_k for every example and class, shape (n, K)."""
    if Q.is_uniform:
        # the inverse is 2 - K on the diagonal and 1 everywhere else
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
            "Q must be invertible for a backward correction, which multiplies losses by its "
            f"inverse. This Q is singular (condition number {condition:.2g}). Use "
            "forward_cross_entropy, method 'forward', which needs no inverse."
        )
    return torch.as_tensor(inverse).to(device, dtype)
