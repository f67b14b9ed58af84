"""Losses on several complementary labels per example, and on evidence of any kind."""

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import torch
from torch import Tensor

from naysay._base.errors import InvalidLabels
from naysay.functional.batch import (
    Batch,
    can_sync,
    describe_tensor,
    flatten,
    flatten_logits,
    reduce,
)
from naysay.functional.columns import log_share


def several_labels_absolute_error(
    logits: Tensor,
    ruled_out: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Absolute error on a set of complementary labels ("MCL-MAE").

    .. math:: \ell(f, Ȳ) = \frac{K - 1}{|Ȳ|} \cdot 2 \Big(1 - \sum_{k ∉ Ȳ} p_k\Big), \quad
              p = \mathrm{softmax}(f)

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    ruled_out : bool Tensor of the shape of logits, or integer Tensor of shape (N,) or (N, d1, …)
        The classes that each example does not belong to. An integer stands for one class. An
        example without any such class is ignored. If all classes of an example are ruled out,
        `InvalidLabels` is raised, or on a GPU and in compiled code an assertion on the device.
    weight : Tensor of shape (K,), optional
        Weight of each complementary label. The weight of a set is the mean over its labels.

    References
    ----------
    Feng et al. 2020, equation (12). https://doi.org/10.48550/arXiv.1912.12927
    """
    batch, excluded = _flatten_sets(logits, ruled_out, ignore_index)
    others = batch.logits.masked_fill(~excluded, -torch.inf)
    losses = 2 * log_share(others, None, batch.logits).exp()
    return _reduce_sets(losses, batch, excluded, weight, reduction)


def several_labels_exponential(
    logits: Tensor,
    ruled_out: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Exponential loss on a set of complementary labels ("MCL-EXP").

    .. math:: \ell(f, Ȳ) = \frac{K - 1}{|Ȳ|} \exp\Big(-\sum_{k ∉ Ȳ} p_k\Big), \quad
              p = \mathrm{softmax}(f)

    The parameters are those of `several_labels_absolute_error`.

    References
    ----------
    Feng et al. 2020, equation (12) with the exponential loss, where the source has twice this
    factor. https://doi.org/10.48550/arXiv.1912.12927
    """
    batch, excluded = _flatten_sets(logits, ruled_out, ignore_index)
    losses = (-_log_left(batch, excluded).exp()).exp()
    return _reduce_sets(losses, batch, excluded, weight, reduction)


def several_labels_log(
    logits: Tensor,
    ruled_out: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Log loss on a set of complementary labels ("MCL-LOG").

    .. math:: \ell(f, Ȳ) = -\frac{K - 1}{|Ȳ|} \log \sum_{k ∉ Ȳ} p_k, \quad p = \mathrm{softmax}(f)

    The parameters are those of `several_labels_absolute_error`.

    References
    ----------
    Feng et al. 2020, equation (12) with the log loss, where the source has twice this factor.
    https://doi.org/10.48550/arXiv.1912.12927
    """
    batch, excluded = _flatten_sets(logits, ruled_out, ignore_index)
    return _reduce_sets(-_log_left(batch, excluded), batch, excluded, weight, reduction)


def _log_left(batch: Batch, excluded: Tensor) -> Tensor:
    """Compute log Σ_{k ∉ Ȳ} p_k, shape (n,)."""
    return log_share(batch.logits.masked_fill(excluded, -torch.inf), None, batch.logits)


def _flatten_sets(logits: Tensor, ruled_out: Tensor, ignore_index: int) -> tuple[Batch, Tensor]:
    """Flatten logits and sets of labels; mark the excluded classes, bool of shape (n, K).

    No example excludes all or none of the classes. The labels of the batch are the first ones of
    the sets.
    """
    if not isinstance(ruled_out, Tensor) or ruled_out.dtype != torch.bool:
        batch = flatten(logits, ruled_out, ignore_index)
        nothing = torch.zeros_like(batch.logits, dtype=torch.bool)
        return batch, nothing.scatter(1, batch.labels[:, None], True)
    flat = flatten_logits(logits)
    if ruled_out.shape != logits.shape:
        raise InvalidLabels(
            f"ruled_out must have the shape of the logits, {tuple(logits.shape)}, one bool per "
            f"class, or be integers, one per row. Got {describe_tensor(ruled_out)}."
        )
    sets = ruled_out.movedim(1, -1).reshape(-1, logits.shape[1]).to(flat.device)
    full = sets.all(1)
    if not can_sync(flat):
        torch.ops.aten._assert_async.msg(~full.any(), "ruled_out must leave each example a class")
    elif full.any():
        raise InvalidLabels(
            "ruled_out must leave each example at least one class. All "
            f"{sets.shape[1]} classes are ruled out in {int(full.sum())} of {len(sets)} rows, "
            f"first in row {int(full.nonzero()[0])}."
        )
    included = sets.any(1) & ~full
    # an ignored example excludes the first class, so that every formula stays finite
    first = torch.arange(sets.shape[1], device=flat.device) == 0
    sets = sets.where(included[:, None], first)
    labels = sets.int().argmax(1)
    return Batch(flat, labels, included, logits.shape[:1] + logits.shape[2:]), sets


def _reduce_sets(
    losses: Tensor, batch: Batch, excluded: Tensor, weight: Tensor | None, reduction: str
) -> Tensor:
    losses = losses * (excluded.shape[1] - 1) / excluded.sum(1)
    return reduce(losses, batch, weight, reduction, excluded=excluded)


def likelihood_loss(logits: Tensor, log_likelihood: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Log loss of whatever was observed about each example.

    .. math:: \ell(f, L) = -\log \sum_k L_k \, \mathrm{softmax}(f)_k, \quad
              L_k = P(\text{what was observed} \mid Y = k)

    A true label y has the likelihood 1 for class y and 0 for all others. The likelihood of one
    complementary label is a column of Q, and the loss is then `forward_cross_entropy`. That of
    several independent labels is the product of such columns, each from the Q of its annotator.
    If nothing was observed it is 1 everywhere, and the loss is 0.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    log_likelihood : floating point Tensor of the shape of logits
        log L, which is -inf where a class is impossible. See `naysay.observations.log_likelihoods`.
        If an example has no possible class, `InvalidLabels` is raised, or on a GPU and in compiled
        code an assertion on the device.

    References
    ----------
    With one label per example it is equation (10) of Yu et al. 2018; the rest is ours.
    https://doi.org/10.1007/978-3-030-01246-5_5

    Examples
    --------
    >>> logits = torch.zeros(1, 4)
    >>> not_the_first_two = torch.tensor([[-torch.inf, -torch.inf, 0.0, 0.0]])
    >>> likelihood_loss(logits, not_the_first_two)
    tensor(0.6931)
    """
    batch, evidence = flatten_evidence(logits, log_likelihood)
    losses = -log_share(batch.logits, evidence, batch.logits)
    return reduce(losses, batch, None, reduction)


def flatten_evidence(logits: Tensor, log_likelihood: Tensor) -> tuple[Batch, Tensor]:
    """Check logits and likelihoods, and flatten both from (N, K, d1, …) to (n, K)."""
    flat = flatten_logits(logits)
    if (
        not isinstance(log_likelihood, Tensor)
        or log_likelihood.shape != logits.shape
        or not log_likelihood.is_floating_point()
    ):
        raise InvalidLabels(
            f"log_likelihood must be floating point of the shape of logits, {tuple(logits.shape)}. "
            f"Got {describe_tensor(log_likelihood)}."
        )
    evidence = log_likelihood.movedim(1, -1).reshape(flat.shape).to(flat)
    impossible = (evidence == -torch.inf).all(1) | evidence.isnan().any(1)
    if not can_sync(flat):
        rule = "log_likelihood must leave each example a possible class"
        torch.ops.aten._assert_async.msg(~impossible.any(), rule)
    elif impossible.any():
        raise InvalidLabels(
            "log_likelihood must leave each example a possible class. It is -inf for all classes, "
            f"or NaN, in {int(impossible.sum())} of {len(flat)} rows, first in row "
            f"{int(impossible.nonzero()[0])}."
        )
    return Batch(flat, evidence.argmax(1), None, logits.shape[:1] + logits.shape[2:]), evidence
