"""Many networks at once: each comes out as if it had been trained alone."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

from members import (
    CPU,
    LOSSES,
    PRIOR,
    K,
    assert_together_is_as_alone,
    make_data,
    make_member,
    make_members,
    make_network,
    make_options,
    make_Q,
    weights_of,
)
from naysay import InvalidInput, TransitionMatrix
from naysay.ensemble import Member, best_of, fit_many
from naysay.ensemble.step import Losses
from naysay.losses import (
    ForwardCrossEntropy,
    SurrogateLog,
)
from naysay.methods import METHODS, Setting
from naysay.networks import MLP, LeNet5
from naysay.training import Examples, adam, fit, predict_logits, seeded, sgd
from naysay.training.schedules import constant

#: A softmax rounds an example by its place in the batch, and Adam divides a gradient by its size:
#: in these, rounding decides on one weight whose gradient is all but zero, by up to 7e-5.
ROUNDED = {"forward-gce, two gammas", "different kinds"}


@pytest.mark.unmeasured
@pytest.mark.parametrize("name", LOSSES)
def test_each_member_is_as_if_trained_alone(name):
    atol = 1e-4 if name in ROUNDED else 2e-5
    assert_together_is_as_alone(make_members(loss=LOSSES[name], held_out=True), atol=atol)


def test_members_whose_further_inputs_differ_have_batches_of_their_own():
    first = make_member(0)
    examples, more = first.examples, first.examples.X[:9] + 1
    rows = torch.arange(len(examples)) + len(examples.X) * (torch.arange(len(examples)) < 9)
    members = [
        Member(
            network=copy.deepcopy(first.network),
            examples=Examples(examples.X, examples.labels, rows, further),
            loss=first.loss,
            options=first.options,
        )
        for further in (more, more + 1)
    ]
    assert_together_is_as_alone(members, atol=2e-5)


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_of_all_equals_that_of_each_for_every_method(name):
    losses = [METHODS[name].make_loss(Setting(Q=make_Q(n), prior=PRIOR)) for n in range(4)]
    if name in ("pocr", "two-views", "weak-to-strong", "cpe-t"):
        with pytest.raises(InvalidInput, match=r"train it with training\.fit"):
            fit_many([make_member(0, loss=lambda number: losses[0])])
        return
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 20, K, generator=generator).mul_(3).requires_grad_()
    labels = torch.randint(K, (4, 20), generator=generator)
    together = Losses(losses, list(labels))
    found = together(logits[together.order], labels[together.order])
    expected = torch.stack([losses[at](logits[at], labels[at]) for at in together.order])
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(each.sum(), logits)[0] for each in (found, expected)]
    torch.testing.assert_close(*gradients)
    assert len(together.parts) == (4 if name in ("backward", "nn", "ga", "scarce", "cpe-i") else 1)


def test_matrices_with_a_label_that_never_occurs_are_not_stacked():
    unused = TransitionMatrix([[0, 1, 0], [0, 0, 1], [0, 1, 0]])
    full = [TransitionMatrix.without_zeros(3, shares=(0.7, 0.3), seed=seed) for seed in (0, 1)]
    labels = [torch.tensor([1, 2])] * 3
    together = Losses([ForwardCrossEntropy(Q) for Q in (*full, unused)], labels)
    assert [size for size, _ in together.parts] == [1, 1, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": sgd, "lr": 0.01},
        {"optimiser": adam},
        {"optimiser": adam, "max_norm": 0.05},
        {"max_norm": 0.05, "optimiser": sgd, "lr": 0.05},
        {"schedule": constant, "average": 0.5},
        {"batch_size": 64},
        {"batch_size": 7},
    ],
    ids=["sgd", "adam", "adam clipped", "sgd clipped", "constant", "batch of 64", "batch of 7"],
)
def test_optimisers_clipping_schedules_and_averages_are_those_of_one_network(changes):
    assert_together_is_as_alone(make_members(**changes))


def test_members_stop_at_epochs_of_their_own_and_keep_their_weights():
    # few examples and large steps: all overfit, each at its own time
    options = {"held_out": True, "epochs": 30, "patience": 3, "weight_decay": 0.0}
    histories = assert_together_is_as_alone(make_members(4, **options), rtol=2e-3)
    lengths = [len(history) for history in histories]
    assert len(set(lengths)) > 1
    assert min(lengths) < 30


def test_patience_may_differ():
    members = [
        make_member(0, held_out=True, epochs=30, patience=patience, lr=0.1) for patience in (1, 6)
    ]
    assert_together_is_as_alone(members, rtol=2e-3)


def test_the_weights_kept_are_those_of_least_held_out_loss():
    members = make_members(3, held_out=True, epochs=20, lr=0.1)
    for member, history in zip(members, fit_many(members), strict=True):
        logits = predict_logits(member.network, member.held_out)
        least = min(record["held_out_loss"] for record in history)
        assert member.loss(logits, member.held_out.labels).item() == pytest.approx(least, rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_convolutional_networks_are_as_if_trained_alone(dtype):
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(256, (90, 1, 12, 12), generator=generator).to(dtype)
    members = []
    for number in range(3):
        labels = torch.randint(K, (60,), generator=generator)
        more = (255 - X[:10]) if number == 2 else None  # a member may have inputs of its own
        rows = torch.randperm(90 if more is None else 100, generator=generator)
        examples = Examples(X, labels, rows[:60], more)
        loss = (SurrogateLog, partial(ForwardCrossEntropy, make_Q(number)))[number % 2]()
        options = make_options(number, epochs=2, lr=0.001 * (1 + number))
        held_out = Examples(X, labels[:30], rows[60:90], more)
        members.append(
            Member(
                network=make_network(number, examples, LeNet5),
                examples=examples,
                loss=loss,
                options=options,
                held_out=held_out,
            )
        )
    assert_together_is_as_alone(members)


class Own(nn.Module):
    """A network of a user's, which has no form for many."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, K))

    def forward(self, inputs):
        return self.layers(inputs) * 2


