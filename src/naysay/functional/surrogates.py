"""Surrogate losses on one complementary label that do not use Q: SCL, L-W and OP."""

import torch
from torch import Tensor

from naysay.functional.batch import flatten, reduce
from naysay.functional.columns import log_share


def surrogate_log(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Negative-learning surrogate loss ("SCL-NL"), for uniform labels.

    .. math:: \ell(f, ȳ) = -\log(1 - \mathrm{softmax}(f)_ȳ)

    The probability :math:`1 - p_ȳ` is computed as a sum over the other classes, which is exact
    where the excluded class has all the probability. The loss equals `forward_cross_entropy` with
    a uniform Q, minus :math:`\log(K - 1)`. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Chou et al. 2020, equation (11). https://doi.org/10.48550/arXiv.2007.02235
    """
    batch = flatten(logits, comp_labels, ignore_index)
    others = batch.logits.scatter(1, batch.labels[:, None], -torch.inf)
    return reduce(-log_share(others, None, batch.logits), batch, weight, reduction)


def surrogate_exponential(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Exponential surrogate loss ("SCL-EXP"), for uniform labels.

    .. math:: \ell(f, ȳ) = \exp(\mathrm{softmax}(f)_ȳ)

    It lies between 1 and e. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Chou et al. 2020, equation (12): the third of (10) to (12), of which (11) is `surrogate_log`.
    https://doi.org/10.48550/arXiv.2007.02235
    """
    batch = flatten(logits, comp_labels, ignore_index)
    return reduce(batch.at_labels(batch.logits.softmax(1)).exp(), batch, weight, reduction)


def reversed_softmax(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Discriminative loss, unweighted ("L-UW"), for uniform labels.

    .. math:: \ell(f, ȳ) = -\log r_ȳ, \quad r = \mathrm{softmax}(1 - \mathrm{softmax}(f))

    r is interpreted as the probability of each complementary label. The loss is bounded. The
    parameters are those of `forward_cross_entropy`.

    References
    ----------
    Gao & Zhang 2021, the loss L-UW: equation (7) by the page of the authors' code; remarks in
    copies of that code count otherwise. https://proceedings.mlr.press/v139/gao21d.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    log_r = (-batch.logits.softmax(1)).log_softmax(1)
    return reduce(-batch.at_labels(log_r), batch, weight, reduction)


def weighted_reversed_softmax(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Discriminative loss, weighted ("L-W"), for uniform labels.

    .. math:: \ell(f, ȳ) = -\Big(1 + \frac{1 - p_ȳ}{K - 1}\Big) \log r_ȳ, \quad
              p = \mathrm{softmax}(f), \; r = \mathrm{softmax}(1 - p)

    The gradient includes that of the factor. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Gao & Zhang 2021, the loss L-W: equation (8) by the page of the authors' code; remarks in
    copies of that code count otherwise. https://proceedings.mlr.press/v139/gao21d.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    probs = batch.logits.softmax(1)
    factor = 1 + (1 - batch.at_labels(probs)) / (batch.logits.shape[1] - 1)
    losses = -factor * batch.at_labels((-probs).log_softmax(1))
    return reduce(losses, batch, weight, reduction)


def order_preserving(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Order-preserving loss ("OP"), for uniform labels.

    .. math:: \ell(f, ȳ) = -\log \mathrm{softmax}(-f)_ȳ

    This is the cross-entropy of the negated logits. It preserves the order of the class
    probabilities but not their values. The parameters are those of `forward_cross_entropy`.

    References
    ----------
    Liu et al. 2023, definition 3.1; the number is that of third-party code, PyPCL.
    https://proceedings.mlr.press/v206/liu23g.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    return reduce(-batch.at_labels((-batch.logits).log_softmax(1)), batch, weight, reduction)


def weighted_order_preserving(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Order-preserving loss, weighted ("OP-W"), for uniform labels.

    .. math:: \ell(f, ȳ) = -p_ȳ \, w_ȳ \log g_ȳ, \quad
              p = \mathrm{softmax}(f), \; g = \mathrm{softmax}(-f), \; w = \mathrm{softmax}(1 + 1/g)

    The gradient treats the factor :math:`p_ȳ w_ȳ` as a constant: through w it would grow like
    :math:`e^{2 |f|}` where two logits are equal. The parameters are those of
    `forward_cross_entropy`.

    References
    ----------
    Liu et al. 2023, definition 4.1, with the weights of appendix D; the numbers are those of
    third-party code, PyPCL. https://proceedings.mlr.press/v206/liu23g.html
    """
    batch = flatten(logits, comp_labels, ignore_index)
    log_g = (-batch.logits).log_softmax(1)
    factors = batch.logits.softmax(1) * _sharpened(log_g)
    losses = -batch.at_labels(factors.detach() * log_g)
    return reduce(losses, batch, weight, reduction)


def _sharpened(log_g: Tensor) -> Tensor:
    """Compute softmax(1 + 1/g), where 1/g may overflow."""
    # differences from the largest 1/g, exp(top) · (exp(m - top) - 1), which are at most 0
    log_inverse = -log_g.detach()
    top = log_inverse.amax(1, keepdim=True)
    scale = top.clamp_max(80).exp()  # above this everything but exact ties is 0 anyway
    return (scale * torch.expm1(log_inverse - top)).softmax(1)
