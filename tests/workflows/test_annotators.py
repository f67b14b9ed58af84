"""A matrix for each annotator: from a folder, from an estimate, in the report and in a check."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from naysay import ComplementaryClassifier, InvalidInput, InvalidTransitionMatrix, TransitionMatrix
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.design import propose
from naysay.report.fit import render_fit_page
from naysay.transition.folder import file_name, read_matrices, write_matrices
from naysay.workflows.annotators import check_matrices, find_wrong_answers
from naysay.workflows.estimate import estimate_own
from naysay.workflows.fit import fit_own
from places import ROOT

CLASSES = ("cat", "dog", "owl")
CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
HABITS = {
    "ann": TransitionMatrix([[0, 0.9, 0.1], [0.9, 0, 0.1], [0.9, 0.1, 0]], CLASSES),
    "bob": TransitionMatrix([[0, 0.1, 0.9], [0.1, 0, 0.9], [0.1, 0.9, 0]], CLASSES),
}
ROLES = {"label": "not", "annotator": "who", "true_label": "is"}
OPTIONS = ["--label=not", "--annotator=who", "--true-label=is", "--epochs=2"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def make_frame(n=600, *, habits=HABITS, n_known=30, seed=0):
    """Return a table of answers, and the true classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n)
    who = rng.choice(list(habits), size=n)
    said = np.empty(n, dtype=np.int64)
    for name, Q in habits.items():
        said[who == name] = Q.sample(y[who == name], seed=rng)
    X = CENTRES[y] + rng.normal(size=(n, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "not": np.array(CLASSES)[said], "who": who})
    frame["is"] = [CLASSES[label] if row < n_known else None for row, label in enumerate(y)]
    return frame, y


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotated")
    make_frame()[0].to_csv(folder / "answers.csv", index=False)
    write_matrices(HABITS, folder / "habits")
    (folder / "habits" / ".hidden.csv").write_text("no matrix")
    (folder / "habits" / "readme.txt").write_text("no matrix either")
    return folder


