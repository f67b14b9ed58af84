"""Estimates of P(Ȳ | x), read by the nearest row of Q."""

import torch
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay._columns import log_share
from naysay.functional._batch import described, flatten, reduce


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
            f"Got {described(log_Q)}."
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
