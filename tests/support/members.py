"""Small trainings that can be done at once: their data, networks and losses."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from naysay import TransitionMatrix
from naysay.ensemble import Member, fit_many
from naysay.losses import (
    ForwardCrossEntropy,
    ForwardGeneralisedCrossEntropy,
    ForwardSquaredError,
    GradientAscentRisk,
    PairwiseComparison,
    SurrogateLog,
)
from naysay.networks import MLP, LeNet5
from naysay.training import Examples, Options, fit, seeded

CPU = torch.device("cpu")
K = 4
PRIOR = torch.full((K,), 1 / K)
TIMES = {"seconds", "samples_per_second"}


def make_Q(number):
    return TransitionMatrix.without_zeros(K, seed=number)


def make_data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.integers(K, size=n)
    X = np.array([[3, 3], [-3, 3], [-3, -3], [3, -3]])[true] + rng.normal(size=(n, 2))
    labels = make_Q(seed).sample(true, seed=rng)
    return Examples(torch.tensor(X, dtype=torch.float32), torch.from_numpy(labels)), true


def make_network(seed, examples, kind=MLP):
    with seeded(seed, CPU):
        shallow = partial(MLP, (2,), K, widths=(8, 5), dropout=0)
        network = shallow() if kind is MLP else LeNet5((1, 12, 12), K)
    network.standardise(examples.X[: 40 + seed])  # so that mean and scale differ
    return network


def make_options(number=0, **changes):
    settings = {
        "epochs": 4,
        "batch_size": 25,
        "lr": 0.01 * (1 + number),
        "weight_decay": 0.1 * number,
        "patience": 50,
        "seed": number % 3,
    }
    return Options(**settings | changes)


def make_member(number, *, loss=None, held_out=False, **changes):
    examples = make_data(seed=number % 2)[0]
    return Member(
        network=make_network(number, examples),
        examples=examples,
        loss=ForwardCrossEntropy(make_Q(number % 2)) if loss is None else loss(number),
        options=make_options(number, **changes),
        held_out=make_data(30, seed=10 + number)[0] if held_out else None,
    )


def make_members(n=5, **options):
    return [make_member(number, **options) for number in range(n)]


def without_times(history):
    return [{k: v for k, v in record.items() if k not in TIMES} for record in history]


def weights_of(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def assert_together_is_as_alone(members, rtol=2e-4, atol=2e-5):
    """Train copies one after another, then all at once."""
    alone = copy.deepcopy(members)
    for copied, member in zip(alone, members, strict=True):
        assert copied.network is not member.network
    expected = [
        fit(each.network, each.examples, each.loss, each.options, held_out=each.held_out)
        for each in alone
    ]
    start = [weights_of(each.network) for each in members]
    found = fit_many(members)
    for number, (one, member) in enumerate(zip(alone, members, strict=True)):
        assert not torch.allclose(weights_of(member.network), start[number], rtol=1e-3)
        for name, value in one.network.state_dict().items():
            own = member.network.state_dict()[name]
            torch.testing.assert_close(own, value, rtol=rtol, atol=atol)
        assert len(found[number]) == len(expected[number])
        for mine, theirs in zip(found[number], expected[number], strict=True):
            assert mine.keys() == theirs.keys()
        for mine, theirs in zip(
            *map(without_times, (found[number], expected[number])), strict=True
        ):
            assert mine == pytest.approx(theirs, rel=rtol, abs=1e-5)
        assert not member.network.training
    return found


LOSSES = {
    "forward, a matrix each": lambda number: ForwardCrossEntropy(make_Q(number)),
    "forward, two matrices": lambda number: ForwardCrossEntropy(make_Q(number % 2)),
    "forward, uniform": lambda number: ForwardCrossEntropy(TransitionMatrix.uniform(K)),
    "forward-mse": lambda number: ForwardSquaredError(make_Q(number)),
    "forward-gce, two gammas": lambda number: ForwardGeneralisedCrossEntropy(
        make_Q(number), gamma=(0.3, 0.7)[number % 2]
    ),
    "pc": lambda number: PairwiseComparison(),
    "scl-nl": lambda number: SurrogateLog(),
    "ga": lambda number: GradientAscentRisk(make_Q(number), prior=PRIOR),
    "weighted": lambda number: SurrogateLog(weight=torch.arange(1.0, K + 1) * (1 + number)),
    "a function": lambda number: partial(nn.functional.cross_entropy, label_smoothing=0.1),
    "different kinds": lambda number: (
        ForwardCrossEntropy(make_Q(number)),
        SurrogateLog(),
        GradientAscentRisk(make_Q(number)),
        ForwardSquaredError(make_Q(number)),
    )[number % 4],
}
