import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from naysay import InvalidData, InvalidInput, InvalidModelFile
from naysay.datasets.own.recipe import MOST_CATEGORIES, Recipe, fit_recipe


def fit(columns, **options):
    table = pa.table(columns)
    recipe = fit_recipe(table, source="my.csv", **options)
    return recipe, recipe.apply(table)


def test_gaps_become_the_median_and_an_indicator():
    recipe, X = fit({"age": [1.0, None, 3.0, 10.0], "n": [1, 2, 3, 4]})
    assert recipe.feature_names == ("age", "age missing", "n")
    assert_array_equal(X, [[1, 0, 1], [3, 1, 2], [3, 0, 3], [10, 0, 4]])
    assert X.dtype == np.float32


def test_categories_become_one_feature_each_in_sorted_order():
    recipe, X = fit({"colour": ["red", "blue", None, "NA", "red"]})
    assert recipe.feature_names == ("colour=blue", "colour=red", "colour missing")
    assert_array_equal(X, np.eye(3)[[1, 0, 2, 2, 1]])


def test_an_unseen_category_is_all_zeros_and_an_unseen_gap_the_median():
    recipe, _ = fit({"colour": ["red", "blue"], "age": [1.0, 3.0]})
    new = pd.DataFrame({"age": [None, 5.0], "colour": ["green", "red"], "extra": [0, 0]})
    assert_array_equal(recipe.apply(new), [[0, 0, 2], [0, 1, 5]])


def test_of_many_wanted_categories_the_rare_ones_become_other():
    values = [f"c{i}" for i in range(MOST_CATEGORIES)] * 2 + ["rare"]
    recipe, X = fit({"code": values}, categorical=["code"])
    assert recipe.feature_names[-1] == "code other"
    assert X[-1, -1] == 1
    assert_array_equal(X.sum(axis=1), 1)
    assert recipe.apply(pa.table({"code": ["never seen"]}))[0, -1] == 1


def test_numbers_can_be_categories_and_match_their_text():
    recipe, X = fit({"code": [7, 8, 7]}, categorical=["code"])
    assert recipe.feature_names == ("code=7", "code=8")
    assert_array_equal(recipe.apply(pa.table({"code": ["7", "8", "7"]})), X)


def test_booleans_are_numbers():
    _, X = fit({"b": [True, False, None]})
    assert_array_equal(X, [[1, 0], [0, 0], [0.5, 1]])


def test_standardised_columns_have_mean_0_and_deviation_1_even_far_from_0():
    rng = np.random.default_rng(0)
    stamps = 1.7e9 + rng.normal(size=1000)
    _, X = fit({"stamp": stamps, "same": np.ones(1000)}, standardise=True)
    assert_allclose(X.mean(axis=0), 0, atol=1e-4)
    assert_allclose(X.std(axis=0), [1, 0], rtol=1e-4)


def test_a_column_without_any_value_is_set_aside_with_the_reason():
    recipe, X = fit({"a": [1, 2], "none": pa.nulls(2, pa.string()), "nan": [np.nan, np.nan]})
    assert recipe.dropped == (("none", "every value is missing"), ("nan", "every value is missing"))
    assert X.shape == (2, 1)


