"""Find classes that a model hardly predicts, confuses, or predicts under another name."""

from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import chdtrc, ndtri

from naysay._base.checks import check_number, check_probabilities, row_slices
from naysay._base.errors import InvalidTransitionMatrix
from naysay.estimation import class_prior
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels, check_samples, invert, joint_counts

WHAT_TO_DO = "Estimate Q from (more) anchors (naysay estimate), and check the order of its classes."

_DEAD = 0.2  # limit of the ratio of predicted share and class share
_MERGED = 0.2  # share of another class among the predictions of one
_SWAPPED = 0.5
_DOUBTFUL = 0.6  # share of correct predictions of a class that may be mixed with another
_NEARLY_ALL = 0.75  # mean of both estimates beyond which a pair is swapped rather than merged
_ADVICE = {
    "swapped": "Check the order of the classes, or give a few anchors of both.",
    "merged": "Collect labels that distinguish them, or train again with another seed.",
    "lost": "Train again with another seed, or give a few anchors of both.",
}
_ROUNDING = 1e-9
_N_SIMULATED = 199
_MAX_CLASSES = 30  # with more, simulation takes minutes
_LEAST_STATISTIC = 3.0  # a smaller one is never significant, so nothing is simulated
_MOST_SAMPLES = 50  # of an estimated Q
_NEARLY_ALL_SAMPLES = 0.95


@dataclass(frozen=True)
class Finding:
    """One problem; ``kind`` is dead, merged, swapped, misnamed, or matrix (Q is wrong)."""

    kind: str
    classes: tuple[str, ...]
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CollapsedClasses:
    """Findings and the estimates they follow from; ``print`` it for the messages."""

    findings: tuple[Finding, ...]
    classes: tuple[str, ...]
    predicted_shares: Floats
    """(K,) share of examples predicted as each class."""
    mean_probs: Floats
    """(K,) mean predicted probability of each class."""
    prior: Floats
    """(K,) class prior estimated from the labels, see `naysay.estimation.class_prior`."""
    composition: Floats
    """(K, K) estimate of P(Y = l | f(X) = k) in row k; NaN if k is never predicted."""

    def __bool__(self) -> bool:
        return bool(self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            "findings": [{**asdict(each), "classes": list(each.classes)} for each in self.findings],
            "classes": list(self.classes),
            "predicted_shares": self.predicted_shares.tolist(),
            "mean_probs": self.mean_probs.tolist(),
            "prior": self.prior.tolist(),
        }

    def __str__(self) -> str:
        if not self.findings:
            return f"No collapsed class among {len(self.classes)}."
        return "\n".join(map(str, self.findings))


