"""The scikit-learn contract, and what is particular to complementary labels."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidLabels,
    InvalidModelFile,
    InvalidTransitionMatrix,
    NaysayError,
    NaysayWarning,
    NoAnchorPoints,
    TransitionMatrix,
)
from naysay.metrics import log_likelihood_scorer
from naysay.networks import MLP
from naysay.observations import Observations

BIASED = TransitionMatrix([[0, 0.9, 0.1], [0.2, 0, 0.8], [0.7, 0.3, 0]])


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, y, BIASED.sample(y, seed=0)


def answers_of(annotator, labels):
    n = len(labels)
    return Observations(example=np.arange(n), label=labels, annotator=[annotator] * n)


def accuracy(clf, X, y):
    return (clf.predict(X) == y).mean()


def small(**options):
    defaults = {"learner": "network", "random_state": 0, "epochs": 40, "device": "cpu"}
    return ComplementaryClassifier(**(defaults | options))


# The tag `poor_score` tells scikit-learn not to ask for agreement with the y given, which this
# classifier learns to avoid; `check_array_api_input` skips itself where SCIPY_ARRAY_API is not set.
# As for scikit-learn's MLPClassifier and SGDClassifier, a row of weight 2 and a row that is there
# twice are equal in the loss, but not in the order of batches; test_weights.py tests the loss.
@pytest.mark.unmeasured
@parametrize_with_checks(
    [small(epochs=2)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "batches differ",
        "check_sample_weight_equivalence_on_sparse_data": "batches differ",
    },
)
@pytest.mark.filterwarnings(
    "ignore:.*not checking array_api input:sklearn.exceptions.SkipTestWarning",
    "ignore:the labels refute:naysay.NaysayWarning",  # the checks pass true classes as y
)
def test_classifier_keeps_the_scikit_learn_contract(estimator, check):
    check(estimator)


# Those that depend on what is learned, for the default learner, whose fits take ten times as long.
@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "check",
    [
        checks.check_classifiers_classes,
        checks.check_classifiers_one_label,
        checks.check_classifiers_train,
        checks.check_estimators_dtypes,
        checks.check_estimators_pickle,
        checks.check_fit2d_1feature,
        checks.check_fit_idempotent,
        checks.check_methods_subset_invariance,
    ],
)
def test_the_default_learner_keeps_the_scikit_learn_contract(check):
    check("ComplementaryClassifier", small(learner="auto", epochs=2))


@pytest.mark.unmeasured
def test_classifier_learns_from_biased_labels_what_the_uniform_assumption_misses():
    X, y = make_blobs(600, n_features=5, centers=6, cluster_std=2.0, random_state=0)
    Q = TransitionMatrix.with_zeros(6, 2, seed=0)
    comp_labels = Q.sample(y, seed=0)
    right = small(transition=Q).fit(X, comp_labels)
    with pytest.warns(NaysayWarning, match="refute the transition matrix"):
        wrong = small(transition="uniform").fit(X, comp_labels)
    assert (right.predict(X) == y).mean() > 0.9
    assert (right.predict(X) == y).mean() > (wrong.predict(X) == y).mean() + 0.3


@pytest.mark.unmeasured
def test_estimated_transition_is_near_the_true_one_and_has_its_names(iris):
    X, y, comp_labels = iris
    names = np.array(["setosa", "versicolor", "virginica"])
    anchors = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(3)])
    clf = small(transition="estimate", epochs=100)
    clf.fit(X, names[comp_labels], anchors=(X[anchors], names[y[anchors]]))
    assert clf.transition_.classes == tuple(names)
    assert np.abs(np.asarray(clf.transition_) - np.asarray(BIASED)).sum(axis=1).mean() < 0.4
    assert (clf.predict(X) == names[y]).mean() > 0.9


@pytest.mark.unmeasured
def test_anchors_are_learned_from_unless_told_otherwise(iris):
    X, y, comp_labels = iris
    anchors = (X[::5], y[::5])
    with_them = small().fit(X, comp_labels, anchors=anchors)
    without = small().fit(X, comp_labels)
    told_not_to = small(learn_from_anchors=False).fit(X, comp_labels, anchors=anchors)
    assert not np.array_equal(with_them.predict_proba(X), without.predict_proba(X))
    np.testing.assert_array_equal(told_not_to.predict_proba(X), without.predict_proba(X))
    # labels without information, each class excluded at random: only the anchors can tell
    noise = np.random.default_rng(0).integers(3, size=len(X))
    clf = small(validation_fraction=0)
    without = accuracy(clf.fit(X, noise), X, y)
    assert accuracy(clf.fit(X, noise, anchors=(X, y)), X, y) > without + 0.3


def test_anchors_that_are_shown_more_often_count_more(iris):
    X, y, _ = iris
    noise = np.random.default_rng(0).integers(3, size=len(X))
    anchors = (X[::10], y[::10])
    clf = small(validation_fraction=0, epochs=10)
    once, often, again = (
        accuracy(clf.set_params(learn_from_anchors=number).fit(X, noise, anchors=anchors), X, y)
        for number in (1, 20, 1)
    )
    assert often > once + 0.2
    assert again == once
    with pytest.raises(InvalidInput, match="learn_from_anchors must be an integer of at least 0"):
        clf.set_params(learn_from_anchors=-1).fit(X, noise, anchors=anchors)


def test_same_random_state_gives_the_same_weights_and_leaves_global_randomness_alone(iris):
    X, _, comp_labels = iris
    torch.manual_seed(123)
    before = torch.get_rng_state()
    first, second = small().fit(X, comp_labels), small().fit(X, comp_labels)
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    other = small(random_state=1).fit(X, comp_labels)
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))


@pytest.mark.unmeasured
def test_true_labels_are_never_needed_for_stopping(iris):
    X, _, comp_labels = iris
    clf = small(epochs=500, patience=5, lr=1e-2).fit(X, comp_labels)
    best = min(record["held_out_loss"] for record in clf.history_)
    assert len(clf.history_) < 500
    assert clf.history_[-1]["epoch"] == len(clf.history_)
    assert clf.history_[-6]["held_out_loss"] == best
    no_stop = small(validation_fraction=0).fit(X, comp_labels)
    assert len(no_stop.history_) == 40
    assert "held_out_loss" not in no_stop.history_[0]


def test_string_classes_come_back_as_strings(iris):
    X, y, comp_labels = iris
    names = np.array(["cat", "dog", "owl"])
    clf = small(transition=TransitionMatrix(np.asarray(BIASED), classes=names), epochs=100)
    clf.fit(X, names[comp_labels])
    assert clf.classes_.tolist() == ["cat", "dog", "owl"]
    assert set(clf.predict(X)) <= set(names)
    assert (clf.predict(X) == names[y]).mean() > 0.9


def test_classes_may_be_in_any_order_when_given(iris):
    X, y, comp_labels = iris
    names = np.array(["owl", "cat", "dog"])
    clf = small(classes=names, transition=np.asarray(BIASED), epochs=100)
    clf.fit(X, names[comp_labels])
    assert clf.classes_.tolist() == ["owl", "cat", "dog"]
    assert (clf.predict(X) == names[y]).mean() > 0.9


def test_class_that_is_never_excluded_comes_from_the_matrix(iris):
    X, _, comp_labels = iris
    kept = comp_labels != 2
    clf = small(transition=BIASED).fit(X[kept], comp_labels[kept])
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.predict_proba(X).shape == (len(X), 3)


def test_integer_labels_index_a_matrix_with_names(iris):
    X, _, comp_labels = iris
    Q = TransitionMatrix(np.asarray(BIASED), classes=["cat", "dog", "owl"])
    assert small(transition=Q, epochs=2).fit(X, comp_labels).classes_.tolist() == [0, 1, 2]


def test_labels_that_are_no_indices_take_the_rows_of_the_matrix_in_sorted_order(iris):
    X, _, comp_labels = iris
    clf = small(transition=BIASED, epochs=1).fit(X, 2 * comp_labels + 1)
    assert clf.classes_.tolist() == [1, 3, 5]


def test_two_classes_are_learned_as_their_opposite():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.normal(size=(200, 3)) + 3 * y[:, None]
    assert (small().fit(X, 1 - y).predict(X) == y).mean() > 0.95


def test_dataframe_gives_feature_names_and_refuses_others(iris):
    X, _, comp_labels = iris
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    clf = small(epochs=2).fit(table, pd.Series(comp_labels))
    assert clf.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(table.rename(columns={"a": "z"}))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_images_go_through_the_default_network_and_a_convolutional_one(dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=240)
    images = rng.integers(0, 60, size=(240, 1, 8, 8)).astype(dtype)
    images[np.arange(240), 0, 2 * y, :] += np.array(150, dtype=dtype)
    comp_labels = TransitionMatrix.uniform(3).sample(y, seed=1)
    flat = small().fit(images, comp_labels)
    assert (flat.predict(images) == y).mean() > 0.95
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(3)
    )
    network(torch.zeros(2, 1, 8, 8))
    convolutional = small(network=network, lr=0.01).fit(images, comp_labels)
    assert (convolutional.predict(images) == y).mean() > 0.95
    with pytest.raises(InvalidInput, match=r"X must have examples of shape \(1, 8, 8\)"):
        flat.predict(images[:, :, :4])


def test_network_may_be_a_factory_and_a_module_is_copied(iris):
    X, _, comp_labels = iris
    clf = small(network=partial(MLP, widths=(7,)), epochs=2).fit(X, comp_labels)
    assert clf.network_.layers[0].out_features == 7
    module = nn.Linear(4, 3)
    before = module.weight.detach().clone()
    small(network=module, epochs=2).fit(X, comp_labels)
    assert torch.equal(module.weight, before)


@pytest.mark.unmeasured
def test_pipeline_clone_and_grid_search_need_no_true_label(iris):
    X, y, comp_labels = iris
    pipeline = make_pipeline(StandardScaler(), PCA(3), small(transition=BIASED))
    grid = GridSearchCV(
        pipeline,
        {"complementaryclassifier__lr": [1e-6, 1e-2]},
        cv=2,
        error_score="raise",
    )
    grid.fit(X, comp_labels)
    # agreement with the labels, as other classifiers are scored, would choose the first
    assert grid.best_params_ == {"complementaryclassifier__lr": 1e-2}
    assert (grid.predict(X) == y).mean() > 0.85
    best = grid.best_estimator_
    assert grid.score(X, comp_labels) == best.score(X, comp_labels)
    assert best.score(X, comp_labels) >= log_likelihood_scorer(best, X, comp_labels)
    copied = clone(pipeline)
    assert copied[-1].transition is BIASED
    assert np.isfinite(
        cross_val_score(small(transition=BIASED, epochs=5), X, comp_labels, cv=2)
    ).all()


def best_log_likelihood(clf, X, comp_labels, Q):
    """Compute the largest mean log-likelihood over temperatures, by a finer search than score's."""
    powers = (clf.predict_proba(X) ** (1 / each) for each in np.geomspace(0.5, 32, 200))
    probs = (each / each.sum(axis=1, keepdims=True) for each in powers)
    return max(np.log((p @ np.asarray(Q))[np.arange(len(X)), comp_labels]).mean() for p in probs)