@pytest.mark.parametrize(
    "columns, problem",
    [
        ({"x": [1.0, np.inf]}, r"Column 'x' of my.csv.*finite.*Data row 2 has inf"),
        ({"x": [1e300, 1.0]}, r"Data row 1 has 1e\+300"),
        (
            {"x": [f"word {i}" for i in range(30)]},
            "30 distinct values in 30 rows.*text=.*cat",
        ),
        ({"x": [f"w{i}" for i in range(101)] * 9}, "101 distinct values in 909 rows"),
        ({"x": [*map(str, range(30)), "12kg"]}, "Nearly all cells are numbers, but not '12kg'"),
        ({"x": [f"{i},5" for i in range(30)]}, "decimal comma.*'0,5': pass decimal=','"),
        (
            {"x": [*(f"{i},5" for i in range(30)), "3,5kg"]},
            r"Nearly all cells are numbers with a decimal comma \(--decimal ,\), but not '3,5kg'",
        ),
        ({"x": [*map(str, range(30))]}, "numbers that are stored as text"),
        ({"x": pa.array([1], pa.date32())}, "It has dates or times.*days since"),
        ({"x": ["2024-01-31", "2024-02-01"]}, r"It has dates or times \(2024-01-31\).*ignore="),
        ({"x": ["3/1/2024 9:00", "4/1/2024 10:30"]}, "It has dates or times"),
        ({"x": [[1, 2]]}, "must contain numbers. Its type is list"),
        ({"x": pa.nulls(2)}, "at least one feature column"),
    ],
)
def test_a_column_that_cannot_be_used_is_named_with_what_to_do(columns, problem):
    with pytest.raises(InvalidData, match=f"(?s){problem}"):
        fit(columns)


def test_a_few_distinct_texts_in_a_small_table_are_categories():
    recipe, _ = fit({"x": ["a", "b", "c"]})
    assert len(recipe.feature_names) == 3


def test_applying_to_other_columns_says_which_is_missing():
    recipe, _ = fit({"age": [1, 2]})
    with pytest.raises(
        InvalidInput,
        match=r"new.csv must have the columns.*no column 'age'; its columns are 'Age'. Did you",
    ):
        recipe.apply(pa.table({"Age": [1]}), source="new.csv")
    with pytest.raises(InvalidData, match=r"Column 'age' of new.csv must contain numbers"):
        recipe.apply(pa.table({"age": ["old"]}), source="new.csv")


cells = st.one_of(
    st.lists(st.none() | st.floats(-1e30, 1e30), min_size=4, max_size=4),
    st.lists(st.none() | st.integers(-(2**60), 2**60), min_size=4, max_size=4),
    st.lists(st.none() | st.booleans(), min_size=4, max_size=4),
    st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4),
)


@settings(max_examples=40)
@given(st.dictionaries(st.text(min_size=1, max_size=5), cells, min_size=1, max_size=4))
def test_a_saved_recipe_gives_the_same_matrix_again(columns):
    table = pa.table({"always": [1.5, 2, 3, 4]} | columns)
    recipe = fit_recipe(table, standardise=True)
    X = recipe.apply(table)
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert again == recipe
    assert_array_equal(again.apply(table), X)
    assert X.shape == (4, len(recipe.feature_names))
    assert np.isfinite(X).all()
    assert_array_equal(again.apply(table.take([2])), X[[2]])  # rows do not depend on each other


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "images"},
        {"columns": []},
        {"columns": None},
        {"columns": [{"kind": "numeric"}]},
        {"columns": [{"kind": "numeric", "name": "a", "median": "x"}]},
        {"columns": [{"kind": "numeric", "name": "a", "median": 1, "scale": 0}]},
        {"columns": [{"kind": "numeric", "name": "a", "median": float("nan")}]},
        {"columns": [{"kind": "numeric", "name": "a", "median": 1, "extra": 1}]},
        {"columns": [{"kind": "categorical", "name": "a", "categories": ["x", "x"]}]},
        {"columns": [{"kind": "categorical", "name": "a", "categories": "xy"}]},
        {"columns": [{"kind": "categorical", "name": "a", "categories": [1]}]},
        {"columns": [{"kind": "categorical", "name": 3, "categories": ["x"]}]},
        {"columns": [{"kind": "magic", "name": "a"}]},
        {"columns": [7]},
        {"dropped": [1]},
    ],
)
def test_a_damaged_recipe_is_refused(change):
    recipe, _ = fit({"a": [1, 2]})
    with pytest.raises(InvalidModelFile, match=r"must be as Recipe.to_dict writes it"):
        Recipe.from_dict(recipe.to_dict() | change)
