"""A user's own data in tables: answers, examples, classes, and the same features again."""

import csv
import io
import json
import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from naysay import InvalidData, InvalidInput, InvalidLabels, InvalidModelFile, NaysayError
from naysay.datasets.own import read_anchors, read_features, read_own, recipe_from_dict

CSV = """age,colour,not,is,who
31,red,cat|dog,,ann
,blue,owl,cat,bob
47,red,,,ann
5,,,dog,
12,red, cat ,,
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text(CSV)
    return path


def test_answers_examples_and_true_classes_of_a_csv_file(table):
    own = read_own(table, label="not", true_label="is", annotator="who")
    assert own.classes == ("cat", "dog", "owl")
    assert own.example.tolist() == [0, 0, 1, 3]
    assert own.label.tolist() == [0, 1, 2, 0]
    assert own.annotators == ("ann", "bob")
    assert own.annotator is not None
    assert own.annotator.tolist() == [0, 0, 1, -1]
    assert own.true_labels.tolist() == [-1, 0, 1, -1]
    assert own.row.tolist() == [0, 1, 3, 4]
    assert (own.n_rows, own.n_examples, own.n_dropped) == (5, 4, 1)
    assert own.feature_names == (
        "age",
        "age missing",
        "colour=blue",
        "colour=red",
        "colour missing",
    )
    assert own.X.dtype == np.float32
    assert_array_equal(own.X[:, 0], [31, 12, 5, 12])
    assert_array_equal(own.ruled_out.sum(axis=1), [2, 1, 0, 1])
    assert_array_equal(own.anchors[1], [0, 1])
    assert own.name_of(3) == "data row 5"
    assert "4 examples of shape (5,), 4 answers, 3 classes" in repr(own)


def test_one_label_per_example_gives_comp_labels_and_else_says_so(table):
    assert read_own(table, label="is", features=["age"]).comp_labels.tolist() == [0, 1]
    with pytest.raises(
        InvalidLabels,
        match=r"1 of 3 examples have none or several; the first is 'data row 1' with 2",
    ):
        _ = read_own(table, label="not").comp_labels


def test_a_column_can_be_left_out_of_the_features_later(table):
    own = read_own(table, label="not")
    rest = own.without_column("age")
    assert rest.feature_names == own.feature_names[2:]
    assert_array_equal(rest.X, own.X[:, 2:])
    assert_array_equal(read_features(table, rest.recipe), read_features(table, own.recipe)[:, 2:])
    assert own.without_column("no such column") is own
    only = read_own(table, label="not", features=["age"])
    assert only.without_column("age") is only


def test_rows_with_one_id_are_one_example(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("photo,x,not,is\nb,1,cat,\na,2,dog,\nb,1,owl,dog\nb,1,cat,\n")
    own = read_own(path, label="not", true_label="is", example_id="photo")
    assert own.ids == ("b", "a")
    assert own.example.tolist() == [0, 0, 0, 1]
    assert own.label.tolist() == [0, 2, 0, 1]
    assert own.true_labels.tolist() == [1, -1]
    assert own.X.tolist() == [[1], [2]]
    assert own.name_of(0) == "b"


@pytest.mark.parametrize(
    "rows, problem",
    [
        (
            "a,1,cat,\na,2,dog,",
            "same features.*column 'x' differs between data rows 1 and 2.*--annotator.*--ignore x",
        ),
        ("a,1,cat,dog\na,1,owl,owl", "must have one true class. Data row 1 has .*'dog'.*'owl'"),
        ("a,1,cat,\n,1,dog,", "must identify its example.*data row 2 is empty"),
    ],
)
def test_rows_of_one_example_must_agree(tmp_path, rows, problem):
    path = tmp_path / "t.csv"
    path.write_text(f"photo,x,not,is\n{rows}\n")
    with pytest.raises(InvalidData, match=f"(?s){problem}"):
        read_own(path, label="not", true_label="is", example_id="photo")


@pytest.mark.parametrize(
    "first, second, kind",
    [
        (1_700_000_000_000_000_001, 1_700_000_000_000_000_002, "int64"),
        (2**64 - 1, 2**64 - 2, "uint64"),
        (0, None, "Int64"),
        (0.1, None, "float64"),
    ],
)
def test_numbers_of_one_example_must_be_exactly_the_same(first, second, kind):
    frame = pd.DataFrame({"id": ["a", "a"], "not": ["cat", "dog"]})
    frame["x"] = pd.Series([first, second], dtype=kind)
    with pytest.raises(InvalidData, match=r"same features.*column 'x' differs between data rows 1"):
        read_own(frame, label="not", example_id="id")
    for value in (first, second):
        frame["x"] = pd.Series([value, value], dtype=kind)
        frame["y"] = [-0.0, 0.0]
        assert read_own(frame, label="not", example_id="id").n_examples == 1


def test_a_column_of_lists_is_no_feature_of_several_rows():
    frame = pa.table({"x": [1, 1], "id": ["a", "a"], "not": ["cat", "dog"]})
    recipe = read_own(frame, label="not", example_id="id").recipe
    lists = frame.set_column(0, "x", pa.array([[1.0], [2.0]]))
    with pytest.raises(InvalidData, match="Column 'x' of the data frame must contain text or num"):
        read_own(lists, label="not", example_id="id", recipe=recipe)


def test_labels_are_text_in_every_kind_of_column(tmp_path):
    (tmp_path / "t.csv").write_text("x,not\n1,007\n2,7\n")
    assert read_own(tmp_path / "t.csv", label="not").classes == ("007", "7")
    for values, names in [
        ([10, 9, None], ("9", "10")),
        ([7.0, None, 8.0], ("7", "8")),
        ([True, False, None], ("false", "true")),
        ([0.5, None, 8.0], ("0.5", "8")),
        (pd.Categorical(["b", "a", None]), ("a", "b")),
    ]:
        path = tmp_path / "t.parquet"
        pd.DataFrame({"x": [1, 2, 3], "not": values}).to_parquet(path)
        own = read_own(path, label="not")
        assert own.classes == names
        assert own.n_dropped == 1


def test_a_list_column_holds_several_labels(tmp_path):
    path = tmp_path / "t.parquet"
    lists = pa.array([["cat", "dog"], [], None, ["owl|x"]])
    pq.write_table(pa.table({"x": [1, 2, 3, 4], "not": lists}), path)
    own = read_own(path, label="not")
    assert own.classes == ("cat", "dog", "owl|x")
    assert own.row.tolist() == [0, 3]
    assert own.label.tolist() == [0, 1, 2]


def test_a_sliced_frame_with_lists_keeps_its_rows():
    frame = pa.table({"x": [1, 2, 3], "not": [["no"], ["a", "b"], ["c"]]}).slice(1)
    own = read_own(frame, label="not")
    assert own.classes == ("a", "b", "c")
    assert own.example.tolist() == [0, 0, 1]


def test_another_separator_or_none():
    frame = pd.DataFrame({"x": [1, 2], "not": ["a/b", "c|d"]})
    assert read_own(frame, label="not", separator="/").classes == ("a", "b", "c|d")
    assert read_own(frame, label="not", separator=None).classes == ("a/b", "c|d")
    with pytest.raises(InvalidInput, match="separator must contain visible"):
        read_own(frame, label="not", separator=" ")


def test_classes_given_keep_their_order_and_bound_the_labels():
    frame = pd.DataFrame({"x": [1, 2], "not": ["b", "a"]})
    own = read_own(frame, label="not", classes=["c", "b", "a"])
    assert own.classes == ("c", "b", "a")
    assert own.label.tolist() == [1, 2]
    with pytest.raises(InvalidLabels, match="It also contains 'a'"):
        read_own(frame, label="not", classes=["b", "c"])
    with pytest.raises(InvalidInput, match=r"distinct names\. Got 'b' 2 times"):
        read_own(frame, label="not", classes=["a", "b", "b"])
    with pytest.raises(InvalidInput, match=r"must not contain empty names\. Got 'a', 'b', ''"):
        read_own(frame, label="not", classes=["a", "b", ""])
    with pytest.raises(InvalidInput, match="classes must be a list"):
        read_own(frame, label="not", classes="ab")


@pytest.mark.parametrize(
    "options, error, problem",
    [
        ({}, InvalidInput, "must name the column of complementary labels.*'age', 'colour', 'not'"),
        ({"label": "Not"}, InvalidInput, "Did you mean 'not'"),
        (
            {"label": "not", "true_label": "true"},
            InvalidInput,
            r"true_label \(--true-label\) must name a column",
        ),
        (
            {"label": "not", "features": ["agee"]},
            InvalidInput,
            r"features \(--features\) must name.*mean 'age'",
        ),
        ({"label": "not", "features": ["age", "not"]}, InvalidInput, "must not contain the label"),
        ({"label": "not", "features": "age"}, InvalidInput, "features must be a list"),
        ({"label": "not", "features": []}, InvalidData, "at least one feature column"),
        (
            {"label": "not", "categorical": ["hue"]},
            InvalidInput,
            r"categorical \(--categorical\) must name",
        ),
        ({"label": "not", "images": "colour", "features": ["age"]}, InvalidInput, "omitted"),
    ],
)
def test_a_wrong_parameter_is_answered_with_what_there_is(table, options, error, problem):
    with pytest.raises(error, match=f"(?s){problem}"):
        read_own(table, **options)


@pytest.mark.parametrize(
    "labels, problem",
    [
        (["a", "a"], "at least 2 classes. the data frame names only 'a'.*classes="),
        ([None, ""], "must have complementary labels.*empty in every row"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labels, problem):
    with pytest.raises(InvalidLabels, match=f"(?s){problem}"):
        read_own(pd.DataFrame({"x": [1, 2], "not": labels}), label="not", classes=None)


def test_a_column_that_cannot_be_text_is_refused():
    frame = pa.table({"x": [1, 2], "not": [{"a": 1}, {"a": 2}]})
    with pytest.raises(
        InvalidData, match=r"Column 'not' .* must contain text or numbers. Its type is st"
    ):
        read_own(frame, label="not")


def test_a_huge_label_is_refused():
    frame = pd.DataFrame({"x": [1, 2], "not": ["a", "b" * 100_000]})
    with pytest.raises(InvalidData, match="Data row 2 has 100000"):
        read_own(frame, label="not")
    frame = pd.DataFrame({"x": [1, 2], "not": ["a", "c|" + "b" * 201]})
    with pytest.raises(InvalidLabels, match=r"at most 200 characters.*data row 2 has 201"):
        read_own(frame, label="not")


def test_many_labels_in_one_cell_are_no_huge_label():
    names = [f"class {i}" for i in range(100)]
    frame = pd.DataFrame({"x": [1, 2], "not": ["|".join(names[1:]), names[0]]})
    assert read_own(frame, label="not").labels_per_example.tolist() == [99, 1]


def test_gaps_agree_with_gaps_in_rows_of_one_example():
    colour = pd.Categorical(["red", "red", None])
    frame = pd.DataFrame({"x": [np.nan, np.nan, 1], "colour": colour, "not": ["a", "b", "c"]})
    own = read_own(frame.assign(id=[1, 1, 2]), label="not", example_id="id")
    assert own.example.tolist() == [0, 0, 1]
    lists = pa.table({"x": [[1], [1]], "id": [1, 1], "not": ["a", "b"]})
    with pytest.raises(InvalidData, match=r"Column 'x' .* must contain numbers"):
        read_own(lists, label="not", example_id="id")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CSV.encode())))
    own = read_own("-", label="not")
    assert own.source == "standard input"
    assert own.classes == ("cat", "dog", "owl")


# ----------------------------------------------------------------------------- prediction


def test_new_data_meet_the_same_features(table, tmp_path):
    own = read_own(table, label="not", features=["age", "colour"], categorical=["age"])
    recipe = recipe_from_dict(json.loads(json.dumps(own.recipe.to_dict())))
    (tmp_path / "new.csv").write_text("colour,age\nred,31\nmauve,99\n,\n")
    X = read_features(tmp_path / "new.csv", recipe)
    assert read_features(table, recipe).shape == (5, X.shape[1])
    assert X.shape == (3, own.X.shape[1])
    assert_array_equal(X[0], own.X[0])
    assert X[1].sum() == 0


def test_images_for_a_table_recipe_and_the_reverse_are_refused(table, tmp_path):
    recipe = read_own(table, label="not").recipe
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 3, 4, 4), np.uint8), labels=["a", "b"])
    with pytest.raises(InvalidData, match=r"must be a table of numbers.*It has images"):
        read_features(tmp_path / "t.npz", recipe)
    with pytest.raises(InvalidInput, match="must name the column"):
        read_features(table, read_own(tmp_path / "t.npz").recipe)


@pytest.mark.parametrize("values", [{"kind": "cake"}, None])
def test_a_recipe_of_unknown_kind_is_refused(values):
    with pytest.raises(InvalidModelFile, match="must be 'table' or 'images'"):
        recipe_from_dict(values)


# ----------------------------------------------------------------------------- properties

names = st.text(
    st.characters(exclude_characters="|\x00\r", exclude_categories=["Cs"]), min_size=1, max_size=6
).map(str.strip)
names = names.filter(bool)
rows = st.lists(
    st.tuples(
        st.floats(-1e6, 1e6, width=32), st.lists(names, min_size=1, max_size=3), names, names
    ),
    min_size=2,
    max_size=8,
)


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
@settings(max_examples=25)
@given(rows=rows)
def test_a_table_written_and_read_back_gives_the_same_answers(tmp_path_factory, kind, rows):
    columns = {
        "x": [x for x, *_ in rows],
        "not": ["|".join(labels) for _, labels, *_ in rows],
        "who": [who for *_, who, _ in rows],
        "is": [true for *_, true in rows],
    }
    data = tmp_path_factory.mktemp("round") / f"t.{kind}"
    if kind == "csv":
        with data.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    elif kind == "parquet":
        pq.write_table(pa.table(columns), data)
    else:
        data = pa.table(columns)
    classes = sorted({name for _, labels, _, true in rows for name in [*labels, true]})
    if len(classes) < 2:
        return
    own = read_own(data, label="not", annotator="who", true_label="is", classes=classes)
    assert own.annotator is not None
    read = [
        (example, own.classes[label], own.annotators[who])
        for example, label, who in zip(own.example, own.label, own.annotator, strict=True)
    ]
    assert read == [
        (number, name, who) for number, (_, labels, who, _) in enumerate(rows) for name in labels
    ]
    assert [own.classes[true] for true in own.true_labels] == columns["is"]
    assert_array_equal(own.X[:, 0], np.float32(columns["x"]))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npz"])
@settings(max_examples=40)
@given(data=st.binary(max_size=300))
def test_random_bytes_are_never_anything_but_a_clear_error(tmp_path_factory, suffix, data):
    path = tmp_path_factory.mktemp("random") / f"t.{suffix}"
    path.write_bytes(data)
    with pytest.raises(NaysayError):
        read_own(path, label="label")


def test_all_unknown_columns_are_named_at_once_with_their_options(table):
    with pytest.raises(InvalidInput) as caught:
        read_own(table, label="Not", ignore=["agee"], categorical=["hue"], example_id="iid")
    message = str(caught.value)
    for part in ("(--label)", "(--ignore)", "(--categorical)", "(--id)", "'hue'", "'iid'"):
        assert part in message
    assert "Did you mean 'not' for 'Not'? Did you mean 'age' for 'agee'?" in message


def test_all_columns_that_cannot_be_features_are_refused_at_once(tmp_path):
    rows = [f"2026-01-{1 + i % 28:02d},text {i},{i},1e39,{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["day,note,x,huge,not", *rows]))
    with pytest.raises(InvalidData) as caught:
        read_own(tmp_path / "t.csv", label="not")
    message = str(caught.value)
    assert message.startswith("3 columns of")
    for part in ("Column 'day'", "Column 'note'", "Column 'huge'", "--ignore day,note,huge"):
        assert part in message
    read_own(tmp_path / "t.csv", label="not", ignore=["day", "note", "huge"])


def test_all_missing_columns_of_new_data_are_named_at_once(table):
    recipe = read_own(table, label="not", features=["age", "colour"]).recipe
    with pytest.raises(InvalidInput, match=r"no column 'age', 'colour'.*mean 'color' for 'colour'"):
        read_features(pd.DataFrame({"color": ["red"]}), recipe)


def test_capitals_can_be_ignored(tmp_path):
    (tmp_path / "t.csv").write_text("x,not,is\n1,cat,DOG\n2,Cat,\n3,cat|Owl,\n4,dog,owl\n")
    assert read_own(tmp_path / "t.csv", label="not", true_label="is").n_classes == 6
    own = read_own(tmp_path / "t.csv", label="not", true_label="is", ignore_case=True)
    assert own.classes == ("Owl", "cat", "dog")
    assert own.label.tolist() == [1, 1, 1, 0, 2]
    assert own.true_labels.tolist() == [2, -1, -1, 0]
    classes = ["CAT", "DOG", "OWL"]
    own = read_own(
        tmp_path / "t.csv", label="not", ignore=["is"], classes=classes, ignore_case=True
    )
    assert own.classes == ("CAT", "DOG", "OWL")
    (tmp_path / "a.csv").write_text("x,is\n1,oWl\n")
    assert read_anchors(tmp_path / "a.csv", own, ignore_case=True)[1].tolist() == [2]


@pytest.mark.skipif(sys.platform == "win32", reason="no /dev")
def test_what_bash_writes_for_the_output_of_a_command_is_read_as_csv(table):
    reader, writer = os.pipe()
    os.write(writer, CSV.encode())
    os.close(writer)
    own = read_own(f"/dev/fd/{reader}", label="not", ignore=["is", "who"])
    os.close(reader)
    assert_array_equal(own.X, read_own(table, label="not", ignore=["is", "who"]).X)
