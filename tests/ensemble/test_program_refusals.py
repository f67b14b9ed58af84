"""What cannot be trained at once is refused, and what diverges is named."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from members import (
    LOSSES,
    K,
    assert_together_is_as_alone,
    make_data,
    make_member,
    make_members,
    make_options,
    make_Q,
    weights_of,
)
from naysay import InvalidInput
from naysay.ensemble import Member, best_of, fit_many
from naysay.losses import (
    PartialOutputConsistency,
    TrainedForwardCrossEntropy,
)
from naysay.networks import MLP, ResNet18
from naysay.training import sgd
from naysay.training.schedules import constant


def changed(number, **changes):
    return Member(**vars(make_member(number)) | changes)


def test_one_member_is_enough_and_none_is_refused():
    assert_together_is_as_alone(make_members(1))
    with pytest.raises(InvalidInput, match="at least one Member"):
        fit_many([])


@pytest.mark.parametrize(
    "member, message",
    [
        (
            changed(1, options=make_options(1, epochs=9)),
            "same epochs. Member 0 has 4, member 1 has 9",
        ),
        (changed(1, options=make_options(1, optimiser=sgd)), "same optimiser"),
        (changed(1, options=make_options(1, schedule=constant)), "same schedule"),
        (changed(1, options=make_options(1, batch_size=9)), "same batch_size"),
        (changed(1, examples=make_data(61)[0]), "same number of examples. Member 0 has 60"),
        (changed(1, held_out=make_data(9)[0]), "same presence of held-out examples"),
        (changed(1, network=MLP((2,), K, widths=(3,), dropout=0)), "same network"),
        (changed(1, network=MLP((2,), K, widths=(8, 5), dropout=0).to("meta")), "one device"),
    ],
)
def test_members_that_do_not_match_are_refused(member, message):
    with pytest.raises(InvalidInput, match=message):
        fit_many([make_member(0), member])


def test_a_network_in_two_members_is_refused():
    member = make_member(0)
    with pytest.raises(InvalidInput, match="a network of its own"):
        fit_many([member, changed(1, network=member.network)])


@pytest.mark.parametrize(
    "change, message",
    [
        ({"network": MLP((2,), K)}, "no dropout.*make it with dropout=0"),
        ({"network": ResNet18((3, 8, 8), K, width=4)}, "has BatchNorm2d; train it with"),
        ({"loss": TrainedForwardCrossEntropy(make_Q(0))}, "needs parameters to train"),
        ({"loss": PartialOutputConsistency(make_Q(0))}, "needs several views"),
        ({"options": make_options(optimiser=torch.optim.Adagrad)}, "must be adamw, adam or sgd"),
    ],
)
def test_what_can_only_be_trained_alone_is_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        fit_many([changed(0, **change)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.unmeasured
def test_compiled_members_end_as_others_do(monkeypatch):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    members, compiled = (make_members(3) for _ in range(2))
    fit_many(members)
    fit_many([replace(each, options=replace(each.options, compile=True)) for each in compiled])
    for one, other in zip(compiled, members, strict=True):
        torch.testing.assert_close(weights_of(one.network), weights_of(other.network))


@pytest.mark.parametrize("held_out", [False, True])
def test_a_member_that_diverges_stops_and_the_others_end_as_without_it(held_out):
    def make():
        return make_members(3, loss=LOSSES["different kinds"], held_out=held_out)

    def diverges(logits, labels):
        return logits.square().sum() * (math.nan if len(seen) > 1 else 1)

    seen = []
    members, alone = make(), make()
    members[1] = replace(members[1], loss=diverges)
    histories = fit_many(members, on_epoch=seen.append)
    assert [len(history) for history in histories] == [4, 3, 4]
    assert [math.isnan(record["loss"]) for record in histories[1]] == [False, False, True]
    assert [sorted(records) for records in seen] == [[0, 1, 2]] * 3 + [[0, 2]]
    fit_many([alone[0], alone[2]])
    for number in (0, 2):
        others = weights_of(alone[number].network)
        torch.testing.assert_close(weights_of(members[number].network), others)


def test_a_member_that_diverged_is_not_chosen_however_good_it_was():
    def history(*losses):
        return [{"loss": 1.0, "held_out_loss": loss} for loss in losses]

    histories = [history(2.0, 1.0, math.nan), history(3.0, 2.5), history(math.inf)]
    assert best_of(histories, ["a", "a", "a"]) == {"a": 1}
    with pytest.raises(InvalidInput, match=r"every member of group 'c' became .* Lower lr"):
        best_of(histories, ["a", "a", "c"])


def test_a_member_that_has_stopped_may_diverge():
    class Diverges(nn.Module):
        n_calls = 0

        def forward(self, logits, labels):
            if not self.training:
                self.n_calls += 1
                return logits.sum() * 0 + (math.nan if self.n_calls > 3 else self.n_calls)
            return logits.square().mean()

    stops = changed(0, loss=Diverges(), held_out=make_data(30)[0], options=make_options(patience=2))
    histories = fit_many([stops, make_member(1, held_out=True)])
    assert [len(history) for history in histories] == [3, 4]
