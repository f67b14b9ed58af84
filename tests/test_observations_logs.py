"""Yes and no to suggestions, and choices out of some classes, in one likelihood with labels."""

import math

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidLabels,
    NaysayWarning,
    TransitionMatrix,
)
from naysay.observations import Observations, from_log, log_likelihoods

UNIFORM = TransitionMatrix.uniform(4)


def likelihoods(answers, Q=UNIFORM):
    return np.exp(log_likelihoods(answers, Q))


def test_yes_and_no_are_the_two_possible_answers_of_every_class():
    yes, no = (likelihoods(from_log([2, 0], [a, "yes"], mistakes=0.1)) for a in ("yes", "no"))
    np.testing.assert_allclose(yes[0], [0.1, 0.1, 0.9, 0.1])
    np.testing.assert_allclose(yes[0] + no[0], 1)


def test_answers_of_all_kinds_about_one_example_multiply():
    Q = TransitionMatrix.without_zeros(4, seed=0)
    parts = [
        Observations(example=[0, 0], label=[1, 2], n_examples=1),
        from_log([3, 0], [0, 1], example=[0, 0], mistakes=0.05),
        Observations(example=[0], label=[1], offered=[[1, 3]]),
    ]
    joined = Observations.concatenate(*parts)
    assert len(joined.label) == 5
    expected = math.prod(likelihoods(each, Q) for each in parts)
    np.testing.assert_allclose(likelihoods(joined, Q), expected)
    assert joined.comp_labels.label.tolist() == [1, 2]


def test_probabilities_of_the_choices_that_were_offered_sum_to_one():
    Q = TransitionMatrix(
        0.9 * np.asarray(TransitionMatrix.without_zeros(4, seed=1)) + 0.1 * np.eye(4),
        allow_diagonal=True,
    )
    offered = [0, 2, 3]
    answers = Observations(example=[0, 1, 2], label=offered, offered=[offered] * 3)
    found = likelihoods(answers, Q)
    np.testing.assert_allclose(found.sum(axis=0), 1)
    assert found[1, 2] == pytest.approx(0.1)  # the rate of mistakes does not depend on the list
    ratio = np.asarray(Q)[1, 0] / np.asarray(Q)[1, 2]
    assert found[0, 1] / found[1, 1] == pytest.approx(ratio)
    everything = Observations(example=[0], label=[2], offered=[[0, 1, 2, 3]])
    plain = Observations(example=[0], label=[2])
    np.testing.assert_allclose(likelihoods(everything, Q), likelihoods(plain, Q))


def test_annotators_need_a_matrix_only_for_labels_they_chose():
    named = Observations(example=[0], label=[1], annotator=["ann"])
    asked = from_log([2], ["yes"], annotator=["bob"])
    joined = Observations.concatenate(named, asked)
    found = log_likelihoods(joined, {"ann": UNIFORM})
    np.testing.assert_allclose(np.exp(found[0]), [0, 0, 1 / 3, 0])


@pytest.mark.parametrize(
    "said", [[True, False], [1, 0], [1.0, 0.0], ["Yes", "no"], ["ACCEPTED", "rejected"], ["t", "F"]]
)
def test_yes_and_no_are_recognised(said):
    assert from_log(["a", "b"], said).accepted.tolist() == [1, 0]


def test_suggestions_without_an_answer_say_nothing():
    log = from_log(["a", "b", "a"], ["yes", None, "no"], annotator=["x", "y", "z"])
    assert log.label.tolist() == ["a", "a"]
    assert log.annotator.tolist() == ["x", "z"]
    assert log.n_examples == 3


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((["a", "b"], ["yes", "perhaps"]), "Got also 'perhaps'"),
        ((["a", "b"], ["no", "no"]), "accepted suggestions too; none of its 2 answers is yes"),
        ((["a", None], ["yes", "no"]), "must name a class wherever"),
        ((["a"], ["yes", "no"]), "one entry per suggestion"),
    ],
)
def test_logs_that_cannot_be_used_are_refused(arguments, message):
    with pytest.raises((InvalidInput, InvalidLabels), match=message):
        from_log(*arguments)


def test_mistakes_offers_and_kinds_are_checked():
    with pytest.raises(InvalidInput, match="mistakes must be"):
        from_log(["a"], ["yes"], mistakes=0.5)
    with pytest.raises(InvalidInput, match="chose 'c' out of 'a', 'b'"):
        Observations(example=[0], label=["c"], offered=[["a", "b"]])
    with pytest.raises(InvalidInput, match="1 for yes, 0 for no"):
        Observations(example=[0], label=["c"], accepted=[2])
    with pytest.raises(InvalidInput, match="all be text, or all be numbers"):
        Observations.concatenate(from_log(["a"], [1]), from_log([0], [1]))


