"""Losses that decide by the nearest row of Q or train Q, and the loss of prior matching."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay._base.checks import check_number
from naysay.functional.columns import columns_of, once_per_matrix
from naysay.losses.protocol import LossWrapper
from naysay.losses.shells import TransitionLoss
from naysay.transition import TransitionMatrix

# range, as a share of the bound, in which a bounded diagonal starts, so that it can be trained
_INSIDE = (0.05, 0.95)


class ComplementaryCrossEntropy(TransitionLoss, function=F.complementary_cross_entropy):
    """Module form of `naysay.functional.complementary_cross_entropy`; Q is used to predict."""

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute scores (N, K) by how near each row of Q is to P(Ȳ | x)."""
        rows = _rows_of(self.Q, logits.dtype, logits.device)
        return F.nearest_row_scores(logits.softmax(1), rows)


class NearestRowForwardCrossEntropy(TransitionLoss, function=F.forward_cross_entropy):
    """`ForwardCrossEntropy` that decides by the row of Q nearest to Qᵀ p ("CPE-F").

    References
    ----------
    Lin & Lin 2023, "CPE-F"; equation number not checked.
    https://doi.org/10.1007/978-3-031-33377-4_36
    """

    takes_stack = True

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute scores (N, K) by how near each row of Q is to P(Ȳ | x)."""
        label_probs = columns_of(self.Q, logits.dtype, logits.device).q(logits.softmax(1))
        return F.nearest_row_scores(label_probs, _rows_of(self.Q, logits.dtype, logits.device))


class TrainedForwardCrossEntropy(TransitionLoss, function=F.trained_forward_cross_entropy):
    """Module form of `naysay.functional.trained_forward_cross_entropy`, with a trained matrix.

    The matrix is initialised with Q and trained together with the network; each row is a softmax.
    Zeros on the diagonal of Q stay zero, unless `max_error` is given. Other zeros start at
    ``floor``, because their gradient would be zero. The loss has K² parameters, so it is not meant
    for very many classes.

    Parameters
    ----------
    Q : TransitionMatrix or array-like of shape (K, K)
        Initial matrix.
    floor : float, default=1e-3
        Initial value of zeros off the diagonal, before rows are normalised.
    pull : float, default=0.0
        Weight of the regulariser KL(initial ‖ current matrix), averaged over rows, which is added
        to the loss in training mode and keeps the matrix near its initial value.
    max_error : float, optional
        Largest share of complementary labels that name the true class by mistake. The whole
        diagonal is then trained between 0 and `max_error`, as `max_error` times a sigmoid, and the
        rest of each row is normalised to what the diagonal leaves. Initial values outside this
        range are moved inside.

    Examples
    --------
    >>> loss = TrainedForwardCrossEntropy(TransitionMatrix.uniform(3))
    >>> bool(np.allclose(loss.learned_transition, loss.Q))
    True
    """

    impossible: Tensor
    start: Tensor

    def __init__(
        self,
        Q: TransitionMatrix | ArrayLike,
        *,
        floor: float = 1e-3,
        pull: float = 0.0,
        max_error: float | None = None,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
    ) -> None:
        super().__init__(Q, weight=weight, ignore_index=ignore_index, reduction=reduction)
        self.pull = 0.0 if pull == 0 else check_number(pull, "pull", above=0)
        if max_error is not None:
            check_number(max_error, "max_error", above=0, below=1)
        self.max_error = max_error
        start = torch.as_tensor(np.array(self.Q, dtype=np.float64))
        diagonal = start.diagonal()
        impossible = torch.diag(diagonal == 0) & (max_error is None)
        self.register_buffer("impossible", impossible, persistent=False)
        row_logits = start.clamp_min(floor).masked_fill(impossible, 1).log()  # 1 is masked later
        if max_error is not None:
            row_logits.diagonal().copy_((diagonal / max_error).clamp(*_INSIDE).logit())
        self.row_logits = nn.Parameter(row_logits.float())
        self.register_buffer("start", self.log_Q.detach().softmax(1), persistent=False)

    @property
    def log_Q(self) -> Tensor:
        """Logarithm of the current matrix, shape (K, K)."""
        if self.max_error is None:
            return self.row_logits.masked_fill(self.impossible, -torch.inf).log_softmax(1)
        logits = self.row_logits.diagonal()
        errors = math.log(self.max_error) + logsigmoid(logits)
        diagonal = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
        others = self.row_logits.masked_fill(diagonal, -torch.inf).log_softmax(1)
        remaining = torch.log1p(-errors.exp())[:, None]
        return torch.where(diagonal, errors[:, None], others.masked_fill(diagonal, 0) + remaining)

    @property
    def learned_transition(self) -> TransitionMatrix:
        """Current matrix."""
        rows = self.log_Q.detach().double().softmax(1).cpu().numpy()
        names = self.Q.classes if self.Q.has_names else None
        free = self.max_error is not None
        return TransitionMatrix(rows, names, allow_diagonal=free or self.Q.allow_diagonal)

    def forward(self, logits: Tensor, comp_labels: Tensor) -> Tensor:
        """Compute the loss of logits (N, K), or (N, K, d1, …)."""
        loss = super().forward(logits, comp_labels)
        if not self.pull or not self.training:
            return loss
        log_Q = self.log_Q.masked_fill(self.impossible, 0)
        divergence = (torch.xlogy(self.start, self.start) - self.start * log_Q).sum(1).mean()
        return loss + self.pull * divergence

    def log_scores(self, logits: Tensor) -> Tensor:
        """Compute scores (N, K) by how near each row of the matrix is to P(Ȳ | x)."""
        rows = self.log_Q.to(logits).softmax(1)
        return F.nearest_row_scores(logits.softmax(1) @ rows, rows)


@once_per_matrix
def _rows_of(Q: TransitionMatrix, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Convert Q to a tensor once: doing so at every call would stall the device."""
    return torch.as_tensor(np.array(Q, dtype=np.float64)).to(device, dtype)


