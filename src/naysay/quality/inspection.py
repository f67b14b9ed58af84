"""Inspect a matrix: diagnosis, the most similar rows, and a test whether labels come from it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc

from naysay._base.checks import check_class_prior, check_seed, shorten
from naysay.estimation import class_prior
from naysay.quality.goodness_of_fit import MAX_CLASSES, format_p_value, p_value_of_mixtures
from naysay.transition import TransitionMatrix
from naysay.transition.algebra import Floats, check_comp_labels
from naysay.transition.diagnosis import Diagnosis

__all__ = ["LabelCheck", "NearPair", "check_labels", "nearest_rows"]

_MAX_CLASSES = 2000  # with more, the distances of all pairs take minutes
_SIGNIFICANCE = 0.01


class NearPair(NamedTuple):
    """Two classes and the L1 distance of their rows: 0 if the rows are equal, at most 2."""

    one: str
    other: str
    distance: float

    def __str__(self) -> str:
        return f"{self.one!r} and {self.other!r} ({self.distance:.3g})"


def nearest_rows(Q: TransitionMatrix, *, most: int = 3) -> list[NearPair]:
    """Find the pairs of classes with the most similar rows, sorted by increasing distance.

    The closer two rows, the more labels are needed to distinguish the classes; in training such
    classes are the first to be merged or swapped. The list is empty for more than 2,000 classes.

    Examples
    --------
    >>> Q = TransitionMatrix([[0, 0.5, 0.5], [0.1, 0, 0.9], [1, 0, 0]], ["cat", "dog", "owl"])
    >>> print(nearest_rows(Q)[0])
    'cat' and 'dog' (1)
    """
    from scipy.spatial.distance import pdist  # slow to load, for this function only

    if Q.n_classes > _MAX_CLASSES:
        return []
    one, other = np.triu_indices(Q.n_classes, 1)
    if Q.is_uniform:
        distances = np.full(len(one), 2 / (Q.n_classes - 1))
    else:
        distances = pdist(np.asarray(Q), "cityblock")
    nearest = np.argsort(distances, kind="stable")[:most]
    return [
        NearPair(Q.classes[one[pair]], Q.classes[other[pair]], float(distances[pair]))
        for pair in nearest
    ]


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelCheck:
    """Test whether complementary labels come from a matrix; ``print`` it for a summary.

    Attributes
    ----------
    class_shares : array of shape (n_classes,)
        Class prior: estimated from the labels, or as given.
    never_named : tuple of str
        Labels that are possible under Q and do not occur.
    chi_square : float
        Chi-square statistic of the label frequencies against those expected under Q.
    p_value : float or None
        Probability of a statistic at least as large if the labels come from Q; None if it was
        not computed.
    most_unlike : str
        The label whose frequency differs most from its expectation, in standard deviations.
    """

    classes: tuple[str, ...]
    n_labels: int
    class_shares: Floats
    shares_given: bool
    never_named: tuple[str, ...]
    chi_square: float
    p_value: float | None
    most_unlike: str

    @property
    def fits(self) -> bool | None:
        """Whether the test does not reject Q at the 1 % level; None without a p-value."""
        return None if self.p_value is None else self.p_value >= _SIGNIFICANCE

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain values for JSON; infinity becomes None."""
        return {
            "n_labels": self.n_labels,
            "class_shares": dict(zip(self.classes, self.class_shares.tolist(), strict=True)),
            "shares_given": self.shares_given,
            "never_named": list(self.never_named),
            "chi_square": self.chi_square if np.isfinite(self.chi_square) else None,
            "p_value": self.p_value,
            "fits": self.fits,
            "most_unlike": self.most_unlike,
        }

    def __str__(self) -> str:
        order = np.argsort(-self.class_shares, kind="stable")
        shown = [f"{self.classes[k]} {self.class_shares[k]:.1%}" for k in order[:10]]
        more = f", … ({len(order)} in all)" if len(order) > 10 else ""
        lines = {
            "class shares": (
                f"{', '.join(shown)}{more} ({'given' if self.shares_given else 'estimated'})"
            ),
            "never named": shorten(list(self.never_named)) if self.never_named else "none",
            "fit of Q": self._fit(),
        }
        listed = "\n".join(f"  {key:<24}{value}" for key, value in lines.items())
        return f"{self.n_labels:,} complementary labels\n{listed}"

    def _fit(self) -> str:
        figures = f"chi-square {self.chi_square:.4g}"
        if self.p_value is None:
            return f"{figures}; not tested for more than {MAX_CLASSES} classes"
        figures += f", {format_p_value(self.p_value)}"
        if not self.fits:
            figures += ": these labels hardly come from Q; furthest off is"
            return f"{figures} {self.most_unlike!r}"
        if self.chi_square < 1e-6 and not self.shares_given:
            return f"{figures}: some class shares explain the labels exactly; give a prior to test"
        return f"{figures}: the labels may come from Q"


