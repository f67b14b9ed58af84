"""One loss for evidence of any kind: a likelihood over the classes."""

import torch
from torch import Tensor

from naysay._base.errors import InvalidLabels
from naysay._columns import log_share
from naysay.functional._batch import Batch, described, flatten_logits, reduce


def likelihood_loss(logits: Tensor, log_likelihood: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Log loss of whatever was observed about each example.

    .. math:: \ell(f, L) = -\log \sum_k L_k \, \mathrm{softmax}(f)_k, \quad
              L_k = P(\text{what was observed} \mid Y = k)

    A true label y is the likelihood 1 for y and 0 for all others; one complementary label is a
    column of Q (then this is `forward_cross_entropy`); several independent ones are a product of
    columns, each of its annotator's own Q; nothing observed is 1 everywhere, a loss of 0.

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
        float16 and bfloat16 are computed, and returned, in float32.
    log_likelihood : floating point Tensor of the shape of logits
        log L, -inf where a class is impossible; `naysay.observations.log_likelihoods` makes it.
    reduction : {"mean", "sum", "none"}, default="mean"

    Raises
    ------
    InvalidLabels
        If an example has no possible class. On a GPU and in compiled code this is an assertion
        on the device.

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
    """Check both and bring them from (N, K, d1, …) to (n, K), all examples counted."""
    flat = flatten_logits(logits)
    if (
        not isinstance(log_likelihood, Tensor)
        or log_likelihood.shape != logits.shape
        or not log_likelihood.is_floating_point()
    ):
        raise InvalidLabels(
            f"log_likelihood must be floating point of the shape of logits, {tuple(logits.shape)}. "
            f"Got {described(log_likelihood)}."
        )
    evidence = log_likelihood.movedim(1, -1).reshape(flat.shape).to(flat)
    impossible = (evidence == -torch.inf).all(1) | evidence.isnan().any(1)
    if flat.is_cuda or torch.compiler.is_compiling():
        rule = "log_likelihood must leave each example a possible class"
        torch.ops.aten._assert_async.msg(~impossible.any(), rule)
    elif impossible.any():
        raise InvalidLabels(
            "log_likelihood must leave each example a possible class; in row "
            f"{int(impossible.nonzero()[0])} it is -inf for all, or not a number, and in "
            f"{int(impossible.sum())} of {len(flat)} rows."
        )
    shape = torch.Size((*logits.shape[:1], *logits.shape[2:]))
    return Batch(flat, evidence.argmax(1), None, shape), evidence
