import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naysay.datasets import summarise
from naysay.datasets.own import read_own


@pytest.fixture
def summary(tmp_path):
    path = tmp_path / "animals.csv"
    path.write_text(
        "id,age,colour,same,void,not,is,who\n"
        "a,3,red,1,,cat|dog,owl,ann\n"
        "a,3,red,1,,cat,,bob\n"
        "b,3,red,1,,owl,owl,ann\n"
        "c,,blue,1,,cat|dog|owl|fox|Cat,,\n"
        "d,4,,1,,,,ann\n"
        "e,,blue,1,,,emu,ann\n"
    )
    own = read_own(path, label="not", true_label="is", annotator="who", example_id="id")
    return summarise(own)


def test_the_first_look_counts_what_is_there(summary):
    assert (summary.n_rows, summary.n_examples, summary.n_dropped) == (6, 4, 1)
    assert summary.n_answers == 9
    assert summary.labels_per_class == {
        "Cat": 1,
        "cat": 3,
        "dog": 2,
        "emu": 0,
        "fox": 1,
        "owl": 2,
    }
    assert summary.labels_per_example == {0: 1, 1: 1, 3: 1, 5: 1}
    assert summary.annotators == {"ann": 3, "bob": 1}
    assert summary.n_unattributed == 5
    assert summary.n_true_labels == 3
    assert summary.missing_values == {"age": 2}


def test_the_first_look_says_what_cannot_work(summary):
    assert summary.never_named == ("emu",)
    assert summary.look_alikes == ("Cat", "cat")
    assert summary.true_excluded == ("b",)
    assert summary.all_excluded == ()
    assert summary.constant_features == ("age", "same")  # age where it is known
    assert summary.dropped_columns == {"void": "every value is missing"}
    assert summary.n_duplicates == 2  # b has the features of a, e those of c
    text = str(summary)
    assert "'emu': never named as complementary, so these classes cannot be learned" in text
    assert "4 (1 without a label dropped)" in text
    assert "1 with 0, 1 with 1, 1 with 3, 1 with 5" in text


def test_every_class_excluded_and_answers_said_twice():
    frame = pd.DataFrame({"x": [1, 2], "not": ["a|b|a", "b"]})
    summary = summarise(read_own(frame, label="not"))
    assert summary.all_excluded == ("data row 1",)
    assert summary.n_repeated == 1


def test_a_class_that_looks_like_a_missing_value_is_pointed_out():
    frame = pd.DataFrame({"x": [1, 2], "not": ["NaN", "b"]})
    summary = summarise(read_own(frame, label="not"))
    assert summary.looks_missing == ("NaN",)


def test_all_well_gives_no_warning_and_json_holds_everything():
    frame = pd.DataFrame({"x": [1, 2, -0.0, 0.0], "not": ["a", "b", "a", "b"]})
    summary = summarise(read_own(frame, label="not"))
    assert summary.warnings == ()
    assert "warning" not in str(summary)
    values = json.loads(json.dumps(summary.to_dict()))
    assert values["rows"] == 4
    assert values["classes"] == ["a", "b"]
    assert values["labels_per_class"] == {"a": 2, "b": 2}
    assert values["duplicates"] == 1


def test_many_classes_are_listed_by_frequency_and_counted():
    frame = pd.DataFrame({"x": range(60), "not": [f"c{min(i, 49)}" for i in range(60)]})
    text = str(summarise(read_own(frame, label="not")))
    assert "… and 30 more" in text
    assert text.index("c49 ") < text.index("c0 ")


def test_images_have_a_shape_and_no_features(tmp_path):
    X = np.zeros((3, 3, 4, 5), np.uint8)
    X[2] = 1
    np.savez(tmp_path / "t.npz", X=X, labels=[0, 1, 0])
    summary = summarise(read_own(tmp_path / "t.npz"))
    assert summary.facts()["images"] == "3x4x5"
    assert summary.n_duplicates == 1
    assert summary.constant_features == ()


