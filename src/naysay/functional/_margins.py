"""Losses on margins: each class against the excluded one, or on its own against zero."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from naysay.functional._batch import Batch, flatten, reduce

#: A loss on one margin z, large when z is negative: ``binary_loss(z)``, any shape.
BinaryLoss = Callable[[Tensor], Tensor]


def logistic(margin: Tensor) -> Tensor:
    r"""Return :math:`\log(1 + e^{-z})`, the logistic loss of a margin z."""
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

    Unbiased only when every other class is equally likely to be excluded; it knows no Q.
    Parameters as for `forward_cross_entropy`.

    References
    ----------
    Ishida et al. 2017, Theorem 1 with the complementary pairwise-comparison loss and the sigmoid
    loss; the number is that of notes on the paper. https://doi.org/10.48550/arXiv.1705.07541
    """
    batch = flatten(logits, comp_labels, ignore_index)
    excluded = batch.logits.gather(1, batch.labels[:, None])
    # the term k = ȳ is the constant σ(0)
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

    Each logit is a decision of its own, "is it class k?", so `softmax` of them is no estimate of
    P(Y | x). It knows no Q. Parameters as for `forward_cross_entropy`.

    References
    ----------
    Ishida et al. 2017, Theorem 1 with the complementary one-versus-all loss and the sigmoid loss;
    the number is that of notes on the paper. https://doi.org/10.48550/arXiv.1705.07541
    """
    batch = flatten(logits, comp_labels, ignore_index)
    positive = (-batch.logits).sigmoid().scatter(1, batch.labels[:, None], 0)
    losses = positive.sum(1) / _n_others(batch) + _excluded(batch).sigmoid()
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
    r"""Partial-label loss: all other classes are candidates ("PL").

    .. math:: \ell(f, ȳ) = \psi\Big(\frac{1}{K - 1} \sum_{k ≠ ȳ} f_k\Big) + \psi(-f_ȳ)

    ψ is a loss on one margin. The source leaves it open; the logistic loss is the default here.
    It knows no Q.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    binary_loss : callable, default=logistic
        ψ: takes margins of any shape and gives their losses, same shape.

    References
    ----------
    Cour et al. 2011, equation (2), with all classes but ȳ as candidates.
    https://jmlr.org/papers/v12/cour11a.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    excluded = _excluded(batch)
    mean = batch.logits.scatter(1, batch.labels[:, None], 0).sum(1) / _n_others(batch)
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
    r"""Multi-label loss: all other classes are taken as true ("ML").

    .. math:: \ell(f, ȳ) = \sum_{k ≠ ȳ} \psi(f_k) + \psi(-f_ȳ)

    ψ is a loss on one margin. The source leaves it open; the logistic loss is the default here.
    It knows no Q.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    binary_loss : callable, default=logistic
        ψ: takes margins of any shape and gives their losses, same shape.

    References
    ----------
    Read et al. 2011, binary relevance, with all classes but ȳ as labels: the baseline "ML" of
    Yu et al. 2018, section 8.1. https://doi.org/10.1007/s10994-011-5256-5
    """
    batch = flatten(logits, comp_labels, ignore_index)
    signs = torch.ones_like(batch.logits).scatter(1, batch.labels[:, None], -1)
    return reduce(binary_loss(batch.logits * signs).sum(1), batch, weight, reduction)


def _excluded(batch: Batch) -> Tensor:
    return batch.logits.gather(1, batch.labels[:, None]).squeeze(1)


def _n_others(batch: Batch) -> int:
    return batch.logits.shape[1] - 1
