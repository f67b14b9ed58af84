"""Any scikit-learn classifier learns from complementary labels."""

import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_blobs
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from naysay import (
    ComplementaryWrapper,
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    NaysayWarning,
    NoAnchorPoints,
    TransitionMatrix,
)
from naysay.observations import Observations, from_log

BIASED = TransitionMatrix([[0, 0.9, 0.1], [0.2, 0, 0.8], [0.7, 0.3, 0]])
LINEAR = make_pipeline(StandardScaler(), LogisticRegression())


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, BIASED.sample(y, seed=0)


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(600, n_features=5, centers=6, cluster_std=2.0, random_state=0)
    return X, y, TransitionMatrix.with_zeros(6, 2, seed=0)


def wrap(estimator=LINEAR, **options):
    return ComplementaryWrapper(estimator, **{"random_state": 0, **options})


def accuracy(clf, X, y):
    return (clf.predict(X) == y).mean()


# `poor_score` tells scikit-learn that y is to be avoided.
@pytest.mark.unmeasured
@parametrize_with_checks(
    [
        ComplementaryWrapper(LogisticRegression(), max_rounds=3),
        ComplementaryWrapper(HistGradientBoostingClassifier(max_iter=3), max_rounds=2),
    ],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "folds differ"
        for kind in ("dense", "sparse")
    },
)
@pytest.mark.filterwarnings(
    "ignore:.*not checking array_api input:sklearn.exceptions.SkipTestWarning",
    "ignore:the labels refute:naysay.NaysayWarning",  # the checks pass true classes as y
)
def test_wrapper_keeps_the_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        LINEAR,
        GaussianNB(),
        KNeighborsClassifier(),  # takes no weights
        CalibratedClassifierCV(LinearSVC()),
        ExtraTreesClassifier(50),
        HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=8),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.unmeasured
def test_any_classifier_learns_from_biased_labels(blobs, estimator):
    X, y, Q = blobs
    clf = wrap(estimator, transition=Q, max_rounds=3).fit(X, Q.sample(y, seed=0))
    assert accuracy(clf, X, y) > 0.9


@pytest.mark.unmeasured
def test_uniform_digits_are_learned_far_better_than_by_the_labels_of_one_round():
    X, y = load_digits(return_X_y=True)
    labels = TransitionMatrix.uniform(10).sample(y, seed=1)
    one = wrap(max_rounds=1).fit(X[:1200], labels[:1200])
    many = wrap().fit(X[:1200], labels[:1200])
    assert accuracy(many, X[1200:], y[1200:]) > accuracy(one, X[1200:], y[1200:]) > 0.6
    likelihoods = [each["log_likelihood"] for each in many.history_]
    assert max(likelihoods) > likelihoods[0]
    best = many.history_[int(np.argmax(likelihoods))]
    assert many.temperature_ == best["temperature"]
    assert [each["round"] for each in many.history_] == list(range(1, len(likelihoods) + 1))


def test_fitting_stops_after_patience_rounds_without_a_gain(iris):
    X, _, labels = iris
    clf = wrap(transition=BIASED, patience=1).fit(X, labels)
    likelihoods = [each["log_likelihood"] for each in clf.history_]
    assert len(likelihoods) < 20
    assert likelihoods[-1] <= max(likelihoods[:-1])


def test_predictions_are_probabilities_of_the_named_classes(iris):
    X, y, labels = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    clf = wrap(transition=BIASED, classes=names).fit(X, names[labels])
    probs = clf.predict_proba(X)
    assert clf.classes_.tolist() == names.tolist()
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    np.testing.assert_allclose(np.log(probs), clf.predict_log_proba(X))
    assert (names[probs.argmax(axis=1)] == clf.predict(X)).all()
    assert accuracy(clf, X, names[y]) > 0.9
    assert clf.transition_.classes == tuple(names)


def test_same_random_state_gives_the_same_result_for_any_number_of_jobs(iris):
    X, _, labels = iris
    fits = [
        wrap(ExtraTreesClassifier(10), transition=BIASED, max_rounds=2, n_jobs=n_jobs)
        for n_jobs in (None, 2)
    ]
    with joblib.parallel_config(backend="threading"):  # processes would import torch first
        first, second = (clf.fit(X, labels).predict_proba(X) for clf in fits)
    np.testing.assert_array_equal(first, second)


@pytest.mark.unmeasured
def test_several_labels_tell_more_than_one(blobs):
    X, y, _ = blobs
    Q = TransitionMatrix.uniform(6)
    drawn = [Q.sample(y, seed=seed) for seed in range(4)]
    ruled_out = np.zeros((len(y), 6), dtype=bool)
    for labels in drawn:
        ruled_out[np.arange(len(y)), labels] = True
    one, several = (wrap(GaussianNB()).fit(X, given) for given in (drawn[0], ruled_out))
    assert accuracy(several, X, y) >= accuracy(one, X, y)
    true_class = several.predict_proba(X)[np.arange(len(y)), y]
    assert true_class.mean() > one.predict_proba(X)[np.arange(len(y)), y].mean()