def test_contradicting_answers_need_mistakes():
    log = from_log([0, 1], ["yes", "yes"], example=[0, 0])
    with pytest.raises(InvalidLabels, match="say 'is 0', 'is 1', which is possible for no class"):
        log_likelihoods(log, UNIFORM)


@pytest.fixture(scope="module")
def suggested():
    """Blobs, and the suggestions of a model that has seen a few of them."""
    X, y = make_blobs(600, n_features=4, centers=6, cluster_std=1.5, random_state=3)
    weak = LogisticRegression().fit(X[:12, :1], y[:12])
    names = np.array(list("abcdef"))
    return X, names[y], names[weak.predict(X[:, :1])]


def fit(X, answers, **options):
    clf = ComplementaryClassifier(learner="network", random_state=0, epochs=40, lr=0.01, **options)
    return clf.fit(X, answers)


def test_classifier_learns_from_yes_and_no_and_rejections_alone_mislead(suggested):
    X, y, named = suggested
    said = named == y
    assert 0.2 < said.mean() < 0.7
    clf = fit(X, from_log(named, said), classes=list("abcdef"))
    assert (clf.predict(X) == y).mean() > 0.95
    assert clf.score(X, from_log(named, said)) > clf.score(X, from_log(named, ~said))
    given = {"classes": list("abcdef"), "transition": TransitionMatrix.uniform(6)}
    with pytest.warns(NaysayWarning, match="the labels refute the transition matrix"):
        alone = fit(X[~said], named[~said], **given)
    assert (alone.predict(X) == y).mean() < 0.9


def test_a_class_that_is_never_suggested_is_what_remains_but_two_are_not(suggested):
    X, y, _ = suggested
    rng = np.random.default_rng(0)
    named = rng.choice(list("abcde"), size=len(y))
    clf = fit(X, from_log(named, named == y), classes=list("abcdef"))
    assert (clf.predict(X)[y == "f"] == "f").mean() > 0.9
    with pytest.raises(InvalidLabels, match="never says 'not f'"):
        fit(X, from_log(named, named == y), classes=list("abcdefg"))


def test_all_kinds_of_answers_train_one_classifier(suggested):
    X, y, named = suggested
    rng = np.random.default_rng(0)
    classes = np.array(list("abcdef"))
    third = np.arange(len(y)) % 3
    labels = TransitionMatrix.uniform(6).sample(np.searchsorted(classes, y), seed=0)
    lists = [rng.permutation(classes)[:4].tolist() for _ in y]
    chosen = np.array(
        [next(each for each in lists[place] if each != true) for place, true in enumerate(y)]
    )
    asked, shown = np.flatnonzero(third == 0), np.flatnonzero(third == 1)
    answers = Observations.concatenate(
        from_log(named[asked], (named == y)[asked], example=asked, n_examples=len(y)),
        Observations(
            example=shown,
            label=chosen[shown],
            offered=[lists[each] for each in shown],
        ),
        Observations(example=np.flatnonzero(third == 2), label=classes[labels][third == 2]),
    )
    clf = fit(X, answers)
    assert (clf.predict(X) == y).mean() > 0.9


def test_methods_that_know_labels_only_say_so(suggested):
    X, y, named = suggested
    with pytest.raises(InvalidInput, match="'scl-nl' learns from complementary labels only"):
        fit(X, from_log(named, named == y), method="scl-nl")
    with pytest.raises(InvalidInput, match="match_prior needs complementary labels"):
        fit(X, from_log(named, named == y), classes=list("abcdef"), match_prior=0.1)


def test_anchors_of_a_log_show_the_accuracy(suggested):
    X, y, named = suggested
    n = 400  # the others are new
    known = np.where(np.arange(n) < 60, y[:n], None)
    clf = ComplementaryClassifier(
        transition="estimate", classes=list("abcdef"), random_state=0, epochs=20, lr=0.01
    )
    clf.fit(X[:n], from_log(named[:n], (named == y)[:n]), true_labels=known)
    low, high = clf.accuracy_.interval
    assert clf.accuracy_.n_true_labels == 60
    right = clf.predict(X[n:]) == y[n:]
    one = 1 / len(right)  # so few new examples show the accuracy to one of them at best
    assert low - one <= right.mean() <= high + one
    assert clf.transition_.is_uniform  # there was nothing to estimate
