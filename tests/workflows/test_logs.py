"""Fit and check models on logs of suggestions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from naysay.datasets import read_own
from naysay.report.fit import render_fit_page
from naysay.workflows.check import check_file
from naysay.workflows.fit import fit_own

COLUMNS = {"suggested": "suggested", "accepted": "ok"}


def make_log(*, mistakes=0.0, seed=0, known=0):
    X, y = make_blobs(700, n_features=4, centers=5, cluster_std=1.5, random_state=3)
    rng = np.random.default_rng(seed)
    weak = LogisticRegression().fit(X[:12, :1], y[:12])
    named = np.where(rng.random(700) < 0.2, rng.integers(5, size=700), weak.predict(X[:, :1]))
    said = (named == y) ^ (rng.random(700) < mistakes)
    classes = np.array(list("abcde"))
    frame = pd.DataFrame(X, columns=list("wxyz")).assign(suggested=classes[named])
    frame["ok"] = np.where(said, "yes", "no")
    frame["is"] = np.where(np.arange(700) % 700 < known, classes[y], None)
    return frame, classes[y]


@pytest.fixture(scope="module")
def fitted():
    frame, y = make_log(mistakes=0.05, known=60)
    own = read_own(frame, **COLUMNS, true_label="is", classes=list("abcde"))
    return (*fit_own(own, transition=None, epochs=10), own, y)


def test_fit_reports_the_log_the_accuracy_and_the_mistakes(fitted):
    clf, report, own, y = fitted
    assert (clf.predict(own.X) == y).mean() > 0.9
    assert report.transition_from == "log"
    assert report.accuracy.n_true_labels > 40  # true labels show it, by networks without them
    low, high = report.accuracy.interval
    assert low - 0.03 <= (clf.predict(own.X) == y).mean() <= high + 0.03
    assert report.accuracy_without_labels.n_answers == report.n_held_out
    assert report.accuracy_without_labels.value is None
    low, high = report.mistakes.interval
    assert low <= 0.05 <= high
    assert any("--mistakes 0.0" in each for each in report.warnings)
    page = render_fit_page(report)
    assert "The suggestions" in page
    assert "The transition matrix Q" not in page
    assert "“is " in page


def test_answers_that_are_probably_wrong_are_found(fitted):
    clf, _, _, y = fitted
    frame, _ = make_log(seed=1)
    wrong = np.arange(0, 700, 100)
    truth = y[wrong]
    frame.loc[wrong, "suggested"] = truth
    frame.loc[wrong, "ok"] = "no"
    more = np.arange(50, 700, 100)
    frame.loc[more, "suggested"] = np.where(y[more] == "a", "b", "a")
    frame.loc[more, "ok"] = "yes"
    found = check_file(clf, frame.drop(columns="is"), **COLUMNS)
    issues = found.issues.to_pylist()
    planted = {*(wrong + 1).tolist(), *(more + 1).tolist()}
    listed = {each["row"] for each in issues}
    assert len(listed & planted) >= 12
    assert len(listed - planted) <= 2
    assert {each["accepted"] for each in issues} == {"yes", "no"}
    assert "'is " in str(found)
    assert found.collapsed is None


def test_predictions_that_were_suggested_show_the_accuracy(fitted):
    clf, _, own, y = fitted
    frame, _ = make_log()
    frame["suggested"] = clf.predict(own.X)
    frame["ok"] = frame["suggested"] == y
    found = check_file(clf, frame.drop(columns="is"), **COLUMNS)
    assert found.accuracy.value == pytest.approx((clf.predict(own.X) == y).mean())


def test_labels_and_suggestions_are_fitted_together():
    frame, y = make_log()
    rng = np.random.default_rng(0)
    others = np.array([rng.choice([each for each in "abcde" if each != true]) for true in y])
    is_label = np.arange(700) % 2 == 0
    frame["not"] = np.where(is_label, others, None)
    frame.loc[is_label, ["suggested", "ok"]] = None
    own = read_own(frame, label="not", **COLUMNS, ignore=["is"])
    clf, report = fit_own(own, learner="network", epochs=40)
    assert (clf.predict(own.X) == y).mean() > 0.9
    assert report.transition_from == "uniform"
    page = render_fit_page(report)
    assert "The suggestions" in page
    assert "The transition matrix Q" in page
