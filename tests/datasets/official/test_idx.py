import gzip
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from naysay import InvalidData, datasets
from naysay.datasets.official.entry import FoundFile, OfficialFile, md5_of, read_checked
from naysay.datasets.official.idx import parse_idx
from naysay.datasets.official.registry import REGISTRY

MADE = FoundFile("mnist", OfficialFile("made.idx"), Path("made.idx"))


def as_idx(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """A data folder in MNIST's layout with 6 + 4 images; returns it and its contents."""
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3": rng.integers(256, size=(6, 28, 28)),
        "train-labels-idx1": rng.integers(10, size=6),
        "t10k-images-idx3": rng.integers(256, size=(4, 28, 28)),
        "t10k-labels-idx1": rng.integers(10, size=4),
    }
    files = []
    (tmp_path / "mnist").mkdir()
    for name, array in arrays.items():
        path = f"mnist/{name}-ubyte.gz"
        (tmp_path / path).write_bytes(gzip.compress(as_idx(array)))
        also = (path.removesuffix(".gz"),)
        files.append(OfficialFile(path, also=also, md5=md5_of(as_idx(array))))
    entry = replace(REGISTRY["mnist"], n_train=6, n_test=4, files=tuple(files), downloads=())
    monkeypatch.setitem(REGISTRY, "mnist", entry)
    return tmp_path, arrays


def load(folder):
    return datasets.load("mnist", data_dir=folder, download=False)


def image_file(folder):
    return folder / "mnist" / "train-images-idx3-ubyte.gz"


def test_reads_back_what_was_written(small_mnist):
    folder, arrays = small_mnist
    mnist = load(folder)
    assert mnist.test is not None
    np.testing.assert_array_equal(mnist.train.X[:, 0], arrays["train-images-idx3"])
    np.testing.assert_array_equal(mnist.test.y, arrays["t10k-labels-idx1"])
    assert mnist.train.X.dtype == np.uint8
    assert mnist.train.y.dtype == np.int64
    assert mnist.train.X.flags.writeable


def test_gzipped_or_not_makes_no_difference(small_mnist):
    folder, _ = small_mnist
    gzipped = load(folder)
    for path in list((folder / "mnist").glob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(load(folder).train.X, gzipped.train.X)


def test_a_file_named_gz_that_is_not_gzipped_is_read(small_mnist):
    folder, arrays = small_mnist
    image_file(folder).write_bytes(as_idx(arrays["train-images-idx3"]))
    np.testing.assert_array_equal(load(folder).train.X[:, 0], arrays["train-images-idx3"])


@pytest.mark.parametrize("position", [12, 300, -6])
def test_a_flipped_byte_in_gzip_is_an_error_that_names_the_file(small_mnist, position):
    folder, _ = small_mnist
    content = bytearray(image_file(folder).read_bytes())
    content[position] ^= 0x10
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"train-images-idx3-ubyte\.gz must"):
        load(folder)


def test_a_flipped_byte_in_a_plain_file_is_an_error_that_names_the_file(small_mnist):
    folder, arrays = small_mnist
    content = bytearray(as_idx(arrays["train-images-idx3"]))
    content[1000] ^= 1
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"must have the published md5 .* damaged or altered"):
        load(folder)


def test_a_truncated_gzip_is_an_error(small_mnist):
    folder, _ = small_mnist
    content = image_file(folder).read_bytes()
    for length in (5, len(content) // 2, len(content) - 1):
        image_file(folder).write_bytes(content[:length])
        with pytest.raises(InvalidData, match=r"ubyte.gz must be a whole gzip file"):
            load(folder)


def test_bytes_after_the_gzip_are_an_error(small_mnist):
    folder, _ = small_mnist
    image_file(folder).write_bytes(image_file(folder).read_bytes() + b"more")
    with pytest.raises(InvalidData, match=r"4 bytes follow its end"):
        load(folder)


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_an_error(small_mnist, content):
    folder, _ = small_mnist
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"must contain data. It is empty. Delete it and run"):
        load(folder)


def test_a_small_file_cannot_fill_the_memory(tmp_path, found):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(InvalidData, match=r"at most 1,000 bytes"):
        read_checked(found(path), at_most=1000)


def test_labels_out_of_range_are_an_error(small_mnist, monkeypatch):
    folder, _ = small_mnist
    labels = as_idx(np.array([0, 1, 2, 3, 4, 10]))
    (folder / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(labels)
    _without_md5(monkeypatch)
    with pytest.raises(InvalidData, match=r"must contain labels 0\.\.9. It has 10"):
        load(folder)


def test_a_wrong_shape_is_an_error(small_mnist, monkeypatch):
    folder, _ = small_mnist
    image_file(folder).write_bytes(as_idx(np.zeros((6, 14, 56))))
    _without_md5(monkeypatch)
    with pytest.raises(InvalidData, match=r"of shape \(6, 28, 28\). Its shape is \(6, 14, 56\)"):
        load(folder)


def _without_md5(monkeypatch):
    entry = REGISTRY["mnist"]
    files = tuple(replace(file, md5=None) for file in entry.files)
    monkeypatch.setitem(REGISTRY, "mnist", replace(entry, files=files))


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"\x00\x00\x0d\x01\x00\x00\x00\x00", "begins with 00 00 0d"),
        (b"\x00\x00", "begins with 00 00"),
        (b"\x00\x00\x08\x03\x00\x00", "ends within its header"),
        (b"\x00\x00\x08\x01\x00\x00\x00\x03ab", "must contain 3 values, .*It has 2"),
        (b"\x00\x00\x08\x01\xff\xff\xff\xffab", "must contain 4,294,967,295 values"),
    ],
)
def test_what_is_no_idx_file_is_refused(tmp_path, found, content, problem):
    with pytest.raises(InvalidData, match=problem):
        parse_idx(content, found(tmp_path / "file"))


@settings(max_examples=30)
@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=4, max_side=5)))
def test_parse_is_the_inverse_of_write(array):
    np.testing.assert_array_equal(parse_idx(as_idx(array), MADE), array)


@given(st.binary(max_size=64))
def test_any_bytes_give_an_array_or_invalid_data(content):
    try:
        array = parse_idx(content, MADE)
    except InvalidData:
        return
    assert as_idx(array) == content
