"""What both classifiers share: a transition matrix, predictions, a score and an accuracy."""

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from naysay._base.errors import NaysayWarning
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.inputs import read_labels
from naysay.classifier.targets import find_prior
from naysay.classifier.transition_estimate import TransitionEstimate
from naysay.estimation import MistakeRate
from naysay.metrics import Estimate
from naysay.metrics.few_labels import (
    class_weights,
    drawn_within_classes,
    estimate_improvement,
    few_labels_estimate,
)
from naysay.observations import Observations, log_likelihoods
from naysay.quality.goodness_of_fit import check_by_all_labels
from naysay.transition import TransitionMatrix
from naysay.transition.alignment import Transitions, pool

_LEAST_SHARE = 1e-3  # of a class that has anchors
_AVOIDED = (0.04, 0.04)  # share of errors that the last fifth of the data avoids, and its deviation
_FEWEST_RANDOM_ANCHORS = 10  # with fewer, the interval of the accuracy spans most of 0 to 100 %
_MOST_SIMULATED = 30  # classes; with more, simulated labels take seconds
_FEWEST_AGREEING = 20  # labels that are the predicted class; fewer do not justify a warning
_LEAST_MISTAKES = 0.01  # of answers to suggestions
_TEMPERATURES = tuple(2 ** (step / 2) for step in range(-2, 11))  # from 0.5 to 32


