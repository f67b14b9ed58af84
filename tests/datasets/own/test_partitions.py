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
from naysay.datasets.own import answers, partitions, read_features, read_own, text
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
    assert large.recipe.to_dict() == small.recipe.to_dict()
    for name, array in small.recipe.arrays.items():
        np.testing.assert_array_equal(large.recipe.arrays[name], array)
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


@pytest.fixture
def in_files(monkeypatch):
    """Put arrays with an entry for each row into files, however few rows there are."""
    monkeypatch.setattr(mapped, "_SMALL", 0)
    monkeypatch.setattr(mapped, "_PART", 32)
    monkeypatch.setattr(partitions, "_ROWS", 30)


def make_frame_of_all_kinds(n):
    """Make a frame with cells of all kinds, in which examples have two rows or one."""
    rng = np.random.default_rng(0)
    frame = make_frame(n)[["a", "b", "colour"]]
    names = np.array(["cat", "dog", "owl", "fox"])
    not_y = rng.integers(4, size=n)
    others = (not_y + rng.integers(1, 4, size=n)) % 4
    frame["not"] = np.where(rng.random(n) < 0.1, None, names[not_y])
    frame["Not"] = np.where(rng.random(n) < 0.3, np.char.upper(names[not_y]), names[not_y])
    frame["listed"] = [[names[place]] * (place % 3) for place in not_y]
    frame["number"] = np.where(rng.random(n) < 0.1, np.nan, not_y * 1e7)
    frame["half"] = frame["number"] + 0.5
    pairs = zip(names[not_y], names[others], rng.random(n), strict=True)
    frame["offered"] = [None if drawn < 0.2 else [name, other] for name, other, drawn in pairs]
    words = np.char.add("word", rng.integers(40, size=(n, 4)).astype(str))
    frame["note"] = [None if row % 9 == 0 else " ".join(each) for row, each in enumerate(words)]
    frame["same"] = [f"this is {number} of them" for number in rng.integers(9, size=n)]
    return frame


KINDS = {
    "lists": {"label": "listed"},
    "whole numbers": {"label": "number"},
    "floats": {"label": "half"},
    "offered": {"label": "not", "offered": "offered"},
    "capitals": {"label": "Not", "ignore_case": True},
    "classes": {"label": "Not", "ignore_case": True, "classes": ["CAT", "dog", "owl", "fox"]},
    "ids": {"label": "not", "example_id": "id", "offered": "offered", "annotator": "half"},
    "suggestions": {"suggested": "number", "accepted": "said", "example_id": "id"},
    "texts": {"label": "not", "features": ["note", "same"]},
    "named texts": {"label": "not", "features": ["a", "same", "b"], "text": ["same"]},
    "categories": {"label": "not", "features": ["note"], "categorical": ["note"]},
}


@pytest.mark.parametrize("named", KINDS.values(), ids=KINDS)
def test_cells_of_any_kind_in_files_are_those_in_memory(named, tmp_path, in_files):
    n = 300
    frame = make_frame_of_all_kinds(n)
    if "example_id" in named:  # some examples have rows in both files, and others one row
        frame = pd.concat([frame.iloc[:200], frame.iloc[50:150]]).reset_index(drop=True)
        frame["id"] = [f"e{number}" for number in [*range(200), *range(50, 150)]]
        frame["not"] = np.random.default_rng(1).permutation(frame["not"])
        frame["number"] = frame["number"].fillna(1e7)
        frame["said"] = np.where(np.arange(n) % 3, "no", "yes")
        frame["offered"] = [None if name is None else [name, "x"] for name in frame["not"]]
    named = {"features": ["a", "b", "colour"]} | named
    folder = write_parts(frame, tmp_path / "parts", 120, 210)
    small, large = read_own(frame, **named), read_own(folder, **named, memory=0)
    assert_same(large, small)
    assert find_pages(large.label) is not None
    for name in ("annotator", "accepted", "is_label", "is_yes_no"):
        np.testing.assert_array_equal(getattr(large, name), getattr(small, name))
    if small.offered is None:
        assert large.offered is None
    else:
        assert large.offered.tolist() == small.offered.tolist()
        assert find_pages(large.offered.codes) is not None
        some = np.arange(1, large.n_examples, 2)
        chosen = [observations(own, some).offered.tolist() for own in (small, large)]
        assert chosen[0] == chosen[1]
        assert any(chosen[0])
    before, after = summarise(small).to_dict(), summarise(large).to_dict()
    assert before.pop("source") != after.pop("source")
    assert before == after


