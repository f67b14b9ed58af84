"""Evidence of any kind: several labels, a matrix per annotator, mistakes, true labels."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs

from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidLabels,
    InvalidTransitionMatrix,
    TransitionMatrix,
)
from naysay import functional as F  # noqa: N812  (torch's own name for such a module)
from naysay.losses import LikelihoodLoss
from naysay.methods import METHODS
from naysay.observations import Observations, log_likelihoods

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(400, n_features=4, centers=5, cluster_std=1.0, random_state=0)


def small(**options):
    few_steps = {"epochs": 10, "lr": 0.01, "batch_size": 256}
    return ComplementaryClassifier(
        **{"learner": "network", "random_state": 0, "device": "cpu", **few_steps, **options}
    )


def test_likelihood_is_the_product_over_answers_of_each_annotators_own_matrix():
    matrices = {
        "ann": TransitionMatrix.without_zeros(5, seed=1),
        "bob": TransitionMatrix(RNG.dirichlet(np.ones(5), 5), allow_diagonal=True),
    }
    example, label = RNG.integers(7, size=30), RNG.integers(5, size=30)
    who = RNG.choice(["ann", "bob"], size=30)
    keep = np.unique(example * 5 + label, return_index=True)[1]
    example, label, who = example[keep], label[keep], who[keep]
    who[:] = np.where(who == "ann", "bob", who)  # bob errs, so no answers contradict each other
    who[0] = "ann"
    answers = Observations(example=example, label=label, annotator=who, n_examples=8)
    found = log_likelihoods(answers, matrices)
    for i in range(8):
        for k in range(5):
            expected = math.fsum(
                math.log(np.asarray(matrices[who[m]])[k, label[m]])
                if np.asarray(matrices[who[m]])[k, label[m]] > 0
                else -math.inf
                for m in range(len(label))
                if example[m] == i
            )
            assert found[i, k] == pytest.approx(expected, rel=1e-12)
    assert (found[7] == 0).all()  # no answer about it


@pytest.mark.parametrize(
    "Q", [TransitionMatrix.uniform(4), TransitionMatrix.with_zeros(4, 2, seed=1)]
)
def test_one_label_is_the_forward_loss_and_a_true_label_the_cross_entropy(Q):
    logits = torch.tensor(RNG.normal(size=(6, 4)), requires_grad=True)
    labels = Q.sample(RNG.integers(4, size=6), seed=0)
    evidence = torch.tensor(log_likelihoods(Observations(example=range(6), label=labels), Q))
    forward = F.forward_cross_entropy(logits, torch.tensor(labels), Q)
    torch.testing.assert_close(F.likelihood_loss(logits, evidence), forward)
    true = torch.tensor([0, 1, 2, 3, 0, 1])
    certain = torch.where(torch.eye(4, dtype=torch.bool), 0.0, -torch.inf).double()[true]
    torch.testing.assert_close(
        LikelihoodLoss()(logits, certain), torch.nn.functional.cross_entropy(logits, true)
    )
    assert F.likelihood_loss(logits, torch.zeros(6, 4)).item() == pytest.approx(0, abs=1e-12)
    assert torch.autograd.gradcheck(lambda f: F.likelihood_loss(f, evidence), logits)


def test_likelihood_loss_is_finite_at_saturated_logits_and_takes_every_shape():
    evidence = torch.tensor([[-torch.inf, 0.0, -1.0], [0.0, -torch.inf, -torch.inf]])
    logits = torch.tensor([[1000.0, -1000, 0], [-1000.0, 1000, 0]], requires_grad=True)
    losses = F.likelihood_loss(logits, evidence, reduction="none")
    torch.testing.assert_close(losses, torch.tensor([1001.0, 2000.0]))
    losses.sum().backward()
    assert logits.grad.abs().max() <= 1
    pixels = torch.randn(2, 3, 4, 5)
    likelihood = torch.randn(2, 3, 4, 5)
    per_pixel = F.likelihood_loss(pixels, likelihood, reduction="none")
    assert per_pixel.shape == (2, 4, 5)
    flat = (part.movedim(1, -1).reshape(-1, 3) for part in (pixels, likelihood))
    torch.testing.assert_close(per_pixel.mean(), F.likelihood_loss(*flat))
    assert F.likelihood_loss(pixels.half(), likelihood).dtype == torch.float32
    compiled = torch.compile(F.likelihood_loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(pixels, likelihood), F.likelihood_loss(pixels, likelihood))


def test_bad_likelihoods_are_refused():
    with pytest.raises(InvalidLabels, match=r"shape of logits, \(2, 3\)\. Got torch.float32 of sh"):
        F.likelihood_loss(torch.zeros(2, 3), torch.zeros(2, 4))
    with pytest.raises(
        InvalidLabels, match="-inf for all classes, or NaN, in 1 of 2 rows, first in row 1"
    ):
        F.likelihood_loss(torch.zeros(2, 2), torch.tensor([[0.0, 0], [-torch.inf, -torch.inf]]))


@pytest.mark.parametrize(
    "columns,error,wording",
    [
        ({"example": [0, 1], "label": [0]}, InvalidInput, "must contain one entry per answer"),
        ({"example": [0.5], "label": [0]}, InvalidInput, "example must contain integers"),
        ({"example": [-1], "label": [0]}, InvalidInput, "example must contain integers 0"),
        ({"example": [3], "label": [0], "n_examples": 2}, InvalidInput, r"integers 0\.\.1"),
    ],
)
def test_bad_observations_are_refused(columns, error, wording):
    with pytest.raises(error, match=wording):
        Observations(**columns)


def test_observations_come_from_tables_and_matrices():
    table = pd.DataFrame({"example": [0, 0, 2], "label": ["a", "b", "a"], "annotator": [1, 2, 1]})
    answers = Observations.from_table(table)
    assert repr(answers) == "Observations(3 answers about 3 examples by 2 annotators)"
    assert Observations.from_table(table[["example", "label"]]).annotator is None
    with pytest.raises(InvalidInput, match="It lacks 'label'"):
        Observations.from_table(table[["example"]])
    from_matrix = Observations.from_ruled_out([[True, False, True], [False, False, False]])
    assert from_matrix.example.tolist() == [0, 0]
    assert from_matrix.label.tolist() == [0, 2]
    assert from_matrix.n_examples == 2
    with pytest.raises(InvalidLabels, match="must be a boolean matrix"):
        Observations.from_ruled_out([[0, 1]])


def test_contradictions_and_unknown_annotators_are_named():
    Q = TransitionMatrix.uniform(3)
    with pytest.raises(
        InvalidLabels, match="about example 1 say 'not 0', 'not 1', 'not 2', which is"
    ):
        log_likelihoods(Observations(example=[0, 1, 1, 1], label=[0, 0, 1, 2]), Q)
    answers = Observations(example=[0], label=[0], annotator=["eve"])
    with pytest.raises(InvalidTransitionMatrix, match="It lacks 'eve'"):
        log_likelihoods(answers, {"ann": Q})
    with pytest.raises(InvalidInput, match="needs answers with annotators"):
        log_likelihoods(Observations(example=[0], label=[0]), {"ann": Q})
    both = Observations(example=[0, 0], label=[0, 1], annotator=["a", "b"])
    with pytest.raises(InvalidTransitionMatrix, match="must have the same classes"):
        log_likelihoods(both, {"a": Q, "b": TransitionMatrix.uniform(4)})


@pytest.mark.unmeasured
@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_takes_a_matrix_of_excluded_classes(method, blobs):
    X, y = blobs
    labels = TransitionMatrix.uniform(5).sample_several(y, 3, seed=0)
    ruled_out = np.zeros((400, 5), dtype=bool)
    ruled_out[np.arange(400)[:, None], labels] = True
    clf = small(method=method).fit(X, ruled_out)
    assert clf.classes_.tolist() == [0, 1, 2, 3, 4]
    assert (clf.predict(X) == y).mean() > 0.75  # 0.2 by chance


def test_anchors_join_several_labels_in_the_form_that_the_method_takes(blobs):
    X, y = blobs
    Q = TransitionMatrix.uniform(5)
    labels = Q.sample_several(y, 2, seed=0)
    ruled_out = np.zeros((400, 5), dtype=bool)
    ruled_out[np.arange(400)[:, None], labels] = True
    for method in ("forward", "mcl-log", "pc"):
        clf = small(method=method, transition=Q)
        with_anchors = clf.fit(X, ruled_out, anchors=(X[::10], y[::10])).predict_proba(X)
        assert (clf.predict(X) == y).mean() > 0.8
        without = clf.fit(X, ruled_out).predict_proba(X)
        assert (with_anchors != without).any()
    estimated = small(transition="estimate").fit(X, ruled_out, anchors=(X[::10], y[::10]))
    assert (estimated.predict(X) == y).mean() > 0.8


def test_each_annotator_can_have_a_matrix(blobs, tmp_path):
    X, y = blobs
    names = np.array(["a", "b", "c", "d", "e"])
    matrices = {
        "ann": TransitionMatrix.with_zeros(5, 2, seed=1),
        "bob": TransitionMatrix(
            0.9 * np.asarray(TransitionMatrix.with_zeros(5, 2, seed=2)) + 0.1 * np.eye(5),
            allow_diagonal=True,
        ),
    }
    who = np.where(np.arange(400) % 2, "ann", "bob")
    labels = np.array(
        [matrices[w].sample([t], seed=i)[0] for i, (w, t) in enumerate(zip(who, y, strict=True))]
    )
    answers = Observations(example=np.arange(400), label=names[labels], annotator=who)
    per_annotator = small(transition=matrices, classes=names).fit(X, answers)
    assert (per_annotator.predict(X) == names[y]).mean() > 0.9
    pooled = small(transition=per_annotator.transition_, classes=names).fit(X, names[labels])
    assert (per_annotator.predict(X) == names[y]).mean() >= (
        pooled.predict(X) == names[y]
    ).mean() - 0.02
    np.testing.assert_allclose(
        np.asarray(per_annotator.transition_),
        (np.asarray(matrices["ann"]) + np.asarray(matrices["bob"])) / 2,
    )
    per_annotator.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model", device="cpu")
    assert loaded.transitions_ == per_annotator.transitions_
    assert per_annotator.transitions_ == {  # the matrices get the names of the classes
        name: TransitionMatrix(np.asarray(Q), names, allow_diagonal=Q.allow_diagonal)
        for name, Q in matrices.items()
    }
    np.testing.assert_array_equal(loaded.predict_proba(X), per_annotator.predict_proba(X))
    assert pooled.transitions_ == {}
    with pytest.raises(InvalidInput, match="Method 'pc' cannot use a matrix for each annotator"):
        small(method="pc", transition=matrices, classes=names).fit(X, answers)
    with pytest.raises(InvalidInput, match="It is empty"):
        small(transition={}).fit(X, answers)


def test_labels_that_do_not_fit_the_examples_are_refused(blobs):
    X, _ = blobs
    with pytest.raises(InvalidLabels, match=r"about the 400 examples of X\. Got 399"):
        small().fit(X, np.eye(5, dtype=bool)[np.zeros(399, int)])
    with pytest.raises(InvalidLabels, match=r"about the 400 examples of X\. Got 501"):
        small().fit(X, Observations(example=[500, 0], label=[0, 1]))
    with pytest.raises(InvalidLabels, match="one column per class, 4"):
        small(classes=[0, 1, 2, 3]).fit(X, np.zeros((400, 5), dtype=bool))
