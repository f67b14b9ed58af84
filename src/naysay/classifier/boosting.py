"""Boosted trees learn from complementary labels: an objective for LightGBM and XGBoost."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from naysay._base.checks import as_real_numbers, check_number
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.transition import TransitionMatrix, as_transition_matrix
from naysay.transition.algebra import Floats, check_comp_labels


def forward_gradients(
    scores: ArrayLike,
    log_likelihoods: ArrayLike,
    sample_weight: ArrayLike | None = None,
    *,
    least_hessian: float = 1e-2,
) -> tuple[Floats, Floats]:
    r"""Compute the gradient and the Hessian of the forward loss of each example.

    .. math:: \partial_k = p_k - r_k, \qquad \partial_k^2 = p_k (1 - p_k) - r_k (1 - r_k)

    where p is the softmax of the scores and :math:`r_k ∝ L_k p_k` the posterior of the classes. The
    loss is not convex, so its second derivative may be negative; boosting needs a positive one.

    Parameters
    ----------
    scores : array of shape (n, n_classes)
    log_likelihoods : array of shape (n, n_classes)
        log L_k = log P(labels of the example | class k), as `naysay.observations.log_likelihoods`
        gives it; -inf where the labels exclude the class.
    sample_weight : array of shape (n,), optional
    least_hessian : float, default=0.01
        Smaller second derivatives are raised to this number, before they are weighted.

    Returns
    -------
    gradient, hessian : arrays of shape (n, n_classes)

    Examples
    --------
    >>> gradient, _ = forward_gradients([[0.0, 0.0, 0.0]], [[-np.inf, 0.0, 0.0]])
    >>> gradient.round(3)  # the first class is excluded
    array([[ 0.333, -0.167, -0.167]])
    """
    values, evidence = _check_evidence(scores, log_likelihoods)
    p, r = softmax(values, axis=1), softmax(values + evidence, axis=1)
    gradient, hessian = p - r, p * (1 - p) - r * (1 - r)
    hessian = np.maximum(hessian, check_number(least_hessian, "least_hessian", above=0))
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)[:, None]
        gradient, hessian = gradient * weight, hessian * weight
    return gradient, hessian


class BoostingObjective:
    """Objective of LightGBM and XGBoost for complementary labels: the forward loss.

    It is passed as ``objective=`` to the classifiers of both libraries, as
    ``params={"objective": …}`` to ``lightgbm.train``, and as ``obj=`` to ``xgboost.train``. The
    labels of the training data are complementary labels 0..n_classes-1; weights are used if there
    are any. Both libraries then predict scores, whose softmax are the probabilities of the true
    classes.

    Parameters
    ----------
    transition : TransitionMatrix or array of shape (n_classes, n_classes), optional
        Probability of each label (column) given the true class (row). A non-zero diagonal allows
        for mistakes.
    log_likelihoods : array of shape (n, n_classes), optional
        In place of `transition`, for several labels per example, annotators with matrices of their
        own, or anchors: log P(what is known about an example | class) for each row of the training
        data. The labels of the training data are not used then.
    least_hessian : float, default=0.01
        As for `forward_gradients`.

    Examples
    --------
    >>> objective = BoostingObjective(TransitionMatrix.uniform(3))
    >>> gradient, hessian = objective([0, 1], np.zeros((2, 3)))  # y_true, y_pred
    >>> gradient.round(3)
    array([[ 0.333, -0.167, -0.167],
           [-0.167,  0.333, -0.167]])
    """

    def __init__(
        self,
        transition: TransitionMatrix | ArrayLike | None = None,
        *,
        log_likelihoods: ArrayLike | None = None,
        least_hessian: float = 1e-2,
    ) -> None:
        if (transition is None) == (log_likelihoods is None):
            raise InvalidInput("Pass either transition or log_likelihoods.")
        self.transition = None if transition is None else as_transition_matrix(transition)
        self.log_likelihoods = log_likelihoods
        self.least_hessian = check_number(least_hessian, "least_hessian", above=0)

    def __call__(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> tuple[Floats, Floats]:
        """Compute gradient and Hessian, given labels and scores, or scores and a data set."""
        labels, scores = y_true, y_pred
        if hasattr(y_pred, "get_label"):  # called by the train function of a library
            scores, labels, sample_weight = y_true, y_pred.get_label(), y_pred.get_weight()
        if sample_weight is not None and not np.size(sample_weight):
            sample_weight = None  # XGBoost has an empty array for no weights
        evidence = self.log_likelihoods
        if evidence is None:
            evidence = self._of_labels(labels)
        return forward_gradients(scores, evidence, sample_weight, least_hessian=self.least_hessian)

    def loss(self, scores: ArrayLike, labels: ArrayLike) -> float:
        """Compute the mean forward loss of complementary labels, to stop early by.

        The scores are those that the library passes to a metric, or predicts; labels are indices.
        """
        if self.transition is None:
            raise InvalidInput("loss needs labels with a transition matrix. Pass transition=.")
        values, evidence = _check_evidence(scores, self._of_labels(labels))
        shares = np.logaddexp.reduce(values + evidence, axis=1)
        losses: Floats = np.logaddexp.reduce(values, axis=1) - shares
        return float(losses.mean())

    def _of_labels(self, labels: ArrayLike) -> Floats:
        assert self.transition is not None
        given = np.asarray(labels)
        if given.dtype.kind == "f" and (given == np.round(given)).all():
            given = given.astype(np.int64)  # the libraries store labels as floats
        indices = check_comp_labels(given, self.transition)
        with np.errstate(divide="ignore"):
            return np.log(np.asarray(self.transition).T[indices])


def _check_evidence(scores: ArrayLike, log_likelihoods: ArrayLike) -> tuple[Floats, Floats]:
    """Check scores and log-likelihoods, which must have the same shape."""
    rule = "scores must be numbers of shape (n, n_classes)"
    values = as_real_numbers(scores, rule, InvalidInput).astype(np.float64)
    evidence: NDArray[np.float64] = np.asarray(log_likelihoods, dtype=np.float64)
    if values.ndim != 2 or values.shape != evidence.shape:
        raise InvalidInput(
            f"{rule}, as log_likelihoods have. Got shapes {values.shape} and {evidence.shape}."
        )
    largest = evidence.max(axis=1, initial=-np.inf)
    if not np.isfinite(largest).all():
        first = int(np.flatnonzero(~np.isfinite(largest))[0])
        raise InvalidLabels(
            "Labels must be possible for some class. Those of example "
            f"{first} are not: {evidence[first].tolist()}. Use a matrix with a non-zero diagonal, "
            "which allows for mistakes."
        )
    return values, evidence
