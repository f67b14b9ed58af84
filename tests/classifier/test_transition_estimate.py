"""The way from anchors to a refined matrix inside the classifier."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from naysay import (
    ComplementaryClassifier,
    InvalidLabels,
    NaysayWarning,
    NoAnchorPoints,
    TransitionMatrix,
    training,
)
from naysay.classifier import transition_estimate
from naysay.classifier.anchor_folds import Anchors
from naysay.classifier.inputs import read_known_classes
from naysay.classifier.transition_estimate import estimate_from_predictions
from naysay.estimation import class_prior, from_anchors, uncertainty
from naysay.metrics import accuracy_with_few_labels
from naysay.networks import MLP
from naysay.observations import Observations

ALL_X, ALL_y = load_digits(return_X_y=True)
X, y = ALL_X[:1000], ALL_y[:1000]
Q = TransitionMatrix.with_zeros(10, seed=0)
ANCHORS = np.concatenate([np.flatnonzero(y == label)[:10] for label in range(10)])


def classifier(**options):
    return ComplementaryClassifier(
        learner="network",
        transition="estimate",
        epochs=20,
        batch_size=128,
        lr=5e-3,
        random_state=0,
        **options,
    )


def only_estimating(**options):
    """Make a classifier of which only the estimate of Q matters."""
    return classifier(estimation_epochs=20, **options).set_params(epochs=1)


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))


def test_the_classifier_refines_what_the_anchors_gave(fitted):
    found = fitted.transition_estimate_
    assert fitted.transition_ == found.transition
    assert found.transition.distance(Q) < found.from_anchors.distance(Q) / 1.5
    assert (fitted.predict(X) == y).mean() > 0.9
    with pytest.warns(DeprecationWarning, match="transition_estimate_"):
        assert fitted.habit_ is found
    assert found.judgements is found.predictions
    assert str(found) == f"{found.transition}\n{found.uncertainty}"
    assert len(repr(found)) < 200  # not all arrays


@pytest.mark.unmeasured
def test_the_matrix_can_be_estimated_without_training_a_classifier(fitted):
    clf = classifier(progress=False).set_params(transition="uniform")
    found = clf.estimate_transition(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert found.transition == fitted.transition_
    assert found.warnings == fitted.transition_estimate_.warnings
    assert not hasattr(clf, "network_")
    assert clf.transition == "uniform"
    clf.set_params(estimation_epochs=1)
    scaled = clf.estimate_transition(X, Q.sample(y), anchors=(X[ANCHORS] / 16, y[ANCHORS]))
    assert "The anchors do not look like X" in scaled.warnings[0]


def test_without_refining_the_matrix_is_that_of_the_anchors(fitted):
    plain = only_estimating(refine=False)
    plain.fit(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert (
        plain.transition_
        == plain.transition_estimate_.from_anchors
        == fitted.transition_estimate_.from_anchors
    )
    assert plain.transition_estimate_.uncertainty is None


@pytest.mark.unmeasured
def test_a_diagonal_is_estimated_where_annotators_may_err():
    wrong = TransitionMatrix(0.9 * np.asarray(Q) + 0.1 * np.eye(10), allow_diagonal=True)
    clf = only_estimating(allow_diagonal=True)
    clf.fit(X, wrong.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert 0.03 < np.asarray(clf.transition_).diagonal().mean() < 0.2
    low, high = clf.transition_estimate_.mistakes.interval
    assert low < 0.1 < high < 0.25


@pytest.mark.unmeasured
def test_uniform_annotators_who_err_do_not_get_a_zero_diagonal():
    uniform = np.asarray(TransitionMatrix.uniform(4))
    wrong = TransitionMatrix(0.9 * uniform + 0.1 * np.eye(4), allow_diagonal=True)
    few = y < 4
    anchors = ANCHORS[:40]
    labels = wrong.sample(y[few], seed=1)
    clf = only_estimating(allow_diagonal=True)
    clf.fit(X[few], labels, anchors=(X[anchors], y[anchors]))
    assert np.asarray(clf.transition_).diagonal().mean() == pytest.approx(0.1, abs=0.04)


@pytest.mark.unmeasured
def test_known_classes_that_labels_exclude_are_left_out_with_a_warning():
    known = np.full(len(y), -1)
    known[ANCHORS] = y[ANCHORS]
    labels = Q.sample(y)
    labels[ANCHORS[:3]] = y[ANCHORS[:3]]
    with pytest.warns(NaysayWarning, match="3 of 100 answers about examples of known class"):
        clf = only_estimating(refine=False).fit(X, labels, true_labels=known)
    assert not np.asarray(clf.transition_).diagonal().any()
    refined = classifier().set_params(epochs=2)
    assert any("3 of 100" in each for each in refined.fit_quietly(X, labels, true_labels=known))
    assert refined.transition_estimate_.mistakes is None


def test_intervals_come_with_the_matrix(fitted):
    known = fitted.transition_estimate_.uncertainty
    values = np.asarray(Q)
    inside = (known.lower <= values + 0.01) & (values <= known.upper)
    assert inside.mean() > 0.85
    assert known.advice.startswith("More anchors of class")


@pytest.mark.unmeasured
def test_the_same_seed_gives_the_same_matrix_and_answers_may_be_several():
    answers = Observations(
        example=np.concatenate([np.arange(300), np.arange(100)]),
        label=np.concatenate([Q.sample(y[:300], seed=1), Q.sample(y[:100], seed=2)]),
    )
    found = [
        classifier(classes=range(10))
        .set_params(epochs=3)
        .fit(X[:300], answers, anchors=(X[ANCHORS], y[ANCHORS]))
        .transition_
        for _ in range(2)
    ]
    assert found[0] == found[1]


def test_a_matrix_that_was_given_leaves_no_habit():
    clf = ComplementaryClassifier(learner="network", transition=Q, epochs=1, random_state=0).fit(
        X, Q.sample(y)
    )
    assert clf.transition_estimate_ is None


def test_networks_that_do_not_know_the_anchors_do_not_refine():
    # two units cannot tell ten digits apart: what such networks see would make the matrix worse
    narrow = partial(MLP, widths=(2,), dropout=0.0)
    clf = classifier(network=narrow, estimation_epochs=10, classes=range(10)).set_params(epochs=1)
    example = np.tile(np.arange(len(y)), 3)
    habits = TransitionMatrix.without_zeros(10, seed=0)
    answers = Observations(
        example=example,
        label=habits.sample(y[example], seed=0),
        annotator=np.repeat(["ann", "bob", "cid"], len(y)),
    )
    clf.fit(X, answers, anchors=(X[ANCHORS], y[ANCHORS]))
    assert clf.transition_ == clf.transition_estimate_.from_anchors
    assert not clf.transition_estimate_.by_annotator
    assert (clf.transition_estimate_.predictions.argmax(axis=1) == y).mean() < 0.5


@pytest.mark.unmeasured
@pytest.mark.parametrize("more", [{}, {"estimation_epochs": 1}])
def test_networks_that_estimate_multiply_as_the_classifier_does(monkeypatch, more):
    asked = []

    def fit(*given, **hooks):
        asked.append(given[3].bfloat16)
        return plain(*given, **hooks)

    plain = training.fit
    monkeypatch.setattr(training, "fit", fit)
    clf = classifier(bfloat16=True, **more).set_params(epochs=1)
    clf.fit(X[:300], Q.sample(y)[:300], anchors=(X[ANCHORS], y[ANCHORS]))
    assert len(asked) >= 4  # for the labels, two that judge, and the classifier's own
    assert all(asked)


@pytest.mark.parametrize("more, n_epochs", [({}, 2 * 3), ({"estimation_epochs": 1}, 1 + 3)])
def test_networks_that_estimate_may_be_trained_for_less_long(more, n_epochs):
    views = []
    ComplementaryClassifier(
        learner="network",
        transition="estimate",
        classes=range(10),
        epochs=3,
        batch_size=len(X),  # a batch is an epoch
        augment=lambda inputs: views.append(len(inputs)) or inputs,
        refine=False,
        random_state=0,
        **more,
    ).fit(X, Q.sample(y), anchors=(X[ANCHORS], y[ANCHORS]))
    assert len(views) == n_epochs + 2  # each network is made for a view, too


@pytest.mark.unmeasured
def test_networks_that_refine_are_held_near_the_prior():
    annotators = TransitionMatrix.human("clcifar10")  # some of whose rows are nearly alike
    labels = annotators.sample(y, seed=0)
    least = []
    for strength in (0.0, 1.0):
        clf = classifier(match_prior=strength, allow_diagonal=True, classes=range(10))
        clf.set_params(epochs=5).fit(X, labels, anchors=(X[ANCHORS], y[ANCHORS]))
        least.append(clf.transition_estimate_.predictions.mean(axis=0).min())
    assert least[1] > least[0]
    assert least[1] > 0.05


@pytest.mark.parametrize("n_anchors", [1, 2])
def test_few_anchors_do_not_tell_unequal_shares(n_anchors):
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(10), n_anchors)
    read = partial(from_anchors, n_classes=10, classes=range(10), allow_diagonal=False, warn=False)
    seen = np.array([rng.dirichlet(20 * row + 1e-3) for row in np.asarray(Q)[true]])
    first = read(seen, true)
    samples = transition_estimate._resample(read, seen, true, seed=0)
    labels = Q.sample(np.arange(20_000) % 10, seed=1)
    off = [
        np.abs(class_prior(labels, first, shrink=True, Q_samples=others) - 0.1).sum()
        for others in (None, samples)
    ]
    assert off[1] < off[0] / 2


# --- true labels of some examples ---------------------------------------------------------------

KNOWN = np.full(len(y), -1)
KNOWN[ANCHORS] = y[ANCHORS]


@pytest.fixture(scope="module")
def with_true_labels():
    known = np.concatenate([KNOWN, np.full(400, -1)])
    return classifier().fit(ALL_X[:1400], Q.sample(ALL_y[:1400]), true_labels=known)


@pytest.mark.unmeasured
def test_examples_with_a_true_label_are_anchors_and_pairs(with_true_labels):
    clf = with_true_labels
    assert clf.transition_.distance(Q) < 0.15
    assert clf.transition_samples_.shape == (200, 10, 10)
    assert clf.transition_estimate_.at_anchors.shape == (len(ANCHORS), 10)
    assert not np.isnan(clf.transition_estimate_.at_anchors).any()
    low, high = clf.accuracy_.interval
    assert clf.accuracy_.n_true_labels == len(ANCHORS)
    assert low <= (clf.predict(ALL_X[1400:]) == ALL_y[1400:]).mean() <= high
    assert high - low < 0.25


@pytest.mark.filterwarnings("ignore:Q was estimated")
def test_a_random_sample_of_all_examples_is_not_weighted_by_classes():
    """The interval was 37 points wide, because the one example of a rare class counted much."""
    rng = np.random.default_rng(2)
    true = rng.choice(4, size=600, p=[0.6, 0.25, 0.1, 0.05])
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])
    points = (centres[true] + rng.normal(size=(600, 2))).astype(np.float32)
    labels = TransitionMatrix.uniform(4).sample(true, seed=rng)
    clf = ComplementaryClassifier(learner="linear", transition="estimate", random_state=0)
    clf.fit(points, labels, true_labels=np.where(np.arange(600) < 40, true, -1))
    predicted = clf.transition_estimate_.at_anchors.argmax(axis=1)
    alone = accuracy_with_few_labels(true[:40], predicted)
    assert np.ptp(clf.accuracy_.interval) <= np.ptp(alone.interval) < 0.25


@pytest.mark.filterwarnings("ignore:Q was estimated")
@pytest.mark.parametrize("learner", ["linear", "network"])
def test_equal_anchors_are_one_example(learner):
    """Examples in four rows with their class: 98 to 100 % was stated where 48 % was true."""
    rng = np.random.default_rng(3)
    true = np.tile(np.repeat(np.arange(4), 10), 4)
    points = np.tile(rng.normal(size=(40, 8)), (4, 1)).astype(np.float32)  # say nothing about it
    labels = TransitionMatrix.uniform(4).sample(true, seed=rng)
    clf = ComplementaryClassifier(learner=learner, transition="estimate", epochs=40, random_state=0)
    clf.fit(points, labels, true_labels=true)
    assert clf.accuracy_.n_true_labels == 40
    assert clf.accuracy_.interval[0] < 0.4
    assert np.ptp(clf.accuracy_.interval) > 0.2


def test_anchors_with_equal_features_are_one_example_unless_their_classes_differ():
    features = np.array([[0.0], [1], [-0.0], [2], [1], [3]])
    anchors = Anchors(features, np.array([0, 1, 0, 0, 1, 1]), np.arange(6), True)
    assert anchors.first.tolist() == [0, 1, 0, 3, 1, 5]
    fold = anchors.folds(2, np.random.default_rng(0))
    assert fold.tolist() == fold[anchors.first].tolist()
    assert sorted(fold[[0, 3]]) == sorted(fold[[1, 5]]) == [0, 1]
    for differing in (
        anchors._replace(y=np.array([0, 1, 1, 0, 1, 1])),
        anchors._replace(X=np.zeros((6, 0))),
    ):
        assert differing.first.tolist() == list(range(6))


@pytest.mark.parametrize("missing", [np.nan, None, "masked"])
def test_missing_true_labels_may_be_written_in_several_ways(missing):
    known = np.ma.masked_less(KNOWN, 0)
    if missing != "masked":
        known = [missing if each < 0 else each for each in KNOWN.tolist()]
    np.testing.assert_array_equal(read_known_classes(known, len(y), np.arange(10)), KNOWN)


def test_true_labels_must_fit_the_examples():
    with pytest.raises(InvalidLabels, match="one entry for each of the 1000 examples"):
        classifier().fit(X, Q.sample(y), true_labels=[1, 2])
    with pytest.raises(InvalidLabels, match="true_labels must contain only the classes"):
        classifier().fit(X, Q.sample(y), true_labels=np.where(KNOWN < 0, -1, 77))
    with pytest.raises(NoAnchorPoints, match="or true_labels="):
        classifier().fit(X, Q.sample(y), true_labels=np.full(len(y), -1))


@pytest.mark.unmeasured
def test_picked_anchors_are_learned_from_by_all_networks_and_show_no_accuracy():
    clf = classifier().set_params(epochs=2)
    clf.fit(X, Q.sample(y), true_labels=KNOWN, anchors_are="picked")
    assert clf.accuracy_ is None
    assert np.isnan(clf.transition_estimate_.at_anchors).all()


def test_samples_of_the_matrix_are_saved_with_the_model(with_true_labels, tmp_path):
    with_true_labels.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(
        loaded.transition_samples_, with_true_labels.transition_samples_, atol=1e-6
    )


# --- evidence that chooses the matrix -----------------------------------------------------------

TRUE3 = TransitionMatrix([[0, 0.7, 0.3], [0.7, 0, 0.3], [0.5, 0.5, 0]])
NAMES3 = ["a", "b", "c"]


@pytest.fixture
def estimate3():
    """Estimate a matrix of three classes from given predictions of true classes and labels."""
    rng = np.random.default_rng(0)
    true = rng.integers(3, size=2000)
    labels = TRUE3.sample(true, seed=rng)
    rows = np.concatenate([np.flatnonzero(true == label)[:10] for label in range(3)])

    def estimate(first, cross_fit, *, by_anchors=None, anchors_of=rows, rows_of=rows):
        anchors = Anchors(true[anchors_of, None], true[anchors_of], rows_of, True)

        def predict(share):
            probs = 0.8 * np.eye(3)[(true + (rng.random(len(true)) > share)) % 3] + 0.2 / 3
            return probs, probs[anchors_of], True

        return estimate_from_predictions(
            np.asarray(first)[true[anchors_of]],
            lambda Q, Q_samples, name: predict(cross_fit(Q)),
            Observations(example=np.arange(len(true)), label=labels),
            anchors,
            NAMES3,
            refining=True,
            allow_diagonal=False,
            by_annotator=False,
            resampling=False,
            seed=0,
            by_anchors=None if by_anchors is None else lambda: predict(by_anchors),
        ).transition

    estimate.true, estimate.labels = true, labels
    return estimate


def test_few_pairs_do_not_outweigh_the_labels_of_all_other_examples(estimate3):
    true, labels = estimate3.true, estimate3.labels
    unlucky = [np.flatnonzero((true == a) & (labels == b))[:8] for a, b in ((0, 2), (1, 2), (2, 0))]
    rows = np.concatenate(unlucky)
    found = estimate3(TRUE3, lambda Q: 1.0, anchors_of=rows, rows_of=rows)
    assert found.distance(TRUE3) < 0.1


def test_models_learn_with_the_first_matrix_and_with_that_of_anchors_alone(estimate3):
    tried = []

    def cross_fit(Q):
        tried.append(Q)
        return 0.95 if Q.distance(TRUE3) < 0.01 else 0.4

    found = estimate3(TRUE3, cross_fit, by_anchors=0.4, rows_of=np.full(30, -1))
    assert tried[0].distance(TRUE3) > 0.1  # because anchors alone predict poorly
    assert found.distance(TRUE3) < 0.1


# --- networks that learn again ------------------------------------------------------------------

UNIFORM = TransitionMatrix.uniform(10)


def mix(share):
    """Return a matrix on the way from uniform to Q."""
    return TransitionMatrix(share * np.asarray(Q) + (1 - share) * np.asarray(UNIFORM))


NEAR, HALF, FAR = mix(0.05), mix(0.5), mix(1.0)


@pytest.fixture
def refine(monkeypatch):
    """Fit, and return the estimate and the matrices that networks learn with in these rounds."""

    def refine(*rounds):
        learned_with = []

        def cross_fit(trainer, answers, anchors, Q, Q_samples, **options):
            learned_with.append(Q)
            at_anchors = np.full((len(anchors.y), 10), 0.1)
            return np.full((len(X), 10), 0.1), at_anchors, rounds[len(learned_with) - 1][1]

        monkeypatch.setattr(transition_estimate, "from_anchors", lambda *given, **options: UNIFORM)
        monkeypatch.setattr(transition_estimate, "cross_fit", cross_fit)
        monkeypatch.setattr(
            transition_estimate,
            "refine",
            lambda *given, **options: rounds[len(learned_with) - 1][0],
        )
        monkeypatch.setattr(
            transition_estimate, "_log_likelihood", lambda *given: rounds[len(learned_with) - 1][2]
        )
        monkeypatch.setattr(transition_estimate, "uncertainty", partial(uncertainty, n_samples=2))
        clf = classifier().set_params(epochs=1)
        clf.fit(X, Q.sample(y, seed=0), anchors=(X[ANCHORS], y[ANCHORS]))
        return clf.transition_, learned_with

    return refine


def test_networks_learn_again_with_a_matrix_that_is_far_from_theirs(refine):
    assert refine((HALF, True, -2.0), (FAR, True, -1.9)) == (FAR, [UNIFORM, HALF])


@pytest.mark.filterwarnings("ignore:the labels refute")  # which they may, as they come from FAR
def test_networks_do_not_learn_again_with_nearly_the_same_matrix(refine):
    assert refine((NEAR, True, -2.0)) == (NEAR, [UNIFORM])


def test_labels_that_refute_an_estimate_beyond_its_doubt_are_reported():
    values = np.where(np.eye(10, dtype=bool), 0.0, 1.0)
    values[1:, 0] = 0.01  # more labels have class 0
    clf = classifier()
    clf.classes_, clf.transition_estimate_ = np.arange(10), UNIFORM
    clf.transition_ = TransitionMatrix(values / values.sum(axis=1, keepdims=True))
    clf.transition_samples_ = np.stack([clf.transition_] * 3)
    labels = Observations(example=np.arange(len(y)), label=UNIFORM.sample(y, seed=0))
    (message,) = clf._test_matrix(labels, None, np.arange(len(y)), y)
    assert "from more true labels" in message
    clf.transition_samples_ = np.stack([UNIFORM] * 3)
    assert clf._test_matrix(labels, None, np.arange(len(y)), y) == ()


@pytest.mark.unmeasured
@pytest.mark.parametrize("worse", [(FAR, True, -2.1), (FAR, False, -1.9)])
def test_networks_that_explain_less_or_know_no_anchors_do_not_count(refine, worse):
    assert refine((HALF, True, -2.0), worse)[0] == HALF


@pytest.mark.unmeasured
def test_networks_that_learn_again_find_more_where_anchors_are_few(monkeypatch):
    images, _, true, _ = train_test_split(
        ALL_X, ALL_y, train_size=1347, stratify=ALL_y, random_state=0
    )
    rng = np.random.default_rng(0)
    labels = Q.sample(true, seed=rng)
    single = np.array([rng.choice(np.flatnonzero(true == label)) for label in range(10)])
    errors = []
    for far in (2.1, transition_estimate._FAR):  # no two matrices are farther apart than 2
        monkeypatch.setattr(transition_estimate, "_FAR", far)
        clf = classifier().set_params(epochs=40, lr=3e-3)
        with pytest.warns(NaysayWarning, match="1 anchor"):
            clf.fit(images, labels, anchors=(images[single], true[single]))
        errors.append(clf.transition_.distance(Q))
    assert errors[1] < 0.8 * errors[0]


# --- annotators who are told apart --------------------------------------------------------------

X4, y4 = load_digits(n_class=4, return_X_y=True)
ANCHORS4 = np.concatenate([np.flatnonzero(y4 == label)[:10] for label in range(4)])
HABITS = {
    "ann": TransitionMatrix.with_zeros(4, 1, seed=1),
    "bob": TransitionMatrix.without_zeros(4, (0.8, 0.1, 0.1), seed=5),
}
WHO = np.where(np.arange(len(y4)) % 2, "ann", "bob")


def ask(habits, who):
    """Return what each example's annotator says of it."""
    labels = np.empty(len(y4), dtype=np.int64)
    for name, Q in habits.items():
        labels[who == name] = Q.sample(y4[who == name], seed=0)
    return Observations(example=np.arange(len(y4)), label=labels, annotator=who)