def test_score_is_the_log_likelihood_of_labels_of_any_form(iris):
    X, _, comp_labels = iris
    clf = small(transition=BIASED).fit(X, comp_labels)
    score = clf.score(X, comp_labels)
    assert score == pytest.approx(best_log_likelihood(clf, X, comp_labels, BIASED), abs=5e-3)
    assert clf.score(X, np.eye(3, dtype=bool)[comp_labels]) == pytest.approx(score)
    assert clf.score(X, answers_of("ann", comp_labels)) == pytest.approx(score)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.score(X, comp_labels[:10])
    each = {"ann": BIASED, "bob": TransitionMatrix.uniform(3)}
    by_annotator = small(transition=each).fit(X, answers_of("ann", comp_labels))
    bob = by_annotator.score(X, answers_of("bob", comp_labels))
    expected = best_log_likelihood(by_annotator, X, comp_labels, each["bob"])
    assert bob == pytest.approx(expected, abs=5e-3)
    assert by_annotator.score(X, comp_labels) > bob  # the common matrix is that of Ann


def test_score_does_not_punish_overconfidence(iris):
    X, _, comp_labels = iris
    clf = small(transition=BIASED).fit(X, comp_labels)
    before = clf.score(X, comp_labels)
    with torch.no_grad():
        last = [each for each in clf.network_.modules() if isinstance(each, nn.Linear)][-1]
        last.weight *= 4  # the same predictions, much surer
        last.bias *= 4
    assert log_likelihood_scorer(clf, X, comp_labels) < before - 0.02
    assert clf.score(X, comp_labels) == pytest.approx(before, abs=5e-3)


