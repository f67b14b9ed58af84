"""``naysay check``: a saved model against a file of answers."""

import io
import json

import numpy as np
import pandas
import pytest
from PIL import Image
from typer.testing import CliRunner

from naysay import ComplementaryClassifier, InvalidInput, NaysayWarning, TransitionMatrix
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.datasets.own.images import ImageRecipe
from naysay.estimation import MistakeRate
from naysay.quality import Agreement, find_collapsed_classes
from naysay.workflows.check import check_file
from naysay.workflows.evaluation import evaluate

CLASSES = ["cat", "dog", "owl"]
CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
MISTAKES = TransitionMatrix(
    0.9 * np.asarray(TransitionMatrix.uniform(3)) + 0.1 * np.eye(3), CLASSES, allow_diagonal=True
)


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def make_animals(n, Q, seed):
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=n)
    X = CENTRES[true] + rng.normal(size=(n, 2))
    return X, true, np.array(CLASSES)[Q.sample(true, seed=rng)]


def write_table(path, X, labels, **columns):
    names = ["x", "y", "not", *columns]
    rows = zip(*X.T, labels, *columns.values(), strict=True)
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    return path


def find_unlikely(clf, X):
    """Labels that exclude the least likely class of each example: none of them is doubtful."""
    return clf.classes_[clf.predict_proba(X.astype(np.float32)).argmin(axis=1)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    X, _, labels = make_animals(1500, MISTAKES, seed=0)
    clf = ComplementaryClassifier(learner="network", transition=MISTAKES, epochs=12, random_state=0)
    path = tmp_path_factory.mktemp("models") / "animals"
    clf.fit(X.astype(np.float32), labels).save(path)
    return path


@pytest.fixture
def answers(tmp_path):
    X, true, labels = make_animals(3000, MISTAKES, seed=1)
    who = np.where(np.arange(3000) % 2, "ann", "bob")
    path = write_table(tmp_path / "new.csv", X, labels, who=who)
    return path, X, true, labels


@pytest.mark.unmeasured
def test_json_tells_the_accuracy_the_doubtful_answers_and_the_annotators(model, answers):
    path, X, true, labels = answers
    done = run("check", model, path, "--label=not", "--annotator=who", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    predictions = ComplementaryClassifier.load(model).predict(X.astype(np.float32))
    accuracy = (predictions == np.array(CLASSES)[true]).mean()
    low, high = found["accuracy"]["interval"]
    assert low <= accuracy <= high
    assert high - low < 0.1
    assert found["collapsed"]["findings"] == []
    assert found["n_wrong_expected"] == pytest.approx(300, rel=0.25)
    low, high = found["n_wrong_interval"]
    assert low < (labels == np.array(CLASSES)[true]).sum() < high
    doubtful = found["doubtful"]
    assert len(doubtful) > 100
    rows = [each["row"] - 1 for each in doubtful]
    is_wrong = labels[rows] == np.array(CLASSES)[true[rows]]
    claimed = np.mean([each["probability"] for each in doubtful])
    assert claimed - 0.05 < is_wrong.mean() < claimed + 0.2
    assert [each["not"] for each in doubtful] == labels[rows].tolist()
    assert [each["annotator"] for each in doubtful] == ["ann" if row % 2 else "bob" for row in rows]
    assert [each["prediction"] for each in doubtful] == predictions[rows].tolist()
    assert {each["name"] for each in found["annotators"]} == {"ann", "bob"}
    assert all("transition" not in each for each in found["annotators"])  # may be large
    assert found["notes"] == []


def test_all_answers_that_are_probably_wrong_are_written_to_a_file(model, answers, tmp_path):
    path, out = answers[0], tmp_path / "issues.csv"
    options = "--label=not", "--annotator=who"
    done = run("check", model, path, *options, "--out", out)
    frame = pandas.read_csv(out)
    assert done.output.splitlines()[-1] == f"{len(frame)} answers that are probably wrong: {out}"
    assert frame.columns.tolist() == (
        ["row", "example", "not", "annotator", "probability", "prediction"]
    )
    assert frame["row"].dtype == np.int64
    assert (frame["probability"] >= 0.5).all()
    clf = ComplementaryClassifier.load(model)
    found = check_file(clf, path, label="not", annotator="who")
    pandas.testing.assert_frame_equal(found.issues.to_pandas(), frame)
    first = frame.iloc[0]
    said = f"  data row {first['row']} ({first['annotator']}): 'not {first['not']}' is wrong"
    assert said in done.output
    run("check", model, path, *options, "--out", tmp_path / "issues.parquet")
    assert pandas.read_parquet(tmp_path / "issues.parquet")["row"].tolist() == (
        frame["row"].tolist()
    )
    assert run("check", model, path, *options, "--out", "-").stdout == out.read_text()
    done = run("check", model, path, *options, "--out", tmp_path / "issues.txt")
    assert "out must end in .csv or .parquet" in done.stderr


def test_no_share_of_wrong_answers_is_stated_where_their_rate_is_hardly_known(
    model, answers, tmp_path
):
    """A fit had stated 57 % of 24 listed answers where 21 % were wrong."""
    clf = ComplementaryClassifier.load(model)
    clf.mistake_rate_ = MistakeRate(value=0.18, interval=(0.035, 0.254), level=0.95)
    clf.save(tmp_path / "rough")
    command = "check", tmp_path / "rough", answers[0], "--label=not", "--annotator=who"
    done = run(*command, "--json")
    found = json.loads(done.stdout)
    assert found["n_wrong_expected"] is found["n_wrong_interval"] is None
    assert "between 3.5 and 25.4 %" in found["n_wrong_unknown"]
    assert {each["probability"] for each in found["doubtful"]} == {None}
    out = tmp_path / "issues.csv"
    text = run(*command, "--out", out).output
    assert "labels are wrong is unknown: the rate of mistakes" in text
    assert "with probability" not in text
    assert f"{len(found['doubtful'])} doubtful answers: {out}" in text
    assert "The most doubtful ones:\n  data row" in text
    X, _, _ = make_animals(3, MISTAKES, seed=1)
    agreeing = write_table(tmp_path / "agreeing.csv", X, find_unlikely(clf, X))
    text = run("check", tmp_path / "rough", agreeing, "--label=not").output
    assert "labels are wrong is unknown" in text
    assert "doubtful" not in text  # there is nothing to list


def test_an_answer_is_named_by_its_own_row_and_by_its_example(model, tmp_path):
    """The last row is about the first example, and wrong."""
    path = tmp_path / "several.csv"
    right = [f"{i},{4 * (i % 2)},0,{'cat' if i % 2 else 'dog'}|owl,ann" for i in range(300)]
    wrong = [f"{i},{4 * (i % 2)},0,{'dog' if i % 2 else 'cat'}," for i in range(50, -1, -1)]
    path.write_text("\n".join(["id,x,y,not,who", *right, *wrong]))
    clf = ComplementaryClassifier.load(model)
    found = check_file(clf, path, label="not", example_id="id", annotator="who")
    issue = next(each for each in found.issues.to_pylist() if each["example"] == "0")
    assert not found.matrix_fits  # so many are wrong that only the order is known
    assert issue.pop("probability") is None
    about = {"not": "cat", "annotator": None, "prediction": "cat"}
    assert issue == {"row": 351, "example": "0", **about}
    assert "(data row 3" in str(found)


def test_without_mistakes_in_the_matrix_the_list_is_empty(model, answers, tmp_path):
    Q = TransitionMatrix.uniform(3, classes=CLASSES)
    clf = ComplementaryClassifier.load(model)
    found = check_file(clf, answers[0], label="not", annotator="who", transition=Q)
    assert found.issues.num_rows == 0
    assert found.to_dict()["n_wrong_interval"] is None


def test_the_text_says_the_same(model, answers):
    path = answers[0]
    printed = run("check", model, path, "--label=not", "--annotator=who").output
    assert printed.startswith("Accuracy: ")
    assert "95 % interval" in printed
    assert "No collapsed class among 3." in printed
    assert "labels are more likely wrong than right" in printed
    assert "data row" in printed
    assert "wrong answers" in printed


def test_another_matrix_decides_what_can_be_said(model, answers, tmp_path):
    path, X, _, _ = answers
    write_table(path, X, [CLASSES[i % 2] for i in range(3000)], who=["ann"] * 3000)
    Q = TransitionMatrix([[0, 1, 0], [1, 0, 0], [0.5, 0.5, 0]], CLASSES)
    Q.write(tmp_path / "Q.csv")
    printed = run(
        "check", model, path, "--label=not", "--annotator=who", "--transition", tmp_path / "Q.csv"
    ).output
    assert "95 % bounds" in printed
    assert "Note: Q must be invertible to find collapsed classes" in printed
    assert "Note: Wrong answers were not searched for" in printed


@pytest.mark.unmeasured
def test_a_matrix_that_cannot_be_right_is_named_first_and_nothing_rests_on_it(
    model, answers, tmp_path, recwarn
):
    """The labels of each predicted class are no mixture of the rows of these matrices."""
    path = answers[0]
    by_accuracy = 0.6 * np.asarray(TransitionMatrix.uniform(3)) + 0.4 * np.eye(3)
    by_shares = [[0.1, 0.6, 0.3], [0.9, 0.1, 0], [0, 0.9, 0.1]]
    options = "--label=not", "--annotator=who", "--transition", tmp_path / "Q.csv"
    for values in (by_accuracy, by_shares):
        TransitionMatrix(values, CLASSES, allow_diagonal=True).write(tmp_path / "Q.csv")
        found = json.loads(run("check", model, path, *options, "--json").stdout)
        assert found["matrix_fits"] is False
        assert found["collapsed"] is None
        assert found["agreement"]["refuted"]
        assert found["accuracy"]["value"] is None
        assert "The labels refute the transition matrix" in found["notes"][0]
        assert found["n_wrong_expected"] is None
        assert found["n_wrong_unknown"] == "the labels refute the transition matrix"
        assert all(each["probability"] is None for each in found["doubtful"])
        printed = run("check", model, path, *options).output
        assert printed.splitlines()[0] == f"warning: {found['notes'][0]}"
        assert "labels are wrong is unknown: the labels refute the transition matrix." in printed
        assert "with probability" not in printed
        assert printed.splitlines()[1] == "Accuracy: unknown"
        assert "swapped" not in printed
        assert "misnamed" not in printed
    assert not [each for each in recwarn if issubclass(each.category, NaysayWarning)]


def test_shares_above_100_percent_are_blamed_on_the_matrix():
    true = np.random.default_rng(0).integers(3, size=3000)
    other = [[0.1, 0.6, 0.3], [0.9, 0.1, 0], [0, 0.9, 0.1]]
    Q = TransitionMatrix(other, CLASSES, allow_diagonal=True)
    found = find_collapsed_classes(np.eye(3)[true], MISTAKES.sample(true, seed=1), Q)
    assert [each.kind for each in found.findings] == ["matrix"]
    assert str(found).startswith("Q does not describe these labels")
    shares = np.array([0.6, 0.6, -0.2]) @ Q.entries  # of labels that Q could not give
    labels = np.repeat(np.arange(3), (3000 * shares).round().astype(int))
    (finding,) = find_collapsed_classes(np.eye(3)[0 * labels], labels, Q).findings
    assert "more than 100 % of these examples" in finding.message


def test_an_estimated_matrix_gets_more_leave_where_its_error_is_left_out():
    answers = np.array([1, 1, 2, 2] * 60)
    Q = TransitionMatrix([[0, 0.6, 0.4], [0.6, 0, 0.4], [0.5, 0.5, 0]])
    evaluated = (np.zeros(240, int), answers, np.arange(240), Q)
    found = evaluate(*evaluated)
    assert found.agreement.refuted
    assert found.accuracy.value is None
    assert "no class shares explain" in str(found.accuracy)
    assert all(each.unknown for each in found.precision)
    assert "Estimate Q from" in str(found.warning)
    assert evaluate(*evaluated, is_exact=False).matrix_fits


def test_a_sample_that_happens_to_hold_no_mistake_proves_nothing():
    true = np.arange(20) % 3
    labels = (true + 1 + np.arange(20) % 2) % 3
    accuracy, *_, warning = evaluate(true, labels, np.arange(20), MISTAKES)
    assert accuracy.value == 1  # 1.125 before it is moved to the bound
    assert accuracy.standard_error == pytest.approx(0)
    assert str(accuracy).startswith("100.0 %")
    assert warning is None


def test_all_answers_about_an_example_count_for_the_accuracy(model, tmp_path):
    path = tmp_path / "several.csv"
    path.write_text("id,x,y,not\n1,0,0,dog|owl\n1,0,0,dog\n2,4,0,cat\n")
    done = run("check", model, path, "--label=not", "--id=id", "--json")
    found = json.loads(done.stdout)
    assert (found["n_examples"], found["n_answers"]) == (2, 4)
    assert found["accuracy"]["n_labels"] == 4


def test_labels_in_the_order_of_the_classes_do_not_refute_the_matrix(model, tmp_path):
    """Annotators who tick several classes leave cells such as cat|owl, never owl|cat."""
    X, true, _ = make_animals(600, MISTAKES, seed=3)
    both = np.array(["dog|owl", "cat|owl", "cat|dog"])[true]
    path = write_table(tmp_path / "several.csv", X, both)
    Q = TransitionMatrix.uniform(3, classes=CLASSES)
    clf = ComplementaryClassifier.load(model)
    found = check_file(clf, path, label="not", transition=Q)
    assert found.matrix_fits
    assert found.collapsed is not None
    assert not found.collapsed.findings


def test_true_labels_drawn_within_each_class_are_weighted(model, tmp_path):
    rng = np.random.default_rng(5)
    true = rng.choice(3, size=3000, p=[0.8, 0.1, 0.1])
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0]])[true] + rng.normal(size=(3000, 2))
    labels = np.array(CLASSES)[MISTAKES.sample(true, seed=rng)]
    known = np.full(3000, "", dtype=object)
    for each in range(3):
        known[np.flatnonzero(true == each)[:60]] = CLASSES[each]
    clf = ComplementaryClassifier.load(model)
    accuracy = (clf.predict(X.astype(np.float32)) == np.array(CLASSES)[true]).mean()
    path = write_table(tmp_path / "new.csv", X, labels, **{"is": known})
    found = check_file(clf, path, label="not", true_label="is")
    stated = found.accuracy_from_true_labels.value
    assert abs(stated - accuracy) < 0.05  # with equal weights, it would be 8 points lower
    assert any("drawn within each class" in each for each in found.notes)
    by_chance = np.array(CLASSES, dtype=object)[true]
    by_chance[150:] = ""
    path = write_table(tmp_path / "random.csv", X, labels, **{"is": by_chance})
    found = check_file(clf, path, label="not", true_label="is")
    assert not any("drawn within each class" in each for each in found.notes)


