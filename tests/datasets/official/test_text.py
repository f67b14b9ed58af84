import gzip
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from naysay import InvalidData, datasets
from naysay.datasets.official import text
from naysay.datasets.official.entry import OfficialFile
from naysay.datasets.official.registry import REGISTRY

LINES = ["1.5, 2,0", "-0.5,1e2,1", "3,4,2", "0.25,-1,0"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Write lines as waveform's file and load it."""
    (tmp_path / "uci").mkdir()
    path = tmp_path / "uci" / "waveform.data"

    def load(content, *, checksum=None, git_sha1=None, per_class=(2, 1, 1), **layout):
        path.write_bytes(content if isinstance(content, bytes) else "\n".join(content).encode())
        layout = {"n_features": 2, "labels": (0, 1, 2), "delimiter": ",", **layout}
        file = OfficialFile(
            path.relative_to(tmp_path).as_posix(),
            git_sha1=git_sha1,
            per_class=per_class,
            values_sha256=checksum,
        )
        entry = replace(
            REGISTRY["waveform1"],
            files=(file,),
            reader=partial(text.read_tables, layout=text.TextLayout(**layout)),
        )
        monkeypatch.setitem(REGISTRY, "waveform1", entry)
        return datasets.load("waveform1", data_dir=tmp_path, download=False)

    return load


def test_reads_numbers_and_labels(table):
    dataset = table(LINES)
    np.testing.assert_array_equal(dataset.train.X, [[1.5, 2], [-0.5, 100], [3, 4], [0.25, -1]])
    assert dataset.train.y.tolist() == [0, 1, 2, 0]
    assert dataset.test is None


def test_line_ends_blank_lines_spacing_and_gzip_make_no_difference(table):
    plain = table(LINES)
    for content in (
        "\r\n".join(LINES).encode() + b"\r\n\r\n",
        gzip.compress("\n".join(LINES).encode()),
        ",".join(LINES[0].split(",")).replace(",", " , ").encode()
        + b"\n"
        + "\n".join(LINES[1:]).encode(),
    ):
        np.testing.assert_array_equal(table(content).train.X, plain.train.X)


def test_spacing_does_not_change_the_checksum_but_a_digit_does(table):
    plain = table(LINES).train
    checksum = text.values_checksum(plain.X, plain.y)
    table(["1.50,2.0,0", *LINES[1:]], checksum=checksum)
    with pytest.raises(InvalidData, match=r"waveform.data must contain the published values"):
        table(["1.51,2.0,0", *LINES[1:]], checksum=checksum)


def test_minus_zero_has_the_checksum_of_zero():
    y = np.array([0])
    assert text.values_checksum(np.array([[-0.0]]), y) == text.values_checksum(np.zeros((1, 1)), y)


def test_images_become_float32(table):
    dataset = table(LINES, image=(1, 1, 2))
    assert dataset.train.X.shape == (4, 1, 1, 2)
    assert dataset.train.X.dtype == np.float32


def test_letters_are_labels(table):
    dataset = table(["B,1,2", "A,3,4", "A,5,6", "C,7,8"], labels="ABC", label_column=0)
    assert dataset.train.y.tolist() == [1, 0, 0, 2]


HUGE = "9" * 5_000_000


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"", "must contain data. It is empty"),
        (b"\n \n\n", "It has no line with a number"),
        (
            [*LINES[:2], "3,2", LINES[3]],
            "as published. Its 4 lines .* changed from 3 to 2 at row 3",
        ),
        ([*LINES[:2], "3,4,5,2", LINES[3]], "as published. Its 4 lines .* from 3 to 4 at row 3"),
        (["1,2", "3,4"], "must have 3 finite numbers in every line. It has 2"),
        ([LINES[0], "1,dog,2"], "as published. Its 2 lines cannot be read: .*'dog'"),
        ([LINES[0], "1,,2"], "as published. Its 2 lines cannot be read: .*''"),
        ([LINES[0], "1,nan,2"], "must have 3 finite numbers in every line"),
        ([LINES[0], "inf,1,2"], "must have 3 finite numbers in every line"),
        ([LINES[0], f"{HUGE},1,2"], "must have 3 finite numbers in every line"),
        ([LINES[0], f"1,{'dog' * 999},2"], "as published. Its 2 lines cannot be read: .*'dogdog"),
        ([LINES[0], "1,2,3"], "must have labels '0', '1', '2'. Line 2 has 3"),
        ([LINES[0], "1,2,1.5"], "must have labels '0', '1', '2'. Line 2 has 1.5"),
        (LINES[:3], "must contain 4 examples, 2 of class 0. It has 3, 1 of that class"),
        ("\n".join(LINES).encode("utf-16"), "must be text in ASCII. Byte 0 is 0xff"),
        (b"1,2,0\n1,2\xe9,1", "must be text in ASCII. Byte 9 is 0xe9"),
        (b"1,2,0\n1,2\x00,1", "as published. Its 2 lines cannot be read"),
        (gzip.compress("\n".join(LINES).encode())[:-9], "must be a whole gzip file"),
    ],
    ids=lambda value: None if isinstance(value, str) else "content",
)
def test_a_damaged_table_is_an_error_that_names_file_and_place(table, content, problem):
    with pytest.raises(InvalidData, match=problem) as raised:
        table(content)
    assert "waveform.data" in str(raised.value)
    assert "Delete it and run: naysay data fetch waveform1" in str(raised.value)
    assert len(str(raised.value)) < 400


def test_an_unknown_letter_is_an_error(table):
    with pytest.raises(InvalidData, match=r"as published. Its 2 lines cannot be read: .*'D'"):
        table(["B,1,2", "D,3,4"], labels="ABC", label_column=0)


def test_a_hash_of_git_is_checked_whatever_the_line_ends(table):
    content = "\n".join(LINES).encode() + b"\n"
    git_sha1 = "bd3bff14c733fc848fbb69d532263619de41fabe"  # by git hash-object
    for same in (content, content.replace(b"\n", b"\r\n"), gzip.compress(content)):
        files = table(same, git_sha1=git_sha1).provenance.files
        assert [file.checked for file in files] == ["git sha1"]
    with pytest.raises(InvalidData, match=r"must have the git sha1 bd3bff14.* sha1 of its content"):
        table(content.replace(b"1e2", b"1e3"), git_sha1=git_sha1)


def test_the_whole_drive_file_is_preferred_to_the_part(tmp_path, monkeypatch):
    whole = OfficialFile(
        "uci/whole.txt",
        per_class=(1, 1),
        stand_in=OfficialFile("uci/part.txt", per_class=(1, 1), note="Only a part."),
    )
    layout = text.TextLayout(1, (1, 2))
    reader = partial(text.read_tables, layout=layout)
    entry = replace(
        REGISTRY["drive"], n_classes=2, classes=("1", "2"), files=(whole,), reader=reader
    )
    monkeypatch.setitem(REGISTRY, "drive", entry)
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "part.txt").write_text("5 1\n6 2\n")
    part = datasets.load("drive", data_dir=tmp_path)
    assert part.train.X.ravel().tolist() == [5, 6]
    assert part.provenance.notes == ("Only a part.",)
    (tmp_path / "uci" / "whole.txt").write_text("7 1\n8 2\n")
    both = datasets.load("drive", data_dir=tmp_path)
    assert both.train.X.ravel().tolist() == [7, 8]
    assert both.provenance.notes == ()
