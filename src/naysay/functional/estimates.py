"""Losses of networks that estimate P(Ȳ | x), and how to decode their predictions."""

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import torch
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional.batch import (
    check_prior_tensor,
    describe_tensor,
    flatten,
    flatten_logits,
    reduce,
)
from naysay.functional.columns import log_share


def complementary_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Cross-entropy of the complementary label itself ("CPE-I").

    .. math:: \ell(f, ȳ) = -\log \mathrm{softmax}(f)_ȳ

    The logits are those of P(Ȳ | x), not of P(Y | x). `nearest_row_scores` derives scores of the
    classes from them. The parameters are those of `forward_cross_entropy`, without Q.

    References
    ----------
    Lin & Lin 2023, "CPE-I"; equation number not checked.
    https://doi.org/10.1007/978-3-031-33377-4_36
    """
    batch = flatten(logits, comp_labels, ignore_index)
    chosen = batch.logits.gather(1, batch.labels[:, None])
    return reduce(-log_share(chosen, None, batch.logits), batch, weight, reduction)


def trained_forward_cross_entropy(
    logits: Tensor,
    comp_labels: Tensor,
    log_Q: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected cross-entropy with a matrix that is trained as well ("CPE-T").

    .. math:: \ell(f, ȳ) = -\log \sum_k Q_{k ȳ} \, \mathrm{softmax}(f)_k

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    log_Q : Tensor of shape (K, K)
        Logarithm of Q, which is -inf where Q is 0, and which gets a gradient. Labels whose column
        consists of -inf are not allowed.

    References
    ----------
    Lin & Lin 2023, "CPE-T"; equation number not checked.
    https://doi.org/10.1007/978-3-031-33377-4_36
    """
    batch = flatten(logits, comp_labels, ignore_index)
    n_classes = batch.logits.shape[1]
    if not isinstance(log_Q, Tensor) or log_Q.shape != (n_classes, n_classes):
        raise InvalidInput(
            f"log_Q must be a Tensor of shape ({n_classes}, {n_classes}), one row per class. "
            f"Got {describe_tensor(log_Q)}."
        )
    columns = log_Q.to(batch.logits).T[batch.labels]
    return reduce(-log_share(batch.logits, columns, batch.logits), batch, weight, reduction)


def nearest_row_scores(comp_probs: Tensor, Q: Tensor) -> Tensor:
    r"""Score each class by the distance between its row of Q and P(Ȳ | x), shape (N, K).

    .. math:: \log \mathrm{softmax}_k \bigl(-\textstyle\sum_j |\bar p_j - Q_{kj}|\bigr)

    The nearest row in the L1 norm has the highest score, which is the decoding of Lin & Lin 2023.
    The scores are normalised like log probabilities, but they do not estimate P(Y | x).

    References
    ----------
    Lin & Lin 2023, the decoding by the L1 distance; equation number not checked.
    https://doi.org/10.1007/978-3-031-33377-4_36

    Examples
    --------
    >>> Q = torch.tensor([[0.0, 0.9, 0.1], [0.5, 0.0, 0.5], [1.0, 0.0, 0.0]])
    >>> nearest_row_scores(torch.tensor([[0.6, 0.0, 0.4]]), Q).argmax(1)
    tensor([1])
    """
    return (-torch.cdist(comp_probs, Q, p=1)).log_softmax(1)


def prior_matching(logits: Tensor, prior: Tensor, *, counted: Tensor | None = None) -> Tensor:
    r"""Divergence of the mean prediction of a batch from the class prior, added to another loss.

    .. math:: \mathrm{KL}(\pi \,\|\, \bar p) = \sum_k \pi_k \log (\pi_k / \bar p_k), \quad
              \bar p = \mathrm{mean}_i\, \mathrm{softmax}(f_i)

    From a loss on complementary labels a network hardly learns a class that it never predicts: the
    gradient is proportional to the probability of that class. Here the examples with the highest
    probability of class k share a gradient of :math:`\pi_k`, however small that probability is.
    The divergence is computed in log space, so this is true for any logits.

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
    prior : Tensor of shape (K,)
        Probability of each class; see `naysay.estimation.class_prior`.
    counted : bool Tensor of shape (N,) or (N, d1, …), optional
        Examples that enter the mean, by default all. If there are none the divergence is 0.

    References
    ----------
    Tanaka et al. 2018: Joint Optimization Framework for Learning with Noisy Labels, where it is one
    of two regularisers. https://doi.org/10.1109/CVPR.2018.00582

    Examples
    --------
    >>> logits = torch.tensor([[2.0, -2.0], [3.0, -1.0]])
    >>> prior_matching(logits, torch.tensor([0.5, 0.5]))
    tensor(1.3250)
    """
    flat = flatten_logits(logits)
    shares = check_prior_tensor(prior, flat)
    log_probs = flat.log_softmax(1)
    if counted is None:
        counted = torch.ones_like(flat[:, 0], dtype=torch.bool)
    elif (
        not isinstance(counted, Tensor)
        or counted.dtype != torch.bool
        or counted.numel() != len(flat)
    ):
        raise InvalidInput(
            f"counted must contain one bool per row of logits, {len(flat)}. "
            f"Got {describe_tensor(counted)}."
        )
    counted = counted.reshape(-1)
    n_counted = counted.sum()
    # if none is counted, all are and the result is multiplied by 0: log 0 has no gradient
    skipped = ~counted & (n_counted > 0)
    log_sums = log_probs.masked_fill(skipped[:, None], -torch.inf).logsumexp(0)
    log_means = log_sums - (~skipped).sum().to(flat).log()
    divergence = (torch.xlogy(shares, shares) - shares * log_means).sum()
    return divergence * (n_counted > 0)