@pytest.mark.unmeasured
def test_a_random_sample_of_true_labels_is_not_weighted_where_predictions_are_poor(model, tmp_path):
    """Shares of the classes by a poor model are imprecise: random samples hardly ever had them."""
    clf = ComplementaryClassifier.load(model)
    n_weighted = 0
    for seed in range(6):
        X, true, labels = make_animals(400, MISTAKES, seed=seed)
        moved = np.random.default_rng([seed, 1]).random(400) < 0.8
        X[moved] = X[moved][::-1]
        known = np.array(CLASSES, dtype=object)[true]
        known[40:] = ""
        path = write_table(tmp_path / "new.csv", X, labels, **{"is": known})
        found = check_file(clf, path, label="not", true_label="is", transition=MISTAKES)
        n_weighted += any("drawn within each class" in each for each in found.notes)
    assert n_weighted <= 1  # by chance two of three classes have equally many


@pytest.mark.parametrize("share", [0.3, 1])
def test_a_uniform_matrix_is_doubted_where_few_predictions_are_correct(model, tmp_path, share):
    """A table had 40 % stated, 31 to 48, where 22 % were correct."""
    Q = TransitionMatrix.uniform(3, classes=CLASSES)
    X, _, labels = make_animals(400, Q, seed=2)
    rng = np.random.default_rng(0)
    moved = rng.random(400) > share
    X[moved] = rng.permutation(X[moved])
    path = write_table(tmp_path / "new.csv", X, labels)
    found = check_file(ComplementaryClassifier.load(model), path, label="not", transition=Q)
    assert found.matrix_fits
    assert any("wrongly assumed" in note for note in found.notes) == (share < 1)


