"""Data larger than memory: arrays mapped from files are read a batch at a time, never copied."""

import re
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import trainings
from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.networks import MLP

MB = 1e6
Q = TransitionMatrix.uniform(4)
STATUS = Path("/proc/self/status")
tiny = partial(MLP, widths=(2,), dropout=0.0)


def own_memory():
    """Return the bytes that belong to this process alone; pages of mapped files are not counted."""
    return 1024 * int(re.search(r"RssAnon:\s*(\d+) kB", STATUS.read_text())[1])


class Peak:
    """The most memory owned at any moment, beyond what was owned at the start."""

    def __enter__(self):
        self.before = self.most = own_memory()
        self.is_over = threading.Event()
        self.watch = threading.Thread(target=self._watch)
        self.watch.start()
        return self

    def _watch(self):
        while not self.is_over.wait(0.002):
            self.most = max(self.most, own_memory())

    def __exit__(self, *error):
        self.most = max(self.most, own_memory())
        self.is_over.set()
        self.watch.join()

    @property
    def growth(self):
        return self.most - self.before


def train_from_file(path, shape, dtype, *, anchors):
    """Fit and predict from a file; return the peak of each and what the copy would have taken."""
    X = np.memmap(path, mode="r", shape=shape, dtype=dtype)
    rng = np.random.default_rng(0)
    true = rng.integers(4, size=len(X))
    labels = Q.sample(true, seed=0)
    clf = ComplementaryClassifier(
        learner="network", network=tiny, epochs=1, batch_size=64, device="cpu", random_state=0
    )
    clf.fit(np.zeros((8, *shape[1:]), dtype), np.arange(8) % 4)  # libraries take their memory
    given = {"anchors": (np.array(X[:8]), true[:8])} if anchors else {}
    with Peak() as fitting:
        clf.fit(X, labels, **given)
    with Peak() as predicting:
        predicted = clf.predict(X)
    assert len(predicted) == len(X)
    with Peak() as copying:
        half = np.array(X[: len(X) // 2])  # the measure sees what is copied
        assert half.any()
    return fitting.growth, predicting.growth, copying.growth


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux to tell what a process owns")
@pytest.mark.parametrize(
    "dtype, anchors", [(np.uint8, True), (np.float32, False)], ids=["bytes, anchors", "floats"]
)
def test_neither_fitting_nor_predicting_copies_a_file_of_200_megabytes(dtype, anchors, tmp_path):
    side = 64 if dtype is np.float32 else 128  # large inputs: not even a sample may be whole
    n = int(200 * MB) // (side * side * np.dtype(dtype).itemsize)
    shape = (n, 1, side, side)
    path = tmp_path / "X.bin"
    written = np.memmap(path, mode="w+", shape=shape, dtype=dtype)  # the rest are holes, zeros
    written[::97] = np.random.default_rng(0).integers(255, size=(1, side, side))
    written.flush()
    del written
    result = tmp_path / "result"
    child = trainings.start(train_from_file, result, path, shape, dtype, anchors=anchors)
    fitting, predicting, copying = trainings.outcome_of(child, result)
    assert copying > 75 * MB
    assert fitting < 120 * MB
    assert predicting < 100 * MB


@pytest.mark.parametrize(
    "dtype, mode", [(np.uint8, "r"), (np.float32, "r+"), (np.float64, "c"), (np.float64, "r")]
)
def test_a_mapped_array_gives_what_the_same_array_in_memory_gives(dtype, mode, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(255, size=(120, 1, 6, 6)).astype(dtype)
    y = rng.integers(4, size=120)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode=mode)
    clf = ComplementaryClassifier(learner="network", epochs=3, random_state=0, device="cpu")
    anchors = (X[:20], y[:20])
    in_memory = clf.fit(X, Q.sample(y, seed=0), anchors=anchors)
    weights = [each.detach().clone() for each in in_memory.network_.parameters()]
    expected = in_memory.predict_proba(X)
    streamed = clf.fit(mapped, Q.sample(y, seed=0), anchors=(mapped[:20], y[:20]))
    for one, other in zip(weights, streamed.network_.parameters(), strict=True):
        assert torch.equal(one, other)
    assert np.array_equal(streamed.predict_proba(mapped), expected)
    assert np.array_equal(np.load(tmp_path / "X.npy"), X)  # nothing was written to it
