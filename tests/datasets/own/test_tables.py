import contextlib
import io
import os
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay import InvalidData, InvalidInput, NaysayError
from naysay.datasets.own import read_own
from naysay.datasets.own.columns import find_column
from naysay.datasets.own.formats import parse_csv
from naysay.datasets.own.recipe import fit_recipe
from naysay.datasets.own.tables import read_table


def parse(content, **options):
    data = content if isinstance(content, bytes) else content.encode()
    return parse_csv(data, "my.csv", **options).to_pydict()


def test_a_column_becomes_numbers_only_if_every_filled_cell_is_one():
    assert parse("a,b,c\n1,2,x\n2.5,y,NA\n ,3,\n") == {
        "a": [1, 2.5, None],
        "b": ["2", "y", "3"],
        "c": ["x", "NA", None],
    }


def test_words_for_missing_values_are_gaps_in_a_numeric_column():
    cells = "1\nNA\nN/A\nnan\nnull\n?\nNone\n 2 "
    column = parse("a,b\n" + "".join(f"{cell},0\n" for cell in cells.split("\n")))["a"]
    assert column[0] == 1
    assert column[-1] == 2
    assert all(value is None or value != value for value in column[1:-1])


def test_true_and_false_become_booleans_in_any_capitals():
    assert parse("a,b\ntrue,1\nFalse,2\nTRUE,3\n")["a"] == [True, False, True]


def test_text_columns_stay_as_they_are_written():
    assert parse("id,x\n007,1\n7,2\n", text=["id"])["id"] == ["007", "7"]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_delimiter_is_found_from_the_header(mark):
    assert parse(f'a{mark}"b,;x"\n1{mark}2\n') == {"a": [1], "b,;x": [2]}


def test_a_decimal_comma_is_read_when_asked_for():
    assert parse("a;b\n1,5;x\n-2,25;y\n", decimal=",")["a"] == [1.5, -2.25]


def test_byte_order_mark_crlf_blank_lines_and_quoted_newlines_are_fine():
    text = '\ufeff\r\na, b \r\n"x\ny",1\r\n\r\n"say ""hi""",2\r\n'
    assert parse(text) == {"a": ["x\ny", 'say "hi"'], "b": [1, 2]}


@pytest.mark.parametrize(
    "text, problem",
    [
        ("", "It is empty"),
        ("\n\n \n", "It is empty"),
        ("a,b", "only the header"),
        ("a,b\n1,2\n3\n", r"must have 2 cells.*Row 3 \(the header is row 1\) has 1"),
        ("a,b\n1,2\n3,4,5\n", r"Row 3 .* has 3"),
        ("a,b,a\n1,2,3\n", "It has 2 columns named 'a': rename"),
        (b"a,b\n1,2\n\xe9t\xe9,3\n", "UTF-8. Line 3 holds the byte 0xe9"),
        (b"a,\xff\n1,2\n", "Line 1 holds the byte 0xff"),
        (b"a,b\n" + b"1,2\n" * 300_000 + b"\xe9,3\n", "Line 300002 holds the byte 0xe9"),
        ("a,b\n1,2\n\x00,3\n", "Line 3 holds a NUL byte"),
        ("a,b\n1,2\n".encode("utf-16"), "It is in UTF-16. Save it again as UTF-8"),
        ('a,b\n1,2\n3,"x\n4,5\n6,7\n', "must close every double quote.*that row 3 opens"),
        ("a,b\n1," + "x" * (20 << 20) + "\n", "rows of at most 8 MB"),
        ("a" * (1 << 20) + ",b\n1,2\n", "row of column names"),
    ],
)
def test_a_damaged_csv_is_refused_with_its_place(text, problem):
    with pytest.raises(InvalidData, match=f"(?s)my.csv.*{problem}"):
        parse(text)


def test_threads_that_outlive_python_hold_none_of_its_bytes(monkeypatch):
    """Dropping them while Python ends aborted the process, now and then."""
    read, readers = pa_csv.read_csv, []

    def keep(reader, **options):
        readers.append(reader)
        return read(reader, **options)

    monkeypatch.setattr(pa_csv, "read_csv", keep)
    data = bytes(bytearray(b"a,b\n1,2\n"))
    before = sys.getrefcount(data)
    parse(data)
    assert len(readers) == 1
    assert sys.getrefcount(data) == before


def test_an_inch_mark_is_no_open_quote():
    assert parse('a,b\n5" pipe,1\n')["a"] == ['5" pipe']


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"delimiter": "::"}, "delimiter must be one character"),
        ({"decimal": "x"}, "decimal must be '.' or ','"),
        ({"delimiter": ",", "decimal": ","}, "must differ from the delimiter"),
    ],
)
def test_impossible_csv_options_are_refused(options, problem):
    with pytest.raises(InvalidInput, match=problem):
        parse("a,b\n1,2\n", **options)


def test_an_unknown_column_is_answered_with_the_closest_name():
    table = pa.table({"Label": [1], "age": [2]})
    with pytest.raises(
        InvalidInput, match=r"no column 'lable'; its columns are 'Label', 'age'.*mean 'Label'\?"
    ):
        find_column(table, "lable", "my.csv", role="label")


def test_a_missing_header_is_recognised():
    with pytest.raises(InvalidInput, match="first row must have the column names"):
        find_column(pa.table({"1.5": [1], "2": [2]}), "label", "my.csv", role="label")


def test_an_index_saved_by_pandas_is_set_aside(tmp_path):
    frame = pd.DataFrame({"a": [1, 2]}, index=[5, 3])
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for data in (tmp_path / "t.csv", tmp_path / "t.parquet", frame):
        assert read_table(data).to_pydict() == {"a": [1, 2]}


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must be a CSV file"):
        read_table(tmp_path / "table.ods")