@pytest.fixture(scope="module")
def fitted(folder):
    arguments = [
        *OPTIONS[:3],
        "--epochs=15",
        "--transition",
        folder / "habits",
        "--out",
        folder / "model",
    ]
    done = run("fit", folder / "answers.csv", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.unmeasured
def test_a_folder_of_matrices_is_learned_from_saved_and_loaded(folder, fitted):
    frame, y = make_frame()
    assert fitted["transition"]["from"] == "given"
    assert {name: np.asarray(Q).tolist() for name, Q in HABITS.items()} == fitted["transitions"]
    clf = ComplementaryClassifier.load(folder / "model")
    assert clf.transitions_ == HABITS
    right = clf.predict(read_own(frame, **ROLES).X) == np.array(CLASSES)[y]
    assert right.mean() > 0.9
    low, high = fitted["accuracy"]["interval"]
    assert low < right.mean() < high
    done = run("predict", folder / "model", folder / "answers.csv")
    assert done.stdout.startswith("prediction,P(cat),P(dog),P(owl)\n")


def test_the_mean_of_opposite_habits_would_teach_less():
    """Ann and Bob together look uniform: who said it is half of what an answer tells."""
    frame, y = make_frame(300, n_known=0)
    own = read_own(frame.drop(columns="is"), label="not", annotator="who")
    scores = []
    for transition in (HABITS, "uniform"):
        clf, report = fit_own(own, transition=transition, learner="network", epochs=15)
        probs = clf.predict_proba(own.X)
        scores.append(np.log(probs[np.arange(len(y)), y]).mean())
        assert bool(report.transitions) == (transition is HABITS)
    assert scores[0] > scores[1]


def test_the_page_shows_the_matrix_of_each_annotator(folder, fitted):
    page = (folder / "model" / "report.html").read_text("utf-8")
    assert "Each of 2 annotators has a matrix" in page
    assert "<b>ann</b>" in page
    assert "<b>bob</b>" in page


def test_estimating_gives_each_annotator_a_matrix():
    frame, _ = make_frame(800)
    own = read_own(frame, **ROLES)
    habit = estimate_own(own, epochs=6)
    for name, Q in HABITS.items():
        assert np.abs(np.asarray(habit.by_annotator[name]) - np.asarray(Q)).max() < 0.12
        assert not habit.by_annotator[name].allow_diagonal
    clf, report = fit_own(own, transition="estimate", learner="network", epochs=3)
    assert set(clf.transitions_) == set(report.transitions) == {"ann", "bob"}
    assert "Each of 2 annotators" in render_fit_page(report)
    clf, report = fit_own(own, transition="estimate", learner="network", method="pc", epochs=1)
    assert clf.transitions_ == {}
    assert "method 'pc' cannot use a matrix for each annotator" in " ".join(report.warnings)


@pytest.mark.unmeasured
def test_annotators_of_one_habit_share_a_matrix():
    habits = dict.fromkeys(HABITS, HABITS["ann"])
    own = read_own(make_frame(400, habits=habits)[0], **ROLES)
    clf, report = fit_own(own, transition="estimate", learner="network", epochs=5)
    assert clf.transitions_ == {}
    assert "their answers do not differ significantly" in " ".join(report.warnings)
    assert "All labels." in render_fit_page(report)


def test_an_estimate_writes_a_folder_that_a_fit_reads(folder, tmp_path):
    target = tmp_path / "each"
    arguments = ["estimate", folder / "answers.csv", *OPTIONS, "--out", tmp_path / "Q.csv"]
    done = run(*arguments, "--by-annotator", target)
    assert done.exit_code == 0, done.output
    assert sorted(read_matrices(target)) == ["ann", "bob"]
    again = run(*arguments, "--by-annotator", target, "--json")
    assert set(json.loads(again.stdout)["by_annotator"]) == {"ann", "bob"}
    without = [each for each in arguments if each != "--annotator=who"]
    assert run(*without, "--by-annotator", target).exit_code == 2
    refused = run(*arguments, "--by-annotator", folder)
    assert "exists and is neither" in refused.stderr


@pytest.mark.unmeasured
def test_the_folder_of_a_design_is_a_folder_of_matrices(tmp_path):
    scheme = propose(3, 2, classes=CLASSES)
    frame, y = make_frame(400, n_known=0)
    answers = scheme.sample(y, seed=0)
    frame = frame[["a", "b"]].assign(
        group=answers.annotator, answer=np.array(CLASSES)[answers.label]
    )
    frame.to_csv(tmp_path / "answers.csv", index=False)
    scheme.write(tmp_path / "task")
    for where in ("task", "task/matrices"):
        done = run(
            "fit", tmp_path / "answers.csv", "--label=answer", "--annotator=group",
            "--learner=network", "--epochs=10", "--transition", tmp_path / where,
            "--out", tmp_path / "model", "--json", "--force",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["transitions"].keys() == set(scheme.names)


def test_what_does_not_fit_is_named(folder, tmp_path):
    def refusal(habits, *more, data=folder / "answers.csv", options=OPTIONS):
        write_matrices(habits, tmp_path / "habits")
        arguments = ["--transition", tmp_path / "habits", "--out", tmp_path / "model"]
        done = run("fit", data, *options, *arguments, *more)
        assert done.exit_code == 1, done.output
        assert done.stderr.count("\n") == 1
        assert not (tmp_path / "model").exists()
        return done.stderr

    assert "'bob' has none: add 'bob.csv'" in refusal({"ann": HABITS["ann"]})
    without = [each for each in OPTIONS if each != "--annotator=who"]
    assert "Name that column: annotator (--annotator)" in refusal(HABITS, options=without)
    other = TransitionMatrix.uniform(3, classes=["cat", "dog", "fox"])
    assert "ann.csv has 'cat', 'dog', 'owl', bob.csv 'cat', 'dog', 'fox'" in refusal(
        {**HABITS, "bob": other}
    )
    assert "must only contain the classes 'cat', 'dog', 'fox'. It also contains 'owl'" in refusal(
        {"ann": other, "bob": other}
    )
    silent = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], CLASSES)
    assert "'bob' says 'not owl'" in refusal({**HABITS, "bob": silent})
    assert "cannot use a matrix for each annotator" in refusal(HABITS, "--method=pc")
    (tmp_path / "habits" / "eve.csv").write_text("true class,cat,dog\ncat,0,1\ndog,0.5,0.4\n")
    done = run("fit", folder / "answers.csv", "--transition", tmp_path / "habits", "--out=m")
    assert "eve.csv: Q must have rows that sum to 1" in done.stderr
    done = run("fit", folder / "answers.csv", "--transition", folder, "--out=m")
    assert "answers.csv" in done.stderr
    (tmp_path / "empty").mkdir()
    done = run("fit", folder / "answers.csv", "--transition", tmp_path / "empty", "--out=m")
    assert "must be a folder with one CSV file per annotator" in done.stderr


