"""Steps common to all losses: check and flatten the inputs, then weight and reduce the losses."""

# callers may pass anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.checks import impossible_label
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.functional.columns import Columns, DenseColumns, UniformColumns, columns_of
from naysay.transition import TransitionMatrix, as_transition_matrix


class Batch(NamedTuple):
    """A checked and flattened batch."""

    logits: Tensor  # shape (n, K)
    labels: Tensor  # shape (n,)
    included: Tensor | None  # which examples are not ignored; None if none is ignored
    shape: torch.Size  # of the labels before they were flattened

    def at_labels(self, values: Tensor) -> Tensor:
        """Select the value at each example's label from values of shape (n, K)."""
        return values.gather(1, self.labels[:, None]).squeeze(1)

    def included_as_float(self) -> Tensor:
        """Compute a mask that is 1 for included examples and 0 for ignored ones, shape (n,)."""
        ones = torch.ones_like(self.logits[:, 0])
        return ones if self.included is None else ones.where(self.included, 0)


def flatten(
    logits: Tensor, comp_labels: Tensor, ignore_index: int, n_classes: int | None = None
) -> Batch:
    """Check logits and labels, and flatten logits from (N, K, d1, …) to (n, K)."""
    flat = flatten_logits(logits, n_classes)
    expected = logits.shape[:1] + logits.shape[2:]
    if (
        not isinstance(comp_labels, Tensor)
        or comp_labels.shape != expected
        or comp_labels.dtype not in _INTEGERS
    ):
        raise InvalidLabels(
            f"comp_labels must be integers of shape {tuple(expected)}, one per row of logits. "
            f"Got {describe_tensor(comp_labels)}."
        )
    labels = comp_labels.reshape(-1).to(flat.device, torch.int64)
    check = _check_range if can_sync(flat) else _assert_range
    labels, included = check(labels, flat.shape[1], ignore_index)
    return Batch(flat, labels, included, comp_labels.shape)


def flatten_with_columns(
    logits: Tensor,
    comp_labels: Tensor,
    ignore_index: int,
    Q: TransitionMatrix | DenseColumns | ArrayLike,
) -> tuple[Batch, Columns]:
    """Flatten a batch, check that each label can occur under Q, and get the columns of Q."""
    matrix = Q if isinstance(Q, DenseColumns) else as_transition_matrix(Q)
    batch = flatten(logits, comp_labels, ignore_index, matrix.n_classes)
    if isinstance(matrix, DenseColumns):  # a stack of matrices
        return batch, matrix
    columns = columns_of(matrix, batch.logits.dtype, batch.logits.device)
    if not isinstance(columns, UniformColumns) and columns.unused is not None:
        labels = batch.labels
        if batch.included is not None:  # a label that can occur replaces those of ignored examples
            labels = labels.where(batch.included, columns.unused.int().argmin())
        impossible = columns.unused[labels]
        if not can_sync(labels):
            torch.ops.aten._assert_async.msg(~impossible.any(), columns.rule)
        elif impossible.any():
            label = int(labels[impossible][0])
            raise impossible_label(label, int((labels == label).sum()), matrix.classes)
        batch = Batch(batch.logits, labels, batch.included, batch.shape)
    return batch, columns


def flatten_logits(logits: Tensor, n_classes: int | None = None) -> Tensor:
    """Check logits and flatten them from (N, K, d1, …) to (n, K), in float32 or float64."""
    if (
        not isinstance(logits, Tensor)
        or logits.ndim < 2
        or not logits.is_floating_point()
        or (n_classes is not None and logits.shape[1] != n_classes)
    ):
        wanted = "K" if n_classes is None else n_classes
        raise InvalidInput(
            f"logits must be floating point of shape (N, {wanted}) or (N, {wanted}, d1, …), "
            f"one column per class. Got {describe_tensor(logits)}."
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.ndim > 2:
        logits = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    return logits


def check_prior_tensor(prior: Tensor, logits: Tensor) -> Tensor:
    """Check a class prior, shape (K,), and convert it to the precision and device of the logits."""
    if not isinstance(prior, Tensor) or prior.shape != logits.shape[1:]:
        raise InvalidInput(
            f"prior must contain one probability per class, shape ({logits.shape[1]},). "
            f"Got {describe_tensor(prior)}."
        )
    return prior.to(logits)


def describe_tensor(value: object) -> str:
    """Describe the type and shape of a value for an error message."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"{type(value).__name__}, not a Tensor"


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def can_sync(tensor: Tensor) -> bool:
    """Check that reading a value neither waits for a GPU nor breaks a compiled graph."""
    return not (tensor.is_cuda or torch.compiler.is_compiling())


def _check_range(labels: Tensor, n_classes: int, ignore_index: int) -> tuple[Tensor, Tensor | None]:
    """Check labels; replace ignored ones by 0 and mark the others, with None if none is ignored."""
    lowest, highest = (int(end) for end in labels.aminmax()) if len(labels) else (0, 0)
    in_range = lowest >= 0 and highest < n_classes
    if in_range and ignore_index < 0:
        return labels, None
    included = labels != ignore_index
    outside = included & ((labels < 0) | (labels >= n_classes))
    if not in_range and outside.any():
        raise InvalidLabels(
            f"comp_labels must be integers 0..{n_classes - 1}, or ignore_index={ignore_index}. "
            f"Got {int(labels[outside][0])}, and {int(outside.sum())} of {len(labels)} labels "
            "are out of range."
        )
    return labels.where(included, 0), included


def _assert_range(labels: Tensor, n_classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    """Check labels by an assertion on the device, where Python cannot read them."""
    included = labels != ignore_index
    in_range = (labels >= 0) & (labels < n_classes)
    rule = f"comp_labels must be integers 0..{n_classes - 1} or ignore_index"
    torch.ops.aten._assert_async.msg((in_range | ~included).all(), rule)
    return labels.where(included & in_range, 0), included


def reduce(
    losses: Tensor,
    batch: Batch,
    weight: Tensor | None,
    reduction: str,
    *,
    excluded: Tensor | None = None,
) -> Tensor:
    """Weight and reduce losses as `torch.nn.functional.cross_entropy` does; skip ignored examples.

    If `excluded`, bool of shape (n, K), marks several labels per example, the weight of an example
    is the mean of the weights of its labels.
    """
    if reduction not in ("mean", "sum", "none"):
        raise InvalidInput(f"reduction must be 'mean', 'sum' or 'none'. Got {reduction!r}.")
    n_classes = batch.logits.shape[1]
    weights = None
    if weight is not None:
        if not isinstance(weight, Tensor) or weight.shape != (n_classes,):
            raise InvalidInput(
                f"weight must contain one number per class, shape ({n_classes},). "
                f"Got {describe_tensor(weight)}."
            )
        weight = weight.to(losses)
        if excluded is None:
            weights = weight[batch.labels]
        else:
            weights = (excluded * weight).sum(1) / excluded.sum(1)
        losses = losses * weights
    if batch.included is not None:
        losses = losses.where(batch.included, 0)
        weights = batch.included.to(losses) if weights is None else weights.where(batch.included, 0)
    if reduction == "none":
        return losses.reshape(batch.shape)
    if reduction == "sum":
        return losses.sum()
    if weights is None:
        return losses.mean() if len(losses) else losses.sum()
    total = weights.sum()
    return losses.sum() / total.where(total > 0, 1)