class Doubled(MLP):
    """Computes something else than the class above it."""

    def forward(self, inputs):
        return 2 * super().forward(inputs)


@pytest.mark.parametrize("make", [Own, lambda: Doubled((2,), K, widths=(4,), dropout=0)])
def test_networks_of_ones_own_are_as_if_trained_alone(make):
    members = []
    for number in range(3):
        with seeded(number, CPU):
            network = make()
        members.append(Member(**vars(make_member(number)) | {"network": network}))
    assert_together_is_as_alone(members)


def test_evidence_and_sets_of_labels_are_labels_too():
    members = []
    for number in range(3):
        member = make_member(number)
        excluded = nn.functional.one_hot(member.examples.labels, K).bool()
        excluded[::2] |= excluded[::2].roll(1, dims=1)
        examples = Examples(member.examples.X, excluded)
        loss = METHODS["mcl-log"].make_loss(Setting(Q=make_Q(0)))
        members.append(Member(**vars(member) | {"examples": examples, "loss": loss}))
    assert_together_is_as_alone(members)


@pytest.mark.parametrize("where", ["examples", "held_out"])
def test_labels_to_ignore_are_left_out_of_the_mean(where):
    members = make_members(3, loss=lambda number: SurrogateLog(), held_out=True)
    for member in members[1:]:
        getattr(member, where).labels[:20] = -100
    assert_together_is_as_alone(members)


def test_bfloat16_is_that_of_one_network_to_its_rounding():
    members = make_members(3, bfloat16=True, epochs=1)
    alone = copy.deepcopy(members)
    histories = fit_many(members)
    for one, history in zip(alone, histories, strict=True):
        (record,) = fit(one.network, one.examples, one.loss, one.options)
        assert history[0]["loss"] == pytest.approx(record["loss"], rel=0.02)