def test_an_estimate_that_chance_took_out_of_bounds_is_moved_or_unknown():
    Q = np.array([[0, 0.55, 0.45], [0.5, 0, 0.5], [0.45, 0.55, 0]])
    true = np.random.default_rng(0).integers(3, size=3000)
    values = []
    for seed in range(12):
        labels = TransitionMatrix(Q).sample(true, seed=seed)
        for n in (40, 3000):
            found = evaluate(true[:n], labels[:n], np.arange(n), TransitionMatrix(Q))
            values += [each.value for each in (found.accuracy, *found.precision)]
    assert all(each is None or 0 <= each <= 1 for each in values)
    assert 1.0 in values


def test_features_are_made_as_in_training_where_the_model_knows_how(model, tmp_path, monkeypatch):
    """A gap becomes the median of the first table; that of the new one is another number."""
    X, _, labels = make_animals(200, MISTAKES, seed=3)
    first = read_own(write_table(tmp_path / "first.csv", X, labels, who=["a"] * 200), label="not")
    path = tmp_path / "new.csv"
    path.write_text("y,x,who,not\n0,9,a,cat\n0,,a,owl\n0,9,a,cat\n")
    clf = ComplementaryClassifier.load(model)
    seen = []
    clf.predict_proba = lambda X: seen.append(X) or np.full((len(X), 3), 1 / 3)
    recipe = read_own(tmp_path / "first.csv", label="not", features=["x", "y"]).recipe
    clf.set_origin(recipe=recipe)
    check_file(clf, path, label="not")
    assert seen[0][1].tolist() == pytest.approx([np.median(first.X[:, 0]), 0], abs=1e-6)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    check_file(clf, "-", label="not")  # which can be read only once
    assert seen[1].tolist() == seen[0].tolist()


