import numpy as np
import pytest

from naysay import InvalidInput, TransitionMatrix, quality
from naysay._base import frames
from naysay.observations import Observations

Q = TransitionMatrix([[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]], ["cat", "dog", "owl"])
PROBS = np.full((6, 3), 1 / 3)


def test_a_matrix_has_true_classes_as_rows_and_labels_as_columns():
    frame = Q.to_frame("pandas")
    assert frame.loc["cat", "dog"] == 0.9
    assert frame.to_numpy().tolist() == np.asarray(Q).tolist()


def test_polars_has_the_classes_in_a_column():
    polars = pytest.importorskip("polars")
    frame = Q.to_frame("polars")
    assert frame.columns == ["class", "cat", "dog", "owl"]
    assert frame.filter(polars.col("class") == "owl")["cat"].to_list() == [1.0]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_annotators_and_wrong_labels_are_frames_of_either_library(library):
    pytest.importorskip(library)
    labels = np.array([0, 1, 2, 0, 1, 2])
    answers = Observations(example=np.arange(6), label=labels, annotator=["ann", "bob"] * 3)
    found = quality.annotators(answers, PROBS, TransitionMatrix.uniform(3)).to_frame(library)
    assert sorted(found["name"]) == ["ann", "bob"]
    assert (found["error_rate_low"] <= found["error_rate_high"]).all()
    noisy = TransitionMatrix(0.1 + 0.7 * np.asarray(Q), Q.classes, allow_diagonal=True)
    wrong = quality.find_wrong_labels(PROBS, labels, noisy).to_frame(library)
    assert list(wrong.columns) == ["example", "not", "probability"]
    assert set(wrong["not"]) == {"cat", "dog", "owl"}


def test_without_either_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="needs pandas or polars, which is not installed"):
        Q.to_frame()
    with pytest.raises(InvalidInput, match="needs polars"):
        Q.to_frame("polars")
    with pytest.raises(InvalidInput, match="must be 'pandas' or 'polars'"):
        Q.to_frame("arrow")
