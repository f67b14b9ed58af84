"""sample_weight: an example of weight 2 counts as two."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from naysay import ComplementaryClassifier, InvalidInput, TransitionMatrix
from naysay.classifier.targets import MixedLabelLoss, RobustHeldOut, WeightedLoss, pair_labels
from naysay.losses import ForwardCrossEntropy
from naysay.methods import METHODS

N, K = 12, 4
RNG = np.random.default_rng(0)
LOGITS = torch.tensor(RNG.normal(size=(N, K)))
LABELS = torch.tensor(RNG.integers(K, size=N))
TRUE = torch.tensor(RNG.integers(K, size=4))
COUNTS = torch.tensor(RNG.integers(1, 4, size=N))
Q = TransitionMatrix.without_zeros(K, seed=0)


def small(**options):
    return ComplementaryClassifier(**{"random_state": 0, "epochs": 5, "device": "cpu", **options})


@pytest.mark.parametrize("mixed", [False, True])
def test_integer_weights_are_repeated_rows_in_the_loss_its_gradient_and_the_held_out_loss(mixed):
    loss, labels = ForwardCrossEntropy(Q), LABELS
    if mixed:  # the last four examples are anchors
        loss, labels = MixedLabelLoss(loss), pair_labels(LABELS[:-4], TRUE)
    rows = torch.arange(N)
    weighted = WeightedLoss(loss, (labels, COUNTS.double()), (LABELS, COUNTS.double()))
    logits = LOGITS.clone().requires_grad_()
    repeated = LOGITS.clone().requires_grad_()
    value = weighted(logits, rows)
    expected = loss(repeated.repeat_interleave(COUNTS, 0), labels.repeat_interleave(COUNTS, 0))
    assert_allclose(value.item(), expected.item(), rtol=1e-6)
    value.backward()
    expected.backward()
    assert_allclose(logits.grad, repeated.grad, rtol=1e-5)
    by_hand = ForwardCrossEntropy(Q)(
        LOGITS.repeat_interleave(COUNTS, 0), LABELS.repeat_interleave(COUNTS, 0)
    )
    assert_allclose(weighted.held_out(LOGITS, rows).item(), by_hand.item(), rtol=1e-6)


def test_the_mean_over_batches_is_the_weighted_mean_over_examples():
    weighted = WeightedLoss(ForwardCrossEntropy(Q), *[(LABELS, COUNTS.double())] * 2)
    whole = weighted(LOGITS, torch.arange(N))
    parts = [weighted(LOGITS[part], part) for part in torch.arange(N).split(3)]
    assert_allclose(torch.stack(parts).mean().item(), whole.item(), rtol=1e-6)


def test_robust_held_out_loss_leaves_out_the_largest_losses_whatever_their_weight():
    robust = RobustHeldOut(ForwardCrossEntropy(Q, reduction="mean"))
    weights = torch.ones(N, dtype=torch.float64)
    weighted = WeightedLoss(robust, (LABELS, weights), (LABELS, weights))
    rows = torch.arange(N)
    assert_allclose(
        weighted.held_out(LOGITS, rows).item(), robust.held_out(LOGITS, LABELS).item(), rtol=1e-6
    )


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=300)
    X = rng.normal(size=(300, 2)) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return X, y, TransitionMatrix.uniform(3).sample(y, seed=0)


@pytest.mark.unmeasured
def test_equal_weights_change_nothing(blobs):
    X, comp_labels = blobs[0][:100], blobs[2][:100]
    plain, ones, twos = (
        small(epochs=3).fit(X, comp_labels, sample_weight=weight).predict_proba(X)
        for weight in (None, np.ones(100), [2] * 100)
    )
    assert_array_equal(plain, ones)
    assert_array_equal(plain, twos)


@pytest.mark.unmeasured
def test_examples_of_weight_0_do_not_count(blobs):
    X, y, comp_labels = blobs
    wrong = np.arange(300) % 2 == 0
    labels = np.where(wrong, y, comp_labels)  # half of the labels exclude the true class
    known = np.where(np.arange(300) % 5 == 1, y, -1)  # anchors have weights too
    clf = small(epochs=40)
    equal = (clf.fit(X, labels).predict(X) == y).mean()
    clf.fit(X, labels, true_labels=known, sample_weight=np.where(wrong, 0.0, 1.0))
    assert (clf.predict(X) == y).mean() > max(0.9, equal + 0.05)


@pytest.mark.parametrize("method", ["forward", "mcl-log"])
def test_true_classes_of_examples_of_weight_0_do_not_count(blobs, method):
    X, y, comp_labels = blobs
    is_known = np.arange(300) < 60
    right, wrong = (
        small(method=method, learner="network")
        .fit(
            X,
            comp_labels,
            true_labels=np.where(is_known, classes, -1),
            sample_weight=np.where(is_known, 0.0, 1.0),
        )
        .predict_proba(X)
        for classes in (y, (y + 1) % 3)
    )
    assert_allclose(right, wrong, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns_with_weights_or_refuses_them(blobs, method):
    X, _, comp_labels = blobs
    clf = small(method=method, epochs=1)
    try:
        clf.fit(X[:40], comp_labels[:40], sample_weight=np.arange(40.0))
    except InvalidInput as error:
        assert "sample_weight needs a method whose loss is a mean" in str(error)  # noqa: PT017
        assert method != "forward"
    else:
        assert np.isfinite(clf.history_[0]["loss"])
        assert np.isfinite(clf.history_[0]["held_out_loss"])


@pytest.mark.parametrize(
    "weight, problem",
    [(np.zeros(300), "non-zero"), (-np.ones(300), "[Nn]egative"), ([1.0], "shape")],
)
def test_weights_must_be_one_number_per_example(blobs, weight, problem):
    X, _, comp_labels = blobs
    with pytest.raises(ValueError, match=problem):
        small().fit(X, comp_labels, sample_weight=weight)
