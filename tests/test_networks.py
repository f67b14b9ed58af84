"""Networks as plain modules."""

import pytest
import torch
from torch import nn

from naysay.networks import MLP


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