def test_score_says_how_to_compute_the_accuracy_on_true_labels(iris):
    X, y, comp_labels = iris
    clf = small(transition=BIASED).fit(X, comp_labels)
    with pytest.warns(NaysayWarning, match=r"accuracy_score\(y, clf.predict\(X\)\)"):
        assert clf.score(X, y) < clf.score(X, comp_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.score(X, comp_labels)
        small(transition=BIASED, epochs=1, lr=1e-6).fit(X, comp_labels).score(X, comp_labels)


def test_saved_model_predicts_the_same(tmp_path, iris):
    X, _, comp_labels = iris
    names = np.array(["cat", "dog", "owl"])
    table = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    clf = small(transition=BIASED, epochs=3, classes=names).fit(table, names[comp_labels])
    clf.save(tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "model.json",
        "model.safetensors",
    ]
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(table), clf.predict_proba(table))
    assert loaded.classes_.tolist() == clf.classes_.tolist()
    assert loaded.transition_ == clf.transition_
    assert loaded.history_ == clf.history_
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert loaded.lr == clf.lr
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(table[["a", "b"]])


def test_saved_model_with_a_network_of_ones_own_needs_it_again(tmp_path, iris):
    X, _, comp_labels = iris
    clf = small(network=nn.Linear(4, 3), epochs=2, random_state=np.random.RandomState(0))
    clf.fit(X, comp_labels).save(tmp_path / "model")
    with pytest.raises(InvalidModelFile, match=r"a network of your own.*load\(path, network="):
        ComplementaryClassifier.load(tmp_path / "model")
    for network in (nn.Linear(4, 3), lambda shape, n_classes: nn.Linear(*shape, n_classes)):
        loaded = ComplementaryClassifier.load(tmp_path / "model", network=network, device="cpu")
        np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def test_saved_model_with_parameters_of_another_kind_is_refused(tmp_path, iris):
    X, _, comp_labels = iris
    small(epochs=1).fit(X, comp_labels).save(tmp_path / "model")
    facts = tmp_path / "model" / "model.json"
    facts.write_text(facts.read_text().replace('"lr"', '"rate"'))
    with pytest.raises(InvalidModelFile, match="'rate'"):
        ComplementaryClassifier.load(tmp_path / "model")


