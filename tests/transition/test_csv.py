"""A matrix as a CSV file: written, read, refused."""

import numpy as np
import pytest

from naysay import (
    InvalidTransitionMatrix,
    TransitionMatrix,
)

ANIMALS = ["cat", "dog", "owl"]
VALUES = [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]


AWKWARD = ["a,b;c", 'say "no"', "two\nlines", "carriage\rreturn", "both\r\n", " spaces\t", "ä; €"]


@pytest.mark.parametrize(
    "Q",
    [
        TransitionMatrix(VALUES),
        TransitionMatrix(VALUES, ANIMALS),
        TransitionMatrix.with_zeros(30, 4),
        TransitionMatrix.without_zeros(11, seed=3),
        TransitionMatrix.uniform(7, classes=AWKWARD),
        TransitionMatrix(np.asarray(TransitionMatrix.with_zeros(7)), classes=AWKWARD),
        TransitionMatrix.human("clcifar20"),
        TransitionMatrix([[0.1, 0.9], [1.0, 0.0]], ["1", "nan"], allow_diagonal=True),
    ],
    ids=repr,
)
def test_a_matrix_written_is_read_back_exactly(Q, tmp_path):
    Q.write(tmp_path / "Q.csv")
    twin = TransitionMatrix.read(tmp_path / "Q.csv")
    assert twin == Q
    np.testing.assert_array_equal(np.asarray(twin), np.asarray(Q))
    assert twin.classes == Q.classes
    assert twin.allow_diagonal == Q.allow_diagonal
    assert twin.is_uniform == Q.is_uniform


def test_the_file_has_class_names_in_its_first_row_and_column(tmp_path):
    TransitionMatrix(VALUES, ANIMALS).write(tmp_path / "Q.csv")
    lines = (tmp_path / "Q.csv").read_text("utf-8").splitlines()
    assert lines[0] == "true class,cat,dog,owl"
    assert lines[1] == "cat,0.0,0.9,0.1"


def read_text(folder, text, **options):
    file = folder / "Q.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return TransitionMatrix.read(file, **options)


def test_a_file_of_numbers_only_is_read_without_names(tmp_path):
    Q = read_text(tmp_path, "0,0.5,0.5\n1,0,0\n\n.25,7.5e-1,0\n")
    np.testing.assert_array_equal(np.asarray(Q), [[0, 0.5, 0.5], [1, 0, 0], [0.25, 0.75, 0]])
    assert not Q.has_names


def test_files_as_spreadsheets_write_them_are_read(tmp_path):
    text = "\ufeff,cat,dog\r\ncat,0,1\r\ndog,1,0\r\n,,\r\n"  # byte order mark, blank corner and row
    assert read_text(tmp_path, text).classes == ("cat", "dog")


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("point", [".", ","])
def test_semicolons_tabs_and_decimal_commas_are_read(tmp_path, mark, point):
    rows = ["true class,cat,1.5,o", "cat,0,.9,1e-1", "1.5,0.5,0,0.5", "o,1,0,0"]
    lines = [line.replace(",", mark).replace(".", point) for line in rows]
    Q = read_text(tmp_path, "\ufeff" + "\r\n".join(lines))
    assert TransitionMatrix(VALUES, ["cat", f"1{point}5", "o"]) == Q
    numbers = [line.partition(mark)[2] for line in lines[1:]]
    assert read_text(tmp_path, "\n".join(numbers)) == TransitionMatrix(VALUES)
    numbers = [["0.5", "0.5"], ["1", "0"]]
    text = "\n".join(mark.join(row).replace(".", point) for row in numbers)
    Q = read_text(tmp_path, text, allow_diagonal=True)
    np.testing.assert_array_equal(np.asarray(Q), [[0.5, 0.5], [1, 0]])


def test_reading_a_diagonal_needs_the_mark_or_the_flag(tmp_path):
    text = ",cat,dog\ncat,0.1,0.9\ndog,1,0\n"
    with pytest.raises(InvalidTransitionMatrix, match="must have a zero diagonal"):
        read_text(tmp_path, text)
    assert read_text(tmp_path, text, allow_diagonal=True).allow_diagonal


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "Q.csv must contain a matrix. It is empty"),
        ("\n ,\n\n".replace(" ", ""), "must contain a matrix. It is empty"),
        ("0,1\n1,0,0\n", "Q.csv, row 2, must have 2 values. Got 3"),
        (",a,b\na,0,1\nb,1\n", "Q.csv, row 3, must have 2 values. Got 1"),
        ("0,1\n1,zero\n", "Q.csv, row 2, must contain numbers. Got 'zero'"),
        (",a,b\na,0,\nb,1,0\n", "Q.csv, row 2, must contain numbers. Got ''"),
        (",a,b\nb,0,1\na,1,0\n", "same classes in its first row and first column"),
        (",a,b\n", "same classes in its first row and first column"),
        (";a;b\na;0;1\nb;1\n", "Q.csv, row 3, must have 2 values. Got 1"),
        (";a;b\na;0;1\nb;0,x;1\n", "Q.csv, row 3, must contain numbers. Got '0,x'"),
        (",a,a\na,0,1\na,1,0\n", "'a' is twice"),
        ("0,0.7,0.2\n0.4,0,0.8\n0.6,0.3,0\n", "looks transposed"),
        ("0,nan\n1,0\n", "must have finite entries"),
        ("0,0.5,0.5\n1,0,0\n", "must be square"),
        ("x", "at least 2 classes. Got 0"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "must be a comma-separated text file in UTF-8"),
        ("0," + "1" * 200_000, r"must be a CSV file: field larger than field limit"),
    ],
    ids=lambda value: None if len(value) > 60 else repr(value),
)
def test_a_file_that_holds_no_matrix_is_refused(tmp_path, text, message):
    with pytest.raises(InvalidTransitionMatrix, match=message):
        read_text(tmp_path, text)


def test_a_file_that_is_not_there_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        TransitionMatrix.read(tmp_path / "none.csv")
