"""EM around a classifier: pooling of labels, calibration and weighted rows."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from naysay import TransitionMatrix
from naysay.classifier import em


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, n_features=4, centers=5, cluster_std=1.0, random_state=0)
    Q = TransitionMatrix.uniform(5)
    with np.errstate(divide="ignore"):
        return X, y, np.log(np.asarray(Q).T[Q.sample(y, seed=0)])


def test_labels_of_neighbours_reveal_classes_whatever_the_scale_of_a_column(blobs):
    X, y, evidence = blobs
    noise = np.random.default_rng(0).normal(scale=1e4, size=(len(X), 1))
    for inputs in (X, np.hstack([X, noise])):
        probs = em.pool_neighbours(inputs, evidence, np.random.default_rng(0))
        assert (probs.argmax(axis=1) == y).mean() > 0.9


def test_examples_that_cannot_be_compared_get_the_shares_of_the_classes(blobs):
    _, _, evidence = blobs
    probs = em.pool_neighbours([["text"]] * len(evidence), evidence, np.random.default_rng(0))
    assert (probs == probs[0]).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1)


def test_examples_beyond_the_most_that_are_pooled_have_no_weight_at_first(blobs, monkeypatch):
    X, y, evidence = blobs
    monkeypatch.setattr(em, "_MOST_POOLED", 300)
    probs = em.pool_neighbours(X, evidence, np.random.default_rng(0))
    weights = em.weigh_classes(probs, evidence)
    totals = weights.sum(axis=1)
    assert (totals == 0).sum() == 100
    np.testing.assert_allclose(totals[totals > 0], 1)
    fold = np.arange(len(X)) % 2
    options = {"max_rounds": 3, "patience": 1, "n_jobs": None}
    best = em.run_rounds(GaussianNB(), X, evidence, probs, fold, **options)
    assert (best.predicted.probs.argmax(axis=1) == y).mean() > 0.9


def test_calibration_finds_how_unsure_predictions_are():
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2, size=(4000, 4))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(4, p=each) for each in probs])
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    with np.errstate(divide="ignore"):
        evidence = np.log(np.asarray(Q).T[Q.sample(y, seed=0)])
    vague = np.sqrt(probs) / np.sqrt(probs).sum(axis=1, keepdims=True)
    assert em.calibrate_on_evidence(vague, evidence).temperature == pytest.approx(0.5)
    assert em.calibrate_on_evidence(probs, evidence).temperature == pytest.approx(1)


def test_weighted_fit_is_that_of_examples_repeated_as_often():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    weights = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, 2.0], [0.0, 1.0]])
    rows, classes = [0, 1, 1, 1, 2, 2, 2, 3], [0, 0, 0, 1, 0, 1, 1, 1]
    for estimator in (
        LogisticRegression(),
        make_pipeline(StandardScaler(with_mean=False, with_std=False), LogisticRegression()),
    ):
        found = em.fit_weighted(estimator, X, weights).predict(X, 2)
        expected = LogisticRegression().fit(X[rows], classes).predict_proba(X)
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_classifier_without_weights_gets_copies_in_proportion_to_them():
    X = np.array([[0.0], [10.0]])
    weights = np.array([[0.6, 0.4, 0.0], [0.0, 0.2, 0.8]])
    found = em.fit_weighted(KNeighborsClassifier(5), X, weights).predict(X, 3)
    np.testing.assert_allclose(found, weights)


def test_classes_without_any_weight_are_predicted_with_probability_zero():
    weights = np.array([[1.0, 0, 0], [0, 0, 1.0], [0.995, 0, 0.005]])
    fitted = em.fit_weighted(GaussianNB(), np.array([[0.0], [1.0], [0.1]]), weights)
    assert fitted.classes.tolist() == [0, 2]
    assert (fitted.predict([[0.5]], 3)[:, 1] == 0).all()