def test_batch_norm_meets_no_batch_of_one(iris):
    X, _, comp_labels = iris
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    for n in (3, 5, 7, 33):
        chosen = np.concatenate([np.arange(0, 150, 50), np.arange(n - 3)])
        clf = small(
            network=network, epochs=1, batch_size=2, validation_fraction=0, classes=[0, 1, 2]
        )
        clf.set_params(transition=BIASED).fit(X[chosen], comp_labels[chosen])


def test_infinity_in_a_file_is_refused_as_in_memory(tmp_path):
    np.save(tmp_path / "X.npy", np.where(X3 == 29, np.inf, X3))
    with pytest.raises(ValueError, match="Input X contains infinity"):
        small(epochs=1).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), Y3)


X3 = np.arange(30.0).reshape(10, 3)
Y3 = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])


@pytest.mark.parametrize(
    "options,X,y,error,wording",
    [
        ({}, np.where(X3 == 3, np.inf, X3), Y3, ValueError, "Input X contains infinity"),
        ({}, X3[:0], Y3[:0], ValueError, r"Found array with 0 sample\(s\)"),
        ({}, X3, Y3[:9], ValueError, "inconsistent numbers of samples"),
        ({}, X3, np.zeros(10, int), InvalidLabels, "at least 2 classes. Got one class: "),
        ({}, X3, Y3 + 0.5, ValueError, "Unknown label type: continuous"),
        ({}, X3, np.where(Y3 == 0, np.nan, Y3), ValueError, "Input y contains NaN"),
        ({}, X3 * 1e300, Y3, InvalidInput, "X must fit into float32"),
        ({"classes": [0, 1, 2, 3]}, X3, Y3, InvalidLabels, "it never says 'not 3'"),
        ({"classes": [0, 1]}, X3, Y3, InvalidLabels, r"only the classes 0, 1\. Got also 2"),
        ({"classes": [0, 1, 1]}, X3, Y3, InvalidInput, "a list without repeats"),
        ({"transition": "unifrom"}, X3, Y3, InvalidInput, "transition must be 'uniform', 'est"),
        ({"transition": np.eye(3)}, X3, Y3, InvalidTransitionMatrix, "zero diagonal"),
        ({"transition": "estimate"}, X3, Y3, NoAnchorPoints, "needs anchors: examples whose true"),
        ({"method": "forwrd"}, X3, Y3, InvalidInput, "Unknown method 'forwrd'.*Did you mean 'forw"),
        ({"epochs": 0}, X3, Y3, InvalidInput, "epochs must be an integer of at least 1. Got 0"),
        ({"lr": -1}, X3, Y3, InvalidInput, "lr must be above 0. Got -1"),
        ({"lr": "x"}, X3, Y3, InvalidInput, "lr must be a number"),
        ({"weight_decay": -1.0}, X3, Y3, InvalidInput, "weight_decay must be above 0"),
        ({"validation_fraction": 1.0}, X3, Y3, InvalidInput, "above 0 and below 1. Got 1.0"),
        ({"device": "warp"}, X3, Y3, InvalidInput, "device must be 'auto' or a torch device"),
        ({"device": None}, X3, Y3, InvalidInput, "device must be 'auto' or a torch device"),
        ({"device": "xla"}, X3, Y3, InvalidInput, "machine has. Got 'xla': there is no such XLA"),
        ({"device": "cuda:99"}, X3, Y3, InvalidInput, "no such CUDA device .* use device='cpu'"),
    ],
)
def test_bad_input_gets_an_error_that_says_what_to_do(options, X, y, error, wording):
    with pytest.raises(error, match=wording):
        small(**options).fit(X, y)


