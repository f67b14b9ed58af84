"""The images of MNIST and CIFAR: what was written is read, and damaged files are refused."""

import gzip
import hashlib
import io
import lzma
import os
import pickle
import pickletools
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from naysay import InvalidData, datasets
from naysay.datasets.official.entry import FoundFile, OfficialFile, md5_of, read_checked
from naysay.datasets.official.images import read_batches, read_pickle
from naysay.datasets.official.registry import REGISTRY

BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def batch(rng, n_images=2):
    return {
        b"batch_label": b"a batch",
        b"labels": rng.integers(10, size=n_images).tolist(),
        b"data": rng.integers(256, size=(n_images, 3072)).astype(np.uint8),
        b"filenames": [b"cat.png"] * n_images,
    }


@pytest.fixture
def small_cifar(tmp_path, monkeypatch):
    """A data folder in CIFAR-10's layout with 10 + 2 images; returns it and its batches."""
    rng = np.random.default_rng(0)
    contents = {name: batch(rng) for name in (*BATCHES, "test_batch")}
    contents["batches.meta"] = {b"label_names": [b"class %d" % number for number in range(10)]}
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))
    _register(monkeypatch, folder)
    return folder, contents


def _register(monkeypatch, folder):
    entry = REGISTRY["cifar-10"]
    files = tuple(
        replace(file, md5=md5_of((folder.parent / file.path).read_bytes())) for file in entry.files
    )
    small = replace(entry, n_train=10, n_test=2, files=files)
    monkeypatch.setitem(REGISTRY, "cifar-10", small)


def load_cifar(folder):
    return datasets.load("cifar-10", data_dir=folder.parent, download=False)


def test_reads_batches_in_order_and_channels_first(small_cifar):
    folder, contents = small_cifar
    cifar = load_cifar(folder)
    assert cifar.test is not None
    expected = np.concatenate([contents[name][b"data"] for name in BATCHES])
    np.testing.assert_array_equal(cifar.train.X, expected.reshape(-1, 3, 32, 32))
    assert cifar.train.y.tolist() == [
        label for name in BATCHES for label in contents[name][b"labels"]
    ]
    np.testing.assert_array_equal(cifar.test.X.reshape(2, -1), contents["test_batch"][b"data"])
    assert cifar.classes[3] == "class 3"
    assert [file.checked for file in cifar.provenance.files] == ["published md5"] * 7


def test_a_flipped_byte_is_an_error_that_names_the_file(small_cifar):
    folder, _ = small_cifar
    content = bytearray((folder / "data_batch_3").read_bytes())
    content[2000] ^= 1
    (folder / "data_batch_3").write_bytes(content)
    with pytest.raises(InvalidData, match=r"data_batch_3 must have the published md5"):
        load_cifar(folder)


def test_every_file_has_a_published_md5_so_that_its_form_needs_no_check():
    for name in ("mnist", "fashion-mnist", "cifar-10", "cifar-100"):
        assert all(file.md5 for file in REGISTRY[name].files)


class _Runs:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize(
    "function, name",
    [
        (os.system, r"(posix|nt)\.system"),
        (eval, r"(builtins|__builtin__)\.eval"),
        (np.load, r"numpy\.load"),
        (np.lib.format.open_memmap, r"numpy\.lib\.format\.open_memmap"),
        (pickle.loads, r"_?pickle\.loads"),
    ],
)
def test_a_pickle_that_would_run_code_is_refused_by_name(tmp_path, function, name, protocol):
    canary = tmp_path / "canary"
    content = pickle.dumps({"labels": _Runs(function, f"touch {canary}")}, protocol=protocol)
    with pytest.raises(InvalidData, match=rf"must contain nothing .* refers to {name}, which"):
        read_pickle(content)
    assert not canary.exists()


def test_a_name_that_only_begins_like_an_admitted_one_is_refused():
    content = b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    with pytest.raises(InvalidData, match=r"refers to numpy\.ndarray\.tofile, which"):
        read_pickle(content)


def test_a_persistent_id_is_refused():
    with pytest.raises(pickle.UnpicklingError, match=r"persistent id"):
        read_pickle(b"\x80\x04\x8c\x01aQ.")


def test_an_array_cannot_claim_more_memory_than_its_bytes():
    good = pickle.dumps({"data": np.zeros(3, np.uint8)}, protocol=4)
    assert b"K\x03\x85" in good  # the shape (3,)
    huge = good.replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85")
    with pytest.raises(ValueError, match="buffer size"):
        read_pickle(huge)


def _official_frames(shared_data: Path):
    """Yield (name, md5, bytes before the pixels, bytes after) of the official pickles."""
    frames = io.BytesIO(lzma.decompress((shared_data / "cifar-frames.xz").read_bytes()))
    while line := frames.readline():
        path, md5, n_before, n_after = line.decode().split()
        before = frames.read(int(n_before))
        yield path, md5, before, frames.read(max(int(n_after), 0))