def test_rows_whose_ids_have_the_same_hash_are_of_different_examples(monkeypatch, tmp_path):
    frame = pd.DataFrame({"id": list("abcabcadb"), "not": ["cat", "dog", "owl"] * 3})
    frame["a"] = [ord(each) for each in frame["id"]]
    named = {"label": "not", "example_id": "id"}
    expected = read_own(frame, **named)
    assert expected.ids == ("a", "b", "c", "d")
    monkeypatch.setattr(answers, "hash", lambda text: 0, raising=False)
    monkeypatch.setattr(mapped, "_PART", 2)
    assert_same(read_own(frame, **named), expected)


def test_floats_have_the_same_text_in_every_file(tmp_path):
    x = [1e16, 2.0] * 20 + [1e16, 2.5] * 20  # all numbers of the first file are whole
    frame = pd.DataFrame({"x": x, "id": x, "who": x, "not": ["cat", "cat", "dog", "owl"] * 20})
    frame["note"] = frame["x"]
    folder = write_parts(frame, tmp_path / "parts", 40)
    named = {"label": "not", "example_id": "id", "annotator": "who"}
    named |= {"categorical": ["x"], "text": ["note"]}
    large, small = read_own(folder, **named, memory=0), read_own(frame, **named)
    assert_same(large, small)
    assert large.ids == ("10000000000000000", "2", "2.5")
    assert large.annotators == small.annotators
    assert large.recipe.columns[0].categories == ("10000000000000000", "2", "2.5")
    for rows in (frame, frame.head(40)):  # other cells make no difference to new data either
        features = read_features(rows, large.recipe)
        np.testing.assert_array_equal(features[0], large.X[0])


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


@pytest.mark.parametrize(
    "named",
    [
        {"annotator": "who"},
        {"example_id": "id", "annotator": "who"},
        {"example_id": "pair"},
        {"offered": "offered"},
        {"label": "offered"},
        {"label": "number"},
        {"label": "who", "ignore_case": True},
        {"features": ["note"], "text": ["note"]},
    ],
    ids=lambda named: "-".join(named),
)
def test_memory_does_not_grow_with_the_rows(named, tmp_path, monkeypatch):
    for module, name in ((mapped, "_SMALL"), (mapped, "_PART"), (partitions, "_ROWS")):
        monkeypatch.setattr(module, name, 1 << 11)
    monkeypatch.setattr(partitions, "_BATCH_BYTES", 1 << 14)
    monkeypatch.setattr(text, "_MOST_FITTED", 1000)
    peaks, pools = [], [pa.default_memory_pool()]
    for n in (10_000, 50_000, 100_000):  # the first loads and keeps what is used again
        every = np.arange(n)
        columns = {"a": every // 2 % 7, "not": np.array(["cat", "dog"])[every % 2]}
        columns |= {"who": np.array(["ann", "bob"])[every % 2], "number": every % 3 + 0.5}
        columns |= {"id": np.char.add("example ", every.astype("U9"))}
        columns |= {"pair": np.char.add("example ", (every // 2).astype("U9"))}
        columns |= {
            "offered": [["cat", "dog"]] * n,
            "note": ["one two three", "four five"] * (n // 2),
        }
        folder = tmp_path / str(n)
        folder.mkdir()
        pq.write_table(pa.table(columns), folder / "a.parquet", row_group_size=2500)
        pools.append(pa.proxy_memory_pool(pools[0]))  # which live as long as what they have given
        pa.set_memory_pool(pools[-1])
        tracemalloc.start()
        own = read_own(folder, **{"label": "not", "features": ["a"], "memory": 0} | named)
        hold_out(own, 0.2, np.random.default_rng(0))
        observations(own, mapped.count_up(own.label, own.n_examples))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        pa.set_memory_pool(pools[0])
    assert peaks[2] - peaks[1] < 50_000  # a byte for each row
    assert pools[3].max_memory() - pools[2].max_memory() < 150_000


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
