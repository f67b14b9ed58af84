"""A user's own data in a file of arrays (.npz)."""

import contextlib
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naysay import InvalidData, InvalidInput, NaysayError
from naysay.datasets.own import read_features, read_own


def test_an_array_file_with_everything(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(
        path,
        X=np.array([[1, np.nan], [2, 5], [3, 6]]),
        labels=[0, 2, -1],
        true_labels=[-1, -1, 1],
        annotators=["ann", "", "bob"],
        classes=["cat", "dog", "owl"],
    )
    own = read_own(path)
    assert own.classes == ("cat", "dog", "owl")
    assert own.label.tolist() == [0, 2]
    assert own.true_labels.tolist() == [-1, -1, 1]
    assert own.annotator is not None
    assert own.annotator.tolist() == [0, -1]
    assert own.X.tolist() == [[1, 5.5, 1], [2, 5, 0], [3, 6, 0]]
    assert own.feature_names == ("x0", "x1", "x1 missing")
    assert_array_equal(read_features(path, own.recipe), own.X)


def test_a_boolean_matrix_of_excluded_classes(tmp_path):
    excluded = np.array([[1, 0, 1], [0, 1, 0]], dtype=bool)
    np.savez(tmp_path / "t.npz", X=np.eye(2), labels=excluded)
    own = read_own(tmp_path / "t.npz")
    assert own.classes == ("0", "1", "2")
    assert_array_equal(own.ruled_out, excluded)
    with pytest.raises(InvalidData, match=r"shape \(2, 2\). Got \(2, 3\)"):
        read_own(tmp_path / "t.npz", classes=["a", "b"])


def test_text_labels_and_ids_of_an_array_file(tmp_path):
    np.savez(
        tmp_path / "t.npz",
        X=np.array([[1], [2], [1]]),
        labels=np.array([b"a|b", b"b", "é".encode()]),
        example_ids=[4, 2, 4],
    )
    own = read_own(tmp_path / "t.npz")
    assert own.classes == ("a", "b", "é")
    assert own.example.tolist() == [0, 0, 0, 1]
    assert own.ids == ("4", "2")


@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (4, 1, 5, 6), (4, 5, 6)])
def test_images_in_an_array_file(tmp_path, shape):
    X = np.arange(np.prod(shape)).astype(np.uint8).reshape(shape)
    np.savez(tmp_path / "t.npz", X=X, labels=[0, 1, 2, 0])
    own = read_own(tmp_path / "t.npz")
    assert own.X.dtype == np.uint8
    assert_array_equal(own.X, X.reshape(4, -1, 5, 6))
    assert own.feature_names == ()
    assert_array_equal(read_features(tmp_path / "t.npz", own.recipe), own.X)
    np.savez(tmp_path / "other.npz", X=X[..., :5])
    with pytest.raises(InvalidData, match="like the training data"):
        read_features(tmp_path / "other.npz", own.recipe)


@pytest.mark.parametrize(
    "arrays, error, problem",
    [
        ({"labels": [0]}, InvalidInput, "must contain an array 'X'. Its arrays are 'labels'"),
        ({"X": np.eye(2)}, InvalidInput, "must contain an array 'labels'"),
        ({"X": np.eye(2), "labels": [0, 1, 2]}, InvalidData, r"shape \(2,\). Got int64"),
        ({"X": np.eye(2), "labels": [0.0, 1.0]}, InvalidData, "text or integers"),
        ({"X": np.eye(2), "labels": [0, -2]}, InvalidData, "from 0 upwards, or -1.*Got -2"),
        (
            {"X": np.eye(2), "labels": [0, 2], "classes": ["a", "b"]},
            InvalidData,
            "from 0 to 1.*Got 2",
        ),
        ({"X": np.eye(2), "labels": [b"\xff", b"a"]}, InvalidData, "text in UTF-8"),
        ({"X": np.array(["a", "b"]), "labels": [0, 1]}, InvalidData, "X of .* must contain number"),
        ({"X": np.zeros((0, 2)), "labels": []}, InvalidData, "Got float64 of shape"),
        ({"X": np.zeros((2, 3, 4, 4)), "labels": [0, 1]}, InvalidData, "must be of type uint8"),
        (
            {"X": np.zeros((2, 4, 4, 3), np.uint8), "labels": [0, 1]},
            InvalidData,
            r"save X.transpose\(0, 3, 1, 2\)",
        ),
        ({"X": np.array([{}, 1]), "labels": [0, 1]}, InvalidData, "holds objects"),
    ],
)
def test_a_wrong_array_file_is_refused(tmp_path, arrays, error, problem):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(error, match=f"(?s){problem}"):
        read_own(tmp_path / "t.npz")


@settings(max_examples=60)
@given(data=st.data())
def test_an_altered_array_file_gives_data_or_a_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("altered") / "t.npz"
    buffer = io.BytesIO()
    np.savez(buffer, X=np.eye(3), labels=["a", "b", "c"])
    content = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(NaysayError):
        read_own(path)


def test_an_array_file_with_an_impossible_shape_is_refused(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000, 9), }"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("X.npy", content)
    with pytest.raises(InvalidData, match=r"must be an .npz file"):
        read_own(tmp_path / "t.npz")


def test_a_member_that_is_no_array_is_refused(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.zeros((3, 2)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels", "not an array")
    with pytest.raises(InvalidData, match="labels is not an array"):
        read_own(path)


@pytest.mark.parametrize("kind", [">f8", ">i2", "<f2", np.longdouble])
def test_numbers_of_any_size_and_byte_order_are_read(tmp_path, kind):
    np.savez(tmp_path / "t.npz", X=np.array([[1, 5], [2, 3]], dtype=kind), labels=[0, 1])
    assert read_own(tmp_path / "t.npz").X.tolist() == [[1, 5], [2, 3]]


@pytest.mark.parametrize("role", ["features", "ignore", "categorical", "text"])
def test_columns_that_an_array_file_does_not_have_are_refused(tmp_path, role):
    np.savez(tmp_path / "t.npz", X=np.eye(3), labels=[0, 1, 2])
    with pytest.raises(InvalidInput, match=f"{role} .*no column 'age'.*'x0', 'x1', 'x2'"):
        read_own(tmp_path / "t.npz", **{role: ["age"]})


@pytest.mark.parametrize("name", ["labels", "classes"])
def test_text_that_is_half_a_character_is_refused(tmp_path, name):
    arrays = {"X": np.eye(2), "labels": [0, 1], name: np.array(["a", "\ud800"])}
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(InvalidData, match=f"{name}.* must be valid text"):
        read_own(tmp_path / "t.npz")
