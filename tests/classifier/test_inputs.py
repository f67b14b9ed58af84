"""Whether anchors look like the examples they stand for."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

from naysay import (
    ComplementaryClassifier,
    ComplementaryWrapper,
    InvalidInput,
    InvalidLabels,
    TransitionMatrix,
)
from naysay.classifier.inputs import warn_if_unlike

TABLES = {each.__name__: each for each in (load_breast_cancer, load_digits, load_iris, load_wine)}


def draw(y, n_each, rng):
    """Draw examples of each class."""
    drawn = (rng.permutation(np.flatnonzero(y == each))[:n_each] for each in np.unique(y))
    return np.concatenate(list(drawn))


@pytest.mark.parametrize("name", TABLES)
def test_anchors_of_the_same_source_are_no_reason_for_a_warning(name):
    X, y = TABLES[name](return_X_y=True)
    n_classes = len(np.unique(y))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        anchors = draw(y, (1, 5, 10)[seed % 3], rng)
        others = np.setdiff1d(np.arange(len(X)), anchors)
        shares = rng.dirichlet(np.ones(n_classes))[y[others]]  # X may be imbalanced
        others = rng.choice(others, size=50, p=shares / shares.sum())
        assert warn_if_unlike(X[others], X[anchors], n_classes) == ()


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler(), PowerTransformer()])
def test_anchors_that_were_not_scaled_as_x_are_found(name, scaler):
    X, y = TABLES[name](return_X_y=True)
    anchors = draw(y, 10, np.random.default_rng(0))
    (message,) = warn_if_unlike(scaler.fit_transform(X), X[anchors], len(np.unique(y)))
    assert "true_labels=" in message
    if isinstance(scaler, StandardScaler):  # also if the anchors are within the range of X
        X = MinMaxScaler().fit_transform(X)
        assert warn_if_unlike(scaler.fit_transform(X), X[anchors], len(np.unique(y)))


def test_images_are_compared_by_pixel_and_one_anchor_is_enough():
    images = load_digits().images[:, None].astype(np.uint8)
    assert warn_if_unlike(images[100:], images[:1], 10) == ()
    assert warn_if_unlike(images[100:], images[:1] / np.float32(16), 10)


@pytest.mark.unmeasured
@pytest.mark.parametrize("wrap", [False, True])
def test_a_pipeline_refuses_anchors_and_takes_true_labels(wrap):
    """Anchors without the scaling PCA of X cost 89 to 57 % on digits, and look like X."""
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    Q = TransitionMatrix([[0, 0.9, 0.1], [0.2, 0, 0.8], [0.7, 0.3, 0]])
    comp_labels = Q.sample(y, seed=0)
    clf = ComplementaryClassifier(learner="network", epochs=5, random_state=0, device="cpu")
    if wrap:
        clf = ComplementaryWrapper(GaussianNB(), max_rounds=1, random_state=0)
    clf.set_params(transition=Q)
    anchors = draw(y, 10, np.random.default_rng(0))
    given = X[anchors], y[anchors]
    pipeline = Pipeline([("scale", PCA(whiten=True)), ("clf", clf)])
    assert warn_if_unlike(PCA(whiten=True).fit_transform(X), X[anchors], 3) == ()
    with pytest.raises(InvalidInput, match=r"transforms X, but not them\. Pass true_labels="):
        pipeline.fit(X, comp_labels, clf__anchors=given)
    known = np.full(len(y), -1)
    known[anchors] = y[anchors]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pipeline.fit(X, comp_labels, clf__true_labels=known)
        pipeline.set_params(scale="passthrough").fit(X, comp_labels, clf__anchors=given)
        clf.fit(X, comp_labels, anchors=given)
    assert not [each for each in caught if "do not look like X" in str(each.message)]


@pytest.mark.parametrize("classes", [None, ["cat", "dog", "owl"]])
def test_a_missing_label_among_text_is_named(classes):
    y = np.array(["cat", "dog", None, "owl"] * 5, dtype=object)
    clf = ComplementaryClassifier(classes=classes, epochs=1)
    with pytest.raises(InvalidLabels, match=r"y must contain a label everywhere\. Entry 2 is"):
        clf.fit(np.zeros((20, 2)), y)