def test_classes_in_another_order_are_put_in_that_of_the_data():
    own = read_own(make_frame(60)[0], **ROLES)
    order = [2, 0, 1]
    turned = {
        name: TransitionMatrix(
            np.asarray(Q)[np.ix_(order, order)], [CLASSES[index] for index in order]
        )
        for name, Q in HABITS.items()
    }
    assert check_matrices(own, turned) == HABITS
    uniform = TransitionMatrix.uniform(3, classes=["owl", "dog", "cat"])
    found = check_matrices(own, dict.fromkeys(HABITS, uniform))
    assert found["ann"] == TransitionMatrix.uniform(3, classes=CLASSES)
    other = TransitionMatrix.uniform(3, classes=["cat", "dog", "fox"])
    with pytest.raises(InvalidTransitionMatrix, match="It lacks 'owl' and also has 'fox'"):
        check_matrices(own, {**HABITS, "bob": other})


def test_matrices_without_answers_and_answers_by_nobody_are_told():
    frame, _ = make_frame(200)
    frame.loc[40:49, "who"] = None
    own = read_own(frame, **ROLES)
    clf, report = fit_own(
        own, transition={**HABITS, "eve": HABITS["ann"]}, learner="network", epochs=2
    )
    told = " ".join(report.warnings)
    assert "'eve': a matrix was given, but there are no answers" in told
    assert "Some answers have no annotator" in told
    counts = frame["who"].value_counts()
    mean = sum(counts[name] * np.asarray(Q) for name, Q in HABITS.items()) / counts.sum()
    np.testing.assert_allclose(np.asarray(clf.transitions_[""]), mean)


def test_answers_that_exclude_every_class_need_annotators_who_err():
    frame, _ = make_frame(200, n_known=0)
    frame.loc[7, "not"] = "cat|dog|owl"
    own = read_own(frame.drop(columns="is"), label="not", annotator="who")
    with pytest.raises(ValueError, match="Those about data row 8 exclude every class"):
        fit_own(own, epochs=1)
    erring = {
        name: TransitionMatrix(0.9 * np.asarray(Q) + 0.1 * np.eye(3), CLASSES, allow_diagonal=True)
        for name, Q in HABITS.items()
    }
    _, report = fit_own(own, transition=erring, learner="network", epochs=1)
    assert report.suspects is not None


def test_check_uses_and_compares_the_matrix_of_each_annotator(folder, fitted, tmp_path):
    frame, _ = make_frame(3000, seed=1)
    frame.to_csv(tmp_path / "new.csv", index=False)
    arguments = ["check", folder / "model", tmp_path / "new.csv", *OPTIONS[:3]]
    found = json.loads(run(*arguments, "--json").stdout)
    assert found["accuracy"]["value"] > 0.9
    assert all(each["off_their_matrix"] < 0.1 for each in found["annotators"])
    swapped = {"ann": HABITS["bob"], "bob": HABITS["ann"]}
    write_matrices(swapped, tmp_path / "swapped")
    printed = run(*arguments, "--transition", tmp_path / "swapped").stdout
    assert "Distance of annotators from their matrix (0 to 1): " in printed
    off = json.loads(run(*arguments, "--transition", tmp_path / "swapped", "--json").stdout)
    assert all(each["off_their_matrix"] > 0.5 for each in off["annotators"])
    without = [each for each in arguments if each != "--annotator=who"]
    assert "so the mean of all matrices was used" in run(*without).stdout
    frame["who"] = "eve"
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert "The model has no matrix for 'eve'" in run(*arguments).stdout
    refused = run(*arguments, "--transition", tmp_path / "swapped")
    assert "'eve' has none" in refused.stderr


