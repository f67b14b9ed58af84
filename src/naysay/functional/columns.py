"""The columns of Q as tensors, stored in the form that suits the structure of Q.

Every form offers the same operations on a batch, with p = softmax(logits) and q = Qᵀ p:

- ``log_q_of(logits, labels)`` computes log q_ȳ, shape (n,);
- ``q(probs)`` computes q, shape (n, K);
- ``log_columns_of(logits, labels)`` looks up the columns log Q[:, ȳ], shape (n, K);
- ``joint(probs, labels, axis)``, which the sparse form lacks, computes the products Q[k, ȳ] p_k
  with the classes along that axis; those of the uniform form still lack the factor 1 / (K - 1).

A K×K array is built only if Q is small or dense. The forms are named tuples because
`torch.compile` can trace these without a graph break.
"""

# torch does not say which types autograd and its functions return
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from naysay._base.checks import named
from naysay.transition import TransitionMatrix

T = TypeVar("T")
Make = Callable[[TransitionMatrix, torch.dtype, torch.device], T]

# Up to this number of classes a full table, 8 MB in float64, is faster than sparse entries.
_LARGEST_TABLE = 1000
# Below this number of classes a table is faster than the closed form of a uniform matrix.
_SMALLEST_CLOSED_FORM = 16
_LARGEST_STACK = 1 << 24  # entries of all stacked matrices together, 64 MB in float32
_MIX_CHUNK = 1 << 24  # elements gathered at once when all of q is computed from sparse entries

# The key is the identity of the matrix, because hashing a matrix reads all of its entries. The
# tensors of a matrix are deleted together with the matrix.
_made: dict[int, dict[Any, Any]] = {}


def once_per_matrix(make: Make[T]) -> Make[T]:
    """Decorate ``make(Q, dtype, device)`` so that it runs once per matrix, precision and device."""

    @wraps(make)
    def get(Q: TransitionMatrix, dtype: torch.dtype, device: torch.device) -> T:
        if torch.compiler.is_compiling():
            return _get_at(id(Q), make, dtype, device)
        return _get(Q, make, dtype, device)

    return get


def _get(Q: TransitionMatrix, make: Make[T], dtype: torch.dtype, device: torch.device) -> T:
    if id(Q) not in _made:
        _made[id(Q)] = {}
        weakref.finalize(Q, _made.pop, id(Q))
    made = _made[id(Q)]
    key = (make, dtype, device)
    if key not in made:
        with torch.inference_mode(False):  # inference tensors cannot be trained with
            made[key] = make(Q, dtype, device)
    return made[key]


# Compiled code treats the result as a constant, which is right because Q is immutable. The compiler
# of torch 2.6 cannot pass an object to such a function, but it can pass ``id(Q)``, and it compiles
# again when it meets a matrix with another identity. Q is alive here: the caller holds it.
def _get_at(address: int, make: Make[T], dtype: torch.dtype, device: torch.device) -> T:
    Q = cast("TransitionMatrix", ctypes.cast(address, ctypes.py_object).value)
    return _get(Q, make, dtype, device)


# This is all that `torch.compiler.assume_constant_result` does, but for importing the compiler,
# which would take a second of every import of naysay's losses.
_get_at._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess] - as above


class UniformColumns(NamedTuple):
    """The closed form of a uniform matrix with many classes, which needs no table."""

    n_others: int

    def log_q_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute log (1 - p_ȳ) - log (K - 1)."""
        # the sum over the other classes is exact where p_ȳ is near 1
        others = logits.scatter(1, labels[:, None], -math.inf)
        return log_share(others, None, logits) - math.log(self.n_others)

    def joint(self, probs: Tensor, labels: Tensor, axis: int) -> Tensor:
        """Compute p_k for the classes other than ȳ, and 0 for ȳ; the classes are along the axis."""
        return probs.scatter(axis, labels.unsqueeze(axis), 0)

    def log_columns_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Look up log Q[k, ȳ] for every class k, shape (n, K)."""
        rest = torch.full_like(logits, -math.log(self.n_others))
        return rest.scatter(1, labels[:, None], -math.inf)

    def q(self, probs: Tensor) -> Tensor:
        """Compute (1 - p) / (K - 1)."""
        # For the most likely class, 1 - p is a sum over the other classes: the difference would be
        # rounded to zero long before the probabilities of the others are.
        likeliest = probs.argmax(1, keepdim=True)
        rest = probs.scatter(1, likeliest, 0).sum(1, keepdim=True)
        others = (probs.sum(1, keepdim=True) - probs).scatter(1, likeliest, rest)
        return others / self.n_others


