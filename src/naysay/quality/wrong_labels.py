"""Find complementary labels that probably exclude the true class."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from naysay._base.answers import CHOSEN, NO, YES
from naysay._base.checks import check_count, check_probabilities, row_slices
from naysay._base.errors import InvalidLabels, InvalidTransitionMatrix
from naysay._base.frames import make_frame
from naysay._base.mapped import argsort, compute, count_up, find_rows, parts_of, take
from naysay.estimation import MistakeRate
from naysay.estimation.mixture import Calibration, Probs
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels

_SHOWN = 5  # labels in the printed summary

# The grid of the posterior, and the prior: log-normal, but flat for the shares on this grid.
_TEMPERATURES = np.geomspace(0.25, 16, 13)
_SHARES = np.array([0, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64])
_SCALES = np.geomspace(1 / 8, 4, 41)
_ONE = 24  # position of the scale 1
_SD_TEMPERATURE, _SD_SCALE = 0.7, 0.5  # of the logarithms
PROBABLE = 0.5  # probability above which a label is listed as wrong
_MAX_RATE = 0.5  # scales do not make larger entries of the diagonal
_WEIGHT = 1 / 3  # of a label: probabilities of real models are never calibrated exactly
_MAX_ROWS = 10_000  # labels of the posterior, chosen at random
_NEGLIGIBLE = 1e-3  # cells of the grid below this share of the largest are left out


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
    n_expected_interval: tuple[float, float]
    """95 % interval of the number of wrong labels."""
    unknown: str | None = None
    """Why the number of wrong labels and the probabilities cannot be stated; None if they can.

    The order of the labels is that of the probabilities in any case."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """(n,) probability that each label is correct, in the order of the data."""
        weights = np.empty(len(self.indices))
        weights[self.indices] = 1 - self.probabilities
        return weights

    @property
    def keep(self) -> NDArray[np.bool_]:
        """(n,) whether each label is not more likely wrong than correct, in order of the data."""
        return self.weights >= 1 - PROBABLE

    @property
    def probably_wrong(self) -> NDArray[np.int64]:
        """Positions of the labels that are more likely wrong than correct, most probable first."""
        return self.indices[: self._n_above()]

    def _n_above(self) -> int:
        """Count the probabilities above the limit, which come first."""
        probs = self.probabilities
        return sum(int((probs[rows] > PROBABLE).sum()) for rows in parts_of(len(probs)))

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
                "is_wrong must be a boolean array, True for every label that is wrong, "
                f"shape {self.indices.shape}. Got {wrong.dtype} of shape {wrong.shape}."
            )
        return wrong[self.indices[: check_count(n, "n")]]

    def to_frame(self, library: str | None = None) -> Any:
        """Convert to a data frame of pandas or polars, one row per label, most doubtful first."""
        names = [self.classes[int(label)] for label in self.labels]
        columns = {"example": self.indices, "not": names, "probability": self.probabilities}
        return make_frame(columns, library)

    @property
    def summary(self) -> str:
        """The number of wrong labels in a sentence, or why it is unknown."""
        n = len(self.indices)
        if self.unknown is not None:
            return f"How many of {n:,} labels are wrong is unknown: {self.unknown}."
        n_bad = self._n_above()
        low, high = self.n_expected_interval
        return (
            f"{n_bad:,} of {n:,} labels {'is' if n_bad == 1 else 'are'} more likely wrong than "
            f"right. The expected number of wrong labels is {self.n_expected:,.0f} "
            f"(95 % interval {low:,.0f} to {high:,.0f})."
        )

    def __str__(self) -> str:
        lines = [self.summary]
        if self.unknown is not None:
            lines[0] += " The most doubtful ones:"
        ranked = zip(self.indices, self.labels, self.probabilities, strict=True)
        for index, label, p in islice(ranked, _SHOWN):
            known = "" if self.unknown is not None else f" is wrong with probability {p:.2f}"
            lines.append(f"  example {index}: 'not {self.classes[label]}'{known}")
        return "\n".join(lines)


def find_wrong_labels(
    probs: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    rate: MistakeRate | None = None,
) -> WrongLabels:
    r"""Rank complementary labels by the probability that they exclude the true class.

    .. math:: P(Y = ȳ \mid x, ȳ) = Q_{ȳȳ} \, p_ȳ(x) \;/\; \sum_k Q_{kȳ} \, p_k(x)

    This depends on probabilities and a rate of mistakes that are seldom exact: a model that is
    confident and wrong contradicts many correct labels. The labels themselves show how reliable the
    model is. The probabilities p are therefore replaced by

    .. math:: (1 - ε) \, p^{1/T} / \textstyle\sum_k p_k^{1/T} + ε \, π

    with a temperature T, a share ε of examples that the model knows nothing about, and the class
    shares π; the diagonal of Q is multiplied by a scale. The result is the average over all T, ε
    and scales on a grid, weighted by the likelihood of the labels and a prior that prefers T and
    the scale near 1. With few labels, or if Q has nearly equal entries on and off the diagonal,
    the prior decides and the probabilities are cautious.

    Use predictions for examples that the model was not trained on. Drop the labels that are not in
    ``keep``, or weight the loss with ``weights``.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) from any model that was not trained on these labels.
    comp_labels : array of shape (n,)
        As indices, or as names if Q has names. With several labels per example pass one row of
        `probs` for each label.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        With a non-zero diagonal: the probability that annotators exclude the true class. A wrong
        guess by a factor of 2 does little harm.
    rate : MistakeRate, optional
        The rate of mistakes, if Q was estimated: ``mistake_rate_`` of the classifier. If its
        interval is wide, the number of wrong labels is ``unknown``, and so are the probabilities.

    Examples
    --------
    >>> Q = TransitionMatrix.uniform(4)
    >>> Q = TransitionMatrix(0.95 * np.asarray(Q) + 0.05 * np.eye(4), allow_diagonal=True)
    >>> true = np.random.default_rng(0).integers(4, size=2000)
    >>> labels = Q.sample(true)
    >>> found = find_wrong_labels(0.9 * np.eye(4)[true] + 0.025, labels, Q)
    >>> bool(found.precision_at(labels == true, 50) > 0.95)
    True
    """
    matrix = as_transition_matrix(Q)
    if not np.asarray(matrix).diagonal().any():
        raise InvalidTransitionMatrix(
            "Q must have a non-zero diagonal, the share of wrong labels; with a zero diagonal no "
            "label can be wrong. Estimate it with allow_diagonal=True."
        )
    array = check_probabilities(probs, n_classes=matrix.n_classes, name="probs")
    labels = check_comp_labels(comp_labels, matrix, len(array), of="row of probs")
    found = rank_labels(array, labels, [matrix], np.zeros(len(labels), dtype=np.int64))
    return replace(found, unknown=explain_rough(rate))


def explain_rough(rate: MistakeRate | None) -> str | None:
    """Explain why a rate of mistakes does not show how many labels are wrong, if it does not."""
    if rate is None or not rate.is_rough:
        return None
    low, high = rate.interval
    return (
        f"the rate of mistakes is only known to be between {100 * low:.1f} and {100 * high:.1f} %"
    )


def rank_labels(
    probs: Probs,
    labels: NDArray[np.int64],
    matrices: Sequence[TransitionMatrix],
    which: NDArray[np.integer[Any]],
    held_out: NDArray[np.bool_] | None = None,
    *,
    example: NDArray[np.int64] | None = None,
    accepted: NDArray[np.int8] | None = None,
    mistakes: float = 0.0,
    true_labels: NDArray[np.int64] | None = None,
) -> WrongLabels:
    """Rank labels as `find_wrong_labels` does; the matrix of label i is ``matrices[which[i]]``.

    Label i is about row ``example[i]`` of `probs`, by default row i. Rows are not copied for all
    labels at once, since there may be many more labels than rows.

    With `held_out`, only these labels determine how far the model is trusted: labels that it was
    trained on would overstate this. With `accepted`, some labels are suggestions that were accepted
    (1) or rejected (0), with a rate of `mistakes`. `true_labels` are the classes of the examples,
    -1 where they are unknown: they decide whether a label is wrong, whatever the model predicts.
    """
    example = count_up(labels, len(labels)) if example is None else example
    places = {Q: place for place, Q in enumerate(dict.fromkeys(matrices))}  # many share one
    of_matrix = np.array([places[Q] for Q in matrices], dtype=np.int32)
    numbers = which
    which = compute(labels, len(labels), np.int32, lambda rows: of_matrix[numbers[rows]])
    split: list[_SplitMatrix | _Answer] = [_SplitMatrix.of(Q, probs.dtype) for Q in places]
    if accepted is not None:
        for rows in parts_of(len(labels)):
            of_answer = len(split) + accepted[rows].astype(np.int32)
            which[rows] = np.where(accepted[rows] == CHOSEN, which[rows], of_answer)
        split += [_Answer(mistakes, NO), _Answer(mistakes, YES)]
    chosen = count_up(labels, len(labels))
    if held_out is not None:
        chosen = find_rows(labels, len(labels), held_out.__getitem__)
    if len(chosen) > _MAX_ROWS:
        chosen = np.random.default_rng(0).choice(chosen, _MAX_ROWS, replace=False)
    weights, scales, shares_of_classes = _posterior(
        probs[example[chosen]], labels[chosen], split, which[chosen]
    )
    wrong = compute(labels, len(labels), np.float64, lambda rows: 0)
    counts = np.zeros(weights.shape)
    for rows in row_slices(len(labels), max(64, probs.shape[1])):  # some numbers for each label
        these = labels[rows], split, which[rows]
        examples, place = np.unique(example[rows], return_inverse=True)
        true = np.asarray(-1) if true_labels is None else true_labels[example[rows]]
        is_wrong = labels[rows] == true
        if accepted is not None:
            is_wrong ^= accepted[rows] == YES
        for t in np.flatnonzero(weights.any(axis=(1, 2))):
            own = _terms(Calibration(_TEMPERATURES[t])(probs[examples])[place], *these)
            common = _terms(shares_of_classes[t], *these)
            for e, s in np.argwhere(weights[t]):
                right, lost, mistaken = (1 - _SHARES[e]) * own + _SHARES[e] * common
                likelihood = right + scales[s] * (mistaken - lost)
                # a label that is impossible under the model is not evidence of a mistake
                each = np.zeros(len(likelihood))
                np.divide(scales[s] * mistaken, likelihood, out=each, where=likelihood > 0)
                np.copyto(each, is_wrong, where=true >= 0)
                wrong[rows] += weights[t, e, s] * each
                counts[t, e, s] += each.sum()
    np.clip(wrong, 0, 1, out=wrong)
    order = argsort(wrong, largest_first=True)
    expected = wrong.sum()
    spread = sum(float((wrong[rows] * (1 - wrong[rows])).sum()) for rows in parts_of(len(wrong)))
    variance = (weights * (counts - expected) ** 2).sum() + spread / _WEIGHT
    factor = np.exp(1.96 * np.sqrt(np.log1p(variance / max(expected, 1e-100) ** 2)))  # log-normal
    return WrongLabels(
        indices=order,
        probabilities=take(wrong, order),
        labels=take(labels, order),
        classes=matrices[0].classes,
        n_expected_interval=(
            float(expected / factor),
            float(min(expected * factor, len(labels))),
        ),
    )


@dataclass(frozen=True)
class _SplitMatrix:
    """A matrix as the rates of mistakes, and the distribution of correct labels of each class."""

    rates: Floats
    columns: Probs  # of the distributions, by label
    lost: Probs  # the columns, each entry multiplied by the rate of its class

    @classmethod
    def of(cls, matrix: TransitionMatrix, dtype: Any) -> "_SplitMatrix":
        values = np.array(matrix)
        rates = values.diagonal().copy()
        np.fill_diagonal(values, 0)
        columns = (values / np.maximum(values.sum(axis=1, keepdims=True), 1e-300)).T
        return cls(rates, columns.astype(dtype, "C"), (columns * rates).astype(dtype, "C"))

    def terms(self, probs: Probs, labels: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """Compute the terms of `_terms`, for one row of probabilities or one for each label."""
        if probs.ndim == 1:
            right, lost = (self.columns @ probs)[labels], (self.lost @ probs)[labels]
        else:
            right = np.einsum("ik,ik->i", probs, self.columns[labels])
            lost = np.einsum("ik,ik->i", probs, self.lost[labels])
        return right, lost, _of_labels(probs, labels) * self.rates[labels]


@dataclass(frozen=True)
class _Answer:
    """Yes or no to suggestions, with a rate of mistakes."""

    rate: float
    accepted: int

    @property
    def rates(self) -> Floats:
        return np.array([self.rate])

    def terms(self, probs: Probs, labels: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        suggested = _of_labels(probs, labels)
        right = suggested if self.accepted else 1 - suggested
        return right, self.rate * right, self.rate * (1 - right)


def _of_labels(probs: Probs, labels: NDArray[np.int64]) -> Floats:
    found = probs[labels] if probs.ndim == 1 else probs[np.arange(len(labels)), labels]
    return found.astype(np.float64)


def _terms(
    probs: Probs,
    labels: NDArray[np.int64],
    split: "Sequence[_SplitMatrix | _Answer]",
    which: NDArray[np.integer[Any]],
) -> Floats:
    """Compute terms a, b, w of each label, shape (3, n).

    If all rates are multiplied by s, then the label has the probability a - s b and is correct, and
    the probability s w and is wrong. `probs` has a row for each label, or is one row for all.
    """
    terms = np.empty((3, len(labels)))
    used: list[int] = np.unique(which).tolist()
    for matrix in used:
        at = np.flatnonzero(which == matrix)
        terms[:, at] = split[matrix].terms(probs if probs.ndim == 1 else probs[at], labels[at])
    return terms


def _posterior(
    probs: Probs,
    labels: NDArray[np.int64],
    split: "Sequence[_SplitMatrix | _Answer]",
    which: NDArray[np.integer[Any]],
) -> tuple[Floats, Floats, Floats]:
    """Compute the weight of each temperature, share and scale; the scales; the class shares."""
    used: list[int] = np.unique(which).tolist()
    largest_scale = _MAX_RATE / max(float(split[each].rates.max()) for each in used)
    scales = _SCALES[: max(int(np.searchsorted(_SCALES, largest_scale)), _ONE + 1)]
    shares_of_classes = np.empty((len(_TEMPERATURES), probs.shape[1]))
    log_weights = np.empty((len(_TEMPERATURES), len(_SHARES), len(scales)))
    for t, temperature in enumerate(_TEMPERATURES):
        calibrated = Calibration(temperature)(probs)
        shares_of_classes[t] = calibrated.mean(axis=0, dtype=np.float64)
        own = _terms(calibrated, labels, split, which)
        common = _terms(shares_of_classes[t], labels, split, which)
        for e, share in enumerate(_SHARES):
            right, lost, mistaken = (1 - share) * own + share * common
            likelihood = right + scales[:, None] * (mistaken - lost)
            log_weights[t, e] = _WEIGHT * np.log(np.maximum(likelihood, 1e-300)).sum(axis=1)
    log_weights -= ((np.log(_TEMPERATURES) / _SD_TEMPERATURE) ** 2 / 2)[:, None, None]
    log_weights -= (np.log(scales) / _SD_SCALE) ** 2 / 2
    weights = np.exp(log_weights - log_weights.max())
    weights[weights < _NEGLIGIBLE] = 0
    return weights / weights.sum(), scales, shares_of_classes