def find_collapsed_classes(
    probs: ArrayLike,
    comp_labels: ArrayLike,
    Q: TransitionMatrix | ArrayLike,
    *,
    Q_samples: ArrayLike | None = None,
    confidence: float = 0.95,
) -> CollapsedClasses:
    r"""Find classes that are dead, merged or swapped, from complementary labels alone.

    Among the examples predicted as k, the mean of Q⁻¹[ȳ, l] estimates the share of class l, and
    the mean over all examples estimates the class prior. The findings are

    - *dead*: a class predicted less than a fifth as often as it occurs; *merged*, if its examples
      make up over a fifth of the predictions of another class;
    - *merged*: two classes that each make up over a fifth of the predictions of the other;
    - *swapped*: each makes up over half of the predictions of the other; *misnamed*, if only one
      does;
    - *matrix*, as the only finding: shares that sum to over 100 %, so Q does not describe the
      labels.

    A share is significant if its lower confidence bound is above the limit, with Bonferroni's
    correction for all pairs. The bound allows for labels that are too rare to occur in a small
    group. With up to 30 classes, a more powerful test looks for classes that are hardly predicted:
    it compares the labels in the predictions of each other class with those expected if the class
    occurred at most five times as often as it is predicted, and the largest statistic with
    simulated ones. A third test adds the evidence of both directions for two classes that each seem
    to make up over a fifth of the predictions of the other. Each test has a third of the level, so
    the probability of any finding for a healthy model is at most 1 - `confidence`.

    If Q is badly conditioned (``Q.diagnose()``), many labels are needed to find anything; a
    singular Q, with which some classes have the same distribution of labels, is an error.

    The errors of an estimated Q look like confused classes. With `Q_samples`, a finding must be
    significant under nearly all of them.

    Parameters
    ----------
    probs : array of shape (n, n_classes)
        P(Y | x) from any model, for examples that it was not trained on.
    comp_labels : array of shape (n,)
        As indices, or as names if Q has names.
    Q : TransitionMatrix or array of shape (n_classes, n_classes)
    Q_samples : array of shape (n_samples, n_classes, n_classes), optional
        Samples of Q if it was estimated, such as ``transition_samples_`` of a classifier.
    confidence : float, default=0.95

    Examples
    --------
    >>> true = np.random.default_rng(0).integers(3, size=3000)
    >>> probs = np.eye(3)[np.where(true == 2, 0, true)]  # class 2 is predicted as class 0
    >>> Q = TransitionMatrix.uniform(3, classes=["cat", "dog", "owl"])
    >>> found = find_collapsed_classes(probs, Q.sample(true, seed=1), Q)
    >>> [(each.kind, each.classes) for each in found.findings]
    [('merged', ('owl', 'cat'))]
    """
    matrix = as_transition_matrix(Q)
    check_number(confidence, "confidence", above=0, below=1)
    inverse = invert(np.asarray(matrix))
    if inverse is None:
        raise InvalidTransitionMatrix(
            "Q must be invertible to find collapsed classes; this one is singular, so some classes "
            "give the same labels. See Q.diagnose()."
        )
    array = check_probabilities(probs, n_classes=matrix.n_classes, name="probs")
    labels = check_comp_labels(comp_labels, matrix, len(array), of="row of probs")
    predictions = np.empty(len(array), dtype=np.int64)
    total = np.zeros(matrix.n_classes)
    for rows in row_slices(*array.shape):
        predictions[rows] = array[rows].argmax(axis=1)
        total += array[rows].sum(axis=0, dtype=np.float64)
    counts = joint_counts(labels, predictions, matrix.n_classes)
    level = (1 - confidence) / 3  # of each of three tests
    z = float(ndtri(1 - level / matrix.n_classes**2))  # K classes, K (K - 1) pairs
    samples = None
    if Q_samples is not None:  # some of them, evenly spaced
        samples = check_samples(Q_samples, matrix.n_classes)
        n_chosen = min(_MOST_SAMPLES, len(samples))
        samples = samples[np.linspace(0, len(samples) - 1, n_chosen).astype(int)]
    composition, at_least = _class_shares(counts.T, inverse, z, samples)
    _, prior_at_least = _class_shares(counts.sum(axis=1)[None], inverse, z, samples)
    shares = counts.sum(axis=0) / len(array)
    findings = _findings(shares, prior_at_least[0], at_least, matrix.classes)
    if not any(each.kind == "matrix" for each in findings):
        given = (counts.T, np.asarray(matrix), level, matrix.classes, samples)
        lost = {each.classes[0] for each in findings}
        findings += [each for each in _lost_classes(*given) if each.classes[0] not in lost]
        pairs = [{*each.classes} for each in findings]
        mixed = _mixed_pairs(*given, composition)
        findings += [each for each in mixed if {*each.classes} not in pairs]
    return CollapsedClasses(
        findings=tuple(findings),
        classes=matrix.classes,
        predicted_shares=shares,
        mean_probs=total / len(array),
        prior=class_prior(labels, matrix),
        composition=composition,
    )


def _class_shares(
    counts: NDArray[np.int64], inverse: Floats, z: float, Q_samples: Floats | None
) -> tuple[Floats, Floats]:
    """Estimate the share of each class in groups with these label counts, and lower bounds.

    The last term of the bound, as in Bernstein's inequality, allows for the label that is the
    strongest evidence against a class: a small group may contain none, and then both mean and
    variance are misleading. In simulations a factor of one third is enough for the nominal
    confidence; one quarter is not, with a uniform Q.
    """
    sizes = counts.sum(axis=1, keepdims=True)
    at_least_one = np.maximum(sizes, 1)
    label_shares = counts / at_least_one
    means = label_shares @ inverse
    variances = np.maximum(label_shares @ inverse**2 - means**2, 0)
    missed = means - inverse.min(axis=0)
    variances /= at_least_one
    if Q_samples is not None:
        inverses = [each for each in map(invert, Q_samples) if each is not None]
        variances += np.square(label_shares @ np.array(inverses) - means).mean(axis=0)
    lower = means - z * np.sqrt(variances) - z**2 * missed / (3 * at_least_one)
    empty = sizes == 0
    return np.where(empty, np.nan, means), np.where(empty, 0.0, lower)


