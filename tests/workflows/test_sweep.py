"""Parameters are chosen by held-out complementary labels, without a true label."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_score
from typer.testing import CliRunner

from naysay import ComplementaryClassifier, InvalidInput
from naysay._base import files
from naysay.cli import app
from naysay.datasets.own import read_own
from naysay.observations import Observations
from naysay.workflows.annotators import matrix_of_lists
from naysay.workflows.files import write_example
from naysay.workflows.fit import hold_out
from naysay.workflows.sweep import parse_grid, sweep_own

QUICK = {"learner": "network", "epochs": 8, "batch_size": 16}
GRID = {"lr": [1e-6, 1e-2]}


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "flowers.csv"
    write_example(path)
    return path


def test_the_better_parameters_are_found_and_true_labels_play_no_part(flowers):
    own = read_own(flowers, label="not", ignore=["is"])
    done = []
    clf, report = sweep_own(
        own, GRID, folds=2, on_progress=lambda *numbers: done.append(numbers), **QUICK
    )
    assert done == [(number, 4) for number in range(5)]
    assert [each.parameters["lr"] for each in report.candidates] == [1e-2, 1e-6]
    assert clf.lr == 1e-2
    first, second = report.candidates
    assert first.difference == 0
    assert second.difference == pytest.approx(second.score - first.score)
    rows = np.flatnonzero(~hold_out(own, 0.2, np.random.default_rng(0)))
    assert report.n_examples == len(rows)
    same = ComplementaryClassifier(lr=1e-2, classes=own.classes, random_state=0, **QUICK)
    folds = KFold(2, shuffle=True, random_state=0)
    scores = cross_val_score(same, own.X[rows], own.comp_labels[rows], cv=folds)
    assert first.score == pytest.approx(scores.mean())


def test_candidates_learn_with_the_matrix_with_which_the_best_is_fitted(flowers):
    own = read_own(flowers, label="not", ignore=["is"])
    pairs = np.empty(len(own.label), dtype=object)  # each label was one of two classes offered
    pairs[:] = [(min(k, (k + 1) % 3), max(k, (k + 1) % 3)) for k in own.label.tolist()]
    own = replace(own, offered=pairs, offered_at_random=True)
    given = []

    class Stopped:
        def map(self, work, jobs):
            given.append(work.keywords["clf"].transition)
            raise InvalidInput("This is enough.")

    with pytest.raises(InvalidInput, match="enough"):
        sweep_own(own, GRID, executor=Stopped())
    assert given == [matrix_of_lists(own)]


def test_answers_of_annotators_are_split_by_examples():
    answers = Observations(
        example=[0, 0, 1, 2, 2], label=list("abcab"), annotator=list("xyxyx"), n_examples=4
    )
    some = answers[[2, 0]]
    assert some.n_examples == 2
    assert some.example.tolist() == [1, 1, 0, 0]
    assert some.label.tolist() == list("abab")
    assert some.annotator.tolist() == list("xyyx")


def test_a_sweep_on_the_command_line(flowers, tmp_path, monkeypatch):
    out, exchange, written = tmp_path / "model", files._exchange, []

    def note(new, target, scratch):
        written.append(sorted(path.name for path in new.iterdir()))
        exchange(new, target, scratch)

    monkeypatch.setattr(files, "_exchange", note)
    command = ["sweep", flowers, "--label", "not", "--true-label", "is", "--out", out, "--folds", 2]
    command += ["--learner", "network", "--epochs", 2, "--transition", "uniform"]
    done = CliRunner().invoke(app, [str(each) for each in [*command, "--grid", "lr=0.001,-1"]])
    assert done.exit_code == 0, done.output
    assert "failed" in done.output
    assert "warning: lr=-1 could not be trained: lr must be" in done.stderr
    # in one step: a model without its page could not be replaced after a kill
    assert written == [["model.json", "model.safetensors", "report.html", "sweep.html"]]
    page = (out / "sweep.html").read_text()
    assert "default-src 'none'" in page
    assert "lr=-1 could not be trained: lr must be" in page
    assert ComplementaryClassifier.load(out).lr == 0.001
    more = ["--grid", "method=forward,pc", "--force", "--json"]
    found = CliRunner().invoke(app, [str(each) for each in [*command, *more]])
    names = [each["parameters"]["method"] for each in json.loads(found.stdout)["candidates"]]
    assert sorted(names) == ["forward", "pc"]


def test_a_parameter_that_no_model_uses_is_named(flowers):
    own = read_own(flowers, label="not", ignore=["is"])
    grid = {"max_norm": [1e6, 1e7], "lr": [1e-6, 1e-2]}  # no gradient is as long as that
    report = sweep_own(own, grid, folds=2, learner="network", epochs=1)[1]
    assert report.without_effect == ["max_norm"]
    assert report.warnings[0].startswith("max_norm made no difference: all values have the same")
    report = sweep_own(own, {"lr": [1e-6, 1e-2]}, folds=2, learner="network", epochs=1)[1]
    assert report.warnings == []


def test_refusals(flowers):
    for wrong in ("lr", "speed=3", "lr=", "device=cpu"):
        with pytest.raises(InvalidInput, match=r"must be a parameter and its values"):
            parse_grid([wrong])
    with pytest.raises(InvalidInput, match="fast"):
        parse_grid(["method=fast"])
    own = read_own(flowers, label="not", ignore=["is"])
    with pytest.raises(InvalidInput, match=r"Every candidate .* lr must be .*-1"):
        sweep_own(own, {"lr": [-1]}, folds=2, **QUICK)
    with pytest.raises(InvalidInput, match=r"folds \(--folds\) must be at most \d+"):
        sweep_own(own, {"lr": [0.1]}, folds=2000, **QUICK)
    with pytest.raises(InvalidInput, match="at least one parameter"):
        sweep_own(own, {})
