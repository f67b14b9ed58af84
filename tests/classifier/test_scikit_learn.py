"""The classifier inside scikit-learn's tools, and with data frames of pandas and polars."""

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from naysay import ComplementaryClassifier, InvalidInput, InvalidLabels, TransitionMatrix
from naysay.networks import MLP, LeNet5, Mixture, find_network

FOLDS = KFold(2, shuffle=True, random_state=0)  # iris is sorted by class


def small(**options):
    return ComplementaryClassifier(**{"random_state": 0, "epochs": 20, "device": "cpu", **options})


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, TransitionMatrix.uniform(3).sample(y, seed=0)


def test_a_search_passes_true_labels_and_weights_on_by_fold(iris):
    X, y, comp_labels = iris
    known = np.where(np.arange(150) % 2 == 0, y, -1)
    pipeline = make_pipeline(StandardScaler(), small(transition="estimate", epochs=5))
    search = GridSearchCV(
        pipeline, {"complementaryclassifier__lr": [1e-6, 1e-2]}, cv=FOLDS, error_score="raise"
    )
    prefix = "complementaryclassifier__"
    weights = np.arange(150) % 3 + 1.0
    search.fit(X, comp_labels, **{f"{prefix}true_labels": known, f"{prefix}sample_weight": weights})
    assert search.best_params_ == {"complementaryclassifier__lr": 1e-2}
    assert search.best_estimator_[-1].transition_estimate_ is not None


@pytest.mark.unmeasured
def test_processes_of_joblib_give_the_same_predictions(iris):
    X, _, comp_labels = iris
    clf = small(epochs=3)
    alone, together = (
        cross_val_predict(clf, X, comp_labels, cv=FOLDS, method="predict_proba", n_jobs=n)
        for n in (1, 2)
    )
    assert_array_equal(alone, together)


def test_a_clone_is_unfitted_with_equal_parameters_and_a_dump_predicts_the_same(iris, tmp_path):
    X, _, comp_labels = iris
    clf = small(epochs=3, network="linear", warm_start=True).fit(X, comp_labels)
    again = clone(clf)
    assert not hasattr(again, "network_")
    assert again.get_params() == clf.get_params()
    joblib.dump(clf, tmp_path / "clf.joblib")
    assert_array_equal(joblib.load(tmp_path / "clf.joblib").predict_proba(X), clf.predict_proba(X))


def test_words_are_hashed_in_a_pipeline():
    words = [["purr meow", "bark woof", "hoot night"][i % 3] + f" day{i}" for i in range(90)]
    comp_labels = TransitionMatrix.uniform(3).sample(np.arange(90) % 3, seed=0)
    pipeline = make_pipeline(HashingVectorizer(), small(epochs=60))
    pipeline.fit(words, comp_labels)
    assert (pipeline.predict(words) == np.arange(90) % 3).mean() > 0.9


@pytest.mark.unmeasured
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_accepted_and_their_columns_are_checked(iris, library):
    X, _, comp_labels = iris
    module = pytest.importorskip(library)
    columns = {name: X[:, place] for place, name in enumerate("abcd")}
    columns["a"] = np.where(np.arange(150) % 9 == 0, np.nan, columns["a"])
    frame = module.DataFrame(columns)
    labels = module.Series(comp_labels)
    clf = small(epochs=3).fit(frame, labels)
    assert clf.feature_names_in_.tolist() == list("abcd")
    assert_array_equal(clf.predict(frame), clf.predict(frame[["a", "b", "c", "d"]]))
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c", "d"]])


def test_missing_values_of_pandas_are_nan(iris):
    X, _, comp_labels = iris
    frame = pd.DataFrame(X, columns=list("abcd")).astype("Float64")
    frame.loc[3, "b"] = pd.NA
    clf = small(epochs=3).fit(frame, comp_labels)
    assert clf.preparation_.indicated.tolist() == [1]


def test_networks_have_names(iris):
    X, _, comp_labels = iris
    clf = small(epochs=1, network="linear").fit(X, comp_labels)
    assert isinstance(clf.network_, MLP)
    assert clf.network_.arguments["widths"] == []
    assert find_network("LeNet5") is LeNet5
    with pytest.raises(InvalidInput, match=r"network must be one of .*linear.*mlp.*'tree'"):
        small(network="tree").fit(X, comp_labels)


def test_a_warm_start_continues_with_new_answers(iris):
    X, y, comp_labels = iris
    known = np.random.default_rng(0).permutation(150)
    clf = small(warm_start=True, epochs=30).fit(X[known[:100]], comp_labels[known[:100]])
    before = clf.network_
    mean = before.mean.clone()
    losses = [clf.history_[0]["held_out_loss"]]
    clf.fit(X, comp_labels)
    losses.append(clf.history_[0]["held_out_loss"])
    assert clf.network_ is not before
    assert losses[1] < losses[0]  # after one epoch, because the network had learned
    assert_array_equal(clf.network_.mean, mean)  # inputs keep their meaning
    assert (clf.predict(X) == y).mean() > 0.8
    cold = small(learner="network", epochs=30).fit(X, comp_labels)
    assert cold.history_[0]["held_out_loss"] > losses[1]


def test_a_warm_start_keeps_classes_and_features(iris):
    X, _, comp_labels = iris
    clf = small(warm_start=True, epochs=2).fit(X, comp_labels)
    with pytest.raises(ValueError, match="features"):
        clf.fit(X[:, :3], comp_labels)
    with pytest.raises(InvalidLabels, match="must contain only the classes"):
        clf.fit(X, comp_labels + 1)


@pytest.mark.unmeasured
def test_weights_and_a_warm_start_train_a_network_and_other_learners_refuse_them(iris):
    X, _, comp_labels = iris
    weights = np.arange(150) % 3 + 1.0
    assert isinstance(small(epochs=1).fit(X, comp_labels).network_, Mixture)
    equal = small(epochs=1).fit(X, comp_labels, sample_weight=np.full(150, 2.0))
    assert isinstance(equal.network_, Mixture)  # as without weights
    clf = small(epochs=1).fit(X, comp_labels, sample_weight=weights)
    assert isinstance(clf.network_, MLP)
    with pytest.raises(InvalidInput, match=r"'trees' cannot be used with sample_weight\. Use"):
        small(learner="trees").fit(X, comp_labels, sample_weight=weights)
    with pytest.raises(InvalidInput, match=r"'kernel' cannot be used with warm_start\. Use"):
        small(learner="kernel", warm_start=True).fit(X, comp_labels)
    with pytest.raises(InvalidInput, match="the previous fit is a mixture of models"):
        equal.set_params(warm_start=True).fit(X, comp_labels)


def test_the_default_learner_of_a_wide_sparse_x_and_of_missing_values_is_saved(iris, tmp_path):
    X, y, comp_labels = iris
    wide = csr_array((np.ones(150), (np.arange(150), y * 700 + np.arange(150) % 5)), (150, 2000))
    gaps = np.where(np.arange(600).reshape(150, 4) % 37 == 0, np.nan, X)
    for given in (wide, gaps):
        clf = small(epochs=2).fit(given, comp_labels)
        assert isinstance(clf.network_, Mixture)
        assert (clf.predict(given) == y).mean() > 0.8
        clf.save(tmp_path / "model")
        again = ComplementaryClassifier.load(tmp_path / "model")
        assert_array_equal(again.predict_proba(given), clf.predict_proba(given))