def test_matrix_that_does_not_fit_the_classes_is_refused(iris):
    X, _, comp_labels = iris
    names = np.array(["cat", "dog", "owl"])
    with pytest.raises(InvalidTransitionMatrix, match=r"one row per class: 3 classes.*Got 4 rows"):
        small(transition=TransitionMatrix.uniform(4), classes=names).fit(X, names[comp_labels])
    Q = TransitionMatrix(np.asarray(BIASED), classes=["owl", "dog", "fox"])
    with pytest.raises(InvalidTransitionMatrix, match="It lacks 'cat' and also has 'fox'"):
        small(transition=Q, classes=names).fit(X, names[comp_labels])


def test_a_matrix_with_names_is_put_in_the_order_of_the_classes(iris):
    X, _, comp_labels = iris
    names = np.array(["cat", "dog", "owl"])
    Q = TransitionMatrix(np.asarray(BIASED), names)
    order = [2, 0, 1]
    turned = TransitionMatrix(np.asarray(BIASED)[np.ix_(order, order)], names[order])
    right, aligned, of_annotators = (
        small(transition=each, classes=names, epochs=2).fit(X, labels)
        for each, labels in [
            (Q, names[comp_labels]),
            (turned, names[comp_labels]),
            ({"ann": turned}, answers_of("ann", names[comp_labels])),
        ]
    )
    assert aligned.transition_ == of_annotators.transitions_["ann"] == right.transition_ == Q
    np.testing.assert_array_equal(aligned.predict_proba(X), right.predict_proba(X))


def test_a_matrix_without_names_gets_those_of_the_classes(iris):
    X, _, comp_labels = iris
    names = np.array(["cat", "dog", "owl"])
    for Q in (BIASED, TransitionMatrix.uniform(3)):
        clf = small(transition=Q, classes=names, epochs=1).fit(X, names[comp_labels])
        assert clf.transition_ == TransitionMatrix(np.asarray(Q), names)