def _findings(
    shares: Floats, prior: Floats, composition: Floats, classes: tuple[str, ...]
) -> list[Finding]:
    """List the findings that lower bounds of the prior and of the composition support."""
    others = composition - np.diag(composition.diagonal())  # row k: predicted as k
    crowded = np.flatnonzero(np.maximum(others, 0).sum(axis=1) > 1 + _ROUNDING)
    if len(crowded) or np.maximum(prior, 0).sum() > 1 + _ROUNDING:
        names = tuple(classes[int(k)] for k in crowded[:1])
        whole = f"what is predicted as {names[0]!r}" if names else "these examples"
        text = (
            f"Q does not describe these labels: by it, {'other' if names else 'the'} classes would "
            f"make up more than 100 % of {whole}. {WHAT_TO_DO}"
        )
        return [Finding("matrix", names, text)]  # all other findings depend on Q
    dead = shares < _DEAD * prior
    found: list[Finding] = []
    for k in np.flatnonzero(dead).tolist():
        holder = int(others[:, k].argmax())
        names = (classes[k], classes[holder])
        text = (
            f"{names[0]!r} is predicted for {shares[k]:.1%} of the examples, but at least "
            f"{prior[k]:.1%} are of it: it is "
        )
        if others[holder, k] > _MERGED:
            text += (
                f"merged into {names[1]!r}, of whose predictions it makes up at least "
                f"{others[holder, k]:.0%}. {_ADVICE['lost']}"
            )
            found.append(Finding("merged", names, text))
        else:
            text += (
                "dead. Train again with another seed or a smaller learning rate, or give a few "
                "anchors of it."
            )
            found.append(Finding("dead", names[:1], text))
    for k, other in np.argwhere((others > _MERGED) & ~dead & ~dead[:, None]).tolist():
        pair, there, back = (classes[k], classes[other]), others[k, other], others[other, k]
        if there > _SWAPPED >= back:
            text = (
                f"{pair[0]!r} is misnamed: at least {there:.0%} of what is predicted as it is "
                f"{pair[1]!r}. {_ADVICE['swapped']}"
            )
            found.append(Finding("misnamed", pair, text))
        elif k < other and back > _MERGED and not back > _SWAPPED >= there:
            kind = "merged" if there <= _SWAPPED else "swapped"
            found.append(_mixed(kind, pair, f"at least {there:.0%}", back))
    return found


def _mixed(kind: str, pair: tuple[str, str], there: str, back: float) -> Finding:
    """Describe two classes of which each makes up a part of the predictions of the other."""
    text = (
        f"{pair[0]!r} and {pair[1]!r} are {kind}: {there} of what is predicted as {pair[0]!r} is "
        f"{pair[1]!r}, and {back:.0%} the other way round. {_ADVICE[kind]}"
    )
    return Finding(kind, pair, text)


def _lost_classes(
    counts: NDArray[np.int64],
    Q: Floats,
    level: float,
    classes: tuple[str, ...],
    Q_samples: Floats | None,
) -> list[Finding]:
    """Find classes that are hardly predicted, but occur in the predictions of another class.

    `counts` has the labels of what is predicted as each class in its rows. Which classes are
    hardly predicted does not depend on the labels, so there is no correction for the others.
    """
    n_classes, sizes = len(Q), counts.sum(axis=1)
    lost = np.flatnonzero(sizes < _DEAD * sizes.sum() / n_classes).tolist()
    if n_classes > _MAX_CLASSES:
        return []
    found: list[Finding] = []
    rng = np.random.default_rng(0)
    for k in lost:
        groups = np.flatnonzero(sizes > sizes[k] / _DEAD)
        limits = sizes[k] / (_DEAD * sizes[groups])  # shares of k that leave it alive
        fitted = [
            _excess(counts[each], Q, k, limit) for each, limit in zip(groups, limits, strict=True)
        ]
        statistics = [statistic for statistic, _ in fitted]
        if not statistics or max(statistics) < _LEAST_STATISTIC:
            continue
        at_most = level / len(lost) * (_N_SIMULATED + 1) - 1  # simulated ones that are larger
        n_larger = 0
        for _ in range(_N_SIMULATED):
            n_larger += any(
                _excess(rng.multinomial(sizes[each], expected), Q, k, limit)[0] >= max(statistics)
                for each, limit, (_, expected) in zip(groups, limits, fitted, strict=True)
            )
            if n_larger > at_most:
                break
        else:
            place = int(np.argmax(statistics))
            holder, limit = int(groups[place]), float(limits[place])
            if _is_robust([(holder, k)], counts, limit, Q_samples):
                text = (
                    f"{classes[k]!r} is predicted for {sizes[k] / sizes.sum():.1%} of the examples,"
                    f" but its labels are significant among those predicted as {classes[holder]!r}:"
                    f" it is merged into it. {_ADVICE['lost']}"
                )
                found.append(Finding("merged", (classes[k], classes[holder]), text))
    return found