def test_each_annotator_may_have_a_matrix(blobs):
    X, y, Q = blobs
    other = TransitionMatrix.with_zeros(6, 2, seed=5)
    is_hers = np.arange(len(y)) % 2 == 0
    labels = np.where(is_hers, Q.sample(y, seed=0), other.sample(y, seed=1))
    answers = Observations(
        example=np.arange(len(y)), label=labels, annotator=np.where(is_hers, "her", "him")
    )
    clf = wrap(transition={"her": Q, "him": other}).fit(X, answers)
    wrong = wrap(transition={"her": other, "him": Q}).fit(X, answers)
    assert accuracy(clf, X, y) > 0.9 > accuracy(wrong, X, y)
    assert set(clf.transitions_) == {"her", "him"}
    assert clf.score(X, answers) > wrong.score(X, answers)


def anchors_of(y, n, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.choice(np.flatnonzero(y == k), n, replace=False) for k in np.unique(y)]
    )


@pytest.mark.unmeasured
@pytest.mark.parametrize("given", ["anchors", "true_labels"])
def test_matrix_is_estimated_from_anchors(blobs, given):
    X, y, Q = blobs
    labels, anchors = Q.sample(y, seed=0), anchors_of(y, 8)
    if given == "anchors":
        passed = {"anchors": (X[anchors], y[anchors])}
    else:
        known = np.full(len(y), np.nan)
        known[anchors] = y[anchors]
        passed = {"true_labels": known}
    clf = wrap(transition="estimate").fit(X, labels, **passed)
    assert clf.transition_.distance(Q) < 0.25
    assert accuracy(clf, X, y) > 0.9
    assert clf.transition_estimate_.predictions.shape == (len(y), 6)
    assert clf.transition_samples_.shape[1:] == (6, 6)


def test_a_class_that_is_never_named_is_learned_from_anchors(iris):
    X, y, _ = iris
    Q = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])  # nobody says "not 2"
    not_y = Q.sample(y, seed=0)
    known = np.where(np.arange(150) % 5 == 0, y, np.nan)
    clf = wrap(transition="estimate", classes=[0, 1, 2], max_rounds=3)
    assert accuracy(clf.fit(X, not_y, true_labels=known), X, y) > 0.8
    with pytest.raises(InvalidLabels, match="never says 'not 2'"):
        clf.set_params(transition="uniform").fit(X, not_y, true_labels=known)
    with pytest.raises(InvalidLabels, match=r"Got also 2\. If .* no label names, pass classes="):
        clf.set_params(transition="estimate", classes=None).fit(X, not_y, true_labels=known)


@pytest.mark.unmeasured
def test_annotators_who_differ_get_a_matrix_each_from_anchors(blobs):
    X, y, Q = blobs
    other = TransitionMatrix.with_zeros(6, 2, seed=5)
    labels = np.concatenate([Q.sample(y, seed=0), other.sample(y, seed=1)])
    n = len(y)
    answers = Observations(
        example=np.tile(np.arange(n), 2), label=labels, annotator=["her"] * n + ["him"] * n
    )
    known = np.full(n, -1)
    known[anchors_of(y, 8)] = y[anchors_of(y, 8)]
    clf = wrap(transition="estimate").fit(X, answers, true_labels=known)
    assert clf.transitions_["her"].distance(Q) < clf.transitions_["her"].distance(other)
    assert clf.transitions_["him"].distance(other) < clf.transitions_["him"].distance(Q)


@pytest.mark.unmeasured
def test_logs_of_suggestions_are_learned_from_with_or_without_anchors(blobs):
    X, y, _ = blobs
    rng = np.random.default_rng(0)
    suggested = np.where(rng.random(len(y)) < 0.5, y, rng.integers(6, size=len(y)))
    log = from_log(suggested, suggested == y)
    known = np.full(len(y), -1)
    known[anchors_of(y, 5)] = y[anchors_of(y, 5)]
    assert accuracy(wrap().fit(X, log), X, y) > 0.9
    estimated = wrap(transition="estimate").fit(X, log, true_labels=known)
    assert accuracy(estimated, X, y) > 0.9
    assert estimated.transition_estimate_ is None  # nobody chose a class to exclude


