"""Training that is killed and resumed ends as if nothing had happened, bit for bit."""

import os
import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import trainings
from naysay import (
    ComplementaryClassifier,
    InvalidInput,
    InvalidModelFile,
    TransitionMatrix,
    training,
)
from naysay.losses import (
    ForwardCrossEntropy,
    ForwardSquaredError,
    TrainedForwardCrossEntropy,
    TwoViews,
)
from naysay.networks import MLP
from naysay.training import schedules
from naysay.training.augmentation import add_noise, compose
from naysay.training.state import read_checkpoint, write_checkpoint
from trainings import CASES, NETWORKS, examples_of, fit, fit_classifier

TIMES = {"seconds", "samples_per_second"}
ZEROS = TransitionMatrix.with_zeros(4, 2, seed=2)


class Weighed(nn.Module):
    """A loss that keeps an array of numpy's."""

    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, logits, labels):
        weights = torch.tensor(self.weights, dtype=torch.float32)
        return nn.functional.cross_entropy(logits, labels, weight=weights)


class Interrupted(Exception):
    pass


def interrupt_at(epoch, record):
    if record["epoch"] == epoch:
        raise Interrupted


def assert_same(first, second):
    """Equal weights, bit for bit, and equal records but for the times."""
    assert first[0].keys() == second[0].keys()
    for name, value in first[0].items():
        assert torch.equal(value, second[0][name]), name
    plain = [
        [{k: v for k, v in r.items() if k not in TIMES} for r in h] for _, h in (first, second)
    ]
    assert plain[0] == plain[1]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.safetensors"


@pytest.mark.unmeasured
@pytest.mark.parametrize("case", [case for case in CASES if case != "large"])
def test_interrupted_after_any_epoch_it_ends_the_same(case, path):
    whole = fit(case)
    for epoch in (1, 3):
        with pytest.raises(Interrupted):
            fit(case, path, on_epoch=partial(interrupt_at, epoch))
        before = os.stat(path).st_mtime_ns
        seen = []
        assert_same(fit(case, path, init_seed=99, on_epoch=seen.append), whole)
        assert [record["epoch"] for record in seen] == [*range(epoch + 1, len(whole[1]) + 1)]
        assert os.stat(path).st_mtime_ns > before
        path.unlink()


def test_a_checkpoint_changes_nothing_about_the_result(path):
    assert_same(fit("dropout", path), fit("dropout"))


def test_one_of_a_finished_training_stays_and_gives_the_result_at_once(path):
    whole = fit("stops early", path)
    assert len(whole[1]) < CASES["stops early"]["epochs"]
    content = path.read_bytes()
    assert_same(fit("stops early", path, on_epoch=partial(interrupt_at, 1)), whole)
    assert path.read_bytes() == content


# --- killed without warning --------------------------------------------------------------------


def rewritten(path, n):
    """Return a question: has the file been replaced n times since?"""

    seen = set()

    def asked():
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return False
        seen.add((found.st_ino, found.st_mtime_ns))
        return len(seen) > n

    return asked


def leftovers(folder):
    return {name for name in os.listdir(folder) if name.startswith(".")}


def is_writing(folder, since):
    """Return a question: is a checkpoint being written now, another than those left before?"""
    return lambda: bool(leftovers(folder) - since)


def test_killed_at_random_moments_it_ends_the_same(path, tmp_path):
    case = "batch norm, momentum, noise"  # the one with most to keep
    moments = random.Random(0)
    slow = {"epochs": 20, "batch_size": 8}
    n_killed = 0
    for _ in range(3):
        child = trainings.start(fit, tmp_path / "result", case, path, **slow)
        question = rewritten(path, moments.randrange(4))
        n_killed += trainings.kill_when(child, question, moments.uniform(0, 0.02))
        if path.exists():
            assert read_checkpoint(path) is not None
    assert n_killed >= 1
    child = trainings.start(fit, tmp_path / "result", case, path, **slow)
    assert_same(trainings.outcome_of(child, tmp_path / "result"), fit(case, **slow))
    assert not leftovers(tmp_path)


