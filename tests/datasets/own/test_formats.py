import datetime
import gzip
import sys

import openpyxl
import pytest
from numpy.testing import assert_array_equal

from naysay import InvalidData, InvalidInput
from naysay.datasets.own import read_own
from naysay.datasets.own.tables import read_table

CSV = "code,age,not\n007,3,cat\n8,,dog\n9,5.5,owl\n"


def write_sheet(path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)


def test_all_formats_hold_the_same_data(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    (tmp_path / "T.TSV").write_text(CSV.replace(",", "\t"))
    (tmp_path / "t.jsonl").write_text(
        '{"code": "007", "age": 3, "not": ["cat"]}\n{"code": "8", "not": ["dog"]}\n'
        '{"code": "9", "age": 5.5, "not": ["owl"]}\n'
    )
    write_sheet(
        tmp_path / "t.xlsx",
        [["code", "age", "not"], ["007", 3, "cat"], [8, None, "dog"], [None] * 3, [9, 5.5, "owl"]],
    )
    wanted = read_own(tmp_path / "t.csv", label="not", categorical=["code"])
    for name in ("t.csv.gz", "T.TSV", "t.jsonl", "t.xlsx"):
        own = read_own(tmp_path / name, label="not", categorical=["code"])
        assert own.feature_names == wanted.feature_names
        assert_array_equal(own.X, wanted.X)
        assert_array_equal(own.label, wanted.label)


def test_the_tab_of_a_tsv_file_is_not_guessed(tmp_path):
    (tmp_path / "t.tsv").write_text("length, in cm\tnot, by Ann\n1\tcat\n")
    assert read_table(tmp_path / "t.tsv").column_names == ["length, in cm", "not, by Ann"]


def test_cells_of_a_sheet_keep_their_meaning(tmp_path):
    day = datetime.datetime(2026, 1, 2)
    write_sheet(
        tmp_path / "t.xlsx",
        [["a", "b", None, "day", "ok"], [0.1, 7.0, None, day, True], ["NA", 8, 1, day, False]],
    )
    assert read_table(tmp_path / "t.xlsx").to_pydict() == {
        "a": [0.1, None],
        "b": [7, 8],
        "day": ["2026-01-02T00:00:00"] * 2,
        "ok": [True, False],
    }
    assert read_table(tmp_path / "t.xlsx", text=["b"])["b"].to_pylist() == ["7", "8"]


@pytest.mark.parametrize(
    "name, content, problem",
    [
        ("t.xlsx", b"no zip", "must be an Excel file"),
        ("t.csv.gz", b"no gzip", "compressed by gzip"),
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99)[:-9], "compressed by gzip. It is damaged or tr"),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', "values of one type for each key"),
        ("t.jsonl", b'{"a": 1}\n{"\xe9": 1}\n', "Line 2 holds the byte 0xe9"),
        ("t.jsonl", b"[1]\n", "one JSON object per line"),
        ("t.jsonl", b"{}\n", "feature|rows|label"),
        ("t.jsonl", b"", "one JSON object per line"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InvalidData, InvalidInput), match=problem):
        read_own(tmp_path / name, label="a")


def test_an_empty_sheet_is_refused(tmp_path):
    write_sheet(tmp_path / "t.xlsx", [])
    with pytest.raises(InvalidData, match="It is empty"):
        read_table(tmp_path / "t.xlsx")


def test_an_excel_file_names_the_package_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    write_path = tmp_path / "t.xlsx"
    write_path.write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"naysay\[excel\]"):
        read_table(write_path)


def test_compressed_parquet_is_no_format(tmp_path):
    with pytest.raises(InvalidInput, match="must be a CSV file"):
        read_table(tmp_path / "t.parquet.gz")
