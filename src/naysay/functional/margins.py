"""Losses on margins: the logit of a class minus that of the excluded class, or a single logit."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from naysay.functional.batch import check_prior_tensor, flatten, reduce

#: A loss on a margin z that is large for negative z: ``binary_loss(z)`` keeps the shape of z.
BinaryLoss = Callable[[Tensor], Tensor]


def logistic(margin: Tensor) -> Tensor:
    r"""Compute :math:`\log(1 + e^{-z})`, the logistic loss of a margin z."""
    return softplus(-margin)


def pairwise_comparison(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Pairwise comparison with the sigmoid loss ("PC/S"), for uniform labels.

    .. math:: \ell(f, ȳ) = \sum_{k ≠ ȳ} \sigma(f_ȳ - f_k)

    It does not use Q and is unbiased only if every other class is equally likely as a label. The
    parameters are those of `forward_cross_entropy`.

    References
    ----------
    Ishida et al. 2017, Theorem 1 with the complementary pairwise-comparison loss and the sigmoid
    loss; the number is that of notes on the paper. https://doi.org/10.48550/arXiv.1705.07541
    """
    batch = flatten(logits, comp_labels, ignore_index)
    excluded = batch.logits.gather(1, batch.labels[:, None])
    # the sum includes k = ȳ, whose term is the constant σ(0) = 0.5
    losses = (excluded - batch.logits).sigmoid().sum(1) - 0.5
    return reduce(losses, batch, weight, reduction)


def one_versus_all(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""One-versus-all with the sigmoid loss ("OVA/S"), for uniform labels.

    .. math:: \ell(f, ȳ) = \frac{1}{K - 1} \sum_{k ≠ ȳ} \sigma(-f_k) + \sigma(f_ȳ)

    Each logit answers a separate question, "is it class k?", so their softmax does not estimate
    P(Y | x). The loss does not use Q. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Ishida et al. 2017, Theorem 1 with the complementary one-versus-all loss and the sigmoid loss;
    the number is that of notes on the paper. https://doi.org/10.48550/arXiv.1705.07541
    """
    batch = flatten(logits, comp_labels, ignore_index)
    positive = (-batch.logits).sigmoid().scatter(1, batch.labels[:, None], 0)
    losses = positive.sum(1) / (batch.logits.shape[1] - 1) + batch.at_labels(batch.logits).sigmoid()
    return reduce(losses, batch, weight, reduction)


def partial_label(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    binary_loss: BinaryLoss = logistic,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Partial-label loss, with all other classes as candidates ("PL").

    .. math:: \ell(f, ȳ) = \psi\Big(\frac{1}{K - 1} \sum_{k ≠ ȳ} f_k\Big) + \psi(-f_ȳ)

    The loss does not use Q. Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    binary_loss : callable, default=logistic
        ψ, a loss on one margin, which maps margins of any shape to losses of the same shape. The
        source does not fix it.

    References
    ----------
    Cour et al. 2011, equation (2), with all classes but ȳ as candidates.
    https://jmlr.org/papers/v12/cour11a.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    excluded = batch.at_labels(batch.logits)
    others = batch.logits.scatter(1, batch.labels[:, None], 0)
    mean = others.sum(1) / (batch.logits.shape[1] - 1)
    return reduce(binary_loss(mean) + binary_loss(-excluded), batch, weight, reduction)


def multi_label(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    binary_loss: BinaryLoss = logistic,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Multi-label loss, with all other classes as true labels ("ML").

    .. math:: \ell(f, ȳ) = \sum_{k ≠ ȳ} \psi(f_k) + \psi(-f_ȳ)

    The loss does not use Q. The parameters are those of `partial_label`.

    References
    ----------
    Read et al. 2011, binary relevance, with all classes but ȳ as labels: the baseline "ML" of
    Yu et al. 2018, section 8.1. https://doi.org/10.1007/s10994-011-5256-5
    """
    batch = flatten(logits, comp_labels, ignore_index)
    signs = torch.ones_like(batch.logits).scatter(1, batch.labels[:, None], -1)
    return reduce(binary_loss(batch.logits * signs).sum(1), batch, weight, reduction)


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

    Examples with the label ȳ = k are negatives of class k, and all examples serve as unlabelled
    ones. Q is not needed: the examples with label k are assumed to be a random sample of those
    outside class k. The mean over a label that does not occur in the batch is 0, and so is the risk
    of an empty batch. Parameters not listed are those of `partial_label`, among them ψ.

    Parameters
    ----------
    prior : Tensor of shape (K,)
        Class prior π, which `naysay.estimation.class_prior` estimates from the labels.

    References
    ----------
    Wang et al. 2024, the risk of Theorem 1 (as the first arXiv version counts), corrected by the
    absolute value as in the authors' code, SCARCE. https://doi.org/10.48550/arXiv.2311.15502
    """
    batch = flatten(logits, comp_labels, ignore_index)
    included = batch.included_as_float()
    is_negative = torch.zeros_like(batch.logits).scatter(
        1, batch.labels[:, None], included[:, None]
    )
    negative_shares = is_negative / is_negative.sum(0).clamp_min(1)
    shares = included / included.sum().clamp_min(1)
    share_negative = 1 - check_prior_tensor(prior, batch.logits)
    as_positive = binary_loss(batch.logits)
    negative = share_negative * (negative_shares * binary_loss(-batch.logits)).sum(0)
    all_positive = (shares[:, None] * as_positive).sum(0)
    wrongly_positive = share_negative * (negative_shares * as_positive).sum(0)
    return (negative + (all_positive - wrongly_positive).abs()).sum()
