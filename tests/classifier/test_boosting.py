"""The objective of boosted trees: derivatives, and training with both libraries."""

import pickle

import lightgbm
import numpy as np
import pytest
import xgboost
from scipy.special import logsumexp, softmax
from sklearn.datasets import make_blobs

from naysay import BoostingObjective, InvalidInput, InvalidLabels, TransitionMatrix
from naysay.classifier import forward_gradients
from naysay.observations import Observations, log_likelihoods

Q = TransitionMatrix.with_zeros(5, 2, seed=2)
SMALL = {"n_estimators": 30, "learning_rate": 0.2, "n_jobs": 1}


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(500, n_features=4, centers=5, cluster_std=1.5, random_state=0)
    return X, y, Q.sample(y, seed=0)


def forward_loss(scores, evidence):
    return logsumexp(scores, axis=1) - logsumexp(scores + evidence, axis=1)


def evidence_of(kind):
    rng = np.random.default_rng(0)
    if kind == "likelihoods":
        return np.log(rng.dirichlet(np.ones(5), 30))
    n_answers = 1 if kind == "one label" else 3
    true = rng.integers(5, size=30)
    answers = Observations(
        example=np.tile(np.arange(30), n_answers),
        label=np.concatenate([Q.sample(true, seed=seed) for seed in range(n_answers)]),
    )
    return log_likelihoods(answers, Q)


@pytest.mark.parametrize("kind", ["one label", "several labels", "likelihoods"])
def test_derivatives_are_those_of_finite_differences(kind):
    scores = np.random.default_rng(1).normal(size=(30, 5))
    evidence, weight = evidence_of(kind), np.linspace(0.5, 2, 30)
    gradient, hessian = forward_gradients(scores, evidence, weight, least_hessian=1e-300)
    step = 1e-4
    at = forward_loss(scores, evidence)
    for k in range(5):
        more, less = scores.copy(), scores.copy()
        more[:, k] += step
        less[:, k] -= step
        above, below = forward_loss(more, evidence), forward_loss(less, evidence)
        first, second = (above - below) / (2 * step), (above - 2 * at + below) / step**2
        np.testing.assert_allclose(gradient[:, k], weight * first, atol=1e-7)
        np.testing.assert_allclose(hessian[:, k], weight * np.maximum(second, 0), atol=1e-6)


def test_second_derivatives_are_raised_to_the_least_before_they_are_weighted():
    evidence = np.log([[1e-9, 1, 1, 1]] * 2)
    _, hessian = forward_gradients(np.zeros((2, 4)), evidence, [1, 3], least_hessian=0.02)
    # of the classes that remain: p (1 - p) - r (1 - r) is 3/16 - 2/9, less than zero
    np.testing.assert_allclose(hessian, [[3 / 16, 0.02, 0.02, 0.02], [9 / 16, 0.06, 0.06, 0.06]])


def test_objective_reads_labels_and_weights_in_either_order(blobs):
    _, _, labels = blobs
    scores = np.random.default_rng(0).normal(size=(len(labels), 5))
    weight = np.linspace(0, 1, len(labels)).astype(np.float32)
    objective = BoostingObjective(Q)
    expected = objective(labels, scores, weight)
    matrix = xgboost.DMatrix(np.zeros((len(labels), 1)), labels, weight=weight)
    dataset = lightgbm.Dataset(np.zeros((len(labels), 1)), labels, weight=weight)
    for data in (matrix, dataset):
        for found, exact in zip(objective(scores, data), expected, strict=True):
            np.testing.assert_allclose(found, exact, rtol=1e-6)
    unweighted = objective(scores, xgboost.DMatrix(np.zeros((len(labels), 1)), labels))
    np.testing.assert_allclose(unweighted[0], objective(labels, scores)[0])