def test_killed_while_writing_the_old_checkpoint_is_there_and_nothing_piles_up(tmp_path):
    folder, result = tmp_path / "checkpoints", tmp_path / "result"
    folder.mkdir()
    path = folder / "run.safetensors"
    n_left = 0
    for _ in range(2):
        before = leftovers(folder)
        child = trainings.start(fit, result, "large", path)
        trainings.kill_when(child, is_writing(folder, since=before))
        assert len(leftovers(folder)) <= 1
        n_left += bool(leftovers(folder) - before)
        read_checkpoint(path)  # whole or absent
        child = trainings.start(fit, result, "large", path)  # one more whole one
        trainings.kill_when(child, rewritten(path, 1))
        assert read_checkpoint(path) is not None
    assert n_left >= 1
    child = trainings.start(fit, result, "large", path)
    assert_same(trainings.outcome_of(child, result), fit("large"))
    assert os.listdir(folder) == [path.name]


def test_a_classifier_that_trains_several_networks_is_killed_in_each(tmp_path):
    folder, result = tmp_path / "checkpoints", tmp_path / "result"
    names = [f"{name}.safetensors" for name in NETWORKS]
    for name in names:
        child = trainings.start(fit_classifier, result, folder)
        assert trainings.kill_when(child, rewritten(folder / name, 3))
    child = trainings.start(fit_classifier, result, folder)
    assert_same(trainings.outcome_of(child, result), fit_classifier())
    assert sorted(os.listdir(folder)) == names


# --- another training ----------------------------------------------------------------------------


def moved(examples):
    return training.Examples(examples.X + 1, examples.labels)


def relabelled(examples):
    return training.Examples(examples.X, (examples.labels + 1) % 4)


