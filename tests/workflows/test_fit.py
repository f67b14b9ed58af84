"""From a user's own data to a model and what can be said of it."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from naysay import (
    ComplementaryClassifier,
    InvalidData,
    InvalidInput,
    NaysayWarning,
    NoAnchorPoints,
    TransitionMatrix,
)
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.workflows.estimate import estimate_own
from naysay.workflows.fit import fit_own, hold_out, refuted_at_once

HABIT = TransitionMatrix([[0, 0.8, 0.2], [0.3, 0, 0.7], [0.9, 0.1, 0]], ["cat", "dog", "owl"])
NOT_THEIRS = TransitionMatrix(  # these annotators do not err
    [[0.2, 0.6, 0.2], [0.3, 0.2, 0.5], [0.6, 0.2, 0.2]], HABIT.classes, allow_diagonal=True
)

BIASED = TransitionMatrix(
    np.asarray(TransitionMatrix.without_zeros(5, (0.55, 0.2, 0.15, 0.1), seed=0)), list("01234")
)


def make_frame(n=600, Q=HABIT, seed=0, n_known=10):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 2)) + 3 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame["not"] = [Q.classes[label] for label in Q.sample(y, seed=rng)]
    names = np.array(Q.classes)[y]
    known = np.concatenate([np.flatnonzero(y == label)[:n_known] for label in range(3)])
    frame["is"] = pd.Series([names[i] if i in set(known) else None for i in range(n)], dtype="str")
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    frame, y = make_frame()
    own = read_own(frame, label="not", true_label="is")
    return own, y, *fit_own(own, transition=HABIT, epochs=10)


@pytest.mark.unmeasured
def test_the_interval_holds_the_true_accuracy(fitted):
    own, y, clf, report = fitted
    true = float((clf.predict(own.X) == np.array(own.classes)[y]).mean())
    assert true > 0.9
    low, high = report.accuracy.interval
    assert low <= true <= high
    assert report.accuracy.n_labels == report.n_held_out == 114  # a fifth of 570 without anchors
    assert report.n_training == 486
    assert sum(report.n_predicted) == 600


@pytest.mark.unmeasured
def test_the_interval_keeps_its_word_over_many_data_sets():
    fresh, y = make_frame(4000, seed=999)
    X = fresh[["a", "b"]].to_numpy(np.float32)
    n_inside = 0
    for seed in range(30):
        frame, _ = make_frame(150, seed=seed, n_known=0)
        own = read_own(frame[["a", "b", "not"]], label="not")
        clf, report = fit_own(own, transition=HABIT, learner="network", epochs=3, seed=seed)
        true = float((clf.predict(X) == np.array(own.classes)[y]).mean())
        low, high = report.accuracy.interval
        n_inside += low <= true <= high
    assert n_inside >= 26  # of 30 at 95 %; fewer happen in 16 of 1,000 cases


def test_the_report_says_what_was_done(fitted):
    own, _, clf, report = fitted
    assert report.transition == HABIT
    assert (report.transition_from, report.method, report.n_anchors) == ("given", "forward", 30)
    assert report.suspects is not None  # training allows for some mistakes
    assert report.mistakes is None  # their rate was not estimated
    np.testing.assert_allclose(report.probs, clf.predict_proba(own.X), atol=1e-6)
    assert sorted(report.wrong_answers.indices) == list(range(len(own.label)))
    assert clf.recipe_ == own.recipe
    assert clf.provenance_["data"] == "the data frame"
    assert clf.provenance_["seed"] == 0
    figures = report.to_dict()
    assert figures["transition"]["identifiable"] is True
    assert set(figures["precision"]) == {"cat", "dog", "owl"}


def test_the_least_sure_come_first_with_their_row(fitted):
    own, _, clf, report = fitted
    errors = [each.error_probability for each in report.unsure]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] == pytest.approx(1 - clf.predict_proba(own.X).max(axis=1).min())
    first = report.unsure[0]
    row = int(first.name.removeprefix("data row ")) - 1
    assert float(first.cells["a"]) == pytest.approx(own.X[row, 0], rel=1e-4)
    assert first.answers == (f"not {own.classes[own.comp_labels[row]]}",)
    assert first.guesses[0][1] >= first.guesses[1][1]


def test_the_same_seed_gives_the_same_model():
    frame, _ = make_frame(100)
    own = read_own(frame, label="not")
    probs = [
        fit_own(own, learner="network", epochs=3, seed=seed)[0].predict_proba(own.X).tolist()
        for seed in (1, 1, 2)
    ]
    assert probs[0] == probs[1] != probs[2]


def test_no_anchor_and_no_last_label_of_a_class_is_hold_out():
    frame, _ = make_frame(100)
    frame.loc[0, "not"] = "fox"
    own = read_own(frame, label="not", true_label="is")
    for seed in range(20):
        held_out = hold_out(own, 0.5, np.random.default_rng(seed))
        assert not held_out[own.true_labels >= 0].any()
        assert set(own.label[~held_out[own.example]]) == set(range(4))


def test_several_answers_and_annotators_are_learned_from():
    frame, y = make_frame(300, n_known=0)
    again = frame.assign(**{"not": [HABIT.classes[i] for i in HABIT.sample(y, seed=9)]})
    both = pd.concat([frame.assign(who="ann"), again.assign(who="bob")])
    both["id"] = [*range(300), *range(300)]
    own = read_own(
        both[["a", "b", "not", "who", "id"]], label="not", annotator="who", example_id="id"
    )
    clf, report = fit_own(own, transition=HABIT, learner="network", epochs=30)
    assert (clf.predict(own.X) == np.array(own.classes)[y]).mean() > 0.85
    assert report.n_held_out == 60
    assert set(report.label_shares) == {"ann", "bob"}
    assert report.label_shares["ann"].sum() == pytest.approx(1)


def test_problems_and_advice_are_named():
    frame, _ = make_frame(100, n_known=2)
    singular = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], HABIT.classes)
    frame = frame[frame["not"] != "owl"]
    own = read_own(frame, label="not", true_label="is", classes=HABIT.classes)
    _, report = fit_own(own, transition=singular, learner="network", epochs=2)
    text = " ".join(report.warnings)
    assert "'owl': never named as complementary" in text
    assert "'cat', 'dog', 'owl': fewer than 5 anchors" in text
    assert "never excluded according to Q" in text
    assert "“not owl”" in report.advice[0]


def test_a_habit_only_assumed_is_said_to_be():
    frame, _ = make_frame(60, TransitionMatrix.uniform(3, classes=HABIT.classes), n_known=0)
    own = read_own(frame[["a", "b", "not"]], label="not")
    _, report = fit_own(own, learner="network", epochs=2)
    assert any("only assumed" in sentence for sentence in report.advice)


@pytest.mark.unmeasured
@pytest.mark.parametrize("n", [600, 3000])
def test_a_matrix_that_the_labels_refute_gives_no_accuracy(n):
    frame, _ = make_frame(n)
    own = read_own(frame, label="not", true_label="is")
    with warnings.catch_warnings():
        warnings.simplefilter("error", NaysayWarning)
        _, report = fit_own(own, transition=NOT_THEIRS, learner="network", epochs=15)
    assert report.agreement.refuted
    assert report.accuracy.value is None
    assert report.accuracy.interval == (0, 1)
    assert str(report.accuracy).startswith("unknown: the labels refute the transition matrix")
    assert all(each.unknown for each in report.precision)
    warning = report.fit_warnings[0]
    assert "The labels refute the transition matrix" in warning
    assert "naysay estimate" in warning
    assert "order of its classes" in warning
    assert "does not describe" in " ".join(report.advice)
    assert "only known to lie between" not in " ".join(report.advice)
    assert report.to_dict()["transition"]["fits"] is False


def test_labels_that_are_not_uniform_refute_the_assumption_that_they_are():
    """The case of a new user: nothing is known, so that a uniform matrix is assumed."""
    frame, _ = make_frame(600, n_known=0)
    own = read_own(frame[["a", "b", "not"]], label="not")
    _, report = fit_own(own, learner="network", epochs=15)
    assert report.transition_from == "uniform"
    assert report.agreement.refuted
    assert report.accuracy.value is None


def biased_frame(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=800)
    frame = pd.DataFrame(y[:, None] + rng.normal(0, 2, size=(800, 3)), columns=list("abc"))
    frame["not"] = [str(each) for each in BIASED.sample(y, seed=rng)]
    return frame


@pytest.mark.unmeasured
def test_all_labels_test_an_assumed_matrix_not_only_those_held_out():
    """A model that learned with a wrong matrix hides it from the few labels that are held out."""
    own = read_own(biased_frame(7), label="not")
    _, report = fit_own(own, learner="kernel")
    assert report.agreement.n_labels == 800
    assert report.agreement.refuted
    assert report.accuracy.unknown is not None
    _, report = fit_own(own, transition=BIASED, learner="kernel")
    assert not report.agreement.refuted


@pytest.mark.unmeasured
def test_the_first_line_says_that_the_labels_refute_what_is_assumed(tmp_path):
    biased_frame(8).to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", tmp_path / "data.csv", "--label=not", "--learner=kernel"]
    done = CliRunner().invoke(app, [str(each) for each in [*command, "--out", tmp_path / "m"]])
    assert done.output.startswith("warning: The labels refute the transition matrix")
    own = read_own(biased_frame(8), label="not")
    assert not refuted_at_once(own, anchors=None, transition=BIASED)


def test_labels_of_one_cell_in_the_order_of_the_classes_do_not_refute_the_matrix():
    both = ["dog|owl", "cat|owl", "cat|dog"] * 30
    own = read_own(pd.DataFrame({"x": np.arange(90.0), "not": both}), label="not")
    assert not refuted_at_once(own, anchors=None, transition="uniform")


def test_random_anchors_show_the_accuracy_and_picked_ones_do_not():
    own = read_own(make_frame(600, n_known=60)[0], label="not", true_label="is")
    _, report = fit_own(own, transition="estimate", learner="network", epochs=15)
    assert report.accuracy.n_true_labels > 30
    assert report.accuracy_without_labels.n_true_labels == 0
    assert "true labels" in str(report.accuracy)
    options = {"transition": "estimate", "learner": "network", "epochs": 1}
    _, report = fit_own(own, anchors_are="picked", **options)
    assert report.accuracy.n_true_labels == 0
    assert report.to_dict()["anchors_are"] == "picked"
    with pytest.raises(InvalidInput, match="anchors_are must be 'random' or 'picked'"):
        fit_own(own, anchors_are="some")


def test_a_matrix_that_fits_is_not_doubted(fitted):
    report = fitted[3]
    assert report.matrix_fits
    assert not any("refute" in each for each in report.warnings)


def test_the_command_shows_no_figure_that_rests_on_a_refuted_matrix(tmp_path):
    make_frame()[0].to_csv(tmp_path / "train.csv", index=False)
    NOT_THEIRS.write(tmp_path / "Q.csv")
    command = ["fit", tmp_path / "train.csv", "--label=not", "--true-label=is", "--epochs=15"]
    command += ["--learner=network"]
    command += ["--allow-diagonal", "--transition", tmp_path / "Q.csv", "--out", tmp_path / "m"]
    command += ["--force"]
    printed = CliRunner().invoke(app, [str(each) for each in command]).stdout
    figures = json.loads(CliRunner().invoke(app, [*map(str, command), "--json"]).stdout)
    assert figures["agreement"]["refuted"]
    assert figures["accuracy"]["value"] is None
    assert figures["suspects_unknown"] == "the labels refute the transition matrix"
    assert figures["doubtful"] == {}
    assert "with a probability of" not in printed
    assert "Estimated accuracy: unknown, because the labels refute" in printed
    assert "each class is correct is unknown: the labels refute the transition matrix." in printed
    assert "interval 0" not in printed
    assert printed.count(f"warning: {figures['warnings'][0]}") == 1


def test_rows_that_repeat_examples_are_warned_of_unless_these_have_ids():
    frame = pd.concat([make_frame(60)[0]] * 2, ignore_index=True).drop(columns="is")
    own = read_own(frame, label="not")
    _, report = fit_own(own, learner="linear", epochs=2)
    (warning,) = [each for each in report.fit_warnings if "--id" in each]
    assert warning.startswith("60 of 120 examples have the same features as an earlier one")
    frame["id"] = np.arange(120) % 60
    own = read_own(frame, label="not", example_id="id")
    _, report = fit_own(own, learner="linear", epochs=2)
    assert not any("--id" in each for each in report.fit_warnings)


def test_too_few_examples_are_refused():
    frame, _ = make_frame(9)
    with pytest.raises(InvalidData, match="at least 10 examples"):
        fit_own(read_own(frame, label="not"))
    few = pd.DataFrame({"a": range(12), "not": [f"class {i}" for i in range(12)]})
    with pytest.raises(InvalidData, match="name each class several times"):
        fit_own(read_own(few, label="not"))


@pytest.mark.unmeasured
def test_the_matrix_is_estimated_where_there_are_anchors_unless_one_is_chosen():
    frame, _ = make_frame(200)
    own = read_own(frame, label="not", true_label="is")
    without = read_own(frame.drop(columns="is"), label="not")
    for data, transition, origin in [
        (own, None, "estimate"),
        (without, None, "uniform"),
        (own, "uniform", "uniform"),
    ]:
        _, report = fit_own(data, transition=transition, learner="network", epochs=1)
        assert report.transition_from == origin


@pytest.mark.unmeasured
def test_warnings_of_the_fit_come_after_those_of_the_data():
    frame, _ = make_frame(200, n_known=2)
    own = read_own(frame.assign(c=1.0), label="not", true_label="is")
    options = {"transition": "estimate", "learner": "network", "epochs": 1}
    _, report = fit_own(own, **options)  # no Python warning is issued
    assert report.summary.warnings == (
        "'c': the same value in all examples, which carries no information",
    )
    (few,) = (each for each in report.fit_warnings if "anchors" in each)
    assert "Q was estimated from 2 anchors for each of 'cat', 'dog', 'owl'" in few
    assert report.warnings == (*report.summary.warnings, *report.fit_warnings)


@pytest.mark.unmeasured
def test_the_habit_is_estimated_from_anchors():
    frame, _ = make_frame(900)
    own = read_own(frame, label="not", true_label="is")
    Q = estimate_own(own, epochs=15).transition
    assert Q.classes == HABIT.classes
    assert np.abs(np.asarray(Q) - np.asarray(HABIT)).max() < 0.15
    with pytest.raises(NoAnchorPoints, match="needs anchors"):
        estimate_own(read_own(frame.drop(columns="is"), label="not"))


@pytest.mark.unmeasured
def test_labels_in_the_order_of_the_classes_do_not_refute_an_estimate():
    """The first label of each example would have another distribution than the others."""
    frame, y = make_frame(600)
    frame["not"] = np.array(["dog|owl", "cat|owl", "cat|dog"])[y]
    found = estimate_own(read_own(frame, label="not", true_label="is"), learner="network", epochs=5)
    assert found.agreement is not None
    assert not found.agreement.refuted


def test_a_model_saved_reads_the_next_file_the_same_way(fitted, tmp_path):
    own, _, clf, _ = fitted
    clf.save(tmp_path / "model", report="<p>")
    twin = ComplementaryClassifier.load(tmp_path / "model")
    assert twin.recipe_ == own.recipe
    assert twin.provenance_ == clf.provenance_


def test_an_estimated_habit_says_of_which_class_more_anchors_would_help():
    frame, _ = make_frame(120)
    own = read_own(frame, label="not", true_label="is")
    clf, report = fit_own(own, transition="estimate", learner="network", epochs=3)
    doubt = clf.transition_estimate_.uncertainty
    assert doubt.row_error.max() > 0.1  # so few answers leave much open
    assert doubt.advice in report.advice


@pytest.mark.unmeasured
def test_labels_that_contradict_the_model_are_listed_by_default():
    Q = TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    y[:3] = 0
    frame = pd.DataFrame(5 * np.eye(3)[y] + rng.normal(size=(600, 3)), columns=list("abc"))
    frame["not"] = Q.sample(y, seed=0)
    frame.loc[:2, "not"] = 0  # these are of class 0
    _, report = fit_own(read_own(frame, label="not"), transition=Q, epochs=10)
    rows = {each.name for each in report.suspects}
    assert len(rows & {"data row 1", "data row 2", "data row 3"}) >= 2
    assert any("of 600 labels contradict the model" in each for each in report.fit_warnings)
