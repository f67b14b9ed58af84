"""One class against the rest, each a binary problem from negative and unlabelled examples."""

import torch
from torch import Tensor

from naysay.functional._batch import check_prior, flatten
from naysay.functional._margins import BinaryLoss, logistic


def one_versus_rest_risk(
    logits: Tensor,
    comp_labels: Tensor,
    prior: Tensor,
    *,
    binary_loss: BinaryLoss = logistic,
    ignore_index: int = -100,
) -> Tensor:
    r"""Risk of a batch as K binary problems, each class against the rest ("SCARCE").

    .. math:: \sum_k (1 - π_k) \, \mathrm{mean}_{i: ȳ_i = k} ψ(-f_k(x_i)) +
              \big| \mathrm{mean}_i ψ(f_k(x_i)) -
              (1 - π_k) \, \mathrm{mean}_{i: ȳ_i = k} ψ(f_k(x_i)) \big|

    Examples labelled "not k" are negatives of class k, all examples are unlabelled; ψ is a loss on
    one margin, :math:`π_k` the share of class k. It needs no Q: it assumes that of the examples
    that are not k, those labelled "not k" are a fair sample. A label that does not occur in the
    batch contributes no mean (0).

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
    comp_labels : integer Tensor of shape (N,) or (N, d1, …)
    prior : Tensor of shape (K,)
        Class prior π; `naysay.estimation.class_prior` estimates it from the labels.
    binary_loss : callable, default=logistic
        ψ: takes margins of any shape and gives their losses, same shape.
    ignore_index : int, default=-100
        Label of examples to leave out.

    Returns
    -------
    Tensor of shape ()
        0 for an empty batch.

    References
    ----------
    Wang et al. 2024, the risk of Theorem 1 (as the first arXiv version counts), corrected by the
    absolute value as in the authors' code, SCARCE. https://doi.org/10.48550/arXiv.2311.15502
    """
    batch = flatten(logits, comp_labels, ignore_index)
    counted = batch.counted()
    is_negative = torch.zeros_like(batch.logits).scatter(1, batch.labels[:, None], counted[:, None])
    negative_shares = is_negative / is_negative.sum(0).clamp_min(1)
    shares = counted / counted.sum().clamp_min(1)
    share_negative = 1 - check_prior(prior, batch.logits)
    as_positive = binary_loss(batch.logits)
    negative = share_negative * (negative_shares * binary_loss(-batch.logits)).sum(0)
    all_positive = (shares[:, None] * as_positive).sum(0)
    wrongly_positive = share_negative * (negative_shares * as_positive).sum(0)
    return (negative + (all_positive - wrongly_positive).abs()).sum()
