"""ComplementaryWrapper: any scikit-learn classifier learns from complementary labels."""

# X and Q are variables, although they are in upper case
# pyright: reportConstantRedefinition=false

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.validation import (
    _num_samples,  # pyright: ignore[reportPrivateUsage] - of data frames too
    assert_all_finite,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from naysay._base.checks import check_count, check_number
from naysay._base.errors import InvalidInput, NaysayWarning
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.base import ComplementaryEstimator, accuracy_at_anchors
from naysay.classifier.em import (
    Fitted,
    Rounds,
    cross_predict,
    fit_weighted,
    name_of_weights,
    run_rounds,
    start_from_neighbours,
    weigh_classes,
)
from naysay.classifier.inputs import (
    check_anchor_pair,
    check_transition,
    gather_anchors,
    is_ruled_out,
    read_labels,
    read_weights,
    refuse_anchors_in_pipeline,
    warn_if_unlike,
)
from naysay.classifier.learner import find_likelihood, least_right
from naysay.classifier.pooling import Evidence, Floats, HeldOutCalibration
from naysay.classifier.targets import find_prior
from naysay.classifier.transition_estimate import calibrated, estimate_from_predictions
from naysay.observations import Observations
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions


@dataclass(eq=False, repr=False)  # scikit-learn has its own comparison and text
class ComplementaryWrapper(MetaEstimatorMixin, ComplementaryEstimator):
    """Learn from complementary labels with any scikit-learn classifier, by an EM algorithm.

    Each round fits the classifier on rows with weights, one for each example i and class k that
    its labels allow: ``w_ik ∝ Q[k, ȳ_i] p_k(x_i)``. The probabilities p are predicted out of fold,
    by classifiers that were not fitted on the example, at the temperature at which the
    complementary labels are most likely. The first ones come from the labels of neighbours. The
    round under whose predictions the labels are most likely is the result.

    Parameters
    ----------
    estimator : classifier with `predict_proba`
        It may be a ``Pipeline``. Its `fit` should accept ``sample_weight``, or in a pipeline that
        of the last step. For a classifier that takes no weights, each example is repeated five
        times, with classes in proportion to the weights.
    transition : {"uniform", "estimate"}, TransitionMatrix, array or dict, default="uniform"
        Transition matrix of the complementary labels, as for `ComplementaryClassifier`.
        ``"estimate"`` estimates it from anchors, examples whose true class is known. A dict has a
        matrix for each annotator by name.
    classes : sequence, optional
        All classes, by default those of the matrix, or those that occur among the labels.
    max_rounds : int, default=20
    patience : int, default=3
        Number of rounds that do not make the labels more likely after which fitting stops.
    cv : int, default=3
        Number of folds of the out-of-fold predictions; each round fits the classifier this often.
    mistakes : float, default=0.01
        Share of labels that exclude the true class by mistake which fitting allows for, at least.
        `transition_` does not change.
    allow_diagonal : bool, default=False
        Whether ``transition="estimate"`` allows for annotators who exclude the true class by
        mistake, and estimates how often they do.
    n_jobs : int, optional
        Number of folds that are fitted at the same time, as in scikit-learn.
    random_state : int, RandomState or None, default=None
        Draws the folds. An integer is also the `random_state` of the classifier where that is None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    estimator_ : classifier
        The fitted classifier. Its classes are positions in `classes_`.
    temperature_ : float
        The logarithms of its predictions are divided by this number in `predict_proba`, which mixes
        in 1 to 30 % of equal probabilities: classifiers that were fitted on uncertain classes are
        underconfident.
    transition_ : TransitionMatrix
        The matrix that was assumed, given or estimated; the common one, or the mean weighted by
        the number of answers, where each annotator has a matrix.
    transitions_ : dict
        The matrix of each annotator by name; empty if there is one for all.
    transition_estimate_ : TransitionEstimate or None
        With ``transition="estimate"``, the estimate, as for `ComplementaryClassifier`.
    transition_samples_ : ndarray of shape (n_samples, n_classes, n_classes) or None
        With ``transition="estimate"``, plausible matrices.
    accuracy_ : naysay.metrics.Estimate or None
        With ``transition="estimate"`` and at least 10 random anchors, the accuracy on new examples,
        as for `ComplementaryClassifier`.
    history_ : list of dict
        One record per round: ``round``, ``log_likelihood`` (mean log-likelihood of the labels under
        out-of-fold predictions, up to a constant), ``temperature`` and ``seconds``.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X was a table with column names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> not_y = TransitionMatrix.uniform(3).sample(y, seed=0)  # "this one is not a 2"
    >>> clf = ComplementaryWrapper(LogisticRegression(max_iter=1000), random_state=0)
    >>> bool((clf.fit(X, not_y).predict(X) == y).mean() > 0.9)
    True
    """

    estimator: Any
    _: KW_ONLY
    transition: str | TransitionMatrix | Mapping[str, TransitionMatrix] | ArrayLike = "uniform"
    classes: Sequence[Any] | None = None
    max_rounds: int = 20
    patience: int = 3
    cv: int = 3
    mistakes: float = 0.01
    allow_diagonal: bool = False
    n_jobs: int | None = None
    random_state: Any = None

    estimator_: Any = field(init=False)
    temperature_: float = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = copy.deepcopy(get_tags(self.estimator).input_tags)
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        anchors: tuple[Any, Any] | None = None,
        true_labels: Any = None,
        anchors_are: str = "random",
        sample_weight: Any = None,
    ) -> Self:
        """Learn from complementary labels.

        Parameters
        ----------
        X : array, sparse matrix, DataFrame or list of length n
            Examples in any form that the classifier accepts.
        y : array of shape (n,), boolean matrix of shape (n, n_classes), or Observations
            Complementary labels, as in `ComplementaryClassifier.fit`.
        anchors : pair (X_anchor, y_anchor), optional
            Examples with their true classes, in the same form as X. The classifier learns from
            them, and ``transition="estimate"`` needs them, 5 or 10 of each class. A ``Pipeline``
            does not transform them: there they are refused, pass `true_labels`.
        true_labels : array of shape (n,), optional
            True classes of the examples of X where they are known, and NaN, None or -1 elsewhere.
            These examples are anchors too.
        anchors_are : {"random", "picked"}, default="random"
            Whether the examples with known classes are a random sample, of all examples or of each
            class, or were picked. Only a random sample shows the accuracy on other examples.
        sample_weight : array of shape (n,), optional
            Weight of each example in the fits of the classifier, which must accept weights, and in
            the likelihood that compares rounds. Anchors that are not among X have the mean weight.
            Estimates of the matrix and of the accuracy count examples of a weight above 0 equally.
        """
        refuse_anchors_in_pipeline(anchors)
        max_rounds = check_count(self.max_rounds, "max_rounds")
        patience = check_count(self.patience, "patience")
        n_folds = check_count(self.cv, "cv", least=2)
        if self.mistakes != 0:
            check_number(self.mistakes, "mistakes", above=0, below=0.5)
        if not hasattr(self.estimator, "predict_proba"):
            raise InvalidInput(
                f"estimator must have predict_proba. Got {self.estimator!r}. A classifier without "
                "it can be calibrated: sklearn.calibration.CalibratedClassifierCV(estimator)."
            )
        (X,) = indexable(X)
        labels, given = self._read_examples(X, y)
        if labels.n_examples < n_folds:
            raise InvalidInput(
                f"X must have at least cv={n_folds} examples. Got {labels.n_examples} sample."
            )
        weights = read_weights(sample_weight, X, labels)
        joined, anchored, unlike = self._join_anchors(X, anchors, true_labels, anchors_are)
        weight_of_row = None
        if weights is not None:
            if name_of_weights(self.estimator) is None:
                raise InvalidInput(
                    "sample_weight needs a classifier whose fit accepts it. "
                    f"Got {self.estimator!r}."
                )
            labels = labels.select(weights[labels.example] > 0)
            n_added = _num_samples(joined) - len(weights)  # anchors, which get the mean weight
            weight_of_row = np.append(weights, np.full(n_added, weights.mean()))
        random = check_random_state(self.random_state)
        rng = np.random.default_rng(random.randint(2**31 - 1))
        estimator = clone(self.estimator)
        if self.random_state is not None:
            _seed(estimator, int(rng.integers(2**31 - 1)))
        em = _EM(
            estimator,
            joined,
            replace(labels, n_examples=_num_samples(joined)),
            anchored,
            fold=rng.permutation(_num_samples(joined)) % n_folds,
            seed=int(rng.integers(2**31 - 1)),
            mistakes=self.mistakes,
            weight=weight_of_row,
            options={"max_rounds": max_rounds, "patience": patience, "n_jobs": self.n_jobs},
        )
        transitions, start = self._find_transitions(given, em, labels)
        best = em.run(transitions, start)
        fitted = em.fit(transitions, best)
        self.estimator_, self._positions = fitted
        self.temperature_, self._share = best.calibration.temperature, best.calibration.share
        self.history_, self.accuracy_ = best.history, None
        rows = np.arange(labels.n_examples)
        classes = best.probs[rows].argmax(axis=1)
        found_warnings = unlike + self._test_matrix(labels, weights, rows, classes)
        if self.transition_estimate_ is not None and anchored is not None:
            found_warnings += self.transition_estimate_.warnings
            scored = self.transition_estimate_._replace(
                predictions=best.probs[: labels.n_examples],
                at_anchors=em.predict_anchors(transitions, best) if anchored.are_random else None,
            )
            self.accuracy_ = accuracy_at_anchors(scored, labels, anchored, n_folds=n_folds)
        for message in found_warnings:
            warnings.warn(message, NaysayWarning, stacklevel=2)
        return self

    def _read_examples(self, X: Any, y: Any) -> tuple[Observations, Transitions | None]:
        """Turn labels into indices, and align the matrix with the classes; X is not checked."""
        given = check_transition(self.transition)
        if isinstance(y, Observations) or is_ruled_out(y):
            validate_data(self, X, skip_check_array=True)
        else:
            validate_data(self, X, y, skip_check_array=True)
            y = column_or_1d(y, warn=True)
            assert_all_finite(y, input_name="y")
        labels, self.classes_, given = read_labels(
            y, _num_samples(X), self.classes, given, is_estimated=self._is_estimated
        )
        return labels, given

    def _join_anchors(
        self, X: Any, anchors: Any, true_labels: Any, anchors_are: str
    ) -> tuple[Any, Anchors | None, tuple[str, ...]]:
        """Append anchors that are not among the examples to X; there may also be a warning."""
        n_examples, unlike, pair = _num_samples(X), (), None
        if anchors is not None:
            X_anchor, y_anchor = check_anchor_pair(anchors)
            (X_anchor,) = indexable(X_anchor)
            validate_data(self, X_anchor, reset=False, skip_check_array=True)
            if all(map(_has_numbers, (X, X_anchor))):
                unlike = warn_if_unlike(X, X_anchor, len(self.classes_))
            X = _join(X, X_anchor)
            pair = np.zeros((_num_samples(X_anchor), 0)), y_anchor
        # classes and rows are all that is needed of the anchors, so they are read without features
        found = gather_anchors(
            np.zeros((n_examples, 0)),
            pair,
            true_labels,
            anchors_are,
            self.classes_,
            are_needed=self._is_estimated,
        )
        return X, found, unlike

    def _find_transitions(
        self, given: Transitions | None, em: "_EM", labels: Observations
    ) -> tuple[Transitions, Floats | None]:
        """Use the matrix given or the uniform one, or estimate it; set the fitted attributes.

        The second value is what an estimate predicted, to start from.
        """
        names, estimate, start = list(map(str, self.classes_)), None, None
        if self._is_estimated and em.anchors is not None and len(labels.comp_labels.label):
            estimate = estimate_from_predictions(
                em.predict_labels_at_anchors(len(names)),
                em.cross_fit,
                labels.comp_labels,
                em.anchors,
                names,
                refining=True,
                allow_diagonal=bool(self.allow_diagonal),
                by_annotator=True,
                resampling=False,
                seed=em.seed,
            )
            if estimate.predictions is not None:
                start = np.full((len(em.fold), len(names)), 1 / len(names))
                start[: labels.n_examples] = estimate.predictions
        return self._set_transitions(given, estimate, labels), start

    def predict_log_proba(self, X: Any) -> Floats:
        """Predict log P(Y | x)."""
        check_is_fitted(self)
        fitted = Fitted(self.estimator_, self._positions)
        calibration = HeldOutCalibration(np.zeros(0), self.temperature_, self._share)
        return np.log(calibration.calibrate(fitted.predict(X, len(self.classes_))))