def check_labels(
    comp_labels: ArrayLike,
    Q: TransitionMatrix,
    *,
    prior: ArrayLike | None = None,
    seed: int | np.random.Generator = 0,
) -> LabelCheck:
    """Test whether the frequencies of complementary labels agree with Q.

    With a prior this is the chi-square test. Without a prior it is that of `check_matrix` for the
    frequencies. An invertible Q fits most frequencies exactly, so the test then finds only gross
    misfits; with predictions, `check_matrix` finds more.

    Parameters
    ----------
    comp_labels : array of shape (n,)
        As indices, or as names if Q has names.
    Q : TransitionMatrix
    prior : array of shape (n_classes,), optional
    seed : int or numpy.random.Generator, default=0

    Examples
    --------
    >>> Q = TransitionMatrix.uniform(3)
    >>> check_labels([0, 1, 2] * 100, Q, prior=[0.8, 0.1, 0.1]).fits
    False
    """
    labels = check_comp_labels(comp_labels, Q, allow_impossible=True)
    counts = np.bincount(labels, minlength=Q.n_classes)
    values = np.asarray(Q)
    possible = values.any(axis=0)
    shares = class_prior(labels, Q) if prior is None else check_class_prior(prior, Q.n_classes)
    expected = labels.size * shares @ values
    expected[expected <= 1e-12 * labels.size] = 0  # rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(counts == expected, 0, (counts - expected) / np.sqrt(expected))
    distance = float((off**2).sum())
    if prior is None:
        p_value = p_value_of_mixtures(counts[None], values, check_seed(seed))
    else:
        p_value = float(chdtrc(max(np.count_nonzero(expected) - 1, 1), distance))
    return LabelCheck(
        classes=Q.classes,
        n_labels=labels.size,
        class_shares=shares,
        shares_given=prior is not None,
        never_named=tuple(Q.classes[k] for k in np.flatnonzero(possible & (counts == 0))),
        chi_square=distance,
        p_value=p_value,
        most_unlike=Q.classes[int(np.abs(off).argmax())],
    )


class Inspection(NamedTuple):
    """The results of an inspection; ``print`` it to read them."""

    transition: TransitionMatrix
    diagnosis: Diagnosis
    nearest_rows: list[NearPair]
    labels: LabelCheck | None  # None without labels

    def to_dict(self) -> dict[str, Any]:
        """Convert the results to plain values for JSON."""
        pairs = [pair._asdict() for pair in self.nearest_rows]
        figures = {**self.diagnosis.to_dict(), "nearest_rows": pairs}
        return figures if self.labels is None else {**figures, "labels": self.labels.to_dict()}

    def __str__(self) -> str:
        lines = [str(self.diagnosis)]
        if self.nearest_rows and not self.transition.is_uniform:
            listed = ", ".join(map(str, self.nearest_rows))
            about = "L1 distance of rows, 0 to 2; these merge first"
            lines.append(f"  {'most alike':<24}{listed}: {about}")
        lines += [] if self.labels is None else ["", str(self.labels)]
        return "\n".join(lines)


def inspect_matrix(
    Q: TransitionMatrix, comp_labels: ArrayLike | None = None, *, prior: ArrayLike | None = None
) -> Inspection:
    """Diagnose a matrix, and test whether labels may come from it, if there are any."""
    diagnosis, pairs = Q.diagnose(prior=prior), nearest_rows(Q)
    check = None if comp_labels is None else check_labels(comp_labels, Q, prior=prior)
    return Inspection(Q, diagnosis, pairs, check)
