"""Anchors in a file of their own."""

import os
import sys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from naysay import InvalidInput, InvalidLabels
from naysay.datasets.own import read_anchors, read_own

FRAME = pd.DataFrame({"age": [3, 9, 5], "coat": ["a", "b", "a"], "not": ["007", "12", "x"]})


@pytest.fixture
def own():
    return read_own(FRAME, label="not")


def test_the_only_other_column_holds_the_true_classes_as_text(own, tmp_path):
    (tmp_path / "a.csv").write_text("is,coat,age,not\n007,b,1,12\n,a,2,x\nx,a,,12\n")
    X, y = read_anchors(tmp_path / "a.csv", own, ignored=["not"])
    assert [own.classes[label] for label in y] == ["007", "x"]  # the empty cell is left out
    np.testing.assert_array_equal(X, [[1, 0, 1], [5, 1, 0]])  # the gap is the median of the data


def test_a_column_that_cannot_be_guessed_is_asked_for(own):
    frame = FRAME.assign(a="x", b="x")
    with pytest.raises(InvalidInput, match="Candidates are 'not', 'a', 'b'"):
        read_anchors(frame, own)
    assert read_anchors(frame, own, true_label="b")[1].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "cells, message",
    [(["dog"] * 3, r"It also contains 'dog'"), ([None] * 3, "true classes are empty")],
)
def test_classes_that_the_data_do_not_know_are_refused(own, cells, message):
    with pytest.raises(InvalidLabels, match=message):
        read_anchors(FRAME.assign(true=pd.Series(cells, dtype="str")), own, true_label="true")


def test_array_files_and_image_folders_hold_anchors_too(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 1, 6, 6)).astype(np.uint8)
    np.savez(tmp_path / "own.npz", X=images, labels=[0, 1, 2, 0], classes=["a", "b", "c"])
    np.savez(tmp_path / "anchors.npz", X=images[1:], true_labels=[2, -1, 0])
    X, y = read_anchors(tmp_path / "anchors.npz", read_own(tmp_path / "own.npz"))
    assert y.tolist() == [2, 0]
    np.testing.assert_array_equal(X, images[[1, 3]])
    for folder, name in (("own", "b"), ("own", "a"), ("true", "b")):
        (tmp_path / folder / name).mkdir(parents=True)
        Image.fromarray(images[0, 0]).save(tmp_path / folder / name / f"{name}.png")
    X, y = read_anchors(tmp_path / "true", read_own(tmp_path / "own"))
    assert y.tolist() == [1]
    np.testing.assert_array_equal(X, images[:1])


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes")
def test_anchors_from_a_pipe_are_refused_because_they_are_read_again(own, tmp_path):
    os.mkfifo(tmp_path / "a.csv")  # to open it twice would wait forever
    for pipe in (tmp_path / "a.csv", "-"):
        with pytest.raises(InvalidInput, match=r"anchors .* must be a file.* read more than once"):
            read_anchors(pipe, own)
