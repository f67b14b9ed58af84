"""How far predictions are, in the mean, from the class prior."""

import torch
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional._batch import check_prior, described, flatten_logits


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
    shares = check_prior(prior, flat)
    log_probs = flat.log_softmax(1)
    if counted is None:
        counted = torch.ones_like(flat[:, 0], dtype=torch.bool)
    elif (
        not isinstance(counted, Tensor)
        or counted.dtype != torch.bool
        or counted.numel() != len(flat)
    ):
        raise InvalidInput(
            f"counted must hold one bool per row of logits, {len(flat)}. Got {described(counted)}."
        )
    counted = counted.reshape(-1)
    n_counted = counted.sum()
    # where none counts all do, times 0: a logarithm of nothing would have no gradient
    left_out = ~counted & (n_counted > 0)
    log_sums = log_probs.masked_fill(left_out[:, None], -torch.inf).logsumexp(0)
    log_means = log_sums - (~left_out).sum().to(flat).log()
    divergence = (torch.xlogy(shares, shares) - shares * log_means).sum()
    return divergence * (n_counted > 0)
