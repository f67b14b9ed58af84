import contextlib
import csv
import gzip
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import InvalidData, InvalidInput, NaysayError
from naysay.datasets.own import batches
from naysay.datasets.own.batches import read_batches
from naysay.datasets.own.tables import read_table


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_BYTES", 16)


def joined(path, n_rows=3, **options):
    parts = list(read_batches(path, n_rows=n_rows, **options))
    assert [first for first, _ in parts] == np.cumsum(
        [0, *(len(t) for _, t in parts[:-1])]
    ).tolist()
    assert all(0 < len(table) <= n_rows for _, table in parts)
    rows = [row for _, table in parts for row in table.to_pylist()]
    return {name: [row[name] for row in rows] for name in parts[0][1].column_names}


TEXT = 'a,b\n1,"x\ny"\n2,"say ""hi"""\n\n3,5" pipe\n4,plain\n"5","q,\n\n"\n'


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("header", ["a,b", "\ufeff\n\na,b", '"a",b'])
def test_batches_of_a_csv_file_are_the_table(tmp_path, ends, header):
    path = tmp_path / "t.csv"
    path.write_bytes((header + TEXT[3:]).replace("\n", ends).encode())
    assert joined(path) == read_table(path).to_pydict()
    assert joined(path)["a"] == [1, 2, 3, 4, 5]


@pytest.mark.unmeasured
@settings(max_examples=200)
@given(
    st.lists(st.tuples(*[st.text('ab,"\n; ', max_size=12)] * 2), min_size=1, max_size=8),
    st.sampled_from([",", ";", "\t"]),
    st.integers(1, 40),
)
def test_any_csv_file_can_be_split_at_its_rows(tmp_path_factory, rows, mark, size):
    path = tmp_path_factory.mktemp("split") / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([("a", "x\ny"), *rows, ("last", "z")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_BATCH_BYTES", size)
        wanted = read_table(path, text=["a", "x\ny"]).to_pydict()
        assert joined(path, n_rows=2, text=["a", "x\ny"]) == wanted


@settings(max_examples=100)
@given(st.binary(max_size=200) | st.text('a1,;\t\n\r" .\x00é', max_size=60).map(str.encode))
def test_random_bytes_give_batches_or_a_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("random") / "t.csv"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_BATCH_BYTES", 8)
        with contextlib.suppress(NaysayError):
            list(read_batches(path, n_rows=2))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "text, problem",
    [
        (b"a,b\n" + b"1,2\n" * 9 + b"3\n", r"Row 11 \(the header is row 1\) has 1"),
        (b"a,b\n" + b"1,2\n" * 9 + b"\xe9,3\n", "Line 11 holds the byte 0xe9"),
        (b"a,b\n" + b"1,2\n" * 9 + b'3,"x\n4,5\n', "row 11 opens is never closed"),
        (b"", "It is empty"),
        (b"a,b\n", "only the header"),
        ("a,b\n1,2\n".encode("utf-16"), "It is in UTF-16"),
    ],
)
def test_errors_count_the_rows_of_the_file(tmp_path, text, problem):
    path = tmp_path / "t.csv"
    path.write_bytes(text)
    with pytest.raises(InvalidData, match=problem):
        list(read_batches(path, n_rows=3))


def test_a_row_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_BATCH_BYTES", 100)
    monkeypatch.setattr(batches, "LONGEST_ROW", 1000)
    path = tmp_path / "t.csv"
    path.write_text('a,b\n1,"x\n' + "1,2\n" * 1000)
    with pytest.raises(InvalidData, match="a double quote is never closed"):
        list(read_batches(path, n_rows=3))


def test_impossible_options_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match="delimiter must be one character"):
        list(read_batches(path, n_rows=3, delimiter="::"))


@pytest.mark.usefixtures("small_blocks")
def test_other_formats_come_in_batches_too(tmp_path, monkeypatch):
    values = {"a": [float(i) for i in range(10)], "b": [str(i % 3) for i in range(10)]}
    table = pa.table(values)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    lines = "".join(f'{{"a": {a}, "b": "{b}"}}\n' for a, b in zip(*values.values(), strict=True))
    (tmp_path / "t.jsonl").write_text(lines)
    rows = "".join(f"{a},{b}\n" for a, b in zip(*values.values(), strict=True))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"a,b\n{rows}".encode()))
    for name in ("t.parquet", "t.jsonl", "t.csv.gz"):
        assert joined(tmp_path / name, text=["b"]) == values
    assert joined(table) == values
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"a,b\n{rows}".encode())))
    assert joined("-", text=["b"]) == values


def test_only_the_columns_that_are_needed_are_read_from_parquet(tmp_path):
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "t.parquet")
    ((_, table),) = read_batches(tmp_path / "t.parquet", n_rows=5, columns=["c", "a"])
    assert table.column_names == ["a", "c"]
    ((_, table),) = read_batches(tmp_path / "t.parquet", n_rows=5, columns=["a", "z"])
    assert table.column_names == ["a", "b", "c"]  # so that an error can list them


@pytest.mark.parametrize("kind", ["plain", "encoded"])
def test_text_that_is_stored_once_for_many_rows_comes_in_short_batches(tmp_path, monkeypatch, kind):
    text = pa.array(["x" * 1000, "y"] * 100)
    table = pa.table({"a": range(200), "b": text if kind == "plain" else text.dictionary_encode()})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="zstd")
    monkeypatch.setattr(batches, "_MOST_TEXT", 10_000)
    parts = [part for _, part in read_batches(path, n_rows=100, columns=["a", "b"])]
    assert max(map(len, parts)) <= (100 if kind == "plain" else 10)
    assert pa.concat_tables(parts).to_pydict() == table.to_pydict()
    read = []
    monkeypatch.setattr(
        batches, "_joined", lambda found, _: read.extend(map(len, found)) or iter(())
    )
    assert list(read_batches(path, n_rows=100, columns=["a", "b"])) == []
    assert max(read) <= (10 if kind == "plain" else 100)


def test_lists_are_read_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [["x" * 1000] * 50] * 50}), path)
    assert len(joined(path, n_rows=100, columns=["a"])["a"]) == 50
    monkeypatch.setenv("NAYSAY_MAX_GB", "0.001")
    with pytest.raises(InvalidData, match=r"must contain at most 0\.001 GB"):
        joined(path, n_rows=100, columns=["a"])


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_damaged_parquet_is_refused(tmp_path, share):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.arange(100)}), path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(InvalidData, match="must be a Parquet file"):
        list(read_batches(path, n_rows=5))
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(InvalidData, match="must have rows"):
        list(read_batches(path, n_rows=5))


def test_blocks_are_as_long_as_the_parser_allows():
    assert batches._BATCH_BYTES <= batches.LONGEST_ROW
