"""The rate at which annotators exclude the true class by mistake, with an interval."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from naysay._base.checks import check_number, check_one_label_each, check_probabilities
from naysay._base.errors import InvalidInput
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_samples

_LEAST_RIGHT = 0.5  # share of the anchors: models that are wrong more often do not show the rate
_LEAST_SHARE = 0.4  # of the rate: if the interval reaches lower, the rate is of little use


@dataclass(frozen=True, kw_only=True)
class MistakeRate:
    """An estimated rate of mistakes: the share of labels that exclude the true class.

    Examples
    --------
    >>> print(MistakeRate(value=0.031, interval=(0.01, 0.062), level=0.95))
    rate of mistakes 3.1 % (95 % interval 1.0 to 6.2 %)
    """

    value: float
    interval: tuple[float, float]
    level: float

    @property
    def is_rough(self) -> bool:
        """Whether the interval reaches below 40 % of the rate.

        What follows from the rate, such as how many labels are wrong, can then be far too high.
        """
        return self.interval[0] < _LEAST_SHARE * self.value

    def __str__(self) -> str:
        low, high = (100 * each for each in self.interval)
        return (
            f"rate of mistakes {100 * self.value:.1f} % ({100 * self.level:g} % interval "
            f"{low:.1f} to {high:.1f} %)"
        )


def rate_of_mistakes(
    probs: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    Q_samples: ArrayLike,
    *,
    anchor_probs: ArrayLike | None = None,
    anchor_labels: ArrayLike | None = None,
    level: float = 0.95,
) -> MistakeRate:
    """Estimate the share of labels that exclude the true class, with an interval.

    The rate is the mean of the diagonal of Q, weighted by the shares of the classes. Its interval
    contains `level` of the samples of Q, and the estimate.

    A model that is wrong about an example looks like an annotator who is: the label then often
    names the predicted class. Q was estimated with the model's own probability of this, and anchors
    show the error of that probability. With anchors, the interval is widened by the mean of this
    error and its standard error. Where most anchors are predicted wrongly, the interval starts at
    0, since nearly all labels that contradict the model may then be correct.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) of the examples that Q was estimated from.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
        The estimate, with `allow_diagonal`.
    Q_samples : array of shape (n_samples, n_classes, n_classes)
        Its samples, as `uncertainty` gives them.
    anchor_probs, anchor_labels : arrays of shape (m, n_classes) and (m,), optional
        P(Y | x) and true classes of a random sample of examples, of all or of each class, from
        models that were not trained on them.
    level : float, default=0.95

    Examples
    --------
    >>> from naysay.estimation import refine, uncertainty
    >>> true = np.random.default_rng(0).integers(4, size=3000)
    >>> erring = 0.95 * np.asarray(TransitionMatrix.uniform(4)) + 0.05 * np.eye(4)
    >>> labels = TransitionMatrix(erring, allow_diagonal=True).sample(true, seed=0)
    >>> probs = np.eye(4)[true]
    >>> Q = refine(probs, labels, TransitionMatrix.uniform(4), allow_diagonal=True)
    >>> samples = uncertainty(probs, labels, Q, allow_diagonal=True).samples
    >>> print(rate_of_mistakes(probs, Q, samples))
    rate of mistakes 4.8 % (95 % interval 4.2 to 5.6 %)
    """
    if (anchor_probs is None) != (anchor_labels is None):
        raise InvalidInput("anchor_probs and anchor_labels must be given together, or neither.")
    values = np.asarray(as_transition_matrix(Q, allow_diagonal=True))
    level = check_number(level, "level", above=0, below=1)
    shares = check_probabilities(probs, n_classes=len(values), name="probs").mean(axis=0)
    rate = float(values.diagonal() @ shares)
    drawn = np.diagonal(check_samples(Q_samples, len(values)), axis1=1, axis2=2) @ shares
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    error = 0.0
    if anchor_probs is not None and anchor_labels is not None:
        names = tuple(map(str, range(len(values))))
        at = check_probabilities(anchor_probs, n_classes=len(values), name="anchor_probs")
        true = check_one_label_each(
            anchor_labels, names, len(at), name="anchor_labels", of="row of anchor_probs"
        )
        error = _error_of_model(at.astype(np.float64), true, values, shares) * float(
            ndtri((1 + level) / 2)
        )
        if np.mean(at.argmax(axis=1) == true) < _LEAST_RIGHT:
            low = 0.0
    low = rate - np.hypot(max(rate - low, 0), error)
    high = rate + np.hypot(max(high - rate, 0), error)
    return MistakeRate(value=rate, interval=(max(0.0, float(low)), float(high)), level=level)


def _error_of_model(probs: Floats, true: NDArray[np.int64], Q: Floats, shares: Floats) -> float:
    """Compute the root mean squared error of P(the label names a wrongly predicted class)."""
    off_diagonal = np.where(np.eye(len(Q), dtype=bool), 0, Q)
    predicted = probs.argmax(axis=1)
    expected = np.einsum("ik,ki->i", probs, off_diagonal[:, predicted])
    error = off_diagonal[true, predicted] - expected
    weights = shares[true] / np.bincount(true, minlength=len(Q))[true]
    weights = weights / weights.sum()
    mean = weights @ error
    return float(np.sqrt(mean**2 + (weights**2 @ (error - mean) ** 2)))
