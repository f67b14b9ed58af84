"""Exported models give what the classifier gives, from raw columns and pixels."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import ExtraTreesRegressor

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix
from naysay.datasets.own import read_own
from naysay.datasets.own.images import ImageRecipe
from naysay.datasets.own.recipe import CategoricalColumn, NumericColumn, Recipe
from naysay.networks import MLP, Forest, Kernel, Mixture
from naysay.workflows.export import TableEncoder, describe_input, export

rng = np.random.default_rng(0)
RECIPE = Recipe(
    columns=(
        NumericColumn(name="age", median=4, n_missing=2, center=1.5, scale=2),
        CategoricalColumn(name="coat", categories=("long", "short"), has_other=True),
        NumericColumn(name="weight", median=7.25),
        CategoricalColumn(name="ear", categories=("a",), n_missing=1, has_other=True),
        CategoricalColumn(name="tail", categories=("x", "y")),
    )
)
FRAME = pd.DataFrame(
    {
        "age": [3, None, 9.5, 0],
        "coat": ["long", "curly", None, "short"],
        "weight": [None, 1, 2, 3],
        "ear": ["a", None, "b", "a"],
        "tail": ["y", "z", None, "x"],
    }
)
ROWS = [
    {name: None if pd.isna(cell) else cell for name, cell in row.items()}
    for row in FRAME.to_dict("records")
]


def encode_columns(recipe, rows):
    """Encode rows as docs/command-line.md tells the user of an exported model to."""
    encoded = np.full((len(rows), len(recipe.columns)), np.nan, dtype=np.float32)
    for row, cells in zip(encoded, rows, strict=True):
        for place, column in enumerate(recipe.columns):
            value = cells[column.name]
            if isinstance(column, CategoricalColumn) and value is not None:
                value = column.categories.index(value) if value in column.categories else -1
            row[place] = np.nan if value is None else value
    return encoded


def fit(X, method="forward", recipe=None):
    Q = TransitionMatrix.without_zeros(3, shares=(0.7, 0.3))
    labels = Q.sample(np.arange(len(X)) % 3, seed=0)
    clf = ComplementaryClassifier(
        learner="network", method=method, transition=Q, epochs=2, random_state=0
    )
    clf.fit(X, labels)
    clf.set_origin(recipe=recipe)
    return clf


def run_program(path, inputs):
    log_probs, probs = torch.export.load(path).module()(torch.as_tensor(inputs))
    return log_probs.detach().numpy(), probs.detach().numpy()


def run_onnx(path, inputs):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"inputs": inputs})


@pytest.fixture(params=["model.pt2", "model.onnx"])
def exported(request, tmp_path):
    """Export a model and run the file in a runtime of its own."""
    if request.param.endswith("onnx"):
        pytest.importorskip("onnxscript")

    def run(clf, inputs):
        path = tmp_path / request.param
        export(clf, path)
        assert [each.name for each in tmp_path.iterdir()] == [request.param]
        return (run_onnx if path.suffix == ".onnx" else run_program)(path, inputs)

    return run


def test_the_encoder_gives_the_features_of_the_recipe():
    columns = torch.as_tensor(encode_columns(RECIPE, ROWS))
    np.testing.assert_array_equal(TableEncoder(RECIPE)(columns).numpy(), RECIPE.apply(FRAME))


def test_raw_columns_give_what_the_classifier_gives(exported):
    X = RECIPE.apply(FRAME)
    clf = fit(np.tile(X, (10, 1)), recipe=RECIPE)
    log_probs, probs = exported(clf, encode_columns(RECIPE, ROWS))
    np.testing.assert_allclose(log_probs, clf.predict_log_proba(X), atol=1e-5)
    np.testing.assert_allclose(probs, clf.predict_proba(X), atol=1e-6)


@pytest.mark.unmeasured
def test_images_go_in_as_bytes_any_number_of_them(exported):
    X = rng.integers(0, 256, (30, 1, 5, 4)).astype(np.uint8)
    clf = fit(X, recipe=ImageRecipe(height=5, width=4, mode="L"))
    for n in (1, 7):
        log_probs, _ = exported(clf, X[:n])
        np.testing.assert_allclose(log_probs, clf.predict_log_proba(X[:n]), atol=1e-5)


@pytest.mark.parametrize("method", ["forward", "cpe-t", "cpe-i", "ova"])
def test_scores_are_read_as_the_method_reads_them(method, tmp_path):
    X = rng.normal(size=(30, 4)).astype(np.float32)
    clf = fit(X, method)
    export(clf, tmp_path / "model.pt2")
    log_probs, _ = run_program(tmp_path / "model.pt2", X)
    np.testing.assert_allclose(log_probs, clf.predict_log_proba(X), atol=1e-4)


@pytest.mark.unmeasured
def test_the_file_says_what_it_takes_and_gives(tmp_path):
    clf = fit(np.tile(RECIPE.apply(FRAME), (10, 1)), recipe=RECIPE)
    export(clf, tmp_path / "model.pt2")
    extra = {"naysay.json": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=extra)
    about = json.loads(extra["naysay.json"])
    assert about == describe_input(clf)
    assert about["columns"][1] == {"name": "coat", "categories": ["long", "short"]}
    assert about["classes"] == [0, 1, 2]


@pytest.mark.unmeasured
def test_onnx_holds_the_same_description(tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    clf = fit(rng.normal(size=(30, 4)).astype(np.float32))
    export(clf, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert json.loads(session.get_modelmeta().custom_metadata_map["naysay"]) == describe_input(clf)


def test_another_ending_and_a_missing_package_are_said(tmp_path, monkeypatch):
    clf = fit(rng.normal(size=(30, 4)).astype(np.float32))
    with pytest.raises(InvalidInput, match=r"must end in \.onnx or \.pt2"):
        export(clf, tmp_path / "model.zip")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InvalidInput, match=r"pip install 'naysay\[export\]'"):
        export(clf, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_nobody_installs_a_package_for_a_model_that_cannot_be_exported(tmp_path, monkeypatch):
    words = pd.DataFrame({"note": ["late parcel", "wrong bill", "app crash"] * 10})
    own = read_own(words.assign(**{"not": ["p", "q", "r"] * 10}), label="not", text=["note"])
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InvalidInput, match="a column of text, 'note', cannot be exported"):
        export(fit(own.X, recipe=own.recipe), tmp_path / "model.onnx")


def test_the_recipe_of_a_real_table_is_encoded_the_same_way(tmp_path):
    frame = FRAME.assign(**{"not": ["p", "q", "r", "p"]})
    own = read_own(frame, label="not")
    columns = torch.as_tensor(encode_columns(own.recipe, ROWS))
    np.testing.assert_array_equal(TableEncoder(own.recipe)(columns).numpy(), own.X)


@pytest.mark.unmeasured
def test_a_mixture_of_all_kinds_of_models_is_exported(exported):
    X = rng.standard_normal((250, 4)).astype(np.float32)
    members = [
        MLP((4,), 3, widths=(5,)),
        Kernel((4,), 3, n_centres=6),
        Forest.from_trees(
            [ExtraTreesRegressor(1, random_state=0).fit(X, rng.random((250, 3)))[0].tree_], (4,), 3
        ),
    ]
    with torch.no_grad():
        for weight in (members[0].layers[-1].weight, members[1].centres, members[1].weight):
            weight.normal_()
    clf = fit(X[:30])
    clf.network_ = Mixture.of(members, [0.4, 0.3, 0.2], [1.0, 2.0, 0.5], (4,), 3)
    log_probs, probs = exported(clf, X)
    np.testing.assert_allclose(
        log_probs, clf.predict_log_proba(X), atol=1e-4
    )  # distances in float32
    np.testing.assert_allclose(probs, clf.predict_proba(X), atol=1e-5)