def test_anchors_are_learned_from(iris):
    X, y, _ = iris
    useless = TransitionMatrix([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    noise = np.random.default_rng(0).integers(3, size=len(y))
    anchors = anchors_of(y, 5)
    clf = wrap(transition=useless).fit(X, noise, anchors=(X[anchors], y[anchors]))
    assert accuracy(clf, X[anchors], y[anchors]) > accuracy(
        wrap(transition=useless).fit(X, noise), X[anchors], y[anchors]
    )


@pytest.mark.unmeasured
def test_accuracy_is_stated_from_random_anchors_and_unknown_from_picked_ones(blobs):
    X, y, Q = blobs
    X_test, y_test = make_blobs(600, n_features=5, centers=6, cluster_std=2.0, random_state=0)
    X_test = X_test + np.random.default_rng(1).normal(scale=2.0, size=X_test.shape)
    noisy = X + np.random.default_rng(0).normal(scale=2.0, size=X.shape)  # classes overlap
    known = np.full(len(y), -1)
    known[anchors_of(y, 10)] = y[anchors_of(y, 10)]
    labels = Q.sample(y, seed=0)
    clf = wrap(GaussianNB(), transition="estimate").fit(noisy, labels, true_labels=known)
    low, high = clf.accuracy_.interval
    assert low < accuracy(clf, X_test, y_test) < high
    assert 0.7 < clf.accuracy_.value < 1
    options = {"true_labels": known, "anchors_are": "picked"}
    assert wrap(GaussianNB(), transition="estimate").fit(noisy, labels, **options).accuracy_ is None
    with pytest.raises(InvalidInput, match="'random' or 'picked'"):
        wrap(transition="estimate").fit(noisy, labels, true_labels=known, anchors_are="odd")
    assert wrap(GaussianNB(), transition=Q).fit(X, labels, true_labels=known).accuracy_ is None


def test_true_classes_of_a_hidden_fold_do_not_reach_its_predictions(blobs):
    X, y, _ = blobs
    rows, rng = anchors_of(y, 10), np.random.default_rng(0)
    noise = rng.normal(size=X.shape)  # nothing can be learned; a leak would show
    known = np.full(len(y), -1)
    known[rows] = y[rows]
    clf = wrap(KNeighborsClassifier(1), transition="estimate", max_rounds=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the estimate of Q is as bad as its data
        clf.fit(noise, rng.integers(6, size=len(y)), true_labels=known)
    assert clf.accuracy_.value < 0.35


@pytest.mark.filterwarnings("ignore:the labels refute")
def test_examples_of_weight_zero_do_not_count_and_others_as_often_as_weighted(blobs):
    X, y, Q = blobs
    labels = Q.sample(y, seed=0)
    wrong = np.random.default_rng(0).random(len(y)) < 0.5
    labels = np.where(wrong, y, labels)  # half of the labels exclude the true class
    weights = np.where(wrong, 0.0, 2.0)
    unweighted = wrap(GaussianNB(), transition=Q).fit(X, labels)
    clf = wrap(GaussianNB(), transition=Q).fit(X, labels, sample_weight=weights)
    assert accuracy(clf, X, y) > 0.9 > accuracy(unweighted, X, y)
    equal = wrap(GaussianNB(), transition=Q).fit(X, labels, sample_weight=np.full(len(y), 3.0))
    np.testing.assert_array_equal(equal.predict_proba(X), unweighted.predict_proba(X))
    given = (X[anchors_of(y, 2)], y[anchors_of(y, 2)])
    assert accuracy(clf.fit(X, labels, sample_weight=weights, anchors=given), X, y) > 0.9
    with pytest.raises(InvalidInput, match="sample_weight needs a classifier whose fit accepts"):
        wrap(KNeighborsClassifier(), transition=Q).fit(X, labels, sample_weight=weights)


def test_mistakes_are_allowed_for(blobs):
    X, y, Q = blobs
    labels = Q.sample(y, seed=0).copy()
    labels[:30] = y[:30]
    assert accuracy(wrap(transition=Q).fit(X, labels), X, y) > 0.85


def test_sparse_x_tables_and_text_reach_the_classifier_as_they_are(iris):
    X, y, labels = iris
    table = pd.DataFrame(X, columns=list("abcd"))
    anchors = anchors_of(y, 3)
    dense = wrap(LogisticRegression(max_iter=500), transition=BIASED)
    expected = clone(dense).fit(X, labels, anchors=(X[anchors], y[anchors])).predict(X)
    for form in (sparse.csr_array(X), sparse.coo_matrix(X)):
        given = (sparse.csr_array(X)[anchors], y[anchors])
        assert (
            clone(dense).fit(form, labels, anchors=given).predict(form) == expected
        ).mean() > 0.9
    clf = clone(dense).fit(table, labels, anchors=(table.iloc[anchors], y[anchors]))
    assert clf.feature_names_in_.tolist() == list("abcd")
    assert (clf.predict(table) == expected).all()
    words = np.array(["setosa petal", "colour versi leaf", "virginia stem"])
    texts = [words[k] + " flower" * (number % 3) for number, k in enumerate(y)]
    text = make_pipeline(TfidfVectorizer(), LogisticRegression())
    clf = wrap(text, transition=BIASED).fit(
        texts, labels, anchors=(["petal setosa", "leaf"], np.array([0, 1]))
    )
    assert accuracy(clf, texts, y) > 0.95


@pytest.mark.unmeasured
def test_missing_values_and_categories_of_a_table_are_no_obstacle(blobs):
    X, y, Q = blobs
    table = pd.DataFrame(X, columns=list("abcde"))
    table.loc[::7, "a"] = np.nan
    table["f"] = pd.Categorical(np.where(X[:, 1] > 0, "high", "low"))
    clf = wrap(
        HistGradientBoostingClassifier(
            max_iter=5, max_leaf_nodes=8, categorical_features="from_dtype"
        ),
        transition=Q,
        max_rounds=3,
    ).fit(table, Q.sample(y, seed=0))
    assert accuracy(clf, table, y) > 0.9


@pytest.mark.unmeasured
def test_search_pipeline_clone_and_files(iris, tmp_path):
    X, y, labels = iris
    clf = make_pipeline(StandardScaler(), wrap(LogisticRegression(), transition=BIASED))
    search = GridSearchCV(clf, {"complementarywrapper__estimator__C": [1e-6, 1.0]}, cv=3)
    order = np.random.default_rng(0).permutation(len(y))
    weights, known = np.arange(len(y)) % 3 + 1.0, np.where(np.arange(len(y)) % 9 == 0, y, -1)
    search.fit(
        X[order],
        labels[order],
        complementarywrapper__sample_weight=weights[order],
        complementarywrapper__true_labels=known[order],
    )
    assert search.best_params_ == {"complementarywrapper__estimator__C": 1.0}
    joblib.dump(search.best_estimator_, tmp_path / "model.joblib")
    loaded = joblib.load(tmp_path / "model.joblib")
    assert (loaded.predict(X) == search.predict(X)).all()
    assert clone(loaded[-1]).get_params()["estimator__C"] == 1.0


def test_score_is_the_likelihood_of_labels_and_warns_about_true_classes(iris):
    X, y, labels = iris
    clf = wrap(transition=BIASED).fit(X, labels)
    assert clf.score(X, labels) > np.log(1 / 3)
    with pytest.warns(NaysayWarning, match="classes that examples do NOT belong to"):
        clf.score(X, y)


@pytest.mark.filterwarnings("ignore:the labels refute")
def test_a_class_that_a_fold_never_sees_costs_no_error():
    X = np.repeat(np.eye(3), [20, 20, 1], axis=0)
    y = np.repeat([0, 1, 2], [20, 20, 1])
    known = np.where(np.arange(41) % 2 == 0, y, -1)
    clf = wrap(GaussianNB(), mistakes=0).fit(X, (y + 1) % 3, true_labels=known)
    assert clf.predict_proba(X).shape == (41, 3)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"estimator": LinearSVC()}, InvalidInput, "must have predict_proba"),
        ({"estimator": SVC()}, InvalidInput, "CalibratedClassifierCV"),
        ({"cv": 1}, InvalidInput, "cv must be"),
        ({"cv": 1000}, InvalidInput, "at least cv=1000 examples"),
        ({"max_rounds": 0}, InvalidInput, "max_rounds must be"),
        ({"mistakes": 0.7}, InvalidInput, "mistakes must be"),
        ({"transition": "estimate"}, NoAnchorPoints, "needs anchors"),
        ({"transition": "biased"}, InvalidInput, "must be 'uniform', 'estimate' or a matrix"),
        ({"transition": np.eye(2)[::-1]}, InvalidTransitionMatrix, "one row per class"),
    ],
)
def test_bad_parameters_are_refused(iris, options, error, message):
    X, _, labels = iris
    with pytest.raises(error, match=message):
        wrap(**{"estimator": LINEAR, **options}).fit(X, labels)


def test_bad_labels_and_anchors_are_refused(iris):
    X, y, labels = iris
    with pytest.raises(InvalidInput, match="must be a pair"):
        wrap().fit(X, labels, anchors=X)
    with pytest.raises(ValueError, match="expecting 4 features"):
        wrap().fit(X, labels, anchors=(X[:, :3], y))
    with pytest.raises(InvalidLabels, match="true_labels must have one entry"):
        wrap().fit(X, labels, true_labels=y[:3])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        wrap().fit(X, labels[:-1])
    with pytest.raises(NotFittedError):
        wrap().predict(X)
    with pytest.warns(NaysayWarning, match="anchors do not look like X"):
        wrap().fit(X, labels, anchors=(X * 1000, y))
