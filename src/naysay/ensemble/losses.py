"""Compute the losses of many networks in as few calls as possible."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from naysay.functional.columns import label_rules, log_share
from naysay.losses.protocol import TrainingLoss
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


class Losses:
    """The losses of many networks, computed in as few calls as possible.

    Losses that have a copy `per_example` are computed in one call for all networks whose losses
    have the same settings; their matrices may differ if the loss ``takes_stack``. Any other loss
    is called for each network. The attribute `order` lists the networks in the order in which
    logits and labels must be given.
    """

    def __init__(self, losses: Sequence[TrainingLoss], labels: Sequence[Tensor]) -> None:
        single = [loss.per_example(given) for loss, given in zip(losses, labels, strict=True)]
        groups: dict[Hashable, list[int]] = {}
        for number, loss in enumerate(single):
            key = number if loss is None else _settings(loss, without_q=loss.takes_stack)
            groups.setdefault(key, []).append(number)
        self.parts: list[tuple[int, TrainingLoss]] = []
        self.order: list[int] = []
        for numbers in groups.values():
            same = [loss for number in numbers if (loss := single[number]) is not None]
            if not same:
                self._add(numbers, losses[numbers[0]])
                continue
            for positions, loss in _with_one_loss(same, labels[numbers[0]].device):
                self._add([numbers[position] for position in positions], loss)

    def _add(self, numbers: list[int], loss: TrainingLoss) -> None:
        self.order += numbers
        self.parts.append((len(numbers), loss))

    def train(self, mode: bool) -> None:
        """Put all losses in training or in evaluation mode."""
        for _, loss in self.parts:
            loss.train(mode)

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss of each network, shape (n_networks,)."""
        return self._call([loss for _, loss in self.parts], logits, labels)

    def held_out(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute the loss by which epochs of each network are compared, shape (n_networks,)."""
        return self._call([loss.held_out for _, loss in self.parts], logits, labels)

    def _call(
        self, calls: Sequence[Callable[..., Tensor]], logits: Tensor, labels: Tensor
    ) -> Tensor:
        if len(calls) == 1:
            return _each(calls[0], logits, labels)
        sizes = [size for size, _ in self.parts]
        parts = zip(calls, logits.split(sizes), labels.split(sizes), strict=True)
        return torch.cat([_each(*part) for part in parts])


def _each(call: Callable[..., Tensor], logits: Tensor, labels: Tensor) -> Tensor:
    values = call(logits.flatten(0, 1), labels.flatten(0, 1))
    return values.reshape(len(logits), -1).mean(1)  # of one value, or one per example


def _settings(loss: TrainingLoss, *, without_q: bool) -> Hashable:
    """Collect the settings of a loss, which are equal for losses that compute the same."""
    left_out = {"training", "Q"} if without_q else {"training"}
    public = {name: value for name, value in vars(loss).items() if not name.startswith("_")}
    key = (type(loss), *((name, public[name]) for name in sorted(public.keys() - left_out)))
    try:
        hash(key)
    except TypeError:
        return (type(loss), id(loss))
    return key


def _with_one_loss(
    losses: Sequence[Any], device: torch.device
) -> list[tuple[list[int], TrainingLoss]]:
    """Group losses per example that one call can compute, each group with the loss to call."""
    by_settings: dict[Hashable, list[int]] = {}
    for number, loss in enumerate(losses):
        by_settings.setdefault(_settings(loss, without_q=False), []).append(number)
    groups = list(by_settings.values())
    if len(groups) > 1 and TransitionStack.can_hold([loss.Q for loss in losses]):
        losses[0].Q = TransitionStack([loss.Q for loss in losses], device)
        groups = [list(range(len(losses)))]
    return [(numbers, losses[numbers[0]]) for numbers in groups]