def _mixed_pairs(
    counts: NDArray[np.int64],
    Q: Floats,
    level: float,
    classes: tuple[str, ...],
    Q_samples: Floats | None,
    composition: Floats,
) -> list[Finding]:
    """Find pairs of classes of which each makes up over a fifth of the predictions of the other.

    The statistics of both directions are added. If both shares are at the limit, each statistic is
    0 in half of all cases, and χ² with one degree of freedom in the other half. Half of the level
    is for all pairs, and half for those of classes of whose predictions fewer than three fifths
    seem right, which hardly depends on the labels that show the share of another class. With
    hundreds of classes, chance alone makes many pairs seem mixed, and only the clearest are tested.
    """
    n_classes, found = len(Q), list[Finding]()
    is_doubtful = composition.diagonal() < _DOUBTFUL
    n_pairs, n_doubtful = (n * (n - 1) / 2 for n in (n_classes, is_doubtful.sum()))
    seems_mixed = np.argwhere(np.triu(np.minimum(composition, composition.T) > _MERGED, 1))
    clear = np.minimum(composition, composition.T) * np.sqrt(counts.sum(axis=1))
    order = np.argsort(-np.minimum(clear, clear.T)[*seems_mixed.T], kind="stable")
    tested = seems_mixed[order[: max(10, int(1e10 / n_classes**3))]].tolist()
    for k, other in cast("list[tuple[int, int]]", tested):
        both = [(k, other), (other, k)]
        statistic = sum(_excess(counts[i], Q, j, _MERGED)[0] for i, j in both)
        p_value = chdtrc(1, statistic) / 2 + chdtrc(2, statistic) / 4
        share = 1 / n_pairs  # of the level
        if is_doubtful[[k, other]].all():
            share += 1 / n_doubtful
        is_significant = p_value < level / 2 * share
        if is_significant and _is_robust(both, counts, _MERGED, Q_samples):
            there, back = np.minimum((composition[k, other], composition[other, k]), 1)
            kind = "swapped" if (there + back) / 2 > _NEARLY_ALL else "merged"
            pair = (classes[k], classes[other])
            found.append(_mixed(kind, pair, f"about {there:.0%}", back))
    return found


def _is_robust(
    pairs: list[tuple[int, int]],
    counts: NDArray[np.int64],
    limit: float,
    Q_samples: Floats | None,
) -> bool:
    """Check that the statistics of these groups and classes are large under samples of Q too."""
    if Q_samples is None:
        return True
    statistics = [
        sum(_excess(counts[group], each, k, limit)[0] for group, k in pairs) for each in Q_samples
    ]
    return float(np.mean(np.array(statistics) > _LEAST_STATISTIC)) >= _NEARLY_ALL_SAMPLES


def _excess(counts: NDArray[np.int64], Q: Floats, k: int, limit: float) -> tuple[float, Floats]:
    """Test if the share of class k in a group is over a limit: χ² statistic, expected label shares.

    The statistic is the decrease of χ² if the share of k may be larger, with shares that are not
    negative; the variances are those expected under the null hypothesis.
    """
    n = counts.sum()
    others, fixed = np.delete(Q, k, axis=0), n * limit * Q[k]
    root = np.sqrt(counts + 1.0)
    shares, _ = nnls((others / root).T, (counts - fixed) / root)
    expected = np.maximum(fixed + shares @ others, 0.5)  # no variance is nearly zero
    root = np.sqrt(expected)
    _, null = nnls((others / root).T, (counts - fixed) / root)
    shares, free = nnls((Q / root).T, counts / root)
    statistic = null**2 - free**2 if shares[k] > n * limit else 0.0
    return float(statistic), expected / expected.sum()
