"""Random numbers in threads: as in a single one, and without touching torch's generator."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from naysay import ComplementaryClassifier, TransitionMatrix
from naysay.networks.randomness import Dropout, drawing_privately, may_draw, private_generator
from naysay.training import seeded
from naysay.training.augmentation import add_noise

CPU = torch.device("cpu")


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_that_of_torch(p, training):
    x = torch.randn(50, 7, generator=torch.Generator().manual_seed(1)).requires_grad_()
    with torch.random.fork_rng():
        torch.manual_seed(3)
        expected = nn.Dropout(p).train(training)(x)
    with private_generator(torch.Generator().manual_seed(3)):
        found = Dropout(p).train(training)(x)
    assert torch.equal(found, expected)
    assert torch.equal(*(torch.autograd.grad(each.sum(), x)[0] for each in (found, expected)))


DRAWS = {
    "rand": lambda: torch.rand(5),
    "randint": lambda: torch.randint(10, (5,)),
    "randperm": lambda: torch.randperm(9),
    "randn_like": lambda: torch.randn_like(torch.zeros(5)),
    "dropout": lambda: functional.dropout(torch.ones(20)),
    "linear": lambda: nn.Linear(3, 2).weight.detach(),
    "multinomial": lambda: torch.multinomial(torch.ones(9), 4),
    "noise": lambda: functional.rrelu(-torch.ones(9), training=True),
    "trunc": lambda: nn.init.trunc_normal_(torch.empty(9)),
    "poisson": lambda: torch.poisson(torch.ones(9)),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_any_code_draws_privately_the_numbers_that_torch_would_draw(draw):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        expected = [draw(), draw()]
    before = torch.get_rng_state()
    with private_generator(torch.Generator().manual_seed(5)), drawing_privately():
        found = [draw(), draw()]
    assert all(map(torch.equal, found, expected))
    assert torch.equal(torch.get_rng_state(), before)


class OwnNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, inputs):
        return functional.dropout(self.layer(inputs), 0.5, self.training)


def fit_one(seed, **options):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    labels = TransitionMatrix.uniform(3).sample(rng.integers(3, size=120), seed=0)
    clf = ComplementaryClassifier(classes=[0, 1, 2], epochs=4, random_state=seed, **options)
    return clf.fit(X, labels).predict_proba(X)


SETTINGS = {
    "dropout": {},
    "augmentation": {"augment": partial(add_noise, scale=0.1)},
    "network of one's own": {"network": lambda shape, n_classes: OwnNetwork()},
}


@pytest.mark.unmeasured
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_fits_in_threads_are_those_of_one_thread(options):
    serial = [fit_one(seed % 3, **options) for seed in range(4)]
    before = torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda seed: fit_one(seed % 3, **options), range(4)))
    assert all(map(np.array_equal, found, serial))
    assert torch.equal(torch.get_rng_state(), before)


def test_torch_sees_nothing_of_a_training_while_it_runs():
    before, during = torch.get_rng_state(), []

    class Watching(nn.Linear):
        def forward(self, input):  # noqa: A002
            during.append(torch.get_rng_state())
            return super().forward(input)

    fit_one(0, network=lambda shape, n_classes: nn.Sequential(Watching(5, 3), nn.Dropout(0.5)))
    assert len(during) > 4
    assert all(torch.equal(state, before) for state in during)


def test_what_may_draw_is_known():
    assert not may_draw(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), Dropout(0.5), nn.Conv2d(1, 1, 1)))
    assert may_draw(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    assert may_draw(nn.RReLU())
    assert may_draw(OwnNetwork())


def test_seeded_blocks_draw_the_numbers_that_torch_would_draw():
    with torch.random.fork_rng():
        torch.manual_seed(7)
        expected = torch.randn(3)
    with seeded(7, CPU):
        assert torch.equal(torch.randn(3), expected)