def test_arrays_and_images_are_read_as_in_training_too(model, tmp_path):
    clf = ComplementaryClassifier.load(model)
    seen = []
    clf.predict_proba = lambda X: seen.append(X) or np.full((len(X), 3), 1 / 3)
    X, _, labels = make_animals(50, MISTAKES, seed=3)
    np.savez(tmp_path / "new.npz", X=X, labels=labels)
    clf.set_origin(recipe=read_own(tmp_path / "new.npz").recipe)
    check_file(clf, tmp_path / "new.npz")
    assert seen[-1] == pytest.approx(X, rel=1e-6)
    for number, name in enumerate(CLASSES):
        (tmp_path / "photos" / name).mkdir(parents=True)
        pixels = np.full((8, 8), 50 * number, dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / name / "1.png")
    clf.set_origin(recipe=ImageRecipe(height=4, width=4, mode="RGB"))
    clf.input_shape_ = (3, 4, 4)
    check_file(clf, tmp_path / "photos")
    assert seen[-1][:, 2, 0, 0].tolist() == [0, 50, 100]


def test_errors_are_one_line_and_exit_code_1(model, answers, tmp_path):
    path = answers[0]
    for arguments, message in [
        ((model, tmp_path / "gone.csv", "--label=not"), "No such file"),
        ((tmp_path / "gone", path, "--label=not"), "must be a model folder"),
        ((model, path, "--label=said"), "said"),
        (
            (model, path, "--label=not"),
            "Name the columns that are not features",
        ),  # `who` is taken for a feature
    ]:
        done = run("check", *arguments)
        assert done.exit_code == 1
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert message in done.stderr
    assert run("check", model).exit_code == 2