def test_inputs_are_shared_not_copied():
    first = make_member(0)
    members = [first] + [
        Member(**vars(make_member(number)) | {"examples": first.examples}) for number in (1, 2)
    ]
    from naysay.ensemble.program import _pool  # the only way to see what is stored

    X, places = _pool([each.examples for each in members])
    assert X is first.examples.X
    assert all(torch.equal(place, torch.arange(60)) for place in places)
    assert_together_is_as_alone(members)


def test_each_epoch_is_announced_for_the_members_that_still_train():
    seen = []
    members = make_members(3, held_out=True, epochs=30, patience=3, lr=0.1)
    histories = fit_many(members, on_epoch=seen.append)
    for number, history in enumerate(histories):
        assert [records[number] for records in seen if number in records] == history
    assert len(seen) == max(map(len, histories))


def test_no_epoch_changes_nothing():
    members = make_members(2, epochs=0)
    before = [weights_of(member.network) for member in members]
    assert fit_many(members) == [[], []]
    for member, weights in zip(members, before, strict=True):
        assert torch.equal(weights_of(member.network), weights)
        assert not member.network.training


# --- selection -----------------------------------------------------------------------------------


def test_selection_takes_the_least_held_out_loss_of_each_trial():
    losses = {"a": [[3, 1], [2, 2]], "b": [[5, 4, 6], [4.5, 4.1]]}
    histories = [[{"held_out_loss": x} for x in one] for trial in losses.values() for one in trial]
    assert best_of(histories, ["a", "a", "b", "b"]) == {"a": 0, "b": 2}


def test_selection_sees_no_true_label_and_finds_a_setting_that_learns():
    members, groups = [], []
    for trial in range(2):
        examples, _ = make_data(600, seed=trial)
        held_out, _ = make_data(200, seed=trial)
        for lr in (1e-7, 0.02, 1e-6):
            network = make_network(trial, examples)
            options = make_options(epochs=15, lr=lr, weight_decay=0.0)
            loss = ForwardCrossEntropy(make_Q(trial))
            members.append(
                Member(
                    network=network,
                    examples=examples,
                    loss=loss,
                    options=options,
                    held_out=held_out,
                )
            )
            groups.append(trial)
    best = best_of(fit_many(members), groups)
    assert best == {0: 1, 1: 4}
    for trial, number in best.items():
        examples, true = make_data(400, seed=trial)
        predicted = predict_logits(members[number].network, examples).argmax(1).numpy()
        assert (predicted == true).mean() > 0.9


def test_selection_without_held_out_labels_is_refused():
    histories = fit_many(make_members(2))
    with pytest.raises(InvalidInput, match="history 0 has no held-out loss"):
        best_of(histories, [0, 0])
    with pytest.raises(InvalidInput, match=r"each of the 2 histories\. Got 1"):
        best_of(histories, [0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("capture", [True, False])
@pytest.mark.parametrize("kind", [MLP, LeNet5])
@pytest.mark.parametrize("name", ["forward, a matrix each", "pc", "ga"])
def test_on_a_gpu_each_member_is_as_if_trained_alone(kind, name, capture, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    cuda = torch.device("cuda")
    members = []
    for number in range(4):
        member = make_member(number, loss=LOSSES[name])
        X, labels = member.examples.X, member.examples.labels.to(cuda)
        if kind is LeNet5:
            X = X[:, :1, None, None].repeat(1, 1, 12, 12)
            X = X * torch.linspace(-1, 1, 144).view(12, 12)
        network = make_network(number, Examples(X, labels), kind).to(cuda)
        examples = Examples(X.to(cuda), labels)
        held_out = Examples(X[:30].to(cuda), labels[:30])
        loss = member.loss.to(cuda)
        options = make_options(number, capture=capture, lr=0.002 * (1 + number))
        members.append(
            Member(
                network=network, examples=examples, loss=loss, options=options, held_out=held_out
            )
        )
    assert_together_is_as_alone(members, rtol=1e-2, atol=1e-3)
