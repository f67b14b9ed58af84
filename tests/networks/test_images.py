"""Networks for images: LeNet-5 and the ResNets."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import conv2d, cross_entropy
from torch.optim.swa_utils import AveragedModel

from naysay import ComplementaryClassifier
from naysay.networks import LeNet5, ResNet18, ResNet34

IMAGE_NETWORKS = {
    "lenet5": (LeNet5, (1, 28, 28)),
    "resnet18": (partial(ResNet18, width=4), (3, 8, 8)),
    "resnet34": (partial(ResNet34, width=2), (2, 8, 9)),
    "resnet18 tiny": (partial(ResNet18, width=4, stem_padding=0), (3, 10, 12)),
}


@pytest.fixture(params=IMAGE_NETWORKS)
def images_and_network(request):
    """Random bytes and a network for them, its last layer no longer zero."""
    make, shape = IMAGE_NETWORKS[request.param]
    torch.manual_seed(0)
    X = torch.randint(256, (6, *shape), dtype=torch.uint8)
    network = make(shape, 5)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
    nn.init.normal_(network.last.weight)
    network.standardise(X)
    return X, network


def count(network):
    return sum(weights.numel() for weights in network.parameters())


def count_resnet(blocks, n_channels, width, n_classes):
    """Count by hand: 3 × 3 convolutions, two numbers per normalised channel, the last layer."""
    total, n_in = 9 * n_channels * width + 2 * width, width
    for stage in range(4):
        n_out = width << stage
        for _ in range(blocks[stage]):
            total += 9 * n_in * n_out + 2 * n_out + 9 * n_out * n_out + 2 * n_out
            total += n_in * n_out + 2 * n_out if n_in != n_out else 0
            n_in = n_out
    return total + n_in * n_classes + n_classes


def test_parameters_are_as_many_as_published():
    assert count(LeNet5((1, 28, 28), 10)) == 61_706
    # 6 × 6 maps, as the first convolution is padded: 16 * 36 * 120 instead of 16 * 25 * 120
    assert count(LeNet5((3, 32, 32), 10)) == 62_006 + 16 * 11 * 120
    assert count_resnet((2, 2, 2, 2), 3, 64, 10) == count(ResNet18((3, 32, 32), 10)) == 11_173_962
    assert count_resnet((3, 4, 6, 3), 3, 64, 10) == count(ResNet34((3, 32, 32), 10)) == 21_282_122
    tiny = ResNet18((3, 64, 64), 200, stem_padding=0)
    assert count_resnet((2, 2, 2, 2), 3, 64, 200) == count(tiny)
    assert count_resnet((3, 4, 6, 3), 1, 6, 7) == count(ResNet34((1, 9, 9), 7, width=6))


@pytest.mark.parametrize("stem_padding, sides", [(1, [32, 32, 16, 8, 4]), (0, [30, 30, 15, 8, 4])])
def test_the_stem_keeps_the_size_and_three_stages_halve_it(stem_padding, sides):
    network = ResNet18((3, 32, 32), 10, width=2, stem_padding=stem_padding)
    seen = []
    for module in (network.stem, *[network.blocks[index] for index in (1, 3, 5, 7)]):
        module.register_forward_hook(lambda module, given, out: seen.append(out.shape))
    network(torch.zeros(2, 3, 32, 32))
    assert [tuple(shape[2:]) for shape in seen] == [(side, side) for side in sides]
    assert [shape[1] for shape in seen] == [2, 2, 4, 8, 16]
    kinds = {type(module) for module in network.modules()}
    assert not kinds & {nn.MaxPool2d, nn.AvgPool2d}
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    assert (first.kernel_size, first.stride) == ((3, 3), (1, 1))
    assert first.padding == (stem_padding, stem_padding)


def test_a_block_adds_its_branch_to_its_shortcut():
    network = ResNet18((1, 8, 8), 2, width=3).eval()
    X = torch.randn(2, 3, 8, 8)
    plain, halving = network.blocks[1], network.blocks[2]
    for block in (plain, halving):
        nn.init.normal_(block.branch[-1].weight)
        conv1, norm1, _, conv2, norm2 = block.branch
        branch = norm2(conv2(norm1(conv1(X)).relu()))
        torch.testing.assert_close(block(X), (block.shortcut(X) + branch).relu())
    assert halving(X).shape == (2, 6, 4, 4)
    assert isinstance(plain.shortcut, nn.Identity)


def test_lenet_is_the_chain_of_its_layers():
    torch.manual_seed(0)
    network = LeNet5((2, 31, 28), 3)
    nn.init.normal_(network.last.weight)
    X = torch.rand(4, 2, 31, 28)
    network.standardise(X)
    convolutions = [layer for layer in network.layers if isinstance(layer, nn.Conv2d)]
    linear = [layer for layer in network.layers if isinstance(layer, nn.Linear)]
    assert [layer.out_channels for layer in convolutions] == [6, 16]
    assert [layer.out_features for layer in linear] == [120, 84]
    hidden = (X - X.mean((0, 2, 3), keepdim=True)) / X.std((0, 2, 3), correction=0, keepdim=True)
    for layer, padding in zip(convolutions, (2, 0), strict=True):
        hidden = conv2d(hidden, layer.weight, layer.bias, padding=padding).relu()
        hidden = hidden.unfold(2, 2, 2).unfold(3, 2, 2).amax((4, 5))
    hidden = hidden.flatten(1)
    for layer in linear:
        hidden = (hidden @ layer.weight.T + layer.bias).relu()
    expected = hidden @ network.last.weight.T
    torch.testing.assert_close(network(X), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_image_networks_start_from_equal_probabilities_and_then_learn_everywhere(name):
    make, shape = IMAGE_NETWORKS[name]
    torch.manual_seed(0)
    X, labels = torch.randn(8, *shape), torch.arange(8) % 5
    network = make(shape, 5)
    assert not network(X).any()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
    for _ in range(4):  # the last layer wakes first, then the branches, then what is in them
        optimiser.zero_grad()
        loss = cross_entropy(network(X), labels)
        loss.backward()
        optimiser.step()
    assert loss < math.log(5)
    for key, value in network.named_parameters():
        assert value.grad.isfinite().all(), key
        assert value.grad.any(), key


def test_weights_keep_the_size_of_signals():
    torch.manual_seed(0)
    for network in (LeNet5((3, 40, 40), 10), ResNet18((3, 32, 32), 10, width=32)):
        for name, module in network.named_modules():
            if isinstance(module, nn.Conv2d | nn.Linear) and name != "last":
                found = module.weight.detach().square().mean() * module.weight[0].numel()
                assert found == pytest.approx(2, rel=0.2), name


def test_the_same_seed_gives_the_same_network(images_and_network):
    X, network = images_and_network
    arguments = dict(network.arguments)
    shape, n_classes = arguments.pop("input_shape"), arguments.pop("n_classes")

    def logits(seed):
        torch.manual_seed(seed)
        new = type(network)(shape, n_classes, **arguments)
        nn.init.ones_(new.last.weight)
        return new(X)

    assert torch.equal(logits(0), logits(0))
    assert not torch.equal(logits(0), logits(1))


def test_images_are_standardised_by_channel(images_and_network):
    X, network = images_and_network
    values = X.double().movedim(1, 0).flatten(1)
    expected = (values - values.mean(1, keepdim=True)) / values.std(1, correction=0, keepdim=True)
    found = network.standardised(X).movedim(1, 0).flatten(1)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(network.eval()(X), network(X.float()))
    same = type(network)(X.shape[1:], 2)
    same.standardise(X.float() / 255)
    torch.testing.assert_close(same.mean * 255, network.mean)
    assert torch.equal(same.last.weight, torch.zeros_like(same.last.weight))


def test_a_channel_without_change_gives_no_nan():
    X = torch.rand(20, 3, 12, 12)
    X[:, 1] = 0.3
    network = LeNet5((3, 12, 12), 2)
    network.standardise(X)
    assert network.scale.flatten()[1] == 1
    assert network(X).isfinite().all()


def test_a_training_step_never_waits_for_a_value(images_and_network):
    # tensors without values: reading one, which a CUDA graph cannot do, would raise
    X, network = images_and_network
    network = network.to("meta").train()
    network(X.to("meta")).sum().backward()
    assert all(weights.grad.device.type == "meta" for weights in network.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.unmeasured
@pytest.mark.parametrize("name", ["lenet5", "resnet18 tiny"])
def test_image_networks_compile_as_one_graph(name):
    make, shape = IMAGE_NETWORKS[name]
    torch.manual_seed(0)
    network = make(shape, 5)
    nn.init.normal_(network.last.weight)
    X = torch.randint(256, (6, *shape), dtype=torch.uint8)
    expected = copy.deepcopy(network)(X)
    torch.compiler.reset()
    found = torch.compile(network, fullgraph=True, backend="eager")(X)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    found.sum().backward()
    assert network.last.weight.grad.any()


def test_image_networks_run_in_bfloat16_and_with_channels_last(images_and_network):
    X, network = images_and_network
    expected = network.train()(X).detach()
    last = X.contiguous(memory_format=torch.channels_last)
    network = network.to(memory_format=torch.channels_last)
    assert network.standardised(last).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(network(last), expected, rtol=1e-3, atol=1e-3)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(last)
    assert found.dtype == torch.bfloat16
    assert (found - expected).abs().mean() < 0.2 * expected.abs().mean()  # 34 layers add up
    found.float().square().sum().backward()
    for name, weights in network.named_parameters():
        assert weights.dtype == torch.float32
        assert weights.grad.isfinite().all(), name
        assert weights.grad.any(), name


@pytest.mark.unmeasured
def test_weights_and_statistics_can_be_averaged(images_and_network):
    X, network = images_and_network
    average = AveragedModel(network, use_buffers=True)
    for _ in range(3):
        network.train()(X)
        average.update_parameters(network)
    average.eval()
    assert average(X).isfinite().all()
    assert torch.equal(average.module.mean, network.mean)
    for name, value in average.module.named_buffers():
        if name.endswith("running_mean"):  # the mean of three, so not that of the last
            assert not torch.equal(value, dict(network.named_buffers())[name])


def test_image_networks_are_saved_and_loaded_by_name(images_and_network, tmp_path):
    X, network = images_and_network
    arguments = {
        key: value
        for key, value in network.arguments.items()
        if key not in ("input_shape", "n_classes")
    }
    labels = np.arange(len(X)) % 3
    clf = ComplementaryClassifier(
        network=partial(type(network), **arguments),
        classes=["a", "b", "c"],
        epochs=2,
        validation_fraction=0,
        random_state=0,
    ).fit(X.numpy(), np.array(["a", "b", "c"])[labels])
    assert torch.equal(clf.network_.mean.cpu(), network.mean)
    clf.save(tmp_path / "model")
    twin = ComplementaryClassifier.load(tmp_path / "model")
    assert type(twin.network_) is type(network)
    assert twin.network_.arguments == {**network.arguments, "n_classes": 3}
    assert np.array_equal(twin.predict_proba(X.numpy()), clf.predict_proba(X.numpy()))
    assert np.ptp(clf.predict_proba(X.numpy()), axis=0).max() > 0


def test_a_mirrored_network_predicts_the_mean_over_both_images_and_trains_as_any_other():
    torch.manual_seed(0)
    plain = ResNet18((3, 8, 8), 5, width=4)
    nn.init.normal_(plain.last.weight)
    mirrored = ResNet18((3, 8, 8), 5, width=4, mirrored=True)
    mirrored.load_state_dict(plain.state_dict())
    images = torch.randn(6, 3, 8, 8)
    assert torch.equal(mirrored(images), plain(images))
    found = mirrored.eval()(images)
    expected = (plain.eval()(images) + plain(images.flip(3))) / 2
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(found, mirrored(images.flip(3)))
    assert not torch.allclose(found, plain(images))


def test_a_mirrored_network_stays_so_in_a_model_file(tmp_path):
    X = np.random.default_rng(0).integers(256, size=(12, 3, 8, 8), dtype=np.uint8)
    clf = ComplementaryClassifier(
        network=partial(ResNet18, width=2, mirrored=True), epochs=1, random_state=0
    )
    clf.fit(X, np.arange(12) % 3)
    clf.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert loaded.network_.mirrored
    np.testing.assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))


def test_batch_norm_is_torchs_but_for_the_count():
    torch.manual_seed(0)
    network = ResNet18((3, 8, 8), 5, width=4)
    nn.init.normal_(network.last.weight)
    counting = copy.deepcopy(network)
    for module in counting.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.__class__ = nn.BatchNorm2d
    images = torch.randn(6, 3, 8, 8)
    for mode in (True, False):  # the second sees the statistics of the first
        assert torch.equal(network.train(mode)(images), counting.train(mode)(images))
    assert [int(each) for name, each in network.named_buffers() if "num_" in name] == [0] * 20
    assert [int(each) for name, each in counting.named_buffers() if "num_" in name] == [1] * 20


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.unmeasured
def test_compiled_batch_norm_finds_the_moments_by_sums_and_gives_the_same():
    torch.manual_seed(0)
    network = ResNet18((3, 8, 8), 5, width=4)
    nn.init.normal_(network.last.weight)
    images = 2 + torch.randn(16, 3, 8, 8)
    found = []
    for backend in (None, "aot_eager"):
        own = copy.deepcopy(network)
        torch.compiler.reset()
        forward = own if backend is None else torch.compile(own, fullgraph=True, backend=backend)
        for _ in range(2):  # the second sees the statistics of the first
            loss = forward(images).logsumexp(1).sum()
        loss.backward()
        gradients = [each.grad for each in own.parameters()]
        statistics = [each for name, each in own.named_buffers() if "running_" in name]
        found.append([loss.detach(), *gradients, *statistics, own.eval()(images)])
    for expected, compiled in zip(*found, strict=True):
        assert (compiled - expected).norm() < 1e-3 * expected.norm()