def test_a_missing_file_is_the_operating_systems_error(tmp_path):
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(FileNotFoundError):
            read_table(tmp_path / name)


def test_a_frame_of_mixed_objects_is_refused():
    with pytest.raises(InvalidData, match="columns that each hold one type"):
        read_table(pd.DataFrame({"a": [1, "x", {}]}))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_parquet_file_cut_short_is_refused_by_name(tmp_path, share):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"a": np.arange(100)}).to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(InvalidData, match=r"t.parquet must be a Parquet file. It is damaged"):
        read_table(path)


def test_parquet_without_rows_or_with_a_name_twice_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(InvalidData, match="must have rows"):
        read_table(path)
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(InvalidData, match="It has 2 columns named 'a'"):
        read_table(path)


def test_parquet_text_that_is_not_utf_8_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": ["marker"]}), path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"marker", b"mark\xff\xfe"))
    with pytest.raises(InvalidData, match=r"t.parquet must be a Parquet file"):
        read_table(path)


def test_another_delimiter_is_named_in_the_error():
    with pytest.raises(InvalidData, match=r"the character '\|'"):
        parse("a|b\n1\n", delimiter="|")


@settings(max_examples=150)
@given(st.binary(max_size=200) | st.text('a1,;\t\n\r" .\x00é', max_size=60).map(str.encode))
def test_random_bytes_give_a_table_or_a_clear_error(data):
    with contextlib.suppress(NaysayError):
        parse_csv(data, "my.csv")


@settings(max_examples=60)
@given(st.data())
def test_a_parquet_file_with_altered_bytes_gives_a_table_or_a_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("altered") / "t.parquet"
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": [1.5, None], "b": ["x", "y"]}), buffer)
    content = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=5)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    with contextlib.suppress(NaysayError):
        read_table(path)


def test_wide_tables_take_linear_time_and_the_widest_are_refused():
    """4,000 columns took 20 seconds of CPU time, 20,000 over a minute."""
    n = 4000
    header = ",".join([*(f"c{i}" for i in range(n)), "not"])
    body = "\n".join(",".join([*["1.5"] * n, label]) for label in "abc")
    start = time.process_time()
    table = parse_csv(f"{header}\n{body}\n".encode(), "wide.csv", text=["not"])
    recipe = fit_recipe(table.drop_columns(["not"]))
    assert recipe.apply(table).shape == (3, n)
    assert time.process_time() - start < 4
    wide = ",".join(f"c{i}" for i in range(1_000_000))
    with pytest.raises(InvalidData, match=r"at most 100,000 columns\. It has 1,000,000"):
        parse_csv(f"{wide}\n".encode(), "wide.csv")


@pytest.mark.parametrize("delimiter", ["é", "\0", "→"])
def test_a_delimiter_that_the_parser_cannot_use_is_refused(delimiter):
    with pytest.raises(InvalidInput, match="delimiter must be one character of ASCII"):
        parse("a,b\n1,2\n", delimiter=delimiter)


@pytest.mark.parametrize("kind", ["npz", "numbers", "text"])
def test_small_files_that_would_fill_the_memory_are_refused_before(tmp_path, monkeypatch, kind):
    n = 2_000_000
    if kind == "npz":
        path = tmp_path / "zeros.npz"
        np.savez_compressed(path, X=np.zeros((n, 2)))
    else:
        path = tmp_path / f"{kind}.parquet"
        column = pa.array(np.zeros(n)) if kind == "numbers" else pa.array(["x" * 100] * n)
        pq.write_table(pa.table({"a": column}), path)
    assert path.stat().st_size < 1e5
    monkeypatch.setenv("NAYSAY_MAX_GB", "0.015")
    with pytest.raises(InvalidData, match=r"must contain at most 0\.015 GB.*set NAYSAY_MAX_GB"):
        read_own(path, label="a")
    monkeypatch.setenv("NAYSAY_MAX_GB", "much")
    with pytest.raises(InvalidInput, match="NAYSAY_MAX_GB must be a number of gigabytes"):
        read_own(path, label="a")


@pytest.mark.parametrize(
    "name", ["t.parquet", "t.xlsx", "t.npz", "parts/1.parquet", "arrays/X.npy"]
)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_refused_where_a_file_is_not_read_from_start_to_end(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)  # nothing is ever written to it
    with pytest.raises(InvalidData, match=r"must be an ordinary file\. It is a pipe or a device"):
        read_own(tmp_path / name.partition("/")[0], label="a")


@pytest.mark.parametrize("kind", ["dictionary", "list", "map", "structure", "one length"])
def test_text_inside_other_types_counts_before_it_is_expanded(tmp_path, monkeypatch, kind):
    n = 50
    text = pa.array(["x" * 100_000]).dictionary_encode().take(pa.array([0] * n))
    each = pa.array(range(n + 1), pa.int32())
    plain = text.cast(pa.string())
    column = {
        "dictionary": lambda: text,
        "list": lambda: pa.ListArray.from_arrays(each, pa.ListArray.from_arrays(each, plain)),
        "map": lambda: pa.MapArray.from_arrays(each, plain, plain),
        "structure": lambda: pa.StructArray.from_arrays([plain], ["inner"]),
        "one length": lambda: plain.cast(pa.binary()).cast(pa.binary(100_000)),
    }[kind]()
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": column}), path, compression="zstd")
    assert path.stat().st_size < 1e4
    monkeypatch.setenv("NAYSAY_MAX_GB", "0.004")
    with pytest.raises(InvalidData, match=r"must contain at most 0\.004 GB"):
        read_table(path)
