"""The base class of both classifiers: a transition matrix, predictions and a score."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from naysay._base.errors import NaysayWarning
from naysay.classifier.scoring import score_labels
from naysay.classifier.transition_estimate import TransitionEstimate
from naysay.estimation import MistakeRate
from naysay.observations import Observations
from naysay.quality.goodness_of_fit import check_by_all_labels
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, pool


class ComplementaryEstimator(ClassifierMixin, BaseEstimator):
    """Base class of classifiers that learn from complementary labels."""

    transition: Any
    classes_: NDArray[Any]
    transition_: TransitionMatrix
    transitions_: dict[str, TransitionMatrix]
    transition_estimate_: TransitionEstimate | None = None
    transition_samples_: NDArray[Any] | None = None
    mistake_rate_: MistakeRate | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # it learns to avoid the y it is given
        return tags

    @abstractmethod
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict log P(Y | x), which is exact even where the probability underflows."""

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Predict P(Y | x), shape (n, n_classes), with columns in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the true class of each example."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: Any, y: Any) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Compute the mean log-likelihood of complementary labels; greater is better.

        This ranks classifiers without true labels, so that ``GridSearchCV`` and
        ``cross_val_score`` need no ``scoring``. The likelihood is that at the best temperature of
        the predictions, because overconfidence changes no prediction. It is not an accuracy: if
        true classes are known, ``sklearn.metrics.accuracy_score(y_true, clf.predict(X))`` is.

        Parameters
        ----------
        X : as in `fit`
        y : array, boolean matrix or Observations, as in `fit`
            Complementary labels of the examples. A warning is issued if they look like true
            classes.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.model_selection import GridSearchCV, KFold
        >>> from naysay import ComplementaryClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> not_y = TransitionMatrix.uniform(3).sample(y, seed=0)
        >>> clf = ComplementaryClassifier(learner="network", epochs=20, random_state=0)
        >>> folds = KFold(2, shuffle=True, random_state=0)  # iris is sorted by class
        >>> GridSearchCV(clf, {"lr": [1e-6, 1e-2]}, cv=folds).fit(X, not_y).best_params_
        {'lr': 0.01}
        """
        found, warning = score_labels(
            self.predict_log_proba(X), y, self.classes_, self.transition_, self.transitions_
        )
        if warning is not None:
            warnings.warn(warning, NaysayWarning, stacklevel=2)
        return found

    @property
    def _is_estimated(self) -> bool:
        """Whether the matrix is to be estimated."""
        return isinstance(self.transition, str) and self.transition == "estimate"

    def _test_matrix(
        self,
        labels: Observations,
        weights: NDArray[Any] | None,
        rows: NDArray[np.int64],
        classes: NDArray[np.int64],
    ) -> tuple[str, ...]:
        """Return a warning if labels clearly refute a matrix that was not estimated from them.

        `classes` are predicted for the examples `rows` without their labels. Several labels of one
        example may have been drawn in a way that excludes each other, so these are left out.
        """
        labels = labels.comp_labels
        is_alone = np.bincount(labels.example, minlength=labels.n_examples) == 1
        if weights is not None:
            is_alone &= weights > 0
        labels = labels.select(is_alone[labels.example])
        if self.transition_estimate_ is not None or not len(labels.label):
            return ()
        predicted = np.full(labels.n_examples, -1)
        predicted[rows] = classes
        found = check_by_all_labels(
            labels.label, self.transition_, predicted[labels.example], n_simulated=0
        )
        if not found.clearly_refuted:
            return ()
        return (
            f"{found.reason}. Figures that rest on this matrix are wrong. Estimate it from a few "
            "true labels (transition='estimate'), and make sure that y are classes which examples "
            "do NOT belong to.",
        )

    def _set_transitions(
        self,
        given: Transitions | None,
        estimate: TransitionEstimate | None,
        labels: Observations,
    ) -> Transitions:
        """Use the matrix given, else the estimate, else the uniform one; set the attributes."""
        names = list(map(str, self.classes_))
        if given is not None:
            transitions = given
        elif estimate is not None:
            transitions = estimate.by_annotator or estimate.transition
        else:
            transitions = TransitionMatrix.uniform(len(names), classes=names)
        known = estimate.uncertainty if estimate else None
        self.transition_estimate_ = estimate
        self.transition_samples_ = known.samples if known else None
        self.mistake_rate_ = estimate.mistakes if estimate else None
        self.transition_ = estimate.transition if estimate else pool(labels.annotator, transitions)
        self.transitions_ = dict(transitions) if isinstance(transitions, Mapping) else {}
        return transitions
