"""Methods of the classifier that read logits, train the matrix or compare views."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits, make_blobs

from naysay import ComplementaryClassifier, InvalidInput, InvalidModelFile, TransitionMatrix, losses
from naysay.methods import METHODS, Method

# Labels are biased, and the uniform matrix serves as well as theirs.
pytestmark = pytest.mark.filterwarnings("ignore:the labels refute the transition matrix")

NEW = pytest.mark.parametrize(
    "name", ["cpe-i", "cpe-f", "cpe-t", "pocr", "two-views", "weak-to-strong"]
)
TRUE = TransitionMatrix(
    [[0, 0.7, 0.2, 0.1], [0.1, 0, 0.7, 0.2], [0.2, 0.1, 0, 0.7], [0.7, 0.2, 0.1, 0]]
)
ROUGH = TransitionMatrix(0.5 * np.asarray(TRUE) + 0.5 * np.asarray(TransitionMatrix.uniform(4)))


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(1500, n_features=5, centers=4, cluster_std=1.0, random_state=0)
    return X, y, TRUE.sample(y, seed=0)


def small(**options):
    return ComplementaryClassifier(
        **{"learner": "network", "random_state": 0, "epochs": 10, "device": "cpu", **options}
    )


@pytest.mark.unmeasured
@NEW
def test_blobs_are_learned(name, blobs):
    X, y, comp_labels = blobs
    clf = small(method=name, transition=TRUE).fit(X, comp_labels)
    assert (clf.predict(X) == y).mean() > 0.98
    assert clf.transition_ == TRUE
    np.testing.assert_allclose(clf.predict_proba(X).sum(1), 1)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), clf.predict_proba(X))
    np.testing.assert_array_equal(clf.predict(X), clf.predict_proba(X).argmax(1))


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "name, least",
    [
        *(("cpe-i", 0.7), ("cpe-f", 0.8), ("cpe-t", 0.85)),
        *(("pocr", 0.85), ("two-views", 0.85), ("weak-to-strong", 0.85)),
    ],
)
def test_digits_are_learned_from_biased_labels(name, least):
    X, y = (each[:900] for each in load_digits(return_X_y=True))
    Q = TransitionMatrix.without_zeros(10, (0.6, 0.3, 0.1), seed=0)
    clf = small(method=name, transition=Q, epochs=30).fit(X, Q.sample(y, seed=0))
    assert (clf.predict(X) == y).mean() > least


@pytest.mark.unmeasured
def test_the_learned_matrix_is_nearer_to_the_true_one_than_the_start(blobs):
    X, y, comp_labels = blobs
    clf = small(method="cpe-t", transition=ROUGH, epochs=40, lr=0.01).fit(X, comp_labels)
    assert clf.transition_ == ROUGH
    learned = clf.learned_transition_
    assert isinstance(learned, TransitionMatrix)

    def distance(Q):
        return np.abs(np.asarray(Q) - np.asarray(TRUE)).sum(1).mean()

    assert distance(learned) < 0.3 * distance(ROUGH)
    assert not np.asarray(learned).diagonal().any()
    assert (clf.predict(X) == y).mean() > 0.98


def test_only_a_method_that_learns_the_matrix_has_a_learned_one(blobs):
    X, _, comp_labels = blobs
    assert not hasattr(small(method="cpe-t"), "learned_transition_")
    assert not hasattr(small(epochs=1).fit(X, comp_labels), "learned_transition_")


def test_the_learned_matrix_has_the_names_of_the_classes(blobs):
    X, y, _ = blobs
    names = ["ant", "bee", "cat", "dog"]
    comp_labels = np.array(names)[TRUE.sample(y, seed=0)]
    clf = small(method="cpe-t", epochs=1).fit(X, comp_labels)
    assert list(clf.learned_transition_.classes) == names


def test_the_nearest_row_decides_not_the_largest_logit(blobs):
    X, _, comp_labels = blobs
    clf = small(method="cpe-i", transition=TRUE).fit(X, comp_labels)
    with torch.no_grad():
        comp_probs = clf.network_(torch.as_tensor(X, dtype=torch.float32)).softmax(1).numpy()
    distances = np.abs(comp_probs[:, None] - np.asarray(TRUE)).sum(2)
    np.testing.assert_array_equal(clf.predict(X), distances.argmin(1))
    assert (clf.predict(X) != comp_probs.argmax(1)).all()


@pytest.mark.unmeasured
@NEW
def test_anchors_are_learned_from(name, blobs):
    X, y, _ = blobs
    few = TRUE.sample(y[:8], seed=1)  # next to nothing: what is learned comes from the anchors
    clf = small(method=name, transition=TRUE, epochs=60, validation_fraction=0)
    assert (clf.fit(X[:8], few, anchors=(X[:200], y[:200])).predict(X) == y).mean() > 0.95


@NEW
def test_saved_and_pickled_models_predict_the_same(name, blobs, tmp_path):
    X, _, comp_labels = blobs
    clf = small(method=name, transition=ROUGH, epochs=3, lr=0.01).fit(X, comp_labels)
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    for twin in (loaded, pickle.loads(pickle.dumps(clf))):
        np.testing.assert_array_equal(twin.predict_proba(X), clf.predict_proba(X))
        if name == "cpe-t":
            assert twin.learned_transition_ == clf.learned_transition_ != ROUGH


@pytest.mark.parametrize("name", ["forward", "nn"])
def test_model_files_without_a_loss_are_still_read(name, blobs, tmp_path):
    X, _, comp_labels = blobs
    clf = small(method=name, transition=TRUE, epochs=1).fit(X, comp_labels)
    clf.save(tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    older = {key: value for key, value in tensors.items() if not key.startswith("loss.")}
    save_file(older, tmp_path / "model" / "model.safetensors")
    file = tmp_path / "model" / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    del facts["sha256"]
    file.write_text(json.dumps({**facts, "version": 1}), "utf-8")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def test_a_model_file_with_the_loss_of_another_method_is_refused(blobs, tmp_path):
    X, _, comp_labels = blobs
    small(method="cpe-t", epochs=1).fit(X, comp_labels).save(tmp_path / "model")
    file = tmp_path / "model" / "model.json"
    facts = json.loads(file.read_text("utf-8"))
    facts["parameters"]["method"] = "forward"
    file.write_text(json.dumps(facts), "utf-8")
    with pytest.raises(InvalidModelFile, match="must contain the loss of 'forward'"):
        ComplementaryClassifier.load(tmp_path / "model")


def test_a_method_of_ones_own_is_saved_unless_it_reads_logits_its_own_way(blobs, tmp_path):
    X, _, comp_labels = blobs
    facts = {"name": "mine", "summary": "Mine.", "when": "Never.", "source": "Me 2024"}
    plain = Method(**facts, make_loss=lambda setting: losses.SurrogateLog())
    clf = small(method=plain, epochs=1).fit(X, comp_labels)
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    reading = dataclasses.replace(METHODS["cpe-t"], name="mine")
    with pytest.raises(InvalidInput, match="cannot contain the loss of the custom method 'mine'"):
        small(method=reading, epochs=1).fit(X, comp_labels).save(tmp_path / "other")


# --- views ---------------------------------------------------------------------------------------


@pytest.mark.unmeasured
def test_consistency_changes_what_is_learned_and_the_held_out_loss_is_comparable(blobs):
    X, _, comp_labels = blobs
    found = {
        name: small(method=name, transition=TRUE, augment=lambda x: x).fit(X, comp_labels)
        for name in ("forward", "pocr")
    }
    assert not np.allclose(found["forward"].predict_proba(X), found["pocr"].predict_proba(X))
    ends = [clf.history_[-1]["held_out_loss"] for clf in found.values()]
    assert ends[0] == pytest.approx(ends[1], rel=0.1)


def test_every_method_trains_on_what_augment_gives_and_predicts_without_it(blobs):
    X, _, comp_labels = blobs
    calls = []

    def augment(inputs):
        calls.append(inputs.shape)
        return inputs

    for name, n_views in (("forward", 1), ("pocr", 3), ("two-views", 2), ("weak-to-strong", 2)):
        calls.clear()
        clf = small(method=name, augment=augment, epochs=1, batch_size=450).fit(X, comp_labels)
        n_calls = len(calls)
        assert n_calls == 1 + 3 * n_views  # to standardise, and for the views of three batches
        clf.predict(X)
        assert len(calls) == n_calls


@pytest.mark.unmeasured
def test_the_same_random_state_gives_the_same_views(blobs):
    X, _, comp_labels = blobs
    first, second = (small(method="pocr", epochs=2).fit(X, comp_labels) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    plain = small(method="pocr", epochs=2, augment=lambda x: x).fit(X, comp_labels)
    assert not np.array_equal(first.predict_proba(X), plain.predict_proba(X))


@pytest.mark.unmeasured
def test_images_are_moved_and_anchors_taken_with_views():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    X = rng.integers(0, 60, size=(300, 1, 24, 24), dtype=np.uint8)
    for i, label in enumerate(y):
        X[i, 0, 8 * label : 8 * label + 8] += 120  # a bright band
    Q = TransitionMatrix.uniform(3)
    clf = small(method="pocr", epochs=20)
    clf.fit(X, Q.sample(y, seed=0), anchors=(X[:10], y[:10]))
    assert (clf.predict(X) == y).mean() > 0.95


def test_augment_that_cannot_be_called_is_refused(blobs):
    X, _, comp_labels = blobs
    with pytest.raises(InvalidInput, match=r"augment must be a callable.*Got 'flip'"):
        small(augment="flip").fit(X, comp_labels)
