"""NaN and sparse matrices: what networks see of them, and that model files keep it."""

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.neighbors import NearestCentroid

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix
from naysay.classifier.preparation import Preparation
from naysay.datasets.own import read_own
from naysay.workflows.export import ExportedModel


def small(**options):
    return ComplementaryClassifier(**{"random_state": 0, "epochs": 20, "device": "cpu", **options})


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=300)
    X = rng.normal(size=(300, 3)) + 4 * np.eye(3)[y]
    return X, y, TransitionMatrix.uniform(3).sample(y, seed=0)


def test_nan_becomes_what_the_command_line_makes_of_it(blobs):
    X, _, comp_labels = blobs
    X = X.astype(np.float32)
    X[::7, 0] = X[::5, 2] = np.nan
    frame = pd.DataFrame(X, columns=list("abc")).assign(**{"not": comp_labels})
    own = read_own(frame, label="not")
    inputs = Preparation.fit(X).apply(X)
    assert own.feature_names == ("a", "a missing", "b", "c", "c missing")
    assert_allclose(inputs[:, [0, 3, 1, 2, 4]], own.X)
    new = np.full((1, 3), np.nan, dtype=np.float32)  # column b had no gap in training
    assert_array_equal(Preparation.fit(X).apply(new)[0, 3:], [1, 1])
    assert_allclose(Preparation.fit(X).apply(new)[0, 1], np.median(X[:, 1]))


def test_a_model_learns_from_and_predicts_examples_with_gaps_and_keeps_this_in_its_file(
    blobs, tmp_path
):
    X, y, comp_labels = blobs
    gappy = X.copy()
    gappy[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    clf = small(epochs=40).fit(gappy, comp_labels)
    assert (clf.predict(gappy) == y).mean() > 0.8
    assert clf.n_features_in_ == 3
    clf.save(tmp_path / "model")
    again = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    assert_array_equal(again.predict_proba(gappy), clf.predict_proba(gappy))
    exported = ExportedModel(clf).eval()(torch.tensor(gappy).float())[1]
    assert_allclose(exported.detach(), clf.predict_proba(gappy), atol=1e-5)


def test_infinite_values_and_gaps_in_images_are_refused(blobs):
    X, _, comp_labels = blobs
    with pytest.raises(ValueError, match="infinity"):
        small().fit(np.where(X > 3, np.inf, X), comp_labels)
    images = np.full((300, 1, 2, 2), np.nan)
    with pytest.raises(InvalidInput, match="X contains NaN"):
        small().fit(images, comp_labels)


@pytest.mark.unmeasured
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_a_narrow_sparse_matrix_gives_the_result_of_the_dense_one(blobs, kind):
    X, _, comp_labels = blobs
    clf = small(epochs=3).fit(kind(X), comp_labels)
    assert_array_equal(
        clf.predict_proba(X), small(epochs=3).fit(X, comp_labels).predict_proba(kind(X))
    )


def topics(n, n_columns, per_row, seed=0):
    """Rows of a matrix like word counts: half of the entries in columns of the class's own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    own = rng.integers(40, size=(n, per_row // 2)) + 1000 * y[:, None]
    columns = np.hstack([own, rng.integers(n_columns, size=(n, per_row - per_row // 2))])
    rows = np.repeat(np.arange(n), per_row)
    X = sparse.csr_matrix((np.ones(n * per_row), (rows, columns.ravel())), (n, n_columns))
    return X, y, TransitionMatrix.uniform(4).sample(y, seed=seed + 1)


def test_a_wide_sparse_matrix_is_reduced_and_a_file_keeps_this(tmp_path):
    X, y, comp_labels = topics(400, 50_000, 20)
    clf = small(epochs=5).fit(X, comp_labels)
    assert clf.network_.arguments["input_shape"] == [20]
    assert clf.n_features_in_ == 50_000
    inputs = clf.preparation_.apply(X)
    assert NearestCentroid().fit(inputs[::2], y[::2]).score(inputs[1::2], y[1::2]) > 0.95
    assert_allclose(clf.predict_proba(X[:9].toarray()), clf.predict_proba(X[:9]), atol=1e-5)
    clf.save(tmp_path / "model")
    again = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    exported = ExportedModel(clf).eval()(torch.tensor(X[:9].toarray()).float())[1]
    assert_allclose(exported.detach(), clf.predict_proba(X[:9]), atol=1e-5)


def test_a_sparse_matrix_with_nan_or_only_zeros_is_refused():
    X, _, comp_labels = topics(60, 5000, 4)
    X.data[3] = np.nan
    with pytest.raises(InvalidInput, match="sparse X must not contain NaN"):
        small().fit(X, comp_labels)
    with pytest.raises(InvalidInput, match="only zeros"):
        small().fit(sparse.csr_matrix((60, 5000)), comp_labels)


@pytest.mark.parametrize(
    "arrays",
    [
        {"indicated": np.array([3])},
        {"median": np.zeros(2, dtype=np.float32)},
        {"columns": np.array([0]), "components": np.zeros((2, 2), dtype=np.float32)},
        {"components": np.zeros((2, 2), dtype=np.float32)},
    ],
)
def test_a_preparation_of_another_shape_is_refused(arrays):
    with pytest.raises(ValueError, match="the preparation"):
        Preparation.from_arrays(arrays, (3,))
