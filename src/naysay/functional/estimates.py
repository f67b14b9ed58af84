"""Estimates of P(Ȳ | x), read by the nearest row of Q."""

import torch
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional.batch import check_prior_tensor, describe, flatten, flatten_logits, reduce
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

    The logits are those of P(Ȳ | x), not of the class: read them with `nearest_row_scores`.
    Parameters as for `forward_cross_entropy`, without Q.

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
    r"""Forward-corrected cross-entropy through a matrix that is trained too ("CPE-T").

    .. math:: \ell(f, ȳ) = -\log \sum_k Q_{k ȳ} \, \mathrm{softmax}(f)_k

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    log_Q : Tensor of shape (K, K)
        Logarithm of Q, -inf where Q is 0; gets a gradient. A label whose column is -inf
        throughout cannot occur and must not be given.

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
            f"Got {describe(log_Q)}."
        )
    columns = log_Q.to(batch.logits).T[batch.labels]
    return reduce(-log_share(batch.logits, columns, batch.logits), batch, weight, reduction)


def nearest_row_scores(comp_probs: Tensor, Q: Tensor) -> Tensor:
    r"""Return a score of each class, shape (N, K): how near its row of Q is to P(Ȳ | x).

    .. math:: \log \mathrm{softmax}_k \bigl(-\textstyle\sum_j |\bar p_j - Q_{kj}|\bigr)

    The largest is that of the nearest row in L1, the decoding of Lin & Lin 2023. The scores are
    normalised like logarithms of probabilities, but they are no estimate of P(Y | x).

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
    r"""Divergence of the mean prediction of a batch from the class prior, to add to a loss.

    .. math:: \mathrm{KL}(\pi \,\|\, \bar p) = \sum_k \pi_k \log (\pi_k / \bar p_k), \quad
              \bar p = \mathrm{mean}_i\, \mathrm{softmax}(f_i)

    A loss on complementary labels hardly teaches a class that is never predicted: its gradient is
    proportional to the probability of that class. Here the examples nearest to class k share a
    gradient of :math:`\pi_k` among them, however small its probability is. It is computed in log
    space, so that this holds at any logits.

    Parameters
    ----------
    logits : Tensor of shape (N, K) or (N, K, d1, …)
        float16 and bfloat16 are computed, and returned, in float32.
    prior : Tensor of shape (K,)
        Share of each class, sum 1; see `naysay.estimation.class_prior`.
    counted : bool Tensor of shape (N,) or (N, d1, …), optional
        Which examples make up the mean; all when left out. With none the divergence is 0.

    Returns
    -------
    Tensor of shape ()

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
            f"counted must hold one bool per row of logits, {len(flat)}. Got {describe(counted)}."
        )
    counted = counted.reshape(-1)
    n_counted = counted.sum()
    # where none counts all do, times 0: a logarithm of nothing would have no gradient
    left_out = ~counted & (n_counted > 0)
    log_sums = log_probs.masked_fill(left_out[:, None], -torch.inf).logsumexp(0)
    log_means = log_sums - (~left_out).sum().to(flat).log()
    divergence = (torch.xlogy(shares, shares) - shares * log_means).sum()
    return divergence * (n_counted > 0)