OTHERS = {
    "epochs": {"epochs": 9},
    "lr": {"lr": 0.02},
    "seed": {"seed": 1},
    "average": {"average": 0.5},
    "optimiser": {"optimiser": lambda groups, **s: torch.optim.AdamW(groups, eps=1e-6, **s)},
    "schedule": {"schedule": schedules.steps([0.7])},
    "X": {"examples": moved(examples_of(205, 0))},
    "labels": {"examples": relabelled(examples_of(205, 0))},
    "held-out X": {"held_out": moved(examples_of(60, 1))},
    "held-out labels": {"held_out": None},
    "network": {"network": partial(MLP, (2,), 4, widths=(16,), dropout=0.4)},
    "loss": {"loss": lambda Q: ForwardCrossEntropy(TransitionMatrix.without_zeros(4, seed=2))},
    "augment": {"augment": compose(partial(add_noise, scale=0.2))},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_of_another_training_is_refused_by_what_changed(what, path):
    base = {"schedule": schedules.steps([0.5]), "augment": compose(partial(add_noise, scale=0.1))}
    fit("dropout", path, **({**base, "epochs": 2} if what != "epochs" else {**base, "epochs": 1}))
    changes = {**base, "epochs": 2, **OTHERS[what]}
    with pytest.raises(InvalidModelFile, match=rf"this very training; .*\b{what}\b.* changed"):
        fit("dropout", path, **changes)


@pytest.mark.parametrize(
    "first, second",
    [
        (ForwardCrossEntropy, ForwardSquaredError),
        (TrainedForwardCrossEntropy, lambda Q: TrainedForwardCrossEntropy(ZEROS)),
        (
            lambda Q: ForwardCrossEntropy(TransitionMatrix.uniform(4)),
            lambda Q: ForwardCrossEntropy(Q),
        ),
        (
            lambda Q: partial(nn.functional.cross_entropy, weight=torch.ones(4)),
            lambda Q: partial(nn.functional.cross_entropy, weight=torch.arange(1.0, 5)),
        ),
        (lambda Q: Weighed(np.ones(4)), lambda Q: Weighed(np.arange(1, 5))),
        (
            lambda Q: partial(nn.functional.cross_entropy, label_smoothing=0.1),
            lambda Q: partial(nn.functional.cross_entropy, label_smoothing=0.2),
        ),
        (TwoViews, partial(TwoViews, target="first")),
    ],
)
def test_another_loss_is_refused(first, second, path):
    def run(loss):
        options = training.Options(epochs=1, batch_size=32, lr=0.01, weight_decay=0, patience=1)
        network = MLP((2,), 4)
        return training.fit(
            network, examples_of(64, 0), loss(trainings.Q), options, checkpoint=path
        )

    run(first)
    run(first)  # the same one is not
    with pytest.raises(InvalidModelFile, match="loss changed"):
        run(second)


def test_a_classifier_refuses_a_checkpoint_of_other_data_and_needs_a_seed(tmp_path):
    fit_classifier(tmp_path, epochs=1)
    with pytest.raises(InvalidModelFile, match="lr changed"):
        fit_classifier(tmp_path, epochs=1, lr=0.1)
    with pytest.raises(InvalidInput, match="random_state to be a number"):
        fit_classifier(tmp_path, random_state=None)


DAMAGE = {
    "no history": lambda tensors, facts: facts.pop("history"),
    "history of words": lambda tensors, facts: facts.update(history=["one"]),
    "records without epoch": lambda tensors, facts: facts.update(history=[{"loss": 1.0}]),
    "no fingerprint": lambda tensors, facts: facts.pop("fingerprint"),
    "a list": lambda tensors, facts: facts.update(fingerprint=[]),
    "no steps": lambda tensors, facts: facts.update(n_steps="many"),
    "no groups": lambda tensors, facts: facts.update(groups=[]),
    "groups without numbers": lambda tensors, facts: facts.update(groups=[{}]),
    "no averages": lambda tensors, facts: [
        tensors.pop(name) for name in list(tensors) if name.startswith("averages")
    ],
    "an average of one number": lambda tensors, facts: tensors.update(
        {"averages.network.layers.0.weight": torch.zeros(1)}
    ),
    "kept weights of another shape": lambda tensors, facts: tensors.update(
        {"kept.network.layers.0.weight": torch.zeros(1)}
    ),
    "no such weight": lambda tensors, facts: tensors.update({"weights.x": torch.zeros(1)}),
    "momentum of another shape": lambda tensors, facts: tensors.update(
        {"optimiser.0.exp_avg": torch.zeros(10_000)}
    ),
    "momentum of no parameter": lambda tensors, facts: tensors.update(
        {"optimiser.99.exp_avg": torch.zeros(1)}
    ),
    "momentum without a number": lambda tensors, facts: tensors.update(
        {"optimiser.exp_avg": torch.zeros(1)}
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_checkpoint_made_up_by_somebody_is_refused(damage, path):
    fit("dropout", path, epochs=1)
    found = read_checkpoint(path)
    assert found is not None
    DAMAGE[damage](*found)
    write_checkpoint(path, *found)
    with pytest.raises(InvalidModelFile, match="undamaged"):
        fit("dropout", path, epochs=1)


# --- optimisers, losses and augmentations of one's own ------------------------------------------


class Counting(torch.optim.Optimizer):
    """Its steps shrink with a number kept with each parameter, and one kept for all."""

    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr, "n_calls": 0})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["n_calls"] += 1
            for parameter in group["params"]:
                state = self.state[parameter]
                state["n"] = state.get("n", 0) + 1
                state["sums"] = state.get("sums", 0) + parameter.grad.abs().sum()
                rate = group["lr"] / (state["n"] + group["n_calls"]) / (1 + state["sums"]).sqrt()
                parameter -= rate * parameter.grad


def counting(groups, *, lr, weight_decay):
    return Counting(groups, lr)


def test_an_optimiser_of_ones_own_keeps_its_numbers(path):
    changes = {"optimiser": counting, "lr": 1.0}
    whole = fit("dropout", **changes)
    with pytest.raises(Interrupted):
        fit("dropout", path, on_epoch=partial(interrupt_at, 3), **changes)
    assert_same(fit("dropout", path, **changes), whole)


class Noise(nn.Module):
    """An augmentation that is a module with a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(0.1))

    def forward(self, inputs):
        return inputs + self.scale * torch.randn_like(inputs)


def test_an_augmentation_may_be_a_module(path):
    whole = fit("dropout", augment=Noise())
    with pytest.raises(Interrupted):
        fit("dropout", path, augment=Noise(), on_epoch=partial(interrupt_at, 3))
    assert_same(fit("dropout", path, augment=Noise()), whole)


def test_a_measure_may_be_no_number(path):
    """As JSON writes it: NaN is read again as NaN."""
    fit("dropout", path, epochs=1, measure=lambda logits, labels: {"x": float("nan")})
    (record,) = fit("dropout", path, epochs=1)[1]
    assert record["x"] != record["x"]


def test_nothing_to_train_on_is_refused():
    with pytest.raises(InvalidInput, match="none is left"):
        fit("dropout", examples=examples_of(0, 0))
    clf = ComplementaryClassifier(learner="network", validation_fraction=0.9, epochs=1)
    with pytest.raises(InvalidInput, match="validation_fraction must leave"):
        clf.fit([[0.0], [1.0]], [0, 1])