class DenseColumns(NamedTuple):
    """Q as a full table, and its columns and their logarithms as tables with a row per label.

    The tables may also be those of several matrices, see `stack_columns`. The batch then consists
    of equal parts, one per matrix, and ``starts`` holds the first row of each matrix.
    """

    values: Tensor
    columns: Tensor
    log_columns: Tensor
    unused: Tensor | None = None
    rule: str = ""
    starts: Tensor | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.columns.shape[1]

    def log_q_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute log Σ_k Q[k, ȳ] p_k."""
        return log_share(logits, self.log_columns[self._rows_of(labels)], logits)

    def joint(self, probs: Tensor, labels: Tensor, axis: int) -> Tensor:
        """Compute Q[k, ȳ] p_k for every class k; the classes are along the axis."""
        by_class = self.values if self.starts is None else self.columns.t()
        table = self.columns if axis else by_class
        return table.index_select(1 - axis, self._rows_of(labels)).mul_(probs)

    def log_columns_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Look up log Q[k, ȳ] for every class k, shape (n, K)."""
        return self.log_columns[self._rows_of(labels)]

    def q(self, probs: Tensor) -> Tensor:
        """Compute Qᵀ p, in full precision even inside `torch.autocast`."""
        with torch.autocast(probs.device.type, enabled=False):
            if self.starts is None:
                return probs @ self.values
            parts: Tensor = probs.unflatten(0, (len(self.values), -1))
            return torch.bmm(parts, self.values).flatten(0, 1)

    def _rows_of(self, labels: Tensor) -> Tensor:
        if self.starts is None:
            return labels
        return (labels.view(len(self.starts), -1) + self.starts).view(-1)


