"""One loop that fits one network."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from naysay import InvalidInput, TransitionMatrix
from naysay.losses import ForwardCrossEntropy, TrainingLoss
from naysay.networks import MLP
from naysay.training import Examples, Options, adam, adamw, fit, predict_logits, seeded, sgd

CPU = torch.device("cpu")
TIMES = {"seconds", "samples_per_second"}
Q = TransitionMatrix.without_zeros(4, seed=1)


def make_options(**changes):
    settings = {"epochs": 8, "batch_size": 32, "lr": 0.01, "weight_decay": 1e-4, "patience": 50}
    return Options(**{**settings, **changes})


def make_data(n=200, seed=0):
    """Return four clouds in the plane, complementary labels and true classes."""
    rng = np.random.default_rng(seed)
    true = rng.integers(4, size=n)
    centres = np.array([[3, 3], [-3, 3], [-3, -3], [3, -3]])
    X = centres[true] + rng.normal(size=(n, 2))
    labels = Q.sample(true, seed=rng)
    return torch.tensor(X, dtype=torch.float32), torch.from_numpy(labels), torch.from_numpy(true)


def train(seed=0, *, network=None, n=200, held_out=False, loss=None, **changes):
    X, labels, _ = make_data(n)
    with seeded(seed, CPU):
        network = MLP((2,), 4, widths=(16,)) if network is None else network()
    history = fit(
        network,
        Examples(X, labels),
        ForwardCrossEntropy(Q) if loss is None else loss,
        make_options(seed=seed, **changes),
        held_out=Examples(*make_data(100, seed=1)[:2]) if held_out else None,
    )
    return network, history


def weights_of(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


def without_seconds(history):
    return [{k: v for k, v in record.items() if k not in TIMES} for record in history]


def test_training_learns_the_true_classes_from_complementary_labels():
    network, history = train(epochs=40, n=800)
    X, _, true = make_data(400, seed=2)
    accuracy = (predict_logits(network, X).argmax(1) == true).float().mean()
    assert accuracy > 0.9
    assert history[-1]["loss"] < history[0]["loss"]


@pytest.mark.parametrize("held_out", [False, True])
def test_the_same_seed_gives_the_same_weights_bit_for_bit(held_out):
    one, first = train(seed=3, held_out=held_out)
    two, second = train(seed=3, held_out=held_out)
    other, _ = train(seed=4, held_out=held_out)
    assert torch.equal(weights_of(one), weights_of(two))
    assert without_seconds(first) == without_seconds(second)
    assert not torch.equal(weights_of(one), weights_of(other))


def test_seeding_leaves_the_randomness_outside_untouched():
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    train(epochs=1)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(11)
    with seeded(0, CPU):
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)


def test_each_epoch_leaves_a_record_and_is_announced():
    seen = []
    X, labels, _ = make_data()
    with seeded(0, CPU):
        history = fit(
            MLP((2,), 4),
            Examples(X, labels),
            ForwardCrossEntropy(Q),
            make_options(epochs=3),
            on_epoch=seen.append,
        )
    assert seen == history
    assert [record["epoch"] for record in history] == [1, 2, 3]
    assert all(record.keys() == {"epoch", "loss", *TIMES} for record in history)
    assert history[0]["loss"] == pytest.approx(math.log(4), rel=0.3)


def test_the_loss_recorded_is_the_mean_over_all_examples():
    X, labels, _ = make_data(50)
    network = MLP((2,), 4, dropout=0.0)
    with seeded(0, CPU):  # too small a step to change the loss
        (record,) = fit(
            network, Examples(X, labels), ForwardCrossEntropy(Q), make_options(epochs=1, lr=1e-12)
        )
    expected = ForwardCrossEntropy(Q)(predict_logits(network, X), labels).item()
    assert record["loss"] == pytest.approx(expected, rel=1e-5)


def test_early_stopping_keeps_the_weights_of_least_held_out_loss():
    # few examples and large steps: it overfits, so the least is not the last
    network, history = train(n=40, epochs=60, lr=0.1, held_out=True, patience=60)
    losses = [record["held_out_loss"] for record in history]
    assert losses.index(min(losses)) < len(losses) - 1
    X, labels = make_data(100, seed=1)[:2]
    found = ForwardCrossEntropy(Q)(predict_logits(network, X), labels).item()
    assert found == pytest.approx(min(losses), rel=1e-6)


@pytest.mark.parametrize("patience", [1, 3, 7])
def test_training_stops_when_patience_is_over(patience):
    _, history = train(n=40, epochs=60, lr=0.1, held_out=True, patience=patience)
    losses = [record["held_out_loss"] for record in history]
    assert len(history) - 1 - losses.index(min(losses)) == patience
    assert len(history) < 60


def test_without_held_out_examples_all_epochs_are_run_and_nothing_is_held_out():
    _, history = train(epochs=5, patience=1)
    assert len(history) == 5
    assert not any("held_out_loss" in record for record in history)


def test_held_out_examples_do_not_change_what_is_learned_until_the_stop():
    _, with_them = train(epochs=5, held_out=True)
    _, without = train(epochs=5)
    assert [r["loss"] for r in with_them] == [r["loss"] for r in without]


def test_the_network_ends_in_evaluation_mode():
    assert not train(epochs=1)[0].training
    assert not train(epochs=1, held_out=True)[0].training


def batch_norm_network():
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4))


@pytest.mark.parametrize("n, batch_size", [(65, 64), (33, 32), (5, 4), (200, 199), (7, 3), (2, 64)])
def test_no_batch_of_one_is_left_for_batch_norm(n, batch_size):
    network, history = train(network=batch_norm_network, n=n, batch_size=batch_size, epochs=2)
    assert len(history) == 2
    assert weights_of(network).isfinite().all()
    assert network[1].running_mean.isfinite().all()
    assert network[1].num_batches_tracked > 0


def test_statistics_of_batch_norm_are_kept_with_the_weights():
    network, _ = train(network=batch_norm_network, n=800, epochs=30)
    X, _, true = make_data(400, seed=2)
    assert (predict_logits(network, X).argmax(1) == true).float().mean() > 0.9


def test_inputs_may_be_bytes():
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.integers(256, size=(40, 3), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(4, size=40))
    with seeded(0, CPU):
        network = MLP((3,), 4)
        network.standardise(X)
        fit(network, Examples(X, labels), ForwardCrossEntropy(Q), make_options(epochs=1))
    assert predict_logits(network, X).isfinite().all()


@pytest.mark.parametrize("value, shown", [(float("nan"), "nan"), (float("inf"), "inf")])
def test_a_loss_that_is_not_finite_stops_training_with_advice(value, shown):
    message = rf"keep the loss finite; in epoch 1 it became {shown}\. Lower lr, or scale the inputs"
    with pytest.raises(InvalidInput, match=message):
        train(loss=lambda logits, labels: logits.sum() * 0 + value)


def test_a_learning_rate_far_too_large_is_reported_not_returned_as_nan():
    X, labels, _ = make_data()
    with seeded(0, CPU), pytest.raises(InvalidInput, match="must keep the loss finite"):
        fit(
            nn.Linear(2, 4),
            Examples(X * 1e30, labels),
            ForwardCrossEntropy(Q),
            make_options(lr=1e30, epochs=20),
        )


def test_predictions_in_parts_equal_those_at_once():
    X = torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0))
    network, _ = train(epochs=2)
    network.train()
    logits = predict_logits(network, X)
    assert not network.training
    assert not logits.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(logits, network(X))
    assert predict_logits(network, X[:0]).shape == (0, 4)


def test_options_cannot_be_changed_and_must_be_named():
    with pytest.raises(AttributeError):
        make_options().epochs = 3
    with pytest.raises(TypeError):
        Options(1, 2, 0.1, 0.0, 3)


@pytest.mark.parametrize(
    "change",
    [{"epochs": -1}, {"batch_size": 0}, {"lr": 0}, {"weight_decay": -1}, {"max_norm": "large"}],
    ids=str,
)
def test_options_are_checked(change):
    (name,) = change
    with pytest.raises(InvalidInput, match=f"{name} must be"):
        make_options(**change)


# --- what a loss may ask for ---------------------------------------------------------------------


class Asking(TrainingLoss):
    """A loss with a parameter, two views and a schedule, that notes what it gets."""

    n_views = 2

    def __init__(self):
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.ones(()))
        self.unused = torch.nn.Parameter(torch.ones(()))
        self.notes = []  # of the one trained; the averaged copy has its own
        self.shares = []

    def set_progress(self, share):
        self.shares.append(share)

    def forward(self, logits, labels):
        if self.training:
            self.notes.append(logits.detach().clone())
            logits = logits.mean(0)
        assert logits.shape == (len(labels), 4)
        loss = ForwardCrossEntropy(Q)(logits * self.temperature, labels)
        return loss + 0 * self.unused


def test_parameters_of_a_loss_are_trained_without_weight_decay_and_kept():
    loss = Asking()
    train(loss=loss, held_out=True, weight_decay=0.5)
    assert loss.temperature.item() != 1
    assert loss.unused.item() == 1  # weight decay would shrink it
    assert not loss.training


def test_the_parameters_kept_are_those_of_the_epoch_of_least_held_out_loss():
    loss = Asking()
    network, history = train(loss=loss, held_out=True, epochs=30, lr=0.1)
    X, labels, _ = make_data(100, seed=1)
    with torch.no_grad():
        found = loss(predict_logits(network, X), labels).item()
    assert found == pytest.approx(min(record["held_out_loss"] for record in history))


def test_progress_is_told_before_every_step():
    loss = Asking()
    train(loss=loss, epochs=5, n=64)
    assert loss.shares == pytest.approx([step / 10 for step in range(10)])


def test_a_loss_gets_as_many_views_as_it_wants_each_augmented_anew():
    X, labels, _ = make_data(64)
    network = MLP((2,), 4, widths=(16,), dropout=0.0)
    torch.nn.init.normal_(network.layers[-1].weight)
    seen = []

    def augment(inputs):
        seen.append(inputs)
        return inputs + len(seen)

    loss = Asking()
    held_out = Examples(X[:10], labels[:10])
    options = make_options(epochs=1)
    fit(network, Examples(X, labels), loss, options, held_out=held_out, augment=augment)
    assert [len(each) for each in seen] == [32] * 4  # 2 batches, 2 views, none held out
    assert torch.equal(seen[0], seen[1])
    assert all(each.shape == (2, 32, 4) for each in loss.notes)
    assert not torch.equal(loss.notes[0][0], loss.notes[0][1])


# --- the optimiser's step ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [adam, adamw, sgd])
def test_a_step_is_that_of_torch(make):
    def make_of_ones_own(*arguments, **settings):
        optimiser = make(*arguments, **settings)
        optimiser.__class__ = type("Own", (type(optimiser),), {})  # whose step is called as it is
        return optimiser

    ours, torchs = (
        weights_of(train(n=64, epochs=2, weight_decay=0.1, optimiser=each)[0])
        for each in (make, make_of_ones_own)
    )
    assert torch.equal(ours, torchs)
    assert torch.is_grad_enabled()


def test_the_step_of_an_optimiser_of_ones_own_is_its_own():
    calls = []

    class Own(torch.optim.SGD):
        def step(self, closure=None):
            calls.append(1)
            return super().step(closure)

    train(n=40, epochs=2, optimiser=lambda groups, lr, weight_decay: Own(groups, lr=lr))
    assert len(calls) == 2 * 2  # batches of at most 32
