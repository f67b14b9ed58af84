"""The linear layer that lays out large products by feature: another layout, the same numbers."""

import copy
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.func import functional_call, vmap

from naysay.networks import MLP, mlp
from naysay.networks.mlp import Linear


@pytest.fixture(autouse=True)
def nothing_is_too_small(monkeypatch):
    monkeypatch.setattr(mlp, "_LARGE_PRODUCT", 0)


def pair(*sizes):
    """Return our layers and torch's, with ReLUs between, and the same weights."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [Linear(before, after), nn.ReLU()]
    ours = nn.Sequential(*layers[:-1])
    plain = copy.deepcopy(ours)
    for layer in plain:
        if isinstance(layer, Linear):
            layer.__class__ = nn.Linear  # type: ignore[assignment]
    return ours, plain


def is_by_feature(outputs):
    return outputs.mT.is_contiguous() and not outputs.is_contiguous()


def assert_same_gradients(ours, plain):
    for own, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own.grad, theirs.grad)


@pytest.mark.parametrize("sizes", [(7, 5), (7, 1, 3), (30, 20, 10, 4)])
@pytest.mark.parametrize("n", [1, 2, 33])
def test_outputs_and_gradients_are_those_of_torch(sizes, n):
    ours, plain = pair(*sizes)
    inputs = torch.randn(n, sizes[0])
    own, theirs = (inputs.clone().requires_grad_() for _ in range(2))
    given = torch.randn(n, sizes[-1])
    outputs = ours(own)
    torch.testing.assert_close(outputs, plain(theirs))
    outputs.backward(given)
    plain(theirs).backward(given)
    assert_same_gradients(ours, plain)
    torch.testing.assert_close(own.grad, theirs.grad)


def test_the_layout_is_kept_to_the_logits_by_layers_too_small_for_it(monkeypatch):
    ours, _ = pair(50, 40, 3)
    monkeypatch.setattr(mlp, "_LARGE_PRODUCT", 20 * 50 * 40)
    assert is_by_feature(ours(torch.randn(20, 50)))
    assert not is_by_feature(ours(torch.randn(19, 50)))


@pytest.mark.parametrize("of", ["columns", "steps", "expanded"])
def test_inputs_and_gradients_may_lie_anyhow(of):
    ours, plain = pair(6, 4)
    inputs = {
        "columns": torch.randn(6, 9).t(),
        "steps": torch.randn(18, 12)[::2, ::2],
        "expanded": torch.randn(1, 6).expand(9, 6),
    }[of]
    torch.testing.assert_close(ours(inputs), plain(inputs))
    for layers in (ours, plain):
        layers(inputs).sum().backward()  # whose gradient is one number, expanded
    assert_same_gradients(ours, plain)


def test_second_derivatives_are_those_of_torch():
    ours, plain = pair(5, 4, 3)
    inputs = torch.randn(6, 5)
    for layers in (ours, plain):
        own = inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layers(own).square().sum(), own, create_graph=True)
        slope.square().sum().backward()
    assert_same_gradients(ours, plain)


def half_precision(layers, inputs):
    with torch.autocast("cpu", torch.bfloat16):
        return layers(inputs)


def double_precision(layers, inputs):
    return copy.deepcopy(layers).double()(inputs.double())


def without_gradients(layers, inputs):
    with torch.no_grad():
        return layers(inputs)


def evaluated(layers, inputs):
    return copy.deepcopy(layers).eval()(inputs)


def batched(layers, inputs):
    state = dict(layers.named_parameters())
    return vmap(lambda part: functional_call(layers, state, (part,)))(inputs[None])[0]


def compiled(layers, inputs):
    return torch.compile(layers, backend="eager")(inputs)


@pytest.mark.parametrize(
    "run", [compiled, half_precision, double_precision, without_gradients, evaluated, batched]
)
def test_anything_but_plain_training_is_left_to_torch(run):
    ours, plain = pair(8, 6, 4)
    inputs = torch.randn(10, 8)
    outputs = run(ours, inputs)
    assert not is_by_feature(outputs)
    assert torch.equal(outputs, run(plain, inputs))


def test_without_the_operation_it_is_torch_s_layer(monkeypatch):
    monkeypatch.setattr(mlp, "_has_onednn", False)
    ours, plain = pair(8, 6, 4)
    inputs = torch.randn(10, 8)
    assert torch.equal(ours(inputs), plain(inputs))


def test_a_network_that_drops_units_draws_them_as_before():
    kinds = [
        {type(each) for each in MLP((4,), 3, dropout=share).layers if isinstance(each, nn.Linear)}
        for share in (0.0, 0.5)
    ]
    assert kinds == [{Linear}, {nn.Linear}]
