"""The default learner: pooled evidence, candidates and their mixture."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.svm import SVC

from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidLabels,
    TransitionMatrix,
    training,
)
from naysay.classifier import learner, transition_estimate
from naysay.classifier.candidates import Candidate, mix
from naysay.classifier.inputs import gather_anchors
from naysay.classifier.pooling import Evidence, pool_evidence
from naysay.networks import MLP, Forest, Kernel, Mixture
from naysay.observations import Observations

ALONE = ("anchors alone", "anchors alone, trees")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600].astype(np.float32), y[:600]


def evidence_of(X, y, *, seed=0):
    Q = np.asarray(TransitionMatrix.uniform(10))
    not_y = TransitionMatrix.uniform(10).sample(y, seed=seed)
    return Evidence(X, Q.T[not_y], np.arange(len(X)) % 5, seed)


def test_pooled_labels_of_neighbours_predict_classes_that_single_labels_do_not(digits):
    X, y = digits
    pooled = pool_evidence(evidence_of(X, y))
    assert (pooled.out_of_fold.argmax(axis=1) == y).mean() > 0.6  # a single label: 1 in 9


def test_pooled_predictions_do_not_use_the_evidence_of_their_fold(digits):
    X, y = digits
    first = evidence_of(X, y)
    changed = first.likelihood.copy()
    changed[first.fold == 2] = np.eye(10)[y[first.fold == 2]]
    second = first.with_likelihood(changed)
    rows = first.fold == 2
    np.testing.assert_array_equal(first.without(2)[rows], second.without(2)[rows])
    np.testing.assert_array_equal(first.without(2), second.without(2))


def test_a_preferred_prior_is_used_if_the_evidence_is_not_clearly_more_likely_without_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)).astype(np.float32), (rng.random(300) > 0.9).astype(int)
    likelihood = np.where(rng.random((300, 1)) < 0.5, np.eye(2)[y], 0.5)
    evidence = Evidence(X, likelihood, np.arange(300) % 5, 0)
    free, preferred = (
        pool_evidence(evidence, np.full(2, 0.5), prefers_prior=each).calibration
        for each in (False, True)
    )
    gain = free.scores - preferred.scores
    assert 0 < gain.sum() < gain.std() * np.sqrt(len(gain))


def test_a_forest_predicts_as_the_trees_of_scikit_learn(digits):
    X, y = digits
    trees = ExtraTreesRegressor(7, min_samples_leaf=2, random_state=0).fit(X, np.eye(10)[y])
    forest = Forest.from_trees([each.tree_ for each in trees.estimators_], (64,), 10)
    with torch.no_grad():
        found = forest(torch.from_numpy(X)).exp().numpy()
    np.testing.assert_allclose(found, np.maximum(trees.predict(X), 1e-3), atol=1e-6)


def test_a_mixture_is_the_weighted_mean_of_its_members():
    members = [MLP((4,), 3, widths=(5,)), Kernel((4,), 3, n_centres=2)]
    torch.nn.init.normal_(members[0].layers[-1].weight)
    mixture = Mixture.of(members, [0.5, 0.3], [2.0, 1.0], (4,), 3)
    X = torch.randn(6, 4)
    expected = 0.5 * (members[0](X) / 2).softmax(1) + 0.3 * members[1](X).softmax(1) + 0.2 / 3
    torch.testing.assert_close(mixture(X).exp(), expected)


def test_weights_prefer_candidates_under_which_held_out_evidence_is_likely(digits):
    X, y = digits
    evidence = evidence_of(X, y).with_likelihood(np.eye(10)[y])
    good = 0.5 * np.eye(10)[y] + 0.05
    bad = np.full_like(good, 0.1)
    found = [
        Candidate(name, probs, evidence.fit_calibration(probs), list, 0.0)
        for name, probs in (("linear", good), ("kernel", bad))
    ]
    weights, _ = mix(evidence, found)
    assert weights[0] > 0.95


@pytest.mark.unmeasured
@pytest.mark.parametrize("learner", ["auto", "kernel", "trees", "linear"])
def test_each_learner_learns_and_survives_saving(learner, tmp_path):
    X, y = load_iris(return_X_y=True)
    not_y = TransitionMatrix.uniform(3).sample(y, seed=0)
    known = np.where(np.arange(150) % 15 == 0, y, -1)
    clf = ComplementaryClassifier(learner=learner, epochs=2, random_state=0)
    clf.fit(X, not_y, true_labels=known)
    assert (clf.predict(X) == y).mean() > 0.9
    assert sum(each["weight"] for each in clf.candidates_) == pytest.approx(1)
    names = {each["name"] for each in clf.candidates_}
    assert names == ({"kernel", "linear", "trees", *ALONE} if learner == "auto" else {learner})
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.mark.unmeasured
def test_the_default_beats_the_anchors_alone_on_digits(digits):
    X, y = digits
    not_y = TransitionMatrix.with_zeros(10, seed=0).sample(y, seed=0)
    known = np.full(len(y), -1)
    for label in range(10):
        known[np.flatnonzero(y == label)[:5]] = label
    clf = ComplementaryClassifier(transition="estimate", epochs=5, random_state=0)
    clf.fit(X[:450], not_y[:450], true_labels=known[:450])
    alone = SVC(C=10).fit(X[:450][known[:450] >= 0], known[:450][known[:450] >= 0])
    right, right_alone = ((each.predict(X[450:]) == y[450:]).mean() for each in (clf, alone))
    assert right >= right_alone
    assert clf.accuracy_.interval[0] <= right <= clf.accuracy_.interval[1]
    assert {"network", *ALONE} <= {each["name"] for each in clf.candidates_}


@pytest.mark.unmeasured
def test_trees_of_the_anchors_alone_are_used_where_scales_mislead_neighbours_and_labels_are_weak():
    rng = np.random.default_rng(0)
    y = rng.integers(8, size=199)
    X = np.column_stack([10.0 ** (y + rng.normal(scale=0.2, size=199)), rng.normal(size=199)])
    labels = TransitionMatrix.uniform(8).sample(y, seed=1)
    known = np.where(np.arange(199) < 80, y, -1)
    clf = ComplementaryClassifier(random_state=0).fit(X, labels, true_labels=known)
    assert clf.candidates_[0]["name"] == "anchors alone, trees"
    assert clf.candidates_[0]["weight"] > 0.2


def test_kernels_predict_as_they_were_scored_where_scales_differ_by_orders_of_magnitude():
    rng = np.random.default_rng(0)
    y = rng.integers(8, size=199)
    X = np.column_stack([10.0 ** (y + rng.normal(scale=0.2, size=199)), rng.normal(size=199)])
    labels = TransitionMatrix.uniform(8).sample(y, seed=1)
    clf = ComplementaryClassifier(learner="kernel", random_state=0).fit(X, labels)
    chances = (clf.predict_proba(X) * (np.arange(8) != labels[:, None])).sum(axis=1)
    assert np.log(chances).mean() > clf.candidates_[0]["score"] - 0.02


def test_a_model_that_is_no_better_than_guessing_is_reported():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=600)
    labels = TransitionMatrix.uniform(4).sample(y, seed=1)
    clf = ComplementaryClassifier(learner="kernel", random_state=0)
    found = {
        name: clf.fit_quietly(X.astype(np.float32), labels)
        for name, X in {"noise": rng.normal(size=(600, 4)), "classes": np.eye(4)[y]}.items()
    }
    assert found["classes"] == ()
    (message,) = found["noise"]
    assert "better than guessing" in message


def test_learners_that_cannot_do_what_is_asked_say_so():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInput, match="learner must be one of auto, network"):
        ComplementaryClassifier(learner="forest").fit(X, y)
    with pytest.raises(InvalidInput, match="learner='trees' cannot be used with method"):
        ComplementaryClassifier(learner="trees", method="pc").fit(X, y)
    assert ComplementaryClassifier(method="pc", epochs=1).fit(X, y).candidates_ == ()


@pytest.mark.unmeasured
@pytest.mark.parametrize("learner", ["auto", "network"])
def test_a_class_that_is_never_named_is_learned_from_anchors(learner):
    X, y = load_iris(return_X_y=True)
    Q = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]])  # nobody says "not 2"
    not_y = Q.sample(y, seed=0)
    known = np.where(np.arange(150) % 5 == 0, y, -1)
    clf = ComplementaryClassifier(
        transition="estimate", classes=[0, 1, 2], learner=learner, epochs=60, random_state=0
    )
    clf.fit(X, not_y, true_labels=known)
    assert (clf.predict(X) == y).mean() > 0.8
    assert np.asarray(clf.transition_)[:, 2].max() < 0.1
    with pytest.raises(InvalidLabels, match="never says 'not 2'"):
        clf.set_params(transition="uniform").fit(X, not_y, true_labels=known)


@pytest.mark.unmeasured
def test_the_matrix_is_refined_where_classes_overlap():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=1200)
    X = rng.standard_normal((1200, 6)) + 0.6 * np.eye(6)[y]  # about 40 % can be right
    Q = TransitionMatrix.without_zeros(5, (0.7, 0.1, 0.1, 0.1), seed=0)
    known = np.full(1200, -1)
    for label in range(5):
        known[np.flatnonzero(y == label)[:20]] = label
    clf = ComplementaryClassifier(
        transition="estimate", classes=range(5), epochs=10, random_state=0
    )
    found = clf.estimate_transition(X, Q.sample(y, seed=0), true_labels=known)
    assert found.at_anchors is not None
    assert (found.at_anchors.argmax(axis=1) == known[known >= 0]).mean() < 0.5
    assert found.transition.distance(Q) < 0.7 * found.from_anchors.distance(Q)


@pytest.fixture
def small_is_large(monkeypatch):
    """Treat tables of more than 250 examples as large."""
    monkeypatch.setattr(learner, "_MOST", 250)
    monkeypatch.setattr(learner, "_SAMPLE", 250)
    monkeypatch.setattr(learner, "_LEAST_SAMPLE", 50)


def test_a_large_table_is_learned_from_a_sample_and_by_networks_on_all(
    digits, small_is_large, tmp_path
):
    order = np.random.default_rng(0).permutation(600)
    X, y = (each[order] for each in digits)
    not_y = TransitionMatrix.with_zeros(10, seed=0).sample(y, seed=0)
    known = np.full(len(y), -1)
    for label in range(10):
        known[np.flatnonzero(y == label)[:5]] = label
    clf = ComplementaryClassifier(transition="estimate", epochs=5, random_state=0)
    clf.fit(X[:500], not_y[:500], true_labels=known[:500])
    names = {each["name"] for each in clf.candidates_}
    assert names == {"kernel", "linear", "trees", *ALONE, "network, all examples"}
    assert clf.transition_estimate_.predictions.shape == (500, 10)
    right = (clf.predict(X[500:]) == y[500:]).mean()
    assert right > 0.7
    assert clf.accuracy_.interval[0] <= right <= clf.accuracy_.interval[1]
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("kind", ["auto", "network"])
def test_the_matrix_of_a_very_large_table_is_refined_on_a_sample(
    digits, small_is_large, monkeypatch, kind
):
    X, y = digits
    Q = TransitionMatrix.with_zeros(10, seed=1)
    known = np.where(np.arange(len(y)) < 100, y, -1)
    answers = Observations(example=np.arange(500), label=Q.sample(y[:500], seed=0), n_examples=600)
    clf = ComplementaryClassifier(
        transition="estimate", learner=kind, epochs=10, lr=1e-2, random_state=0
    )
    monkeypatch.setattr(transition_estimate, "_MOST_REFINED", 450)
    clf.fit(X, answers, true_labels=known)
    found = clf.transition_estimate_
    assert found.sample == "The matrix was refined on a random sample of 450 examples"
    assert len(np.unique(found.examples)) == 450
    assert found.examples.max() < 500  # none that has no answer
    assert (found.predictions.argmax(axis=1) == y[found.examples]).mean() > 0.7
    assert found.transition.distance(Q) < found.from_anchors.distance(Q)
    accuracy = (clf.predict(X) == y).mean()
    assert clf.accuracy_.interval[0] <= accuracy <= clf.accuracy_.interval[1]
    if kind == "network":  # of an annotator with few answers, all count
        by_annotator = replace(answers, annotator=np.repeat(["ann", "bob"], [480, 20]))
        monkeypatch.setattr(transition_estimate, "_MANY_PER_CLASS", 2)
        found = clf.estimate_transition(X, by_annotator, true_labels=known)
        assert set(range(480, 500)) <= set(found.examples.tolist())
        assert 450 < len(found.examples) < 470


def test_the_sample_of_a_large_table_has_the_anchors_and_no_scored_example(digits, small_is_large):
    X, y = digits
    labels = Observations(example=np.arange(600), label=TransitionMatrix.uniform(10).sample(y))
    anchors = gather_anchors(X, None, np.where(np.arange(600) < 60, y, -1), "random", np.arange(10))
    pool = learner.Pool(X, labels, anchors, 0, 10)
    assert len(pool.chosen) == len(np.unique(pool.chosen)) == 250
    assert set(range(60)) <= set(pool.chosen.tolist())
    assert set(pool.others.tolist()) == set(range(600)) - set(pool.chosen.tolist())
    evidence = pool.find_evidence(TransitionMatrix.uniform(10), mistakes=0.01)
    np.testing.assert_array_equal(evidence.X, X[pool.chosen])
    np.testing.assert_array_equal(evidence.true[pool.rows], y[:60])
    unknown = evidence.true < 0
    np.testing.assert_array_equal(
        evidence.likelihood[unknown].argmin(axis=1), labels.label[pool.chosen][unknown]
    )


def test_more_anchors_than_the_sample_holds_are_sampled_too(digits, small_is_large):
    X, y = digits
    not_y = TransitionMatrix.uniform(10).sample(y, seed=0)
    clf = ComplementaryClassifier(learner="kernel", random_state=0)
    clf.fit(X[:500], not_y[:500], anchors=(X[100:500], y[100:500]))
    assert (clf.predict(X[500:]) == y[500:]).mean() > 0.7


def test_a_large_table_with_few_labels_is_learned_from_the_sample(digits, small_is_large):
    X, y = digits
    known = np.arange(0, 600, 3)
    labels = Observations(
        example=known, label=TransitionMatrix.uniform(10).sample(y[known], seed=0)
    )
    clf = ComplementaryClassifier(classes=range(10), random_state=0)
    clf.fit(X, replace(labels, n_examples=600))
    assert {each["name"] for each in clf.candidates_} == {"kernel", "linear", "trees"}


def test_very_many_classes_or_features_make_the_sample_smaller():
    labels = Observations(example=np.arange(4000), label=np.arange(4000) % 200)
    sizes = [
        len(learner.Pool(np.zeros((4000, n_features)), labels, None, 0, n_classes).chosen)
        for n_features, n_classes in [(20, 10), (20, 200), (3000, 10)]
    ]
    assert sizes == [4000, 2500, 1935]


@pytest.mark.parametrize("kind", ["kernel", "auto"])
def test_unseen_names_the_examples_of_a_large_table_that_were_predicted(
    digits, small_is_large, kind
):
    X, y = digits
    Q = TransitionMatrix.with_zeros(10, seed=1)
    clf = ComplementaryClassifier(transition=Q, learner=kind, epochs=5, random_state=0)
    rows, classes = clf.fit(X, Q.sample(y, seed=0)).unseen_
    assert len(rows) < len(y)
    assert (classes == y[rows]).mean() > 0.9


def test_steps_are_bounded_on_large_tables_and_never_raised():
    options = training.Options(epochs=100, batch_size=64, lr=1.0, weight_decay=0.0, patience=20)
    assert learner.bound_steps(options, 1_000_000, 20_000).epochs == 2
    assert learner.bound_steps(options, 6_400, 20_000).epochs == 100


@pytest.mark.unmeasured
@pytest.mark.parametrize("learner", ["linear", "kernel", "network"])
def test_a_feature_of_numbers_too_small_for_a_scale_is_taken_as_constant(learner):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = np.column_stack([1e-45 * rng.integers(2, size=60), y + rng.normal(scale=0.1, size=60)])
    labels = TransitionMatrix.uniform(3).sample(y, seed=0)
    clf = ComplementaryClassifier(learner=learner, epochs=2, random_state=0)
    assert np.isfinite(clf.fit(X.astype(np.float32), labels).predict_proba(X)).all()