answers = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.sampled_from(["ann", "bob", None])),
    min_size=1,
    max_size=15,
)


@settings(max_examples=30)
@given(answers)
def test_counts_agree_with_plain_loops(answers):
    frame = pd.DataFrame(answers, columns=["id", "not", "who"]).assign(x=1.0)
    classes = ["a", "b", "c"]
    own = read_own(frame, label="not", annotator="who", example_id="id", classes=classes)
    summary = summarise(own)
    said = [label for _, label, _ in answers]
    assert summary.labels_per_class == {name: said.count(name) for name in classes}
    assert summary.n_repeated == len(answers) - len(set(answers))
    excluded = {i: {label for j, label, _ in answers if j == i} for i, _, _ in answers}
    assert set(summary.all_excluded) == {str(i) for i, out in excluded.items() if len(out) == 3}
    assert sum(summary.labels_per_example.values()) == summary.n_examples == len(excluded)
    assert sum(summary.annotators.values()) + summary.n_unattributed == len(answers)


def test_true_classes_among_the_features_are_a_warning():
    frame = pd.DataFrame(
        {
            "age": [3, 9, 5, 4],
            "not": ["cat", "owl", "dog", "cat"],
            "is": ["owl", "cat", None, "dog"],
        }
    )
    found = summarise(read_own(frame, label="not"))
    assert found.class_columns == ("is",)
    assert any("name the column in --true-label" in warning for warning in found.warnings)
    assert summarise(read_own(frame, label="not", true_label="is")).class_columns == ()


@pytest.mark.filterwarnings("error")
def test_steps_between_huge_numbers_are_no_warning():
    frame = pd.DataFrame({"x": [-3e38, 3e38] * 20, "not": ["cat", "owl"] * 20})
    assert summarise(read_own(frame, label="not")).id_columns == ()


def test_categories_that_look_like_numbers_are_a_warning():
    rows = range(50)
    frame = pd.DataFrame(
        {
            "length": [f"{row % 4},{row % 5}" for row in rows],
            "whole": [["3", "4,5"][row == 7] for row in rows],
            "typo": ["5.1x" if row == 7 else f"{row % 9}.5" for row in rows],
            "both": ["5,1x" if row > 47 else f"{row % 9},5" for row in rows],
            "gaps": [["unknown", "?", "2.5", "3"][min(row, 3)] for row in rows],
            "count": [f"1,{row % 9}00" for row in rows],  # thousands
            "grade": [f"{row % 9}{'ab'[row % 2]}" for row in rows],
            "code": [str(row % 9) for row in rows],
            "not": ["cat", "owl"] * 25,
        }
    )
    found = summarise(read_own(frame, label="not", categorical=["code"]))
    assert found.comma_columns == ("length", "whole")
    assert (
        "'length', 'whole': categories that look like numbers with a decimal comma; pass "
        "decimal=',' (--decimal ,)"
    ) in found.warnings
    assert found.odd_cells == {
        "typo": "all but 1 of 50 values are numbers; the column is categorical because of '5.1x', "
        "first in data row 8",
        "both": "all but 2 of 50 values are numbers with a decimal comma (--decimal ,); the column "
        "is categorical because of '5,1x', first in data row 49",
        "gaps": "all but 1 of 49 values are numbers; the column is categorical because of "
        "'unknown', first in data row 1",
    }
    assert f"'typo': {found.odd_cells['typo']}" in found.warnings
    assert found.to_dict()["comma_columns"] == ["length", "whole"]


def test_many_columns_that_are_nearly_numbers_are_shortened():
    cells = {f"x{name}": ["-", *map(str, range(19))] for name in range(30)}
    found = summarise(read_own(pd.DataFrame({**cells, "not": ["a", "b"] * 10}), label="not"))
    assert len(found.odd_cells) == 30
    about_numbers = [warning for warning in found.warnings if "numbers" in warning]
    assert len(about_numbers) == 4
    assert about_numbers[-1].startswith("'x3', 'x4', ")
    assert "(27 in all): these columns are categories too" in about_numbers[-1]
