"""EM around a classifier: pooling of labels, calibration and weighted rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from naysay import TransitionMatrix
from naysay.classifier import em
from naysay.classifier.pooling import Evidence


def evidence_of(likelihood, n_folds=2):
    fold = np.arange(len(likelihood)) % n_folds
    return Evidence(np.zeros((len(likelihood), 0), dtype=np.float32), likelihood, fold, seed=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(400, n_features=4, centers=5, cluster_std=1.0, random_state=0)
    Q = TransitionMatrix.uniform(5)
    return X, y, evidence_of(np.asarray(Q).T[Q.sample(y, seed=0)])


def test_labels_of_neighbours_reveal_classes_whatever_the_scale_and_gaps_of_a_column(blobs):
    X, y, evidence = blobs
    noise = np.random.default_rng(0).normal(scale=1e4, size=(len(X), 1))
    gaps = X.copy()
    gaps[::9, 0] = np.nan
    for inputs in (X, np.hstack([X, noise]), csr_array(X), gaps):
        probs = em.start_from_neighbours(inputs, evidence, None)
        assert (probs.argmax(axis=1) == y).mean() > 0.9


def test_examples_that_cannot_be_compared_get_the_shares_of_the_classes(blobs):
    _, _, evidence = blobs
    probs = em.start_from_neighbours([["text"]] * len(evidence.fold), evidence, None)
    assert (probs == probs[0]).all()
    np.testing.assert_allclose(probs.sum(axis=1), 1)


def test_neighbours_that_are_not_alike_are_not_used(blobs):
    _, _, evidence = blobs
    noise = np.random.default_rng(0).normal(size=(len(evidence.fold), 3))
    probs = em.start_from_neighbours(noise, evidence, None)
    assert (probs == probs[0]).all()


def test_examples_beyond_the_most_that_are_pooled_have_no_weight_at_first(blobs, monkeypatch):
    X, y, evidence = blobs
    monkeypatch.setattr(em, "_MOST_POOLED", 300)
    probs = em.start_from_neighbours(X, evidence, None)
    totals = em.weigh_classes(probs, evidence.likelihood).sum(axis=1)
    assert (totals == 0).sum() == 100
    np.testing.assert_allclose(totals[totals > 0], 1)
    options = {"max_rounds": 3, "patience": 1, "n_jobs": None}
    best = em.run_rounds(GaussianNB(), X, evidence, probs, **options)
    assert (best.probs.argmax(axis=1) == y).mean() > 0.9


def test_calibration_finds_how_unsure_predictions_are():
    rng = np.random.default_rng(0)
    logits = rng.normal(scale=2, size=(4000, 4))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(4, p=each) for each in probs])
    Q = TransitionMatrix.with_zeros(4, 2, seed=0)
    evidence = evidence_of(np.asarray(Q).T[Q.sample(y, seed=0)])
    vague = np.sqrt(probs) / np.sqrt(probs).sum(axis=1, keepdims=True)
    assert evidence.fit_calibration(vague).temperature == pytest.approx(0.5)
    assert evidence.fit_calibration(probs).temperature == pytest.approx(1)


def test_scoring_counts_an_example_of_weight_two_twice(blobs):
    _, _, evidence = blobs
    likelihood, rng = evidence.likelihood, np.random.default_rng(0)
    probs, twice = rng.dirichlet(np.ones(5), len(likelihood)), np.arange(len(likelihood)) % 2
    repeated = np.repeat(np.arange(len(likelihood)), 1 + twice)
    weighted = Evidence(evidence.X, likelihood, evidence.fold, 0, 1.0 + twice).fit_calibration(
        probs
    )
    expected = evidence_of(likelihood[repeated]).fit_calibration(probs[repeated])
    assert weighted.total == pytest.approx(expected.total)
    assert weighted[1:] == expected[1:]


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