def test_wrong_answers_are_not_looked_for_if_none_was_held_out():
    own = read_own(make_frame(20)[0], **ROLES)
    values = 0.9 * np.asarray(HABITS["ann"]) + 0.1 * np.eye(3)
    erring = TransitionMatrix(values, CLASSES, allow_diagonal=True)
    matrices = dict.fromkeys(HABITS, erring)
    probs = np.full((20, 3), 1 / 3)
    assert find_wrong_answers(own, probs, matrices, held_out=np.zeros(20, dtype=bool)) is None
    assert find_wrong_answers(own, probs, matrices, held_out=np.arange(20) < 5) is not None


def test_known_classes_decide_which_labels_are_wrong():
    frame, y = make_frame(200, n_known=100)
    frame.loc[7, "not"] = CLASSES[y[7]]
    own = read_own(frame, **ROLES)
    erring = TransitionMatrix(
        0.9 * np.asarray(HABITS["ann"]) + 0.1 * np.eye(3), CLASSES, allow_diagonal=True
    )
    found = find_wrong_answers(own, np.full((200, 3), 1 / 3), dict.fromkeys(HABITS, erring))
    probabilities = dict(zip(found.indices.tolist(), found.probabilities.tolist(), strict=True))
    assert [probabilities[row] for row in range(100)] == [float(row == 7) for row in range(100)]
    assert all(0 < probabilities[row] < 1 for row in range(100, 200))


def test_only_the_annotator_who_errs_is_suspected():
    erring = TransitionMatrix(
        0.6 * np.asarray(HABITS["bob"]) + 0.4 * np.eye(3), CLASSES, allow_diagonal=True
    )
    habits = {"ann": HABITS["ann"], "bob": erring}
    frame, _ = make_frame(600, habits=habits, n_known=0)
    own = read_own(frame.drop(columns="is"), label="not", annotator="who")
    _, report = fit_own(own, transition=habits, learner="network", epochs=15)
    rows = [int(each.name.removeprefix("data row ")) - 1 for each in report.suspects]
    assert len(rows) == 12
    assert set(frame["who"][rows]) == {"bob"}


def test_the_page_has_the_figures_of_the_record():
    lines = (ROOT / "benchmarks" / "results" / "annotators.jsonl").read_text("utf-8").splitlines()
    differ, alike = json.loads(lines[-1])["results"].values()
    page = " ".join((ROOT / "docs" / "lab" / "estimation.md").read_text("utf-8").split())
    assert f"from {differ['one_matrix']} % to {differ['each_annotator']} %" in page
    assert alike["one_matrix"] == alike["each_annotator"]
    assert f"stayed at {alike['one_matrix']} %" in page


@pytest.mark.parametrize("name", ["../up", "a/b", ".dot", "50 %", "é", 'q"?', "..", "nul\0"])
def test_any_name_gets_a_file_in_the_folder(tmp_path, name):
    write_matrices({name: HABITS["ann"]}, tmp_path / "habits")
    assert read_matrices(tmp_path / "habits") == {name: HABITS["ann"]}
    assert [path.name for path in (tmp_path / "habits").iterdir()] == [file_name(name)]
    assert [path.name for path in tmp_path.iterdir()] == ["habits"]


def test_a_folder_of_other_files_is_not_replaced(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="exists and is neither"):
        write_matrices(HABITS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(InvalidTransitionMatrix, match="It has none"):
        read_matrices(tmp_path)