class SparseColumns(NamedTuple):
    """The non-zero entries, ordered by label: label j has ``counts[j]`` from ``starts[j]`` on."""

    starts: Tensor
    counts: Tensor
    classes: Tensor
    labels: Tensor
    values: Tensor
    log_values: Tensor
    longest: int
    unused: Tensor | None
    rule: str

    def log_q_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Compute log Σ_k Q[k, ȳ] p_k over the non-zero entries of column ȳ."""
        # as many per example as the longest column has, so this takes no longer than the softmax
        entries, outside = self._entries_of(labels)
        log_values = self.log_values[entries].masked_fill(outside, -math.inf)
        return log_share(logits.gather(1, self.classes[entries]), log_values, logits)

    def log_columns_of(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Look up log Q[k, ȳ] for every class k, shape (n, K)."""
        n, n_classes = logits.shape
        entries, outside = self._entries_of(labels)
        # places beyond the entries of a label are written to a column after the last class
        impossible = logits.new_full((n, n_classes + 1), -math.inf)
        classes = self.classes[entries].masked_fill(outside, n_classes)
        return impossible.scatter(1, classes, self.log_values[entries])[:, :n_classes]

    def _entries_of(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Locate the entries of each label, and mark the places beyond its last entry."""
        step = torch.arange(self.longest, device=labels.device)
        outside = step >= self.counts[labels][:, None]
        return (self.starts[labels][:, None] + step).masked_fill(outside, 0), outside

    def q(self, probs: Tensor) -> Tensor:
        """Compute Qᵀ p."""
        apply: Callable[..., Tensor] = _SparseMix.apply
        return apply(probs, self.classes, self.labels, self.values)


Columns = UniformColumns | DenseColumns | SparseColumns


def log_share(terms: Tensor, log_weights: Tensor | None, logits: Tensor) -> Tensor:
    """Compute log Σ_m w_m exp(terms_m) - log Σ_k exp(logits_k), shape (n,).

    Each sum is computed relative to its own largest term, before anything is rounded. Otherwise
    float32 would keep only four digits where the largest logits are 1000 above the terms.
    """
    weighted = terms if log_weights is None else terms + log_weights
    top = _largest(weighted)
    shifted = terms - top if log_weights is None else terms - top + log_weights
    top_logit = _largest(logits)
    total = (logits - top_logit).logsumexp(1)
    return shifted.logsumexp(1) - total + (top - top_logit).squeeze(1)


def _largest(terms: Tensor) -> Tensor:
    # where all terms are -inf the lowest finite number is used: -inf - (-inf) would be NaN
    return terms.detach().amax(1, keepdim=True).clamp_min(torch.finfo(terms.dtype).min)


@once_per_matrix
def columns_of(Q: TransitionMatrix, dtype: torch.dtype, device: torch.device) -> Columns:
    """Get the columns of Q in the form that suits its structure."""
    if Q.is_uniform and Q.n_classes >= _SMALLEST_CLOSED_FORM:
        return UniformColumns(Q.n_classes - 1)

    def to_tensor(array: Any) -> Tensor:
        return torch.as_tensor(array.copy(), device=device)

    entries: Any = Q.entries.tocsc()
    entries.sort_indices()
    counts = np.diff(entries.indptr)
    never = [named(int(label), Q.classes) for label in np.flatnonzero(counts == 0)[:6]]
    unused = to_tensor(counts == 0) if never else None
    rule = f"comp_labels must never be class {', '.join(never)}, whose column of Q is all zero"
    if Q.n_classes <= _LARGEST_TABLE or entries.nnz > Q.n_classes**2 // 4:
        return _dense(entries.toarray(), dtype, device, unused=unused, rule=rule)
    return SparseColumns(
        starts=to_tensor(entries.indptr[:-1].astype(np.int64)),
        counts=to_tensor(counts.astype(np.int64)),
        classes=to_tensor(entries.indices.astype(np.int64)),
        labels=to_tensor(np.repeat(np.arange(Q.n_classes), counts)),
        values=to_tensor(entries.data).to(dtype),
        log_values=to_tensor(np.log(entries.data)).to(dtype),
        longest=int(counts.max()),
        unused=unused,
        rule=rule,
    )


def can_stack(matrices: Sequence[TransitionMatrix]) -> bool:
    """Check that matrices have the same size, use every label, and are not too large together."""
    sizes = {Q.n_classes for Q in matrices}
    return (
        len(sizes) == 1
        and len(matrices) * sizes.pop() ** 2 <= _LARGEST_STACK
        and all(np.asarray(Q).any(axis=0).all() for Q in matrices)
    )


def stack_columns(matrices: Sequence[TransitionMatrix], device: torch.device) -> DenseColumns:
    """Stack matrices, one for each of several equal parts of a batch, in float32.

    The stack can be passed in place of Q to losses that read only its columns.

    Examples
    --------
    >>> from naysay.functional import forward_cross_entropy
    >>> pair = [TransitionMatrix.uniform(3), TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]])]
    >>> logits, labels = torch.zeros(2, 3), torch.tensor([2, 2])
    >>> stack = stack_columns(pair, torch.device("cpu"))
    >>> bool(torch.isclose(*forward_cross_entropy(logits, labels, stack, reduction="none")))
    True
    """
    values = np.stack([np.asarray(Q, dtype=np.float64) for Q in matrices])
    starts = torch.arange(0, values[..., 0].size, values.shape[2], device=device)[:, None]
    return _dense(values, torch.float32, device, starts=starts)


def _dense(
    values: np.ndarray, dtype: torch.dtype, device: torch.device, **rest: Any
) -> DenseColumns:
    """Tabulate a matrix, or several matrices of shape (M, K, K)."""
    values = np.ascontiguousarray(values)
    columns = np.ascontiguousarray(values.swapaxes(-1, -2)).reshape(-1, values.shape[-1])
    with np.errstate(divide="ignore"):
        logs = np.log(columns)

    def to_tensor(table: np.ndarray) -> Tensor:
        return torch.as_tensor(table, dtype=dtype, device=device)

    return DenseColumns(to_tensor(values), to_tensor(columns), to_tensor(logs), **rest)


class _SparseMix(torch.autograd.Function):
    """Add ``probs[:, source[e]] * values[e]`` to ``out[:, to[e]]`` for all entries e, in chunks.

    The gradient is written by hand because autograd would keep every gathered chunk in memory, one
    column per entry of Q.
    """

    @staticmethod
    def forward(ctx: Any, probs: Tensor, source: Tensor, to: Tensor, values: Tensor) -> Tensor:
        ctx.save_for_backward(source, to, values)
        return _scatter_rows(probs, source, to, values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        source, to, values = ctx.saved_tensors
        return _scatter_rows(gradients[0], to, source, values), None, None, None


def _scatter_rows(probs: Tensor, source: Tensor, to: Tensor, values: Tensor) -> Tensor:
    by_class = probs.T.contiguous()  # rows are contiguous in memory, while columns are not
    out = torch.zeros_like(by_class)
    size = max(1, _MIX_CHUNK // max(1, by_class.shape[1]))
    for start in range(0, len(values), size):
        part = slice(start, start + size)
        out.index_add_(0, to[part], by_class[source[part]] * values[part, None])
    return out.T
