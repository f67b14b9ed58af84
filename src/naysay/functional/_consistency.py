"""Consistency between views of an example, as far as its label allows."""

from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay._columns import columns_of
from naysay._negative_log import negative_log_q
from naysay.functional._batch import as_transition, described, flatten, flatten_logits, reduce
from naysay.transition import TransitionMatrix


def partial_output_consistency(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    view_logits: Tensor,
    consistency: float | Tensor = 1.0,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected cross-entropy, and agreement of views with what it leaves ("POCR").

    .. math:: \ell = -\log \sum_k Q_{k ȳ} p_k
              + \lambda \sum_v \mathrm{KL}(t \,\|\, p^{(v)}), \quad
              t_k = \frac{Q_{k ȳ} p_k}{\sum_m Q_{m ȳ} p_m}

    p is the softmax of `logits` and p⁽ᵛ⁾ that of the v-th view. The target t, the posterior given
    the label, is held constant in the gradient: views learn from the example, not the reverse.

    With a uniform Q this is the loss of the source's code, but for a constant: "SCL-NL" on the
    label, and the divergences of two views, summed. Any other Q, in both terms, is ours.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    view_logits : Tensor of shape (V, N, K) or (V, N, K, d1, …)
        Logits of other views (augmentations) of the same examples.
    consistency : float or Tensor of shape (), default=1.0
        λ. The source raises it from 0 to 1 over the first half of training.

    References
    ----------
    Wang et al. 2021, what the authors' code, CLL_POCR, names the unified loss; equation number
    not checked. https://doi.org/10.24963/ijcai.2021/423
    """
    matrix = as_transition(Q)
    batch = flatten(logits, comp_labels, ignore_index, matrix)
    if not isinstance(view_logits, Tensor) or view_logits.shape[1:] != logits.shape:
        raise InvalidInput(
            "view_logits must hold logits of views, shape (V, "
            f"{', '.join(map(str, logits.shape))}). Got {described(view_logits)}."
        )
    columns = columns_of(matrix, batch.logits.dtype, batch.logits.device)
    losses = negative_log_q(columns, batch.logits, batch.labels)
    likelihoods = columns.log_likelihoods(batch.logits, batch.labels)
    log_targets = (batch.logits.detach() + likelihoods).log_softmax(1)
    targets = log_targets.exp()
    log_targets = log_targets.masked_fill(targets == 0, 0)  # 0 log 0 is 0
    for view in view_logits:
        log_probs = flatten_logits(view, matrix).to(losses).log_softmax(1)
        divergence = (targets * (log_targets - log_probs)).sum(1)
        losses = losses + consistency * divergence
    return reduce(losses, batch, weight, reduction)
