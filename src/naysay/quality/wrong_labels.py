"""Find complementary labels that probably exclude the true class."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.checks import check_count, check_probabilities, row_slices
from naysay._base.errors import InvalidLabels, InvalidTransitionMatrix
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import check_comp_labels

_SHOWN = 5  # labels in the printed summary


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WrongLabels:
    """All labels, ranked by the probability of being wrong; ``print`` it for a summary."""

    indices: NDArray[np.int64]
    """(n,) examples, sorted by decreasing probability that the label is wrong."""
    probabilities: NDArray[np.float64]
    """(n,) probability that the label is wrong, in the order of `indices`."""
    labels: NDArray[np.int64]
    """(n,) labels as class indices, in the order of `indices`."""
    classes: tuple[str, ...]

    @property
    def weights(self) -> NDArray[np.float64]:
        """(n,) probability that each label is correct, in the order of the data."""
        weights = np.empty(len(self.indices))
        weights[self.indices] = 1 - self.probabilities
        return weights

    @property
    def keep(self) -> NDArray[np.bool_]:
        """(n,) whether each label is more likely correct than wrong, in the order of the data."""
        return self.weights > 0.5

    @property
    def n_expected(self) -> float:
        """Expected number of wrong labels."""
        return float(self.probabilities.sum())

    def precision_at(self, is_wrong: ArrayLike, n: int) -> float:
        """Compute the share of wrong labels among the first n, given which labels are wrong."""
        return float(self._hits(is_wrong, n).mean())

    def recall_at(self, is_wrong: ArrayLike, n: int) -> float:
        """Compute the share of all wrong labels that is among the first n."""
        total = int(np.count_nonzero(is_wrong))
        return float(self._hits(is_wrong, n).sum() / total) if total else 1.0

    def _hits(self, is_wrong: ArrayLike, n: int) -> NDArray[np.bool_]:
        wrong = np.asarray(is_wrong)
        if wrong.dtype != bool or wrong.shape != self.indices.shape:
            raise InvalidLabels(
                "is_wrong must be a boolean array that says of every label whether it is wrong, "
                f"shape {self.indices.shape}. Got {wrong.dtype} of shape {wrong.shape}."
            )
        return wrong[self.indices[: check_count(n, "n")]]

    def __str__(self) -> str:
        n_bad = int((~self.keep).sum())
        lines = [
            f"{n_bad:,} of {len(self.indices):,} labels are more likely wrong than right "
            f"({self.n_expected:,.0f} wrong ones expected)."
        ]
        shown = zip(self.indices, self.labels, self.probabilities, strict=True)
        lines += [
            f"  example {index}: 'not {self.classes[label]}' is wrong with probability {p:.2f}"
            for index, label, p in list(shown)[:_SHOWN]
        ]
        return "\n".join(lines)


def find_wrong_labels(
    probs: ArrayLike, comp_labels: ArrayLike, Q: TransitionMatrix | ArrayLike
) -> WrongLabels:
    r"""Rank complementary labels by the probability that they exclude the true class.

    .. math:: P(Y = ȳ \mid x, ȳ) = Q_{ȳȳ} \, p_ȳ(x) \;/\; \sum_k Q_{kȳ} \, p_k(x)

    The result depends on the quality of the probabilities; use predictions for examples that the
    model was not trained on. Drop the labels that are not in ``keep``, or weight the loss with
    ``weights``.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) from any model that was not trained on these labels.
    comp_labels : array of shape (n,)
        As indices, or as names if Q has names. With several labels per example pass one row of
        `probs` for each label.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        With a non-zero diagonal: the probability that annotators exclude the true class.

    Examples
    --------
    >>> Q = [[0.1, 0.9, 0], [0.45, 0.1, 0.45], [0.9, 0, 0.1]]
    >>> found = find_wrong_labels([[0.98, 0.01, 0.01], [0.1, 0.8, 0.1]], [0, 0], Q)
    >>> found.indices.tolist(), found.probabilities.round(2).tolist()
    ([0, 1], [0.88, 0.02])
    """
    matrix = as_transition_matrix(Q)
    columns = np.asarray(matrix).T
    diagonal = columns.diagonal()
    if not diagonal.any():
        raise InvalidTransitionMatrix(
            "Q must have a non-zero diagonal, the share of wrong labels; with a zero diagonal no "
            "label can be wrong. Estimate it with allow_diagonal=True."
        )
    array = check_probabilities(probs, n_classes=matrix.n_classes, name="probs")
    labels = check_comp_labels(comp_labels, matrix, len(array), of="row of probs")
    wrong = np.empty(len(array))
    for rows in row_slices(*array.shape):
        given = labels[rows]
        likely = np.einsum("ik,ik->i", array[rows], columns[given])
        joint = array[rows][np.arange(len(given)), given].astype(np.float64) * diagonal[given]
        # a label with probability zero under the model is no evidence for Y = ȳ
        wrong[rows] = np.divide(joint, likely, out=np.zeros(len(given)), where=likely > 0)
    order = np.argsort(-wrong, kind="stable")
    return WrongLabels(
        indices=order,
        probabilities=np.minimum(wrong[order], 1),
        labels=labels[order],
        classes=matrix.classes,
    )