@dataclass(frozen=True)
class _EM:
    """A classifier, examples and anchors in one X, and the evidence about them."""

    estimator: Any
    X: Any
    answers: Observations
    anchors: Anchors | None
    fold: NDArray[np.int64]
    seed: int
    mistakes: float
    weight: Floats | None  # of each row
    options: dict[str, Any]

    @property
    def at_anchors(self) -> NDArray[np.int64]:
        """Rows of the anchors. Those that are not examples are the last rows, in order."""
        if self.anchors is None:
            return np.zeros(0, dtype=np.int64)
        is_added = self.anchors.row < 0
        added = len(self.fold) - is_added.sum() + np.cumsum(is_added) - 1
        return np.where(is_added, added, self.anchors.row)

    def evidence(self, transitions: Transitions, *, hidden: int = -1) -> Evidence:
        """Compute the likelihood of what is known about each example, given its class.

        True classes in the fold `hidden` are not used.
        """
        likelihood = find_likelihood(self.answers, transitions, self.mistakes)
        if self.anchors is not None:
            rows = self.at_anchors
            used = self.fold[rows] != hidden
            likelihood[rows[used]] = np.eye(likelihood.shape[1])[self.anchors.y[used]]
        X = np.zeros((len(likelihood), 0), dtype=np.float32)  # scoring predictions needs no X
        return Evidence(X, likelihood, self.fold, self.seed, self.weight)

    def run(
        self,
        transitions: Transitions,
        start: Floats | None = None,
        *,
        hidden: int = -1,
        **options: Any,
    ) -> Rounds:
        """Run the rounds, by default from labels pooled over neighbours."""
        evidence = self.evidence(transitions, hidden=hidden)
        if start is None:
            prior = None
            if isinstance(transitions, TransitionMatrix):
                prior = find_prior(self.answers, transitions, None)
            start = start_from_neighbours(self.X, evidence, prior)
        return run_rounds(self.estimator, self.X, evidence, start, **self.options | options)

    def predict_anchors(self, transitions: Transitions, best: Rounds) -> Floats:
        """Predict the true classes of anchors from rounds in which they were not known.

        Out-of-fold predictions alone would be too good: an earlier round predicted the neighbours
        of an anchor by classifiers that were fitted on it.
        """
        rows = self.at_anchors
        probs = np.empty((len(rows), best.probs.shape[1]))
        for fold in np.unique(self.fold[rows]).tolist():
            found = self.run(transitions, hidden=fold, max_rounds=best.number)
            is_hidden = self.fold[rows] == fold
            probs[is_hidden] = found.probs[rows[is_hidden]]
        return probs

    def fit(self, transitions: Transitions, best: Rounds) -> Fitted:
        """Fit the classifier on all examples, with the weights that the best round led to."""
        weights = weigh_classes(best.probs, self.evidence(transitions).likelihood)
        return fit_weighted(self.estimator, self.X, weights, self.weight)

    def predict_labels_at_anchors(self, n_classes: int) -> Floats:
        """Predict complementary labels at the anchors, by classifiers that have not seen theirs."""
        answers = self.answers.comp_labels
        counts = np.zeros((len(self.fold), n_classes))
        np.add.at(counts, (answers.example, answers.label), 1)
        predicted = cross_predict(self.estimator, self.X, counts, self.fold, self.options["n_jobs"])
        scores = np.log(0.99 * predicted + 0.01 / n_classes)
        held_out = scores[answers.example], answers.label
        return calibrated(scores[self.at_anchors], held_out)

    def cross_fit(
        self, Q: TransitionMatrix, Q_samples: Floats | None, *, name: str
    ) -> tuple[Floats, Floats, bool]:
        """Predict P(Y | x) out of fold, for the examples and for the anchors, if Q is right."""
        assert self.anchors is not None
        probs = self.run(Q).probs
        at_anchors = probs[self.at_anchors]
        right = (at_anchors.argmax(axis=1) == self.anchors.y).mean()
        n_examples = len(probs) - (self.anchors.row < 0).sum()
        return probs[:n_examples], at_anchors, float(right) > least_right(probs.shape[1])


def _has_numbers(X: Any) -> bool:
    return isinstance(X, np.ndarray) and cast("NDArray[Any]", X).dtype.kind in "fiu"


def _join(X: Any, other: Any) -> Any:
    """Append the rows of one array, sparse matrix, DataFrame or list to another."""
    if sparse.issparse(X) or sparse.issparse(other):
        return sparse.vstack([X, other], format="csr")
    if hasattr(X, "iloc"):
        import pandas as pd  # only those who have it pass its tables

        return pd.concat([X, other], ignore_index=True)
    if hasattr(X, "vstack"):  # polars
        return X.vstack(other)
    return [*X, *other] if isinstance(X, list) else np.concatenate([X, other])


def _seed(estimator: Any, seed: int) -> None:
    """Set every random_state of a classifier and its parts that is None."""
    unset = [
        name
        for name, value in estimator.get_params().items()
        if value is None and name.split("__")[-1] == "random_state"
    ]
    estimator.set_params(**dict.fromkeys(unset, seed))
