import datetime
import gzip
import os
import sys
import time
import zipfile

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
        ("t.csv.gz", gzip.compress(b"a\n1\n" * 99, mtime=0)[:-9], "by gzip. It is damaged or tr"),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', "values of one type for each key"),
        ("t.jsonl", b'{"a": 1}\n{"\xe9": 1}\n', "Line 2 holds the byte 0xe9"),
        ("t.jsonl", b"[1]\n", "one JSON object per line"),
        ("t.jsonl", b"{}\n", "feature|rows|label"),
        ("t.jsonl", b"", "one JSON object per line"),
        ("t.jsonl", b'{"a": ' + b"[" * 100_000, "nested more than 100 deep"),
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


def test_a_decimal_mark_is_checked_in_every_format(tmp_path):
    write_sheet(tmp_path / "t.xlsx", [["a", "not"], ["1,5", "cat"]])
    with pytest.raises(InvalidInput, match=r"decimal must be '\.' or ','"):
        read_table(tmp_path / "t.xlsx", decimal="")
    assert read_table(tmp_path / "t.xlsx", decimal=",")["a"].to_pylist() == [1.5]


def test_an_excel_file_names_the_package_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    write_path = tmp_path / "t.xlsx"
    write_path.write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"naysay\[excel\]"):
        read_table(write_path)


def test_compressed_parquet_is_no_format(tmp_path):
    with pytest.raises(InvalidInput, match="must be a CSV file"):
        read_table(tmp_path / "t.parquet.gz")


def change_parts(path, change):
    """Change the parts of an Excel file by a function of their name and content."""
    with zipfile.ZipFile(path) as file:
        parts = {name: change(name, file.read(name)) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl.gz", "xlsx"])
def test_small_files_that_would_fill_the_memory_are_refused_before(tmp_path, monkeypatch, kind):
    path = tmp_path / f"t.{kind}"
    if kind == "xlsx":
        write_sheet(path, [["a", "not"], *(["x" * 300, "b"] for _ in range(3000))])
    else:
        row = b"1,cat\n" if kind == "csv.gz" else b'{"a": 1, "not": "cat"}\n'
        path.write_bytes(gzip.compress(b"a,not\n" + row * 500_000))
    assert path.stat().st_size < 5e4
    monkeypatch.setenv("NAYSAY_MAX_GB", "1e-3")
    with pytest.raises(InvalidData, match=r"must contain at most 0\.001 GB"):
        read_table(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no such device")
def test_a_device_without_end_is_refused(tmp_path, monkeypatch):
    os.symlink("/dev/zero", tmp_path / "t.csv")
    monkeypatch.setenv("NAYSAY_MAX_GB", "1e-3")
    with pytest.raises(InvalidData, match=r"must contain at most 0\.001 GB"):
        read_table(tmp_path / "t.csv")


def test_one_text_of_many_cells_counts_many_times(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    write_sheet(path, [["a", "not"], *(["long", "b"] for _ in range(1000))])
    text = b"<si><t>" + b"x" * 3000 + b"</t></si>"
    shared = (
        b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">%b</sst>' % text
    )
    kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = b'<Override PartName="/xl/sharedStrings.xml" ContentType="%b" /></Types>' % kind

    def change(name, content):
        if name == "[Content_Types].xml":
            return content.replace(b"</Types>", part)
        return content.replace(b't="inlineStr"><is><t>long</t></is>', b't="s"><v>0</v>')

    change_parts(path, change)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("xl/sharedStrings.xml", shared)
        assert sum(each.file_size for each in file.infolist()) < 5e5
    assert read_table(path)["a"].to_pylist() == ["x" * 3000] * 1000
    monkeypatch.setenv("NAYSAY_MAX_GB", "2e-3")
    with pytest.raises(InvalidData, match=r"at most 0\.002 GB. It would take at least 0\.0 GB"):
        read_table(path)


def test_the_size_that_a_sheet_claims_is_not_believed(tmp_path):
    path = tmp_path / "t.xlsx"
    write_sheet(path, [["a", "not"], [1, "cat"]])
    claimed = b'ref="A1:XFD1048576"'
    change_parts(path, lambda _, content: content.replace(b'ref="A1:B2"', claimed))
    with zipfile.ZipFile(path) as file:
        assert claimed in file.read("xl/worksheets/sheet1.xml")
    start = time.process_time()
    assert read_table(path).to_pydict() == {"a": [1.0], "not": ["cat"]}
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "rows, problem",
    [
        (['r="2"', 'r="99999999999"'], "at most 1,048,576 rows"),
        ([f'r="{row}"' for row in range(2, 40)], r"at most 0\.01 GB"),
    ],
)
def test_cells_far_apart_do_not_make_a_sheet_huge(tmp_path, monkeypatch, rows, problem):
    path = tmp_path / "t.xlsx"
    write_sheet(path, [["a", "not"], [1, "cat"]])
    far = "".join(f'<row {row}><c r="XFD{row[3:-1]}"><v>1</v></c></row>' for row in rows)
    change_parts(
        path, lambda _, content: content.replace(b"</sheetData>", f"{far}</sheetData>".encode())
    )
    monkeypatch.setenv("NAYSAY_MAX_GB", "0.01")
    start = time.process_time()
    with pytest.raises(InvalidData, match=problem):
        read_table(path)
    assert time.process_time() - start < 5
