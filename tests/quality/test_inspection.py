"""Pairs of rows that are near, and labels that fit a matrix or do not."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from naysay import InvalidLabels, TransitionMatrix
from naysay.cli import app
from naysay.quality.inspection import check_labels, nearest_rows

PRIOR = np.array([0.4, 0.3, 0.2, 0.1])
NAMES = ["cat", "dog", "owl", "fox"]


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def labels_of(Q, prior, n, seed):
    rng = np.random.default_rng(seed)
    return Q.sample(rng.choice(len(prior), size=n, p=prior), seed=rng)


def test_nearest_rows_are_those_of_a_double_loop():
    Q = TransitionMatrix.without_zeros(7, seed=2)
    values = np.asarray(Q)
    expected = sorted(
        (sum(abs(values[i, k] - values[j, k]) for k in range(7)), str(i), str(j))
        for i in range(7)
        for j in range(i + 1, 7)
    )
    found = nearest_rows(Q, most=21)
    assert [pair.distance for pair in found] == pytest.approx([each[0] for each in expected])
    assert found[0][:2] in {each[1:] for each in expected if each[0] < expected[0][0] + 1e-12}
    assert nearest_rows(TransitionMatrix.uniform(5))[0].distance == pytest.approx(0.5)
    assert nearest_rows(TransitionMatrix.uniform(2001)) == []


def test_the_test_with_a_prior_rejects_as_often_as_it_should():
    Q = TransitionMatrix.without_zeros(4, seed=0)
    p_values = [
        check_labels(labels_of(Q, PRIOR, 500, seed), Q, prior=PRIOR).p_value for seed in range(300)
    ]
    assert np.mean(np.array(p_values) < 0.1) == pytest.approx(0.1, abs=0.06)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.06)


def test_labels_of_another_matrix_are_found_without_a_prior():
    claimed = TransitionMatrix([[0, 0.5, 0.5], [0.9, 0, 0.1], [0.9, 0.1, 0]])
    honest = check_labels(labels_of(claimed, [0.9, 0.05, 0.05], 400, 1), claimed)
    assert honest.fits
    other = check_labels([0] * 10 + [1] * 380 + [2] * 10, claimed)
    assert not other.fits
    assert "these labels hardly come from Q; furthest off is '1'" in str(other)
    misfits = sum(
        not check_labels(labels_of(claimed, [0.98, 0.01, 0.01], 200, seed), claimed).fits
        for seed in range(10)
    )
    assert misfits <= 1


def test_class_shares_and_labels_that_never_occur_are_reported():
    Q = TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]], classes=NAMES[:3])
    found = check_labels(["dog"] * 3 + ["owl"], Q)
    np.testing.assert_allclose(found.class_shares, [0.75, 0.25, 0])
    assert found.never_named == ("cat",)
    assert "cat 75.0%, dog 25.0%, owl 0.0% (estimated)" in str(found)
    assert "give a prior to test" in str(found)
    assert check_labels(["dog"], Q, prior=[0.5, 0.25, 0.25]).shares_given
    with pytest.raises(InvalidLabels, match="at least one label"):
        check_labels([], Q)


def test_a_label_that_Q_and_the_prior_exclude_does_not_fit():
    Q = TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    found = check_labels([1, 2, 0], Q, prior=[0.5, 0.5, 0])
    assert found.p_value == 0
    assert found.to_dict()["chi_square"] is None


def test_many_classes_are_not_tested_without_a_prior():
    Q = TransitionMatrix.with_zeros(201, 1)
    assert check_labels(Q.sample(np.arange(201)), Q).fits is None
    assert "not tested for more than 200 classes" in str(check_labels([0], Q))


def test_inspect_compares_labels(tmp_path):
    Q = TransitionMatrix(np.asarray(TransitionMatrix.without_zeros(4, seed=1)), NAMES)
    Q.write(tmp_path / "Q.csv")
    labels = labels_of(Q, PRIOR, 500, 0)
    rows = "\n".join(f"{i},{NAMES[label]}" for i, label in enumerate(labels))
    (tmp_path / "a.csv").write_text(f"id,not\n{rows}\n900,\n")
    (tmp_path / "prior.csv").write_text("class,share\ncat,0.4\ndog,0.3\nowl,0.2\nfox,0.1\n")
    options = ("inspect", tmp_path / "Q.csv", "--labels", tmp_path / "a.csv")
    done = run(*options, "--column", "not", "--prior", tmp_path / "prior.csv")
    expected = check_labels(labels, Q, prior=PRIOR)
    assert str(expected) in done.output
    assert "most alike" in done.output
    figures = json.loads(run(*options, "--column", "not", "--json").stdout)
    assert figures["labels"]["n_labels"] == 500
    assert figures["nearest_rows"][0] == nearest_rows(Q)[0]._asdict()
    assert "--column must name the column" in run(*options).stderr
    assert "It has no column 'nut'" in run(*options, "--column", "nut").stderr