def test_labels_may_be_positions_of_classes_that_have_names(iris):
    X, y, comp_labels = iris
    names = np.array(["owl", "cat", "dog"])
    clf = small(classes=names, transition=BIASED, epochs=2)
    anchors = (X[::5], names[y[::5]])
    by_name = clf.fit(X, names[comp_labels], anchors=anchors).predict_proba(X)
    clf.fit(X, comp_labels, anchors=(X[::5], y[::5]))
    np.testing.assert_array_equal(clf.predict_proba(X), by_name)
    assert clf.classes_.tolist() == ["owl", "cat", "dog"]
    with pytest.raises(InvalidLabels, match=r"y must be integers 0\.\.2\. Got 3"):
        clf.fit(X, comp_labels + 1)


@pytest.mark.parametrize(
    "anchors,error,wording",
    [
        ((X3[:2], [0, 1]), NoAnchorPoints, "None was given for '2'"),
        ((X3[:3], [0, 1]), InvalidLabels, "one true class per example. Got 3 examples and 2"),
        ((X3[:3], [0, 1, 7]), InvalidLabels, "y_anchor must contain only the classes 0, 1, 2"),
        ((X3[:3, :2], [0, 1, 2]), ValueError, "X has 2 features"),
        (X3, InvalidInput, r"anchors must be a pair \(X_anchor, y_anchor\)"),
    ],
)
def test_bad_anchors_get_an_error_that_says_what_to_do(anchors, error, wording):
    with pytest.raises(error, match=wording):
        small(transition="estimate", epochs=1).fit(X3, Y3, anchors=anchors)


def test_few_anchors_are_warned_of_with_the_class_that_needs_more():
    clf, anchors = small(transition="estimate", epochs=1), (X3[:3], [0, 1, 2])
    with pytest.warns(NaysayWarning, match="estimated from 1 anchor for each of '0', '1', '2'"):
        clf.fit(X3, Y3, anchors=anchors)
    (warning,) = clf.fit_quietly(X3, Y3, anchors=anchors)  # returned, not issued
    assert "estimated from 1 anchor for each of '0', '1', '2'" in warning
    assert clf.transition_estimate_.warnings == (warning,)
    assert small(epochs=1).fit_quietly(X3, Y3) == ()


@pytest.mark.unmeasured
def test_random_labels_and_parameters_never_give_a_nan_or_a_foreign_traceback():
    rng = np.random.default_rng(0)
    for trial in range(60):
        n, n_classes = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, int(rng.integers(1, 4)))) * 10.0 ** rng.integers(-30, 30)
        y = rng.integers(-1, n_classes, size=n)
        Q = [
            "uniform",
            "estimate",
            TransitionMatrix.uniform(max(2, n_classes)),
            rng.dirichlet(np.ones(n_classes), n_classes),
        ][trial % 4]
        clf = small(transition=Q, epochs=2, batch_size=int(rng.integers(1, 9)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NaysayWarning)
                clf.fit(X, y, anchors=(X, y) if rng.random() < 0.5 else None)
        except (NaysayError, ValueError):  # scikit-learn's own checks of X and y raise ValueError
            continue
        assert np.isfinite(clf.predict_log_proba(X)).all()


def test_labels_that_clearly_refute_the_matrix_are_warned_of():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=300)
    X = y[:, None] + rng.normal(0, 0.5, size=(300, 2))
    clf = ComplementaryClassifier(learner="kernel", classes=range(4), random_state=0)
    with pytest.warns(NaysayWarning, match="refute the transition matrix"):
        clf.fit(X, y)  # true classes, mistaken for complementary labels
    often = np.where(rng.random(300) < 0.9, (y + 1) % 4, (y + 2) % 4)
    with pytest.warns(NaysayWarning, match="refute the transition matrix"):
        clf.fit(X, often)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.fit(X, TransitionMatrix.uniform(4).sample(y, seed=1))
        clf.set_params(learner="network", epochs=3)
        clf.fit(X, TransitionMatrix.uniform(4).sample(y, seed=2))