def test_loss_is_the_mean_forward_loss(blobs):
    _, _, labels = blobs
    scores = np.random.default_rng(0).normal(size=(len(labels), 5))
    expected = -np.log((softmax(scores, axis=1) * np.asarray(Q).T[labels]).sum(axis=1)).mean()
    assert BoostingObjective(Q).loss(scores, labels.astype(np.float32)) == pytest.approx(expected)


def test_lightgbm_learns_true_classes_and_stops_early(blobs):
    X, y, labels = blobs
    objective = BoostingObjective(Q)
    clf = lightgbm.LGBMClassifier(objective=objective, verbose=-1, **SMALL).fit(X, labels)
    assert (clf.predict(X, raw_score=True).argmax(axis=1) == y).mean() > 0.85
    train = lightgbm.Dataset(X[:400], labels[:400])
    booster = lightgbm.train(
        {"objective": objective, "num_class": 5, "verbose": -1, "num_threads": 1},
        train,
        num_boost_round=200,
        valid_sets=[lightgbm.Dataset(X[400:], labels[400:], reference=train)],
        feval=lambda scores, data: ("loss", objective.loss(scores, data.get_label()), False),
        callbacks=[lightgbm.early_stopping(10, verbose=False)],
    )
    assert booster.best_iteration < 200
    assert (booster.predict(X[400:]).argmax(axis=1) == y[400:]).mean() > 0.85


def test_xgboost_learns_true_classes(blobs):
    X, y, labels = blobs
    objective = BoostingObjective(Q)
    clf = xgboost.XGBClassifier(objective=objective, **SMALL).fit(X, labels)
    assert (clf.predict(X, output_margin=True).argmax(axis=1) == y).mean() > 0.85
    booster = xgboost.train(
        {"num_class": 5, "disable_default_eval_metric": True, "nthread": 1},
        xgboost.DMatrix(X, labels),
        num_boost_round=10,
        obj=objective,
    )
    scores = booster.predict(xgboost.DMatrix(X), output_margin=True)
    assert (scores.argmax(axis=1) == y).mean() > 0.85


def test_likelihoods_of_several_labels_tell_more_than_one_label(blobs):
    X, y, _ = blobs
    uniform = TransitionMatrix.uniform(5)
    drawn = np.concatenate([uniform.sample(y, seed=seed) for seed in range(3)])
    answers = Observations(example=np.tile(np.arange(len(y)), 3), label=drawn)
    several = BoostingObjective(log_likelihoods=log_likelihoods(answers, uniform))
    right = []
    for objective in (BoostingObjective(uniform), several):
        clf = lightgbm.LGBMClassifier(objective=objective, verbose=-1, **SMALL)
        clf.fit(X, drawn[: len(y)])
        right.append((clf.predict(X, raw_score=True).argmax(axis=1) == y).mean())
    assert right[1] > max(0.85, right[0])


def test_objective_can_be_pickled():
    objective = pickle.loads(pickle.dumps(BoostingObjective(Q, least_hessian=0.5)))
    assert objective.least_hessian == 0.5
    assert objective.transition == Q


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: BoostingObjective(), InvalidInput, "either transition or log_likelihoods"),
        (lambda: BoostingObjective(Q, least_hessian=0), InvalidInput, "least_hessian must be"),
        (lambda: BoostingObjective(Q)([7], np.zeros((1, 5))), InvalidLabels, "7"),
        (lambda: BoostingObjective(Q)([0.5], np.zeros((1, 5))), InvalidLabels, "comp_labels"),
        (lambda: BoostingObjective(Q)([1], np.zeros((1, 4))), InvalidInput, "Got shapes"),
        (lambda: BoostingObjective(Q)([1], [["a"] * 5]), InvalidInput, "scores must be numbers"),
        (
            lambda: forward_gradients(np.zeros((1, 2)), [[-np.inf, -np.inf]]),
            InvalidLabels,
            "must be possible for some class",
        ),
        (
            lambda: BoostingObjective(log_likelihoods=np.zeros((1, 5))).loss([[0.0] * 5], [0]),
            InvalidInput,
            "Pass transition=",
        ),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
