"""Losses that ask several views of an example for consistent predictions."""

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.errors import InvalidInput
from naysay.functional.batch import describe_tensor, flatten_logits, flatten_with_columns, reduce
from naysay.functional.columns import log_share
from naysay.functional.forward import negative_log_q
from naysay.functional.several import flatten_evidence
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
    r"""Forward-corrected cross-entropy plus consistency of views with the posterior ("POCR").

    .. math:: \ell = -\log \sum_k Q_{k ȳ} p_k
              + \lambda \sum_v \mathrm{KL}(t \,\|\, p^{(v)}), \quad
              t_k = \frac{Q_{k ȳ} p_k}{\sum_m Q_{m ȳ} p_m}

    p is the softmax of `logits` and p⁽ᵛ⁾ that of the v-th view. The target t is the posterior given
    the label. It is constant in the gradient, so that the views learn from the example and not the
    reverse.

    With a uniform Q this is, up to a constant, the loss of the authors' code: "SCL-NL" on the label
    plus the divergences of two views. The generalisation to any Q is new here.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    view_logits : Tensor of shape (V, N, K) or (V, N, K, d1, …)
        Logits of other views (augmentations) of the same examples.
    consistency : float or Tensor of shape (), default=1.0
        λ, which the source raises from 0 to 1 over the first half of training.

    References
    ----------
    Wang et al. 2021, what the authors' code, CLL_POCR, names the unified loss; equation number
    not checked. https://doi.org/10.24963/ijcai.2021/423
    """
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    if not isinstance(view_logits, Tensor) or view_logits.shape[1:] != logits.shape:
        raise InvalidInput(
            "view_logits must be the logits of V views, shape (V, "
            f"{', '.join(map(str, logits.shape))}). Got {describe_tensor(view_logits)}."
        )
    losses = negative_log_q(columns, batch.logits, batch.labels)
    likelihoods = columns.log_columns_of(batch.logits, batch.labels)
    log_targets = (batch.logits.detach() + likelihoods).log_softmax(1)
    targets = log_targets.exp()
    log_targets = log_targets.masked_fill(targets == 0, 0)  # 0 log 0 is 0
    for view in view_logits:
        log_probs = flatten_logits(view).to(losses).log_softmax(1)
        divergence = (targets * (log_targets - log_probs)).sum(1)
        losses = losses + consistency * divergence
    return reduce(losses, batch, weight, reduction)