class PriorMatching(LossWrapper):
    """Any loss, to which `naysay.functional.prior_matching` of the batch is added in training.

    In evaluation mode it is the loss alone, so that held-out losses stay comparable. The mean
    prediction is computed from the `log_scores` of the loss, over all views.

    Parameters
    ----------
    loss : callable
        A loss that returns a scalar; number of views, progress and scores are those of this loss.
    prior : Tensor of shape (K,)
        Probability of each class, with sum 1.
    strength : float, default=1.0
        Weight of the divergence.
    ignore_index : int, default=-100
        Label of examples that are left out.

    Examples
    --------
    >>> from naysay.losses import SurrogateLog
    >>> loss = PriorMatching(SurrogateLog(), torch.tensor([0.5, 0.25, 0.25]))
    >>> logits, labels = torch.zeros(2, 3), torch.tensor([0, 1])
    >>> round((loss(logits, labels) - loss.eval()(logits, labels)).item(), 3)
    0.059
    """

    prior: Tensor

    def __init__(
        self,
        loss: Callable[[Tensor, Tensor], Tensor],
        prior: Tensor,
        *,
        strength: float = 1.0,
        ignore_index: int = -100,
    ) -> None:
        # first, because fingerprints of trainings have the attributes in this order
        self.strength = check_number(strength, "strength", above=0)
        self.ignore_index = ignore_index
        super().__init__(loss)
        self.register_buffer("prior", prior)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of logits (N, K, …), or (n_views, N, K, …) in training mode."""
        loss = self.loss(logits, labels)
        if not self.training:
            return loss
        counted = None
        if not labels.is_floating_point() and labels.dtype != torch.bool:
            counted = (labels != self.ignore_index).expand(self.n_views, *labels.shape)
        if self.n_views > 1:
            logits = logits.flatten(0, 1)
        if not self.loss.reads_softmax:  # else `prior_matching` computes the softmax
            logits = self.loss.log_scores(logits)
        return loss + self.strength * F.prior_matching(logits, self.prior, counted=counted)

    def extra_repr(self) -> str:
        """Describe the settings for ``repr``."""
        return f"strength={self.strength}"
