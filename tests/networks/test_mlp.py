"""Networks as plain modules: the MLP, standardised inputs, and what holds for all of them."""

import numpy as np
import pytest
import torch
from torch import nn

from naysay import ComplementaryClassifier, InvalidInput
from naysay.networks import MLP, NETWORKS, LeNet5, ResNet18, ResNet34, parts
from naysay.networks.parts import mean_and_scale


@pytest.mark.parametrize("input_shape", [(7,), (1, 8, 8), (3, 5, 4), (2, 3)])
@pytest.mark.parametrize("widths", [(), (16,), (16, 8, 4)])
def test_any_shape_of_inputs_gives_one_logit_per_class(input_shape, widths):
    network = MLP(input_shape, 5, widths=widths)
    assert network(torch.zeros(3, *input_shape)).shape == (3, 5)
    assert network(torch.zeros(0, *input_shape)).shape == (0, 5)
    linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in linear] == [*widths, 5]


def test_training_starts_from_equal_probabilities():
    network = MLP((4,), 3).eval()
    logits = network(torch.randn(10, 4, generator=torch.Generator().manual_seed(0)))
    torch.testing.assert_close(logits.softmax(1), torch.full((10, 3), 1 / 3))


def test_standardised_inputs_have_mean_zero_and_deviation_one():
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 100.0, 1e-3, 1e6])
    X = torch.randn(1000, 4, generator=generator) * scale + 5 * scale
    network = MLP((4,), 2)
    network.standardise(X)
    inputs = (X - network.mean) / network.scale
    torch.testing.assert_close(inputs.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(inputs.std(0, correction=0), torch.ones(4), atol=1e-4, rtol=0)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e6, -3.7, 1e-20])
def test_a_constant_input_stays_as_it_is_and_gives_no_nan(constant):
    X = torch.full((50, 2), constant)
    X[:, 1] = torch.linspace(0, 1, 50)
    network = MLP((2,), 2)
    network.standardise(X)
    assert network.scale[0] == 1
    assert network(X).isfinite().all()


def test_an_input_almost_constant_is_not_blown_up():
    X = torch.full((50, 1), 1000.0)
    X[::2] += 1e-4  # the next number that float32 can tell apart
    network = MLP((1,), 2)
    network.standardise(X)
    assert network.scale[0] == 1


def test_a_single_example_can_be_standardised():
    network = MLP((3,), 2)
    network.standardise(torch.tensor([[1.0, 2.0, 3.0]]))
    assert torch.equal(network.scale, torch.ones(3))
    assert torch.equal(network.mean, torch.tensor([1.0, 2.0, 3.0]))


def test_images_and_bytes_are_standardised_by_pixel():
    X = torch.arange(2 * 3 * 2 * 2, dtype=torch.uint8).reshape(2, 3, 2, 2)
    network = MLP((3, 2, 2), 2)
    network.standardise(X)
    torch.testing.assert_close(network.mean, X.float().flatten(1).mean(0))
    torch.testing.assert_close(network.scale, torch.full((12,), 6.0))


def test_scale_and_mean_are_saved_but_not_learned():
    network = MLP((3,), 2)
    assert {"mean", "scale"} <= network.state_dict().keys()
    assert not {"mean", "scale"} & dict(network.named_parameters()).keys()


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    network = MLP((4,), 2, widths=(64,), dropout=0.5)
    nn.init.normal_(network.layers[-1].weight)
    X = torch.ones(1, 4)
    with torch.no_grad():
        assert not torch.equal(network.train()(X), network(X))
        assert torch.equal(network.eval()(X), network(X))