def two_views(
    logits: Tensor,
    comp_labels: Tensor,
    Q: TransitionMatrix | ArrayLike,
    weight: Tensor | None = None,
    *,
    other_logits: Tensor,
    consistency: float | Tensor = 0.9,
    target: str = "mean",
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    r"""Forward-corrected cross-entropy of two views, with the mean of their posteriors as target.

    .. math:: \ell = \frac{1}{2} \sum_{v=1}^{2} \Big[ -(1 - \lambda) \log \sum_k Q_{k ȳ} p^{(v)}_k
              - \lambda \sum_k t_k \log p^{(v)}_k \Big], \quad
              t_k = \frac{1}{2} \sum_{v=1}^{2}
              \frac{Q_{k ȳ} p^{(v)}_k}{\sum_m Q_{m ȳ} p^{(v)}_m}

    p⁽ᵛ⁾ is the softmax of the v-th view. The target t is the mean posterior of both views given the
    label, and it is constant in the gradient. With respect to the logits of view v the gradient is
    half of p⁽ᵛ⁾ - λ t - (1 - λ) t⁽ᵛ⁾, where t⁽ᵛ⁾ is the posterior of that view alone. If the views
    agree, the gradient is therefore that of `forward_cross_entropy` for any λ. With the mean as
    target the order of the views does not matter. With ``target="first"`` the first view always
    has the gradient of `forward_cross_entropy`.

    Parameters not listed are those of `forward_cross_entropy`.

    Parameters
    ----------
    other_logits : Tensor of the shape of logits
        Logits of another view (augmentation) of the same examples.
    consistency : float or Tensor of shape (), default=0.9
        λ, from 0 (only the label) to 1 (only the target). Increase it from 0 at the start of
        training, when the posteriors are unreliable, as `naysay.losses.TwoViews` does.
    target : "mean" or "first", default="mean"
        Whether t is the mean of both posteriors or that of the first view only. Use "first" if the
        other view is augmented so strongly that its posterior is less reliable.

    References
    ----------
    New in naysay: the target of both views is the mean of their posteriors given ȳ, under any Q.
    With ``target="first"`` it is close to Wang et al. 2021 and, with a weakly augmented first and a
    strongly augmented second view, to Sohn et al. 2020, whose examples have no label:
    https://doi.org/10.48550/arXiv.2001.07685
    Wang et al. 2021 use the posterior of one view, for uniform labels, as the target of others:
    https://doi.org/10.24963/ijcai.2021/423. Berthelot et al. 2019 use the mean over views of
    examples without a label and sharpen it, which is not done here:
    https://doi.org/10.48550/arXiv.1905.02249

    Examples
    --------
    >>> one, other = torch.tensor([[2.0, 0.0, 0.0]]), torch.tensor([[0.0, 0.0, 2.0]])
    >>> not_the_first = torch.tensor([0])
    >>> two_views(one, not_the_first, TransitionMatrix.uniform(3), other_logits=other)
    tensor(1.5465)
    """
    batch, columns = flatten_with_columns(logits, comp_labels, ignore_index, Q)
    views = _stack(batch.logits, other_logits, logits.shape)
    evidence = columns.log_columns_of(batch.logits, batch.labels)
    return reduce(_losses_of_views(views, evidence, consistency, target), batch, weight, reduction)


def two_views_likelihood(
    logits: Tensor,
    log_likelihood: Tensor,
    *,
    other_logits: Tensor,
    consistency: float | Tensor = 0.9,
    target: str = "mean",
    reduction: str = "mean",
) -> Tensor:
    r"""`two_views` for evidence of any kind, such as several labels or a Q per annotator.

    .. math:: \ell = \frac{1}{2} \sum_{v=1}^{2} \Big[ -(1 - \lambda) \log \sum_k L_k p^{(v)}_k
              - \lambda \sum_k t_k \log p^{(v)}_k \Big], \quad
              t_k = \frac{1}{2} \sum_{v=1}^{2} \frac{L_k p^{(v)}_k}{\sum_m L_m p^{(v)}_m}

    The target of an example about which nothing was observed, L = 1 everywhere, is the mean
    prediction of both views. The target of an example whose class is known is that class. The
    parameters are those of `two_views` and `likelihood_loss`.

    References
    ----------
    New in naysay, as `two_views`; it is close to Wang et al. 2021,
    https://doi.org/10.24963/ijcai.2021/423 and to Berthelot et al. 2019,
    https://doi.org/10.48550/arXiv.1905.02249

    Examples
    --------
    >>> logits = torch.tensor([[2.0, 0.0, 0.0]])
    >>> the_second = torch.tensor([[-torch.inf, 0.0, -torch.inf]])
    >>> two_views_likelihood(logits, the_second, other_logits=logits)  # the cross-entropy
    tensor(2.2395)
    """
    batch, evidence = flatten_evidence(logits, log_likelihood)
    views = _stack(batch.logits, other_logits, logits.shape)
    return reduce(_losses_of_views(views, evidence, consistency, target), batch, None, reduction)


def check_view_target(target: str) -> str:
    """Check the name of a target."""
    if target not in ("mean", "first"):
        raise InvalidInput(f"target must be 'mean' or 'first'. Got {target!r}.")
    return target


def _losses_of_views(
    views: Tensor, evidence: Tensor, consistency: float | Tensor, target: str
) -> Tensor:
    """Compute the loss of each example, shape (n,), from two views, shape (2, n, K)."""
    target_views = views[:1] if check_view_target(target) == "first" else views
    with torch.no_grad():
        posterior = torch.stack([_posterior(view, evidence) for view in target_views]).mean(0)
    label_loss = -torch.stack([log_share(view, evidence, view) for view in views]).mean(0)
    target_loss = -(posterior * views.log_softmax(2)).sum(2).mean(0)
    return (1 - consistency) * label_loss + consistency * target_loss


def _posterior(logits: Tensor, evidence: Tensor) -> Tensor:
    """Compute L_k p_k / Σ_m L_m p_m, shape (n, K).

    The largest product is subtracted before the evidence is added: large logits have few digits
    left for what the evidence adds.
    """
    top = (logits + evidence).amax(1, keepdim=True)
    return (logits - top + evidence).softmax(1)


def _stack(flat: Tensor, other_logits: Tensor, shape: torch.Size) -> Tensor:
    """Stack two views to shape (2, n, K); the first is already flat."""
    if not isinstance(other_logits, Tensor) or other_logits.shape != shape:
        raise InvalidInput(
            "other_logits must be the logits of another view with the shape of logits, "
            f"{tuple(shape)}. Got {describe_tensor(other_logits)}."
        )
    return torch.stack([flat, flatten_logits(other_logits).to(flat)])
