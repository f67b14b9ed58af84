"""Records of the epochs of one training: the best epoch, early stopping and divergence."""

import math
from collections.abc import Iterable

EpochRecord = dict[str, float]


class History:
    """Records of the epochs of one training, and the best epoch by the held-out loss.

    Examples
    --------
    >>> history = History()
    >>> [history.add({"epoch": n + 1, "held_out_loss": x}) for n, x in enumerate([3.0, 2.0, 2.5])]
    [True, True, False]
    >>> history.best_epoch, history.is_over(n_epochs=9, patience=1)
    (2, True)
    """

    def __init__(self, records: Iterable[EpochRecord] = ()) -> None:
        self.records: list[EpochRecord] = []
        self.least_loss = math.inf
        self.best_epoch = 0  # counted from 1; 0 while there is none
        self.has_diverged = False
        for record in records:
            self.add(record)

    def add(self, record: EpochRecord) -> bool:
        """Append the record of an epoch; return whether its held-out loss is the least so far."""
        self.records.append(record)
        self.has_diverged |= not is_finite(record)
        loss = record.get("held_out_loss", math.inf)
        if not loss < self.least_loss:
            return False
        self.least_loss, self.best_epoch = loss, len(self.records)
        return True

    def is_over(self, n_epochs: int, patience: int) -> bool:
        """Check whether training ends: epochs or patience are used up, or the loss diverged."""
        n_done = len(self.records)
        waits_too_long = self.best_epoch > 0 and n_done - self.best_epoch >= patience
        return n_done >= n_epochs or waits_too_long or self.has_diverged


def is_finite(record: EpochRecord) -> bool:
    """Check that all losses in the record of an epoch are finite."""
    return all(math.isfinite(record.get(name, 0.0)) for name in ("loss", "held_out_loss"))


def least_held_out_loss(records: Iterable[EpochRecord]) -> float:
    """Compute the least held-out loss; it is infinite if there is none or training diverged."""
    history = History(records)
    return math.inf if history.has_diverged else history.least_loss
