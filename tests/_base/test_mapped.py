"""Arrays in temporary files hold what arrays in memory do, and give their pages back."""

import errno
import gc
import os
import time
from pathlib import Path

import numpy as np
import pytest

from naysay._base import mapped
from naysay.workflows.evaluation import one_of_each


def test_small_arrays_are_in_memory_and_large_ones_in_a_file_that_vanishes(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped.tempfile, "tempdir", str(tmp_path))
    small = mapped.new_array((10, 3), np.float32, most_bytes=120)
    large = mapped.new_array((10, 3), np.float32, most_bytes=119)
    assert mapped.find_pages(small) is None
    assert mapped.find_pages(large[2:]) is not None
    large[:] = np.arange(30).reshape(10, 3)
    assert large.sum() == 435
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be reserved")
def test_a_full_disk_is_an_error_before_anything_is_written(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with pytest.raises(OSError, match=r"room for a file of 1\.2e-07 GB: No space.*in TMPDIR"):
        mapped.new_array((10, 3), np.float32, most_bytes=0)


def test_rows_of_a_file_are_taken_as_those_of_an_array():
    X = mapped.new_array((1000, 3), np.float32, most_bytes=0)
    X[:] = np.random.default_rng(0).normal(size=X.shape)
    rows = np.flatnonzero(X[:, 0] > 0)
    taken = mapped.take_rows(X, rows, most_bytes=0)
    assert mapped.find_pages(taken) is not None
    np.testing.assert_array_equal(taken, np.array(X)[rows])
    assert mapped.take_rows(X, np.arange(1000), most_bytes=0) is X
    assert mapped.window_for(X, 6e-6) == 500
    assert mapped.window_for(X, 1) is None
    assert mapped.window_for(np.array(X), 0) is None


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_pages_beyond_the_limit_are_given_back_and_hold_the_same():
    limit = 8 << 20
    before = mapped._file_bytes()
    X = mapped.new_array((16 << 20,), np.float32, most_bytes=limit)  # 64 MB
    X[:] = 1
    deadline = time.monotonic() + 10
    while mapped._file_bytes() > before + limit and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mapped._file_bytes() <= before + limit
    assert X.sum() == len(X)
    del X
    gc.collect()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_rows_are_taken_with_the_pages_of_their_source_given_back_first(monkeypatch):
    monkeypatch.setattr(mapped, "limit_pages", lambda *_: None)  # nothing else gives them back
    X = mapped.new_array((4 << 20, 1), np.float32, most_bytes=0)  # 16 MB
    X[:] = 1
    before = mapped._file_bytes()
    assert mapped.take_rows(X, np.arange(10), most_bytes=0).sum() == 10
    assert mapped._file_bytes() < before - X.nbytes / 2


def test_numbers_in_parts_are_those_of_numpy(monkeypatch):
    monkeypatch.setattr(mapped, "_PART", 7)
    monkeypatch.setattr(mapped, "_SMALL", 0)
    rng = np.random.default_rng(0)
    grown = mapped.Growing(np.int64, most_bytes=0)
    parts = [rng.integers(-1, 4, size=n) for n in (5, 0, 30, 3)]
    for part in parts:
        grown.append(part)
    values = grown.array
    expected = np.concatenate(parts)
    np.testing.assert_array_equal(values, expected)
    rows = mapped.find_rows(values, len(values), lambda part: values[part] > 1)
    np.testing.assert_array_equal(rows, np.flatnonzero(expected > 1))
    np.testing.assert_array_equal(mapped.take(values, rows), expected[expected > 1])
    assert all(mapped.find_pages(each) is not None for each in (values, rows))
    counts = np.bincount(expected + 1, minlength=5)
    np.testing.assert_array_equal(mapped.count_values(values, 4, least=-1), counts)
    assert mapped.is_count(mapped.count_up(values, 20))
    assert not mapped.is_sorted(values)
    assert mapped.is_sorted(np.sort(expected))


def test_answers_are_drawn_and_ranked_in_parts_as_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    example = np.sort(rng.integers(50, size=200))
    values = rng.integers(5, size=200) / 5
    numbers = rng.permutation(50)
    drawn, ranked = one_of_each(example, 0), np.argsort(-values, kind="stable")
    monkeypatch.setattr(mapped, "_PART", 7)
    np.testing.assert_array_equal(one_of_each(example, 0), drawn)
    np.testing.assert_array_equal(mapped.argsort(values, largest_first=True), ranked)
    for each in (numbers, np.append(numbers, 3), example):
        np.testing.assert_array_equal(mapped.argsort(each), np.argsort(each, kind="stable"))