def fit_apart(answers, epochs=15, **options):
    clf = ComplementaryClassifier(
        learner="network",
        transition="estimate",
        classes=range(4),
        epochs=epochs,
        lr=1e-2,
        random_state=0,
        **options,
    )
    return clf.fit(X4, answers, anchors=(X4[ANCHORS4], y4[ANCHORS4]))


def test_annotators_get_matrices_of_their_own_and_those_of_few_answers_are_named(tmp_path):
    who = WHO.copy()
    who[:19] = "cyd"
    habits = HABITS | {"cyd": HABITS["bob"]}
    with pytest.warns(NaysayWarning, match="1 of 3 annotators gave fewer.* for them: 'cyd'"):
        clf = fit_apart(ask(habits, who))
    assert clf.transitions_ == dict(clf.transition_estimate_.by_annotator)
    assert len(clf.transition_estimate_.warnings) == 1
    assert clf.transition_ == clf.transition_estimate_.transition == clf.transitions_["cyd"]
    for name, Q in HABITS.items():
        assert clf.transitions_[name].distance(Q) < clf.transition_.distance(Q) / 2
    assert (clf.predict(X4) == y4).mean() > 0.9
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert loaded.transitions_ == clf.transitions_


@pytest.mark.unmeasured
def test_annotators_alike_share_one_matrix():
    alike = fit_apart(ask(dict.fromkeys(HABITS, HABITS["bob"]), WHO))
    assert alike.transitions_ == alike.transition_estimate_.by_annotator == {}
    assert "held_out_accuracy" in alike.history_[0]


@pytest.mark.unmeasured
def test_mistakes_are_those_of_who_makes_them():
    rows = 0.7 * np.asarray(HABITS["bob"]) + 0.3 * np.eye(4)
    habits = HABITS | {"bob": TransitionMatrix(rows, allow_diagonal=True)}
    clf = fit_apart(ask(habits, WHO), allow_diagonal=True)
    mistakes = {name: np.asarray(Q).diagonal().mean() for name, Q in clf.transitions_.items()}
    assert mistakes["ann"] < 0.1 < 0.2 < mistakes["bob"] < 0.4


@pytest.mark.unmeasured
@pytest.mark.parametrize("options", [{"method": "pc"}, {"refine": False}])
def test_methods_that_cannot_take_many_matrices_and_the_papers_estimate_use_one(options):
    clf = fit_apart(ask(HABITS, WHO), epochs=2, **options)
    assert clf.transitions_ == {}
    assert clf.transition_ == clf.transition_estimate_.transition
