"""What losses are trained on: complementary labels and the true labels of anchors together."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris
from torch import nn

from loss_cases import make_logits, make_transition, possible_labels
from naysay import ComplementaryClassifier, TransitionMatrix
from naysay._base import mapped
from naysay.classifier.targets import MixedLabelLoss, log_evidence, make_targets, pair_labels
from naysay.methods import METHODS, Method, Setting
from naysay.observations import Observations

Q = make_transition("without zeros", 5)


@pytest.mark.parametrize("name", ["forward", "two-views", "weak-to-strong"])
def test_a_true_label_counts_as_evidence_that_is_certain(name):
    method = METHODS[name]
    loss = MixedLabelLoss(method.make_loss(Setting(Q=Q)))
    comp_labels, true_labels = possible_labels(Q, 7), torch.tensor([3, 0])
    logits = torch.stack([make_logits(9, 5, seed) for seed in range(loss.n_views)])
    logits = logits if loss.n_views > 1 else logits[0]
    columns = torch.from_numpy(Q.entries.toarray()).T
    likelihood = torch.cat([columns[comp_labels], torch.eye(5, dtype=torch.float64)[true_labels]])
    of_evidence = method.make_evidence_loss()
    for each in (loss, of_evidence):
        each.set_progress(0.2)
    expected = of_evidence(logits, likelihood.log())
    torch.testing.assert_close(loss(logits, pair_labels(comp_labels, true_labels)), expected)


@pytest.mark.parametrize("name", METHODS)
def test_without_a_true_label_it_is_the_loss_itself(name):
    prior = torch.full((5,), 0.2, dtype=torch.float64)
    loss = METHODS[name].make_loss(Setting(Q=Q, prior=prior)).double()
    mixed = MixedLabelLoss(loss)
    assert mixed.n_views == loss.n_views
    assert (mixed.needs_progress, mixed.reads_softmax) == (loss.needs_progress, loss.reads_softmax)
    comp_labels = possible_labels(Q, 6)
    logits = torch.stack([make_logits(6, 5, seed) for seed in range(loss.n_views)])
    logits = logits if loss.n_views > 1 else logits[0]
    pairs = pair_labels(comp_labels, comp_labels[:0])
    torch.testing.assert_close(mixed(logits, pairs), loss(logits, comp_labels))


@pytest.mark.unmeasured
def test_a_method_may_have_a_module_of_another_package_as_its_loss(tmp_path):
    class Excluding(nn.Module):
        def forward(self, logits, comp_labels):
            return -torch.log1p(-logits.softmax(1).gather(1, comp_labels[:, None])).mean()

    X, y = load_iris(return_X_y=True)
    uniform = TransitionMatrix.uniform(3)
    made = []

    def make_loss(setting):
        made.append(Excluding())
        return made[-1]

    method = Method(name="own", summary="", when="", source="", make_loss=make_loss)
    clf = ComplementaryClassifier(
        learner="network", method=method, match_prior=0.1, restarts=1, random_state=0
    )
    clf.fit(X, uniform.sample(y, seed=0))
    assert clf.loss_ is made[0]
    assert (clf.predict(X) == y).mean() > 0.9
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert (loaded.predict(X) == clf.predict(X)).all()


def test_evidence_in_parts_is_that_of_all_answers_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    example = np.sort(rng.integers(40, size=90))  # some have no answer
    answers = Observations(
        example=example,
        label=rng.integers(3, size=90),
        annotator=rng.choice(["a", "b"], size=90),
        accepted=rng.choice([-1, 0, 1], size=90).astype(np.int8),
        n_examples=40,
    )
    matrices = {"a": TransitionMatrix.uniform(3), "b": TransitionMatrix.with_zeros(3, 1, seed=0)}
    setting = Setting(Q=matrices["a"], prior=None)
    find = partial(make_targets, transitions=matrices, method=METHODS["forward"], setting=setting)
    expected = log_evidence(answers, matrices, 0.01).astype(np.float32)
    monkeypatch.setattr(mapped, "_PART", 7)
    found = find(answers, mistakes=0.01)
    np.testing.assert_array_equal(found.values, expected)
    order = rng.permutation(90)
    np.testing.assert_array_equal(find(answers.select(order), mistakes=0.01).values, expected)
