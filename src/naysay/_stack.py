"""Several matrices read as one: each part of a batch has its own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from naysay.functional.columns import label_rules, log_share
from naysay.transition import TransitionMatrix

_LARGEST = 1 << 24  # entries of all matrices together: 64 MB in float32


class StackedColumns(NamedTuple):
    """Tables of the columns of all matrices, a row per matrix and label.

    A batch has as many equal parts as there are matrices, in their order.
    """

    values: Tensor
    columns: Tensor
    log_columns: Tensor
    starts: Tensor
    rules: str
    unused: None = None

    def _rows_of(self, labels: Tensor) -> Tensor:
        return (labels.view(len(self.starts), -1) + self.starts).view(-1)

    def log_q_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return log Σ_k Q[k, ȳ] p_k."""
        return log_share(logits, self.log_columns[self._rows_of(labels)], logits)

    def joint(self, probs: Tensor, labels: Tensor, axis: int) -> Tensor:
        """Return Q[k, ȳ] p_k of every class k; classes are along the axis."""
        table = self.columns if axis else self.columns.t()
        return table.index_select(1 - axis, self._rows_of(labels)).mul_(probs)

    @property
    def scale(self) -> float:
        """By what to divide the joint."""
        return 1

    def log_likelihoods(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return log Q[k, ȳ] of every class k, shape (n, K)."""
        return self.log_columns[self._rows_of(labels)]

    def q(self, probs: Tensor) -> Tensor:
        """Return Qᵀ p, in full precision inside `torch.autocast` too."""
        with torch.autocast(probs.device.type, enabled=False):
            parts = probs.unflatten(0, (len(self.values), -1))
            return torch.bmm(parts, self.values).flatten(0, 1)


class TransitionStack(TransitionMatrix):
    """One matrix for each of several equal parts of a batch, in the order of the parts.

    It takes the place of Q in losses that read its columns and nothing else, in float32 on one
    device; whatever reads its entries is refused.

    Examples
    --------
    >>> from naysay.functional import forward_cross_entropy
    >>> pair = [TransitionMatrix.uniform(3), TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]])]
    >>> logits, labels = torch.zeros(2, 3), torch.tensor([2, 2])
    >>> stack = TransitionStack(pair, torch.device("cpu"))
    >>> bool(torch.isclose(*forward_cross_entropy(logits, labels, stack, reduction="none")))
    True
    """

    __slots__ = ()

    def __init__(self, matrices: Sequence[TransitionMatrix], device: torch.device) -> None:
        names = matrices[0].classes
        self._set(None, names, True)
        values = np.stack([np.asarray(Q, dtype=np.float64) for Q in matrices])
        by_label = values.transpose(0, 2, 1).reshape(-1, len(names))
        with np.errstate(divide="ignore"):
            tables = (values, by_label, np.log(by_label))
        starts = torch.arange(0, len(by_label), len(names), device=device)
        self._cache[torch.float32, device] = StackedColumns(
            *(torch.from_numpy(table).to(device, torch.float32) for table in tables),
            starts=starts[:, None],
            rules=label_rules(len(names)),
        )

    @staticmethod
    def can_hold(matrices: Sequence[TransitionMatrix]) -> bool:
        """Whether these fit together: same classes, every label in use, not too large."""
        sizes = {Q.n_classes for Q in matrices}
        return (
            len(sizes) == 1
            and len(matrices) * sizes.pop() ** 2 <= _LARGEST
            and all(np.asarray(Q).any(axis=0).all() for Q in matrices)
        )

    @property
    def is_uniform(self) -> bool:
        """Never: there is no closed form for all."""
        return False

    @property
    def entries(self) -> csr_array:
        """Refused: there is no one matrix."""
        raise TypeError("A stack of matrices has columns only; read the entries of each.")

    def __array__(self, *arguments: Any, **options: Any) -> NDArray[np.float64]:
        return self.entries.toarray()