class ComplementaryEstimator(ClassifierMixin, BaseEstimator):
    """Base class of classifiers that learn from complementary labels."""

    transition: Any
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    classes_: NDArray[Any]
    transition_: TransitionMatrix
    transitions_: dict[str, TransitionMatrix]
    transition_estimate_: TransitionEstimate | None = None
    transition_samples_: NDArray[Any] | None = None
    mistake_rate_: MistakeRate | None = None
    accuracy_: Estimate | None = None
    history_: list[dict[str, float]]

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
        log_probs = self.predict_log_proba(X)
        has_annotators = isinstance(y, Observations) and y.annotator is not None
        transitions = (has_annotators and self.transitions_) or self.transition_
        answers, _, _ = read_labels(y, len(log_probs), self.classes_.tolist(), transitions)
        labels = answers.comp_labels
        agrees = labels.label == log_probs.argmax(axis=1)[labels.example]
        largest = np.bincount(labels.label).max(initial=0) / max(1, len(agrees))
        if agrees.sum() >= _FEWEST_AGREEING and agrees.mean() > largest + 0.2:
            warnings.warn(
                "y must be complementary labels, classes that examples do NOT belong to, but "
                f"{agrees.mean():.0%} of these are the predicted classes. If they are true "
                "classes, compute sklearn.metrics.accuracy_score(y, clf.predict(X)).",
                NaysayWarning,
                stacklevel=2,
            )
        # As in training: answers to suggestions that contradict each other, or a confident model,
        # would otherwise dominate.
        answers = replace(answers, mistakes=np.maximum(answers.mistakes, _LEAST_MISTAKES))
        evidence = log_likelihoods(answers, transitions)

        def at(temperature: float) -> float:
            scaled = log_probs / temperature
            total = np.logaddexp.reduce(scaled, axis=1)
            return float((np.logaddexp.reduce(scaled + evidence, axis=1) - total).mean())

        return max(map(at, _TEMPERATURES))

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
        """Return a warning if labels clearly refute the matrix.

        `classes` are predicted for the examples `rows` without their labels. Several labels of one
        example may have been drawn in a way that excludes each other, so these are left out. An
        estimated matrix is refuted by more than the doubt about it.
        """
        labels = labels.comp_labels
        is_alone = np.bincount(labels.example, minlength=labels.n_examples) == 1
        if weights is not None:
            is_alone &= weights > 0
        labels = labels.select(is_alone[labels.example])
        estimate, samples = self.transition_estimate_, self.transition_samples_
        is_large = len(self.classes_) > _MOST_SIMULATED
        if not len(labels.label) or (estimate is not None and (samples is None or is_large)):
            return ()
        predicted = np.full(labels.n_examples, -1)
        predicted[rows] = classes
        found = check_by_all_labels(
            labels.label,
            self.transition_,
            predicted[labels.example],
            Q_samples=samples,
            **({"n_simulated": 0} if is_large else {}),
        )
        if not found.clearly_refuted:
            return ()
        return (
            f"{found.reason}. Figures that rest on this matrix are wrong. Estimate it from "
            f"{'a few' if estimate is None else 'more'} true labels (transition='estimate'), and "
            "make sure that y are classes which examples do NOT belong to.",
        )

    def _set_transitions(
        self, given: Transitions | None, estimate: TransitionEstimate | None, labels: Observations
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


def accuracy_at_anchors(
    estimate: TransitionEstimate,
    labels: Observations,
    anchors: Anchors,
    held_out: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None,
    *,
    n_folds: int = 5,
) -> Estimate | None:
    """Estimate the accuracy from anchors that the networks of cross-fitting have not seen.

    The classifier was trained on all examples and all anchors, so it should be better than these
    networks. The difference is estimated on `held_out`, the numbers of examples that it was not
    trained on and its predictions for them. Without these, the predictions come from folds, and a
    share of the errors is assumed to be avoided by the last fold of the data. With five folds this
    is between 0, if more data do not help, and 10 %, if errors fall with the square root of the
    number of examples. Anchors that were drawn within each class are weighted by the class shares.
    """
    probs, at_anchors, Q = estimate.predictions, estimate.at_anchors, estimate.transition
    if probs is None or at_anchors is None:
        return None
    usable = ~np.isnan(at_anchors[:, 0])
    at_anchors, true = at_anchors[usable], anchors.y[usable]
    # An example that is there several times counts once, with the sum of the weights.
    _, one, group = np.unique(anchors.first[usable], return_index=True, return_inverse=True)
    if len(one) < _FEWEST_RANDOM_ANCHORS:
        return None
    predicted_at_anchors = at_anchors.argmax(axis=1)
    correct = (predicted_at_anchors == true).astype(np.float64)
    # The shares of classes, by the labels and by the predictions. Models that predict a class too
    # often are also right about more of its anchors, so that their shares make the accuracy too
    # high. Labels alone show the shares of many classes far less precisely. The more predictions
    # are wrong, the less their shares count.
    by_predictions = by_labels = probs.mean(axis=0)
    if len(labels.comp_labels.label):
        samples = estimate.uncertainty.samples if estimate.uncertainty else None
        found = find_prior(labels, Q, samples)
        by_labels = np.full(Q.n_classes, 1 / Q.n_classes) if found is None else found
    shares = by_labels
    if held_out is None:
        shares = by_labels + correct.mean() * (by_predictions - by_labels)
    (weights, strata), (low, _), (high, _) = (
        class_weights(true, np.maximum(each, _LEAST_SHARE))
        for each in (shares, by_labels, by_predictions)
    )
    weights_error = abs(float((high - low) @ correct)) / 2
    shares_predicted = np.bincount(probs.argmax(axis=1), minlength=Q.n_classes) / len(probs)
    if not drawn_within_classes(true, predicted_at_anchors, shares_predicted):
        (weights, strata), weights_error = class_weights(true, None), 0.0
    shift = shift_error = 0.0
    if held_out is None:
        fifths = np.log(1 - 1 / n_folds) / np.log(1 - 1 / 5)  # errors are a power of the number
        avoided = 1 - (1 - np.array(_AVOIDED)) ** fifths
        shift, shift_error = (1 - float(weights @ correct)) * avoided
    else:
        rows, predicted = held_out
        known = np.arange(labels.n_examples) if estimate.examples is None else estimate.examples
        place, before = np.full((2, labels.n_examples), -1)
        place[rows], before[known] = np.arange(len(rows)), np.arange(len(known))
        answers = labels.select((np.minimum(place, before) >= 0)[labels.example])
        if len(answers.label):
            likelihoods = np.asarray(Q).T[answers.label]
            if not answers.are_labels:
                single = replace(answers, example=np.arange(len(answers.label)), n_examples=-1)
                likelihoods = np.exp(log_likelihoods(single, Q))
            example = answers.example
            shift, shift_error = estimate_improvement(
                predicted[place[example]], probs[before[example]], likelihoods
            )
    return few_labels_estimate(
        correct[one],
        np.bincount(group, weights=weights).astype(np.float64, copy=False),
        strata[one],
        at_anchors.max(axis=1)[one],
        probs.max(axis=1),
        shift=shift,
        shift_error=shift_error,
        weights_error=weights_error,
    )
