"""Every method's loss in a CUDA graph: no wait for the device, no choice made in Python.

CI has no GPU, so there this page is skipped; run it by hand where there is one.
"""

import pytest
import torch

from loss_cases import make_logits, make_transition, possible_labels
from naysay.classifier.targets import MixedLabelLoss, pair_labels
from naysay.losses import (
    LikelihoodLoss,
    PriorMatching,
    TrainedForwardCrossEntropy,
    TwoViewsLikelihood,
)
from naysay.methods import METHODS, Setting
from naysay.transition import TransitionMatrix

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),
    pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream"),  # of the warm-up
]
N, K = 64, 10
UNUSED = TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])  # label 0 never occurs


def make_case(name, Q, *, true_labels=False):
    """Return the loss on the device, and two batches of logits and labels for it."""
    n_classes = Q.n_classes
    prior = torch.full((n_classes,), 1 / n_classes, dtype=torch.float64)
    loss = METHODS[name].make_loss(Setting(Q=Q, prior=prior))
    if true_labels:
        loss = MixedLabelLoss(loss)
    n_views = loss.n_views
    shape = (n_views, N, n_classes) if n_views > 1 else (N, n_classes)
    batches = []
    for seed in range(2):
        logits = make_logits(n_views * N, n_classes, seed, torch.float32).reshape(shape).cuda()
        labels = possible_labels(Q, N, seed)
        if true_labels:
            labels = pair_labels(labels[16:], (torch.arange(16) + seed) % n_classes)
        batches.append((logits, labels.cuda()))
    return loss.cuda(), batches


def assert_replay_equals_eager(loss, batches):
    """Capture value and gradient on the first batch, replay on the second."""
    share = torch.tensor(0.1, device="cuda")
    loss.set_progress(share)
    wanted = list(loss.parameters())

    def step(logits, labels):
        value = loss(logits, labels)
        return value, *torch.autograd.grad(value, [logits, *wanted])

    logits, labels = (each.clone() for each in batches[0])
    logits.requires_grad_()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # the first calls make the tables that are kept with Q
        for _ in range(2):
            step(logits, labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step(logits, labels)
    with torch.no_grad():
        logits.copy_(batches[1][0])
        labels.copy_(batches[1][1])
        share.fill_(0.4)
    graph.replay()
    torch.cuda.synchronize()
    found = [each.clone() for each in captured]
    torch.cuda.set_sync_debug_mode("error")  # eager too must never wait
    try:
        expected = step(batches[1][0].clone().requires_grad_(), batches[1][1])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for value, wanted_value in zip(found, expected, strict=True):
        torch.testing.assert_close(value, wanted_value)


@pytest.mark.parametrize("true_labels", [False, True])
@pytest.mark.parametrize("kind", ["uniform", "without zeros", "with diagonal"])
@pytest.mark.parametrize("name", METHODS)
def test_a_captured_loss_equals_the_eager_one(name, kind, true_labels):
    Q = make_transition(kind, K)
    assert_replay_equals_eager(*make_case(name, Q, true_labels=true_labels))


@pytest.mark.parametrize(
    "name",
    ["forward", "forward-mse", "forward-gce", "pocr", "two-views", "weak-to-strong", "cpe-i"],
)
def test_sparse_matrices_and_unused_labels_are_captured_too(name):
    assert_replay_equals_eager(*make_case(name, make_transition("with zeros", 1200)))
    assert_replay_equals_eager(*make_case(name, UNUSED))


@pytest.mark.parametrize("name", ["mcl-mae", "mcl-exp", "mcl-log"])
def test_sets_of_labels_are_captured_too(name):
    loss, batches = make_case(name, make_transition("uniform", K))
    sets = [torch.nn.functional.one_hot(labels, K).bool() for _, labels in batches]
    for each in sets:
        each[::2] |= each[::2].roll(1, dims=1)
    batches = [(logits, each) for (logits, _), each in zip(batches, sets, strict=True)]
    assert_replay_equals_eager(loss, batches)


def test_evidence_of_any_kind_is_captured_too():
    _, batches = make_case("forward", make_transition("uniform", K))
    batches = [
        (logits, torch.zeros_like(logits).scatter(1, labels[:, None], -torch.inf))
        for logits, labels in batches
    ]
    assert_replay_equals_eager(LikelihoodLoss().cuda(), batches)
    batches = [(torch.stack([logits, logits / 2]), evidence) for logits, evidence in batches]
    for target in ("mean", "first"):
        assert_replay_equals_eager(TwoViewsLikelihood(target=target).cuda(), batches)


@pytest.mark.parametrize("true_labels", [False, True])
@pytest.mark.parametrize("name", ["forward", "nn", "cpe-t", "pocr"])
def test_a_pull_towards_the_prior_is_captured_too(name, true_labels):
    Q = make_transition("without zeros", K)
    loss, batches = make_case(name, Q, true_labels=true_labels)
    prior = torch.linspace(1, 2, K, dtype=torch.float64) / torch.linspace(1, 2, K).sum()
    inner = loss.loss if isinstance(loss, MixedLabelLoss) else loss
    pulled = PriorMatching(inner, prior).cuda()
    assert_replay_equals_eager(MixedLabelLoss(pulled) if true_labels else pulled, batches)


def test_a_bounded_matrix_is_captured_too():
    Q = make_transition("without zeros", K)
    _, batches = make_case("cpe-t", Q)
    assert_replay_equals_eager(TrainedForwardCrossEntropy(Q, max_error=0.1).cuda(), batches)
