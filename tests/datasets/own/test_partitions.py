"""Folders of Parquet files and of arrays give the data that one table in memory gives."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from naysay import InvalidData, InvalidInput, InvalidLabels
from naysay._base import mapped
from naysay._base.mapped import find_pages
from naysay.datasets.own import partitions, read_features, read_own
from naysay.datasets.own.arrays import read_arrays
from naysay.datasets.own.partitions import kind_of_data
from naysay.datasets.own.summary import summarise
from naysay.workflows.annotators import observations
from naysay.workflows.fit import hold_out

FIELDS = ("X", "example", "label", "answer_row", "true_labels", "row")


def make_frame(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(5, size=n)})
    frame.loc[3, "a"] = np.nan
    frame["colour"] = rng.choice(["red", "green"], size=n)
    frame["not"] = rng.choice(["cat", "dog", "owl"], size=n)
    frame.loc[[0, 50], "not"] = None  # rows without an answer are dropped
    frame["is"] = None
    frame.loc[7, "is"] = "owl"
    return frame.astype({"is": "string"})


def write_parts(frame, folder, *ends):
    folder.mkdir(exist_ok=True)
    for number, (start, stop) in enumerate(zip((0, *ends), (*ends, len(frame)), strict=True)):
        part = frame.iloc[start:stop]
        part.to_parquet(folder / f"part-{number}.parquet", index=False, row_group_size=7)
    return folder


def assert_same(large, small):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(large, name), getattr(small, name))
    assert large.recipe == small.recipe
    assert (large.classes, large.n_rows, large.ids) == (small.classes, small.n_rows, small.ids)


@pytest.mark.parametrize("memory", [0, 1])
def test_a_folder_of_parquet_files_is_one_table(memory, tmp_path):
    frame = make_frame()
    folder = write_parts(frame, tmp_path / "parts", 20, 21)
    large = read_own(folder, label="not", true_label="is", memory=memory)
    small = read_own(frame, label="not", true_label="is")
    assert_same(large, small)
    assert (find_pages(large.X) is None) == bool(memory)
    again = read_own(folder, label="not", true_label="is", recipe=large.recipe, memory=memory)
    assert_same(again, small)
    np.testing.assert_array_equal(
        read_features(folder, large.recipe), read_features(frame, small.recipe)
    )


def test_lists_in_several_row_groups_are_read(tmp_path):
    frame = make_frame()
    frame["not"] = [["cat", "owl"][: row % 3] or None for row in range(len(frame))]
    folder = write_parts(frame, tmp_path / "parts", 20)
    small = read_own(frame, label="not", true_label="is")
    assert_same(read_own(folder, label="not", true_label="is"), small)
    frame.to_parquet(tmp_path / "one.parquet", index=False, row_group_size=7)
    assert_same(read_own(tmp_path / "one.parquet", label="not", true_label="is"), small)


def test_rows_of_one_example_may_be_in_several_files(tmp_path):
    frame = make_frame().head(30).drop(columns=["not", "is"])
    frame = pd.concat([frame, frame]).assign(who=["ann"] * 30 + ["bob"] * 30)
    frame["id"] = [f"e{number}" for number in [*range(30)] * 2]
    frame["not"] = np.random.default_rng(1).choice(["cat", "dog"], size=60)
    named = {"label": "not", "annotator": "who", "example_id": "id"}
    folder = write_parts(frame, tmp_path / "parts", 40)
    assert_same(read_own(folder, **named, memory=0), read_own(frame, **named))
    frame.iloc[40, 0] = 5.0
    write_parts(frame, tmp_path / "parts", 40)
    with pytest.raises(InvalidData, match="column 'a' differs between data rows 11 and 41"):
        read_own(folder, **named)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, ">f4"])
def test_a_folder_of_arrays_is_an_array_file(dtype, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(40, 3)).astype(dtype), "labels": rng.integers(3, size=40)}
    np.savez(tmp_path / "data.npz", **arrays)
    folder = tmp_path / "arrays"
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / name, array)
    small = read_own(tmp_path / "data.npz")
    large = read_own(folder, memory=0)
    assert_same(large, small)
    assert find_pages(large.X) is not None
    np.testing.assert_array_equal(read_features(folder / "X.npy", large.recipe), small.X)


@pytest.mark.skipif(not mapped._STATM.exists(), reason="needs Linux")
def test_pages_of_arrays_in_files_are_released(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((3, 2)))  # float64, which is converted
    before = mapped._file_bytes()
    for path in (tmp_path, tmp_path / "X.npy"):
        array = read_arrays(path, "arrays", most_bytes=1e15)["X"]
        assert abs(mapped._limits[find_pages(array)] - before - 1e15) < 1e9


def test_images_in_an_array_stay_on_disk(tmp_path):
    images = np.random.default_rng(0).integers(256, size=(20, 1, 4, 4), dtype=np.uint8)
    np.save(tmp_path / "X", images)
    np.save(tmp_path / "labels", np.arange(20) % 3)
    own = read_own(tmp_path, memory=0)
    np.testing.assert_array_equal(own.X, images)
    assert find_pages(own.X) is not None


def test_text_that_is_stored_once_for_many_rows_counts_before_it_is_expanded(tmp_path, monkeypatch):
    table = pa.table({"a": np.arange(50.0), "not": ["cat", "dog"] * 25, "b": ["x" * 100_000] * 50})
    (tmp_path / "parts").mkdir()
    for part in ("1", "2"):
        pq.write_table(table, tmp_path / f"parts/{part}.parquet")
    monkeypatch.setenv("NAYSAY_MAX_GB", "0.004")
    with pytest.raises(InvalidData, match=r"1\.parquet must contain at most 0\.004 GB"):
        read_own(tmp_path / "parts", label="not")
    assert read_own(tmp_path / "parts", label="not", features=["a"]).n_examples == 100


def test_refusals_say_which_file_is_odd(tmp_path):
    frame = make_frame()
    folder = write_parts(frame, tmp_path / "parts", 30)
    assert kind_of_data(folder) == "parquet"
    with pytest.raises(InvalidInput, match=r"label \(--label\) must name a column .*Did you mean"):
        read_own(folder, label="nott")
    with pytest.raises(InvalidInput, match="must name the column of complementary labels"):
        read_own(folder)
    frame.assign(b="x").to_parquet(folder / "part-9.parquet", index=False)
    with pytest.raises(InvalidData, match=r"part-9.parquet differs from part-0.parquet in 'b'\."):
        read_own(folder, label="not")
    pq.write_table(
        pa.table([[1.0], [2.0]], names=["a", "a"]), tmp_path / "parts" / "part-0.parquet"
    )
    with pytest.raises(InvalidData, match=r"part-0.parquet must have distinct column names"):
        read_own(folder, label="not")
    (folder / "part-9.parquet").write_bytes(b"PAR1 damaged")
    with pytest.raises(InvalidData, match=r"part-9\.parquet must be a Parquet file"):
        read_own(folder, label="not")
    (tmp_path / "X.npy").write_bytes(b"damaged")
    with pytest.raises(InvalidData, match=r"X\.npy must be an \.npy file"):
        read_own(tmp_path)
    start = b"\x93NUMPY\x01\x00\x05\x00{(((\n"  # numpy tries to read this as Python 2 does
    (tmp_path / "X.npy").write_bytes(start)
    with pytest.raises(InvalidData, match=r"X\.npy must be an \.npy file"):
        read_own(tmp_path)
    np.save(tmp_path / "X.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InvalidData, match="holds objects"):
        read_own(tmp_path)
    (tmp_path / "X.npy").unlink()
    np.save(tmp_path / "X0.npy", np.zeros((3, 2)))
    with pytest.raises(InvalidInput, match=r"must contain an array 'X'\. Its arrays are 'X0'\."):
        read_own(tmp_path)


def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch):
    for module, name in ((mapped, "_SMALL"), (mapped, "_PART"), (partitions, "_ROWS")):
        monkeypatch.setattr(module, name, 1 << 11)
    monkeypatch.setattr(partitions, "_BATCH_BYTES", 1 << 14)
    peaks = []
    for n in (10_000, 50_000, 100_000):  # the first loads and keeps what is used again
        columns = {"a": np.arange(n) % 7, "not": np.array(["cat", "dog"])[np.arange(n) % 2]}
        columns |= {"who": np.array(["ann", "bob"])[np.arange(n) % 2]}
        folder = tmp_path / str(n)
        folder.mkdir()
        pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=10_000)
        tracemalloc.start()
        own = read_own(folder, label="not", annotator="who", memory=0)
        hold_out(own, 0.2, np.random.default_rng(0))
        observations(own, own.row)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] - peaks[1] < 50_000  # a byte for each row


@pytest.mark.parametrize("said, not_said", [("yes", "no"), (True, False)])
def test_answers_and_summaries_in_files_are_those_in_memory(said, not_said, tmp_path, monkeypatch):
    frame = make_frame(300)
    rng = np.random.default_rng(1)
    frame["not"] = rng.choice(["cat", "dog", "owl", "cat|owl", "cat|cat|dog", None], size=300)
    frame["who"] = rng.choice(["ann", "bob", None], size=300)
    frame["said"] = rng.choice([said, not_said, None], size=300)
    frame["asked"] = rng.choice(["cat", "owl"], size=300)
    frame["id"] = np.arange(300)
    frame.loc[[7, 9, 200], "is"] = ["owl", "cat", "cat"]
    columns = {"label": "not", "true_label": "is", "annotator": "who"}
    columns |= {"suggested": "asked", "accepted": "said"}
    small = read_own(frame, **columns)
    folder = write_parts(frame, tmp_path / "parts", 120, 121)
    monkeypatch.setattr(mapped, "_SMALL", 0)
    monkeypatch.setattr(mapped, "_PART", 32)
    monkeypatch.setattr(partitions, "_ROWS", 30)
    large = read_own(folder, **columns, memory=0)
    assert_same(large, small)
    assert small.n_dropped
    for name in ("annotator", "accepted", "is_label", "is_yes_no", "excludes"):
        np.testing.assert_array_equal(getattr(large, name), getattr(small, name))
        assert find_pages(getattr(large, name)) is not None
    before, after = summarise(small).to_dict(), summarise(large).to_dict()
    assert before.pop("source") != after.pop("source")
    assert before == after
    assert before["repeated_answers"]
    assert before["id_columns"] == ["id"]
    with pytest.raises(InvalidLabels, match=r"It also contains 'dog'"):
        read_own(folder, **columns, classes=["cat", "owl"], memory=0)
    frame.loc[150, "a"] = 1e39
    with pytest.raises(InvalidData, match=r"Data row 151 has 1e\+39"):
        read_own(write_parts(frame, folder, 120, 121), **columns, memory=0)
