import hashlib
import io
import lzma
import os
import pickle
import pickletools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from naysay import InvalidData, datasets
from naysay.datasets.official.cifar import read_batches, read_pickle
from naysay.datasets.official.entry import FoundFile, OfficialFile, md5_of
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


def _register(monkeypatch, folder, *, with_md5=True):
    entry = REGISTRY["cifar-10"]
    files = tuple(
        replace(file, md5=md5_of((folder.parent / file.path).read_bytes()) if with_md5 else None)
        for file in entry.files
    )
    small = replace(entry, n_train=10, n_test=2, files=files)
    monkeypatch.setitem(REGISTRY, "cifar-10", small)


def load(folder):
    return datasets.load("cifar-10", data_dir=folder.parent, download=False)


def test_reads_batches_in_order_and_channels_first(small_cifar):
    folder, contents = small_cifar
    cifar = load(folder)
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
        load(folder)


@pytest.mark.parametrize(
    "change, problem",
    [
        ({b"data": np.zeros((2, 3071), np.uint8)}, r"images of shape \(2, 3072\).*\(2, 3071\)"),
        ({b"labels": [1]}, "as many labels. It has shape .* and 1 labels"),
        ({b"labels": [1, 10]}, r"must contain labels 0\.\.9"),
        ({b"labels": [1, "cat"]}, r"must contain labels 0\.\.9"),
        ({b"data": [1, 2]}, "must contain an array 'data' and a list 'labels'"),
        ({b"data": np.zeros((2, 3072))}, "damaged .*an array of type 'f8', not of bytes"),
        (
            {b"data": np.asfortranarray(np.zeros((2, 3072), np.uint8))},
            "does not hold plain bytes, row by row",
        ),
    ],
)
def test_a_batch_of_the_wrong_form_is_refused(small_cifar, monkeypatch, change, problem):
    folder, contents = small_cifar
    content = pickle.dumps({**contents["data_batch_2"], **change}, protocol=4)
    (folder / "data_batch_2").write_bytes(content)
    _register(monkeypatch, folder, with_md5=False)
    with pytest.raises(InvalidData, match=problem) as raised:
        load(folder)
    assert "data_batch_2" in str(raised.value)


def test_class_names_that_are_missing_are_an_error(small_cifar, monkeypatch):
    folder, _ = small_cifar
    (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [b"cat"]}, protocol=4))
    _register(monkeypatch, folder)
    with pytest.raises(InvalidData, match=r"a list 'label_names' of 10 names"):
        load(folder)


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
def test_a_pickle_that_would_run_code_is_refused_by_name(tmp_path, found, function, name, protocol):
    canary = tmp_path / "canary"
    content = pickle.dumps({"labels": _Runs(function, f"touch {canary}")}, protocol=protocol)
    with pytest.raises(InvalidData, match=rf"batch_1 must contain nothing .* refers to '{name}'"):
        read_pickle(content, found(tmp_path / "data_batch_1"))
    assert not canary.exists()


def test_a_name_that_only_begins_like_an_admitted_one_is_refused(tmp_path, found):
    content = b"\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93."
    with pytest.raises(InvalidData, match=r"refers to 'numpy\.ndarray\.tofile'"):
        read_pickle(content, found(tmp_path / "data_batch_1"))


def test_a_persistent_id_is_refused(tmp_path, found):
    with pytest.raises(InvalidData, match=r"persistent id"):
        read_pickle(b"\x80\x04\x8c\x01aQ.", found(tmp_path / "data_batch_1"))


def test_an_array_cannot_claim_more_memory_than_its_bytes(tmp_path, found):
    good = pickle.dumps({"data": np.zeros(3, np.uint8)}, protocol=4)
    assert b"K\x03\x85" in good  # the shape (3,)
    huge = good.replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85")
    with pytest.raises(InvalidData, match=r"is damaged"):
        read_pickle(huge, found(tmp_path / "data_batch_1"))


@pytest.mark.parametrize(
    "content", [b"\x80\x04", b"not a pickle", b"\x80\x04]q\x00.", b"\x80\x04K\x01."]
)
def test_what_is_no_pickle_of_a_dict_is_refused(tmp_path, found, content):
    with pytest.raises(InvalidData, match=r"data_batch_1 must (be a pickle|contain a dict)"):
        read_pickle(content, found(tmp_path / "data_batch_1"))


def test_every_truncation_is_an_error(tmp_path, found):
    content = pickle.dumps(batch(np.random.default_rng(0)), protocol=4)
    for length in range(0, len(content) - 1, 97):
        with pytest.raises(InvalidData, match=r"data_batch_1"):
            read_pickle(content[:length], found(tmp_path / "data_batch_1"))


def _official_frames(shared_data: Path):
    """Yield (name, md5, bytes before the pixels, bytes after) of the official pickles."""
    frames = io.BytesIO(lzma.decompress((shared_data / "cifar-frames.xz").read_bytes()))
    while line := frames.readline():
        path, md5, n_before, n_after = line.decode().split()
        before = frames.read(int(n_before))
        yield path, md5, before, frames.read(max(int(n_after), 0))


def test_the_frames_of_the_official_files_are_read(shared_data, tmp_path, found):
    """The official pickles without their pixels: everything but the images is the real thing."""
    frames = {path: frame for path, *frame in _official_frames(shared_data)}
    md5, meta, _ = frames["cifar-10-batches-py/batches.meta"]
    assert hashlib.md5(meta).hexdigest() == md5
    names = read_pickle(meta, found(tmp_path / "batches.meta"))["label_names"]
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