def test_arguments_build_the_same_network_again():
    network = MLP((1, 4, 4), 7, widths=(5, 6), dropout=0.1)
    arguments = dict(network.arguments)
    twin = MLP(arguments.pop("input_shape"), arguments.pop("n_classes"), **arguments)
    twin.load_state_dict(network.state_dict())
    X = torch.randn(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(twin.eval()(X), network.eval()(X))
    assert twin.arguments == network.arguments


@pytest.mark.parametrize("axes", [(0,), (0, 2, 3)])
def test_parts_give_the_moments_of_the_whole_and_are_never_float_at_once(axes, monkeypatch):
    torch.manual_seed(0)
    X = torch.randint(256, (50, 2, 3, 4), dtype=torch.uint8)
    X[:, 0] += torch.arange(50, dtype=torch.uint8)[:, None, None]  # parts differ
    X[:, 1] = 7
    whole = mean_and_scale(X, axes)
    largest, double = 0, torch.Tensor.double

    def watched(tensor):
        nonlocal largest
        largest = max(largest, tensor.numel())
        return double(tensor)

    monkeypatch.setattr(parts, "_CHUNK", 7 * 24)
    monkeypatch.setattr(torch.Tensor, "double", watched)
    mean, scale = mean_and_scale(X, axes)
    monkeypatch.undo()
    assert largest == 7 * 24
    array = X.numpy().astype(np.float64)
    deviation = array.std(axes, keepdims=True)[0]
    np.testing.assert_allclose(mean, array.mean(axes, keepdims=True)[0], rtol=1e-12)
    np.testing.assert_allclose(scale, np.where(deviation == 0, 1, deviation), rtol=1e-12)
    torch.testing.assert_close((mean, scale), whole, rtol=1e-12, atol=0)


def test_a_network_of_your_own_is_standardised_if_it_can_be():
    class Own(nn.Module):
        def __init__(self, input_shape, n_classes):
            super().__init__()
            self.last = nn.Linear(*input_shape, n_classes)
            self.seen = None

        def standardise(self, inputs):
            self.seen = inputs

        def forward(self, inputs):
            return self.last(inputs)

    X = np.arange(24.0).reshape(12, 2)
    clf = ComplementaryClassifier(network=Own, epochs=1, validation_fraction=0)
    clf.fit(X, np.arange(12) % 3)
    assert sorted(clf.network_.seen[:, 0].tolist()) == X[:, 0].tolist()


def test_the_registry_has_every_network_by_its_name():
    assert {name: each.__name__ for name, each in NETWORKS.items()} == {
        name: name
        for name in ("MLP", "LeNet5", "ResNet18", "ResNet34", "Kernel", "Forest", "Mixture")
    }


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: LeNet5((64,), 3),
            r"LeNet5 needs images.*\(C, H, W\)\. Got shape \(64,\)\. Use MLP",
        ),
        (lambda: ResNet18((32, 32), 3), r"ResNet18 needs images.*X\[:, None\]"),
        (lambda: LeNet5((1, 11, 28), 3), r"at least 12 × 12 pixels\. Got shape \(1, 11, 28\)"),
        (lambda: LeNet5((28, 28, 1), 3), r"channels first"),
        (lambda: ResNet34((3, 8, 7), 3), r"at least 8 × 8 pixels\. Got shape \(3, 8, 7\)"),
        (lambda: ResNet18((3, 9, 9), 3, stem_padding=0), r"at least 10 × 10 pixels"),
        (lambda: ResNet18((3, 9, 9), 3, stem_padding=2), r"stem_padding must be 1.*or 0.*Got 2"),
        (lambda: ResNet18((3, 9, 9), 3, width=0), r"width must be an integer of at least 1"),
        (lambda: ResNet18((0, 9, 9), 3), r"input_shape must be an integer of at least 1. Got 0"),
        (lambda: ResNet18((3, 9, 9.5), 3), r"input_shape must be an integer .* Got 9.5"),
        (lambda: ResNet18((3, 9, 9), 1), r"n_classes must be an integer of at least 2"),
        (lambda: MLP((4,), 0), r"n_classes must be an integer of at least 2.*Got 0"),
        (lambda: MLP((4,), 3, widths=(5, 0)), r"each of widths must be .* at least 1. Got 0"),
        (lambda: MLP((0,), 3), r"each size of input_shape must be .* at least 1. Got 0"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_inputs_of_another_shape_are_refused():
    network = ResNet18((3, 8, 8), 2, width=2)
    with pytest.raises(InvalidInput, match=r"shape \(N, 3, 8, 8\)\. Got shape \(5, 1, 8, 8\)"):
        network(torch.zeros(5, 1, 8, 8))
    with pytest.raises(InvalidInput, match=r"needs a batch of images.*Got shape \(3, 8, 8\)"):
        network.standardise(torch.zeros(3, 8, 8))


@pytest.mark.parametrize("make", [MLP, LeNet5])
@pytest.mark.parametrize("shape", [(1, 28, 28), (2, 15, 12)])
def test_many_networks_at_once_compute_what_each_does_alone(make, shape):
    networks = [make(shape, 3).eval() for _ in range(4)]
    X = torch.rand(4, 5, *shape) * 255
    for network, inputs in zip(networks, X, strict=True):
        network.standardise(inputs)
        torch.nn.init.normal_(list(network.parameters())[-2])
    states = [network.state_dict(keep_vars=True) for network in networks]
    state = {name: torch.stack([each[name] for each in states]) for name in states[0]}
    together = networks[0].forward_many(state, X)
    alone = torch.stack([net(inputs) for net, inputs in zip(networks, X, strict=True)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    weights = [parameter for network in networks for parameter in network.parameters()]
    slopes = [torch.autograd.grad(found.square().sum(), weights) for found in (together, alone)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)