def test_a_model_whose_predictions_are_no_numbers_is_refused(model, tmp_path):
    X, true, labels = make_animals(20, MISTAKES, seed=1)
    path = write_table(tmp_path / "new.csv", X, labels, true=np.array(CLASSES)[true])
    clf = ComplementaryClassifier.load(model)
    for values in clf.network_.parameters():
        values.data.fill_(float("nan"))
    with pytest.raises(InvalidInput, match="probabilities that the model predicts must be finite"):
        check_file(clf, path, label="not", true_label="true")


def test_answers_about_other_classes_are_refused(model, tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("x,y,not\n0,0,fox\n")
    done = run("check", model, path, "--label=not")
    assert "must only contain the classes 'cat', 'dog', 'owl'" in done.stderr
    assert "differ only in capitals" not in done.stderr
    path.write_text("x,y,not\n0,0,Cat\n0,1,DOG\n")
    done = run("check", model, path, "--label=not")
    assert "also contains 'Cat', 'DOG'. They differ only in capitals" in done.stderr
    assert "--ignore-case" in done.stderr
    assert run("check", model, path, "--label=not", "--ignore-case").exit_code == 0
    TransitionMatrix.uniform(4).write(tmp_path / "Q.csv")
    path.write_text("x,y,not\n0,0,cat\n")
    done = run("check", model, path, "--label=not", "--transition", tmp_path / "Q.csv")
    assert "one row per class: 3 classes, 'cat', 'dog', 'owl'. Got 4 rows." in done.stderr
    TransitionMatrix.uniform(3, classes=["owl", "dog", "fox"]).write(tmp_path / "Q.csv")
    done = run("check", model, path, "--label=not", "--transition", tmp_path / "Q.csv")
    assert "It lacks 'cat' and also has 'fox'." in done.stderr


def test_a_matrix_may_name_the_classes_in_another_order(model, answers, tmp_path):
    values = np.asarray(MISTAKES)
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        Q = TransitionMatrix(
            values[np.ix_(order, order)], [CLASSES[index] for index in order], allow_diagonal=True
        )
        Q.write(tmp_path / "Q.csv")
        options = "--label=not", "--annotator=who", "--transition", tmp_path / "Q.csv"
        found.append(run("check", model, answers[0], *options, "--json").stdout)
    assert found[0] == found[1] != ""


def test_a_precision_from_few_labels_of_many_classes_is_not_shown_where_it_is_narrow_by_chance():
    """Of 14 precisions of letters that two studies had shown, no interval covered its value."""
    rng, found = np.random.default_rng(0), []
    tested = Agreement(n_labels=300, p_frequencies=None, p_predictions=None)
    for seed in range(6):
        Q = TransitionMatrix.with_zeros(26, 3, seed=seed)
        known = Q.sample(np.repeat(np.arange(26), 20), seed=rng).reshape(26, 20)
        counts = (known[:, :, None] == np.arange(26)).sum(axis=1) + 0.5 * (np.asarray(Q) > 0)
        samples = np.zeros((50, 26, 26))
        for row, free in enumerate(np.asarray(Q) > 0):
            samples[:, row, free] = rng.dirichlet(counts[row, free], 50)
        true = rng.integers(26, size=300)
        predicted = np.where(rng.random(300) < 0.8, true, rng.integers(26, size=300))
        estimate = TransitionMatrix(counts / counts.sum(axis=1, keepdims=True))
        given = predicted, Q.sample(true, seed=rng), np.arange(300), estimate
        found += evaluate(*given, Q_samples=samples, is_exact=False, agreement=tested).precision
    shown = [each.interval for each in found if each.unknown is None]
    assert all(low <= 0.8 <= high for low, high in shown), shown


def test_labels_that_exclude_a_known_class_are_counted_where_the_matrix_has_no_mistakes(
    model, tmp_path
):
    X, true, labels = make_animals(200, MISTAKES, seed=8)
    known = np.array(CLASSES, dtype=object)[true]
    known[100:] = ""
    n_mistaken = (labels[:100] == known[:100]).sum()
    assert n_mistaken
    path = write_table(tmp_path / "new.csv", X, labels, **{"is": known})
    clf = ComplementaryClassifier.load(model)
    expected = f"{n_mistaken} of 100 labels of examples of known class exclude that class"
    for Q, is_noted in ((TransitionMatrix.uniform(3, classes=CLASSES), True), (MISTAKES, False)):
        found = check_file(clf, path, label="not", true_label="is", transition=Q)
        assert any(note.startswith(expected) for note in found.notes) == is_noted


def test_an_interval_that_excludes_nothing_is_unknown():
    blurred = 0.2 * np.asarray(TransitionMatrix.with_zeros(3, 1, seed=0)) + 0.8 / 3
    Q = TransitionMatrix(blurred, allow_diagonal=True)
    true = np.arange(30) % 3
    found = evaluate(true, Q.sample(true, seed=0), np.arange(30), Q).accuracy
    assert found.value is None
    assert found.interval == (0, 1)
    assert "all of 0 to 100 %" in str(found)
