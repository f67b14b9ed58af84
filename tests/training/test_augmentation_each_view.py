"""An augmentation for each view: which makes which, and trainings with them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import trainings
from naysay import ComplementaryClassifier, InvalidInput, InvalidModelFile
from naysay.classifier import transition_estimate
from naysay.losses import TrainingLoss
from naysay.methods import METHODS
from naysay.training import Examples, Options, fit
from naysay.training.augmentation import add_noise, compose, crop, flip, of_each_view

# Labels are biased, and the uniform matrix serves as well as theirs.
pytestmark = pytest.mark.filterwarnings("ignore:the labels refute the transition matrix")


def test_one_augmentation_makes_all_views_and_the_last_of_several_the_rest():
    assert of_each_view(crop, 3) == (crop, crop, crop)
    assert of_each_view((crop, flip), 1) == (crop,)
    assert of_each_view([crop, flip], 2) == (crop, flip)
    assert of_each_view([crop, flip], 4) == (crop, flip, flip, flip)
    assert of_each_view([crop], 2) == (crop, crop)


@pytest.mark.parametrize(
    "augments, shown",
    [
        ([], "an empty one"),
        ((), "an empty one"),
        ("flip", "'flip'"),
        ([crop, "flip"], "'flip'"),
        (3, "3"),
    ],
)
def test_what_makes_no_view_is_refused(augments, shown):
    message = rf"augment must be a callable.*, or a list of them, one for each view\. Got .*{shown}"
    with pytest.raises(InvalidInput, match=message):
        of_each_view(augments, 2)


# --- trainings -----------------------------------------------------------------------------------


class Watched:
    """An augmentation that adds a number and counts its calls."""

    def __init__(self, added=0.0):
        self.added = added
        self.n_calls = 0

    def __call__(self, inputs):
        self.n_calls += 1
        return inputs + self.added


class Noting(TrainingLoss):
    """A loss of several views that keeps the logits it was given."""

    def __init__(self, n_views):
        super().__init__()
        self.n_views = n_views
        self.notes = []

    def forward(self, logits, labels):
        self.notes.append(logits.detach().reshape(self.n_views, -1))
        return logits.square().mean()


@pytest.mark.parametrize(
    "added, views",
    [([1], [1]), ([1, 2], [1]), ([1, 2], [1, 2]), ([1, 2], [1, 2, 2]), ([1], [1, 1])],
)
def test_each_view_is_made_by_the_augmentation_of_its_place(added, views):
    augments = [Watched(number) for number in added]
    loss, network = Noting(len(views)), nn.Linear(1, 2, bias=False)
    nn.init.ones_(network.weight)
    examples = Examples(torch.zeros(8, 1), torch.zeros(8, dtype=torch.long))
    options = Options(epochs=1, batch_size=8, lr=0.1, weight_decay=0, patience=1)
    fit(network, examples, loss, options, augment=augments)
    expected = torch.tensor(views, dtype=torch.float32)[:, None].expand(-1, 16)
    assert torch.equal(loss.notes[0], expected)
    assert [each.n_calls for each in augments] == [views.count(number) for number in added]


X, LABELS, TRUE = trainings.make_data(200, 0)


def small(**options):
    return ComplementaryClassifier(
        **{"epochs": 3, "batch_size": 1000, "random_state": 0, "device": "cpu", **options}
    )


def without_evidence():
    return replace(METHODS["weak-to-strong"], name="mine", make_evidence_loss=None)


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "method, n_weak, n_strong",
    [
        ("forward", 4 * 4, 0),
        ("two-views", 4 * 4, 3),
        ("weak-to-strong", 4 * 4, 3 * 3),
        ("pocr", 4 * 4, 2 * 3),
        (without_evidence(), 4 * 4, 3),
    ],
    ids=["forward", "two-views", "weak-to-strong", "pocr", "of one's own, without evidence"],
)
def test_networks_that_estimate_see_the_views_of_what_they_learn_by(
    method, n_weak, n_strong, monkeypatch
):
    # no two matrices are farther apart, so that networks are cross-fitted once
    monkeypatch.setattr(transition_estimate, "_FAR", 2.0)
    # four networks, each made for a view and trained for three epochs of one batch: one that knows
    # labels only and two that judge, which see strong views where the method asks for them
    weak, strong = Watched(), Watched()
    clf = small(method=method, transition="estimate", classes=range(4), augment=(weak, strong))
    clf.fit(X, LABELS, anchors=(X[:40], TRUE[:40]))
    assert (weak.n_calls, strong.n_calls) == (n_weak, n_strong)


def test_trainings_of_one_view_take_the_first():
    weak, strong = partial(add_noise, scale=0.1), partial(add_noise, scale=3.0)
    both, alone = (small(augment=each).fit(X, LABELS) for each in ([weak, strong], weak))
    np.testing.assert_array_equal(both.predict_proba(X), alone.predict_proba(X))


def test_another_strong_view_gives_another_network():
    weak = partial(add_noise, scale=0.1)
    found = [
        small(method="weak-to-strong", augment=(weak, partial(add_noise, scale=scale)))
        .fit(X, LABELS)
        .predict_proba(X)
        for scale in (0.3, 0.3, 0.6)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_by_default_the_second_view_is_changed_more():
    default, told, alike = (
        small(method="weak-to-strong", augment=augment, validation_fraction=0, lr=0.1)
        .fit(X, LABELS)
        .predict_proba(X)
        for augment in (None, [noise_of(0.1), noise_of(0.3)], noise_of(0.1))
    )
    np.testing.assert_allclose(default, told, atol=1e-4)
    assert np.abs(default - alike).max() > 0.01


def noise_of(share):
    return partial(add_noise, scale=share * torch.from_numpy(X).std(0, correction=0))


@pytest.mark.parametrize(
    "augment, shown",
    [([], "an empty one"), ("flip", "'flip'"), ((crop, None), "None"), ({"weak": crop}, "weak")],
)
@pytest.mark.parametrize("method", ["forward", "weak-to-strong"])
def test_the_classifier_refuses_what_makes_no_view(method, augment, shown):
    with pytest.raises(InvalidInput, match=rf"augment must be a callable.* list.*Got .*{shown}"):
        small(method=method, augment=augment).fit(X, LABELS)


def test_a_classifier_with_several_augmentations_can_be_cloned():
    for augment in ((noise_of(0.1), noise_of(0.5)), [noise_of(0.1), noise_of(0.5)]):
        clf = small(method="weak-to-strong", augment=augment)
        twin = clone(clf)
        assert type(twin.augment) is type(augment)
        found = [each.fit(X, LABELS).predict_proba(X) for each in (clf, twin)]
        np.testing.assert_array_equal(*found)


# --- checkpoints ---------------------------------------------------------------------------------

WEAK, STRONG = (compose(partial(add_noise, scale=scale)) for scale in (0.1, 0.3))


def test_a_training_goes_on_with_the_same_views(tmp_path):
    path = tmp_path / "run.safetensors"
    first = trainings.fit("two views", path, augment=(WEAK, STRONG))
    content = path.read_bytes()
    second = trainings.fit("two views", path, augment=[WEAK, STRONG])
    assert path.read_bytes() == content
    assert all(torch.equal(first[0][name], value) for name, value in second[0].items())


@pytest.mark.parametrize(
    "other",
    [
        (WEAK, compose(partial(add_noise, scale=0.4))),
        (STRONG, WEAK),
        (WEAK,),
        (WEAK, STRONG, STRONG),
        WEAK,
    ],
    ids=["stronger", "swapped", "one fewer", "one more", "one for all"],
)
def test_a_training_with_other_views_is_refused(other, tmp_path):
    path = tmp_path / "run.safetensors"
    trainings.fit("two views", path, augment=(WEAK, STRONG), epochs=1)
    with pytest.raises(InvalidModelFile, match=r"this very training; .*augment.* changed"):
        trainings.fit("two views", path, augment=other, epochs=1)