def test_the_frames_of_the_official_files_are_read(shared_data, tmp_path):
    """The official pickles without their pixels: everything but the images is the real thing."""
    frames = {path: frame for path, *frame in _official_frames(shared_data)}
    md5, meta, _ = frames["cifar-10-batches-py/batches.meta"]
    assert hashlib.md5(meta).hexdigest() == md5
    names = read_pickle(meta)["label_names"]
    assert names[0] == b"airplane"
    assert names[9] == b"truck"

    _, before, after = frames["cifar-10-batches-py/test_batch"]
    content = before + bytes(10_000 * 3072) + after
    (tmp_path / "test_batch").write_bytes(content)
    (tmp_path / "batches.meta").write_bytes(meta)
    test_file = FoundFile("cifar-10", OfficialFile("test_batch"), tmp_path / "test_batch")
    meta_file = FoundFile("cifar-10", OfficialFile("batches.meta"), tmp_path / "batches.meta")
    entry = replace(REGISTRY["cifar-10"], n_train=10_000, n_test=10_000)
    reading = read_batches(
        entry, [test_file, test_file, meta_file], labels_key="labels", names_key="label_names"
    )
    assert reading.test is not None
    assert np.bincount(reading.test.y).tolist() == [1000] * 10
    assert reading.test.y[:4].tolist() == [3, 8, 8, 0]  # cat, ship, ship, airplane
    names_asked = {op.name for op, *_ in pickletools.genops(meta)}
    assert "GLOBAL" not in names_asked


@pytest.mark.parametrize(
    "name, n_train, n_test", [("cifar-10", 5000, 1000), ("cifar-100", 500, 100)]
)
def test_the_official_files_of_this_machine(users_data, name, n_train, n_test):
    if users_data is None or not datasets.is_on_disk(name, data_dir=users_data):
        pytest.skip(f"{name} is not in the folder that NAYSAY_DATA names")
    cifar = datasets.load(name, data_dir=users_data, download=False)
    assert cifar.test is not None
    assert (np.bincount(cifar.train.y) == n_train).all()
    assert (np.bincount(cifar.test.y) == n_test).all()
    assert (cifar.train.X.min(), cifar.train.X.max()) == (0, 255)
    assert len(set(cifar.classes)) == len(cifar.classes)
    if name == "cifar-10":  # the published means of the channels: 0.4914, 0.4822, 0.4465
        means = cifar.train.X.mean(axis=(0, 2, 3)) / 255
        np.testing.assert_allclose(means, [0.4914, 0.4822, 0.4465], atol=5e-5)
        assert cifar.train.y[:3].tolist() == [6, 9, 9]  # frog, truck, truck
        assert cifar.test.y[-1] == 7  # horse


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


def load_mnist(folder):
    return datasets.load("mnist", data_dir=folder, download=False)


def image_file(folder):
    return folder / "mnist" / "train-images-idx3-ubyte.gz"


def test_reads_back_what_was_written(small_mnist):
    folder, arrays = small_mnist
    mnist = load_mnist(folder)
    assert mnist.test is not None
    np.testing.assert_array_equal(mnist.train.X[:, 0], arrays["train-images-idx3"])
    np.testing.assert_array_equal(mnist.test.y, arrays["t10k-labels-idx1"])
    assert mnist.train.X.dtype == np.uint8
    assert mnist.train.y.dtype == np.int64
    assert mnist.train.X.flags.writeable


def test_gzipped_or_not_makes_no_difference(small_mnist):
    folder, _ = small_mnist
    gzipped = load_mnist(folder)
    for path in list((folder / "mnist").glob("*.gz")):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    np.testing.assert_array_equal(load_mnist(folder).train.X, gzipped.train.X)


def test_a_file_named_gz_that_is_not_gzipped_is_read(small_mnist):
    folder, arrays = small_mnist
    image_file(folder).write_bytes(as_idx(arrays["train-images-idx3"]))
    np.testing.assert_array_equal(load_mnist(folder).train.X[:, 0], arrays["train-images-idx3"])


@pytest.mark.parametrize("position", [12, 300, -6])
def test_a_flipped_byte_in_gzip_is_an_error_that_names_the_file(small_mnist, position):
    folder, _ = small_mnist
    content = bytearray(image_file(folder).read_bytes())
    content[position] ^= 0x10
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"train-images-idx3-ubyte\.gz must"):
        load_mnist(folder)


def test_a_flipped_byte_in_a_plain_file_is_an_error_that_names_the_file(small_mnist):
    folder, arrays = small_mnist
    content = bytearray(as_idx(arrays["train-images-idx3"]))
    content[1000] ^= 1
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"must have the published md5 .* damaged or altered"):
        load_mnist(folder)


def test_a_truncated_gzip_is_an_error(small_mnist):
    folder, _ = small_mnist
    content = image_file(folder).read_bytes()
    for length in (5, len(content) // 2, len(content) - 1):
        image_file(folder).write_bytes(content[:length])
        with pytest.raises(InvalidData, match=r"ubyte.gz must be a whole gzip file"):
            load_mnist(folder)


def test_bytes_after_the_gzip_are_an_error(small_mnist):
    folder, _ = small_mnist
    image_file(folder).write_bytes(image_file(folder).read_bytes() + b"more")
    with pytest.raises(InvalidData, match=r"4 bytes follow its end"):
        load_mnist(folder)


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_an_empty_file_is_an_error(small_mnist, content):
    folder, _ = small_mnist
    image_file(folder).write_bytes(content)
    with pytest.raises(InvalidData, match=r"must contain data. It is empty. Delete it and run"):
        load_mnist(folder)


def test_a_small_file_cannot_fill_the_memory(tmp_path, found):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(InvalidData, match=r"at most 1,000 bytes"):
        read_checked(found(path), at_most=1000)
