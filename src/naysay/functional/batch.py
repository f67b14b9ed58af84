"""What every loss does before and after its formula: check, flatten, weigh and reduce."""

from typing import NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from naysay._base.checks import impossible_label
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.functional.columns import Columns, columns_of, label_rules
from naysay.transition import TransitionMatrix


class Batch(NamedTuple):
    """Logits (n, K), labels (n,), which of them count (None: all), and the labels' shape."""

    logits: Tensor
    labels: Tensor
    kept: Tensor | None
    shape: torch.Size

    def counted(self) -> Tensor:
        """Return 1 for each example that counts and 0 for the others, shape (n,)."""
        ones = torch.ones_like(self.logits[:, 0])
        return ones if self.kept is None else ones.where(self.kept, 0)


def as_transition(Q: TransitionMatrix | ArrayLike) -> TransitionMatrix:
    """Return Q as a checked matrix; an array may have a diagonal (annotators who err)."""
    if isinstance(Q, TransitionMatrix):
        return Q
    values = Q.detach().cpu().numpy() if isinstance(Q, Tensor) else Q
    return TransitionMatrix(values, allow_diagonal=True)


def flatten(
    logits: Tensor, comp_labels: Tensor, ignore_index: int, Q: TransitionMatrix | None = None
) -> Batch:
    """Check shapes and labels; bring (N, K, d1, …) to (n, K)."""
    flat = flatten_logits(logits, Q)
    expected = logits.shape[:1] + logits.shape[2:]
    if (
        not isinstance(comp_labels, Tensor)
        or comp_labels.shape != expected
        or comp_labels.dtype not in _INTEGERS
    ):
        raise InvalidLabels(
            f"comp_labels must be integers of shape {tuple(expected)}, one per row of logits. "
            f"Got {described(comp_labels)}."
        )
    labels = comp_labels.reshape(-1).to(flat.device, torch.int64)
    check = _check_later if flat.is_cuda or torch.compiler.is_compiling() else _check_now
    columns = None if Q is None else columns_of(Q, flat.dtype, flat.device)
    labels, kept = check(labels, flat.shape[1], ignore_index, columns, Q)
    return Batch(flat, labels, kept, comp_labels.shape)


def flatten_logits(logits: Tensor, Q: TransitionMatrix | None = None) -> Tensor:
    """Check logits and bring (N, K, d1, …) to (n, K), in float32 at least."""
    if (
        not isinstance(logits, Tensor)
        or logits.ndim < 2
        or not logits.is_floating_point()
        or (Q is not None and logits.shape[1] != Q.n_classes)
    ):
        columns_wanted = "K" if Q is None else Q.n_classes
        raise InvalidInput(
            f"logits must be floating point of shape (N, {columns_wanted}) or "
            f"(N, {columns_wanted}, d1, …), one column per class. Got {described(logits)}."
        )
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    if logits.ndim > 2:
        logits = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    return logits


def check_prior(prior: Tensor, logits: Tensor) -> Tensor:
    """Return the class prior, shape (K,), in the precision and on the device of the logits."""
    if not isinstance(prior, Tensor) or prior.shape != logits.shape[1:]:
        raise InvalidInput(
            f"prior must hold one share per class, shape ({logits.shape[1]},). "
            f"Got {described(prior)}."
        )
    return prior.to(logits)


def described(value: object) -> str:
    """Return how an error message names a value: its type and shape."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"{type(value).__name__}, not a Tensor"


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _check_now(
    labels: Tensor,
    n_classes: int,
    ignore_index: int,
    columns: Columns | None,
    Q: TransitionMatrix | None,
) -> tuple[Tensor, Tensor | None]:
    """Return labels that are safe to look up, and which of them count (None: all)."""
    lowest, highest = (int(end) for end in labels.aminmax()) if len(labels) else (0, 0)
    in_range = lowest >= 0 and highest < n_classes
    kept = None if in_range and ignore_index < 0 else labels != ignore_index
    counted = labels if kept is None else labels[kept]
    if not in_range and (outside := (counted < 0) | (counted >= n_classes)).any():
        raise InvalidLabels(
            f"comp_labels must be integers 0..{n_classes - 1}, or ignore_index={ignore_index}. "
            f"Got {int(counted[outside][0])}, and {int(outside.sum())} of {len(labels)} labels "
            "are out of range."
        )
    if Q is not None and columns is not None and columns.unused is not None:
        impossible = columns.unused[counted]
        if impossible.any():
            label = int(counted[impossible][0])
            raise impossible_label(label, int((counted == label).sum()), Q.classes)
    return (labels, None) if kept is None else (labels.where(kept, _some_label(columns)), kept)


def _check_later(
    labels: Tensor,
    n_classes: int,
    ignore_index: int,
    columns: Columns | None,
    Q: TransitionMatrix | None,
) -> tuple[Tensor, Tensor]:
    """Do as `_check_now`, without a wait for the device or a break in a compiled graph."""
    kept = labels != ignore_index
    fine = ~kept | ((labels >= 0) & (labels < n_classes))
    looked_up = labels.where(kept & fine, _some_label(columns))
    if columns is not None and columns.unused is not None:
        fine = fine & ~columns.unused[looked_up]
    rules = label_rules(n_classes) if columns is None else columns.rules
    torch.ops.aten._assert_async.msg(fine.all(), rules)
    return looked_up, kept


def _some_label(columns: Columns | None) -> Tensor | int:
    """Return a label that can occur, to stand in for those that do not count."""
    return 0 if columns is None or columns.unused is None else columns.unused.int().argmin()


def reduce(
    losses: Tensor,
    batch: Batch,
    weight: Tensor | None,
    reduction: str,
    *,
    excluded: Tensor | None = None,
) -> Tensor:
    """Weigh, leave out and reduce as `torch.nn.functional.cross_entropy` does.

    An example that excludes a set of classes, bool of shape (n, K), weighs the mean of theirs.
    """
    if reduction not in ("mean", "sum", "none"):
        raise InvalidInput(f"reduction must be 'mean', 'sum' or 'none'. Got {reduction!r}.")
    n_classes = batch.logits.shape[1]
    if weight is not None:
        if not isinstance(weight, Tensor) or weight.shape != (n_classes,):
            raise InvalidInput(
                f"weight must hold one number per class, shape ({n_classes},). "
                f"Got {described(weight)}."
            )
        weight = weight.to(losses)
        if excluded is None:
            weights = weight[batch.labels]
        else:
            weights = (excluded * weight).sum(1) / excluded.sum(1)
        losses = losses * weights
    else:
        weights = None
    if batch.kept is not None:
        losses = losses.where(batch.kept, 0)
        weights = batch.kept.to(losses) if weights is None else weights.where(batch.kept, 0)
    if reduction == "none":
        return losses.reshape(batch.shape)
    if reduction == "sum":
        return losses.sum()
    if weights is None:
        return losses.mean() if len(losses) else losses.sum()
    total = weights.sum()
    return losses.sum() / total.where(total > 0, 1)
