"""LeNet-5."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import fold, max_pool2d, pad

from naysay.networks._parts import ImageNetwork, initialise, last_layer

_ALIGNED = 8  # numbers to whose multiples columns are filled up: 16 bytes in bfloat16


class LeNet5(ImageNetwork):
    """LeNet-5 with ReLU and max-pooling, the paper's network for MNIST.

    Images are padded by 2 on each side, which makes 28 × 28 pixels the 32 × 32 of LeCun et al.;
    larger images make the first linear layer wider.

    Parameters
    ----------
    input_shape : sequence of int
        ``(C, H, W)`` of one image, at least 12 × 12 pixels.
    n_classes : int

    References
    ----------
    LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition,
    Proceedings of the IEEE 1998.

    Examples
    --------
    >>> network = LeNet5((1, 28, 28), 10)
    >>> sum(weights.numel() for weights in network.parameters())
    61706
    """

    def __init__(self, input_shape: Sequence[int], n_classes: int) -> None:
        super().__init__(input_shape, n_classes, at_least=12)
        n_channels, *sides = self.input_shape
        height, width = ((side // 2 - 4) // 2 for side in sides)  # after both pools
        self.layers = nn.Sequential(
            nn.Conv2d(n_channels, 6, 5, padding=2),
            nn.MaxPool2d(2),  # before the ReLU, which then has a quarter to do
            nn.ReLU(),
            nn.Conv2d(6, 16, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * height * width, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
        ).apply(initialise)
        self.last = last_layer(84, n_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, shape (N, n_classes)."""
        return self.last(self.layers(self.standardised(inputs)))

    def forward_many(self, state: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Return the logits of M networks of this shape at once, (M, N, n_classes).

        `state` holds the weights and buffers of all by name, each (M, …), and inputs are (M, N, …).
        A convolution is a product of each image's patches with its network's weights: on a GPU
        that is faster than convolutions in groups. Its bias is added to what pooling leaves.
        """
        mean, scale = (state[name][:, None] for name in ("mean", "scale"))
        images = pad((inputs - mean).div_(scale), (2, 2, 2, 2))
        for name in ("layers.0", "layers.3"):
            found = _convolve(images, state[f"{name}.weight"])
            images = max_pool2d(found.flatten(0, 1), 2).unflatten(0, found.shape[:2])
            images = (images + state[f"{name}.bias"][:, None, :, None, None]).relu_()
        hidden = images.flatten(2).mT
        for name in ("layers.7", "layers.9", "last"):
            weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
            hidden = torch.baddbmm(bias[:, :, None], weight, hidden)
            hidden = hidden if name == "last" else hidden.relu_()
        return hidden.mT


def _convolve(images: Tensor, weight: Tensor) -> Tensor:
    """Convolve images (M, N, C, H, W) of M networks with their weights (M, D, C, k, k)."""
    size = weight.shape[-1]
    height, width = (side - size + 1 for side in images.shape[3:])
    patches = cast("Tensor", _Patches.apply(images.flatten(0, 1), size))
    rows = pad(weight.flatten(2), (0, patches.shape[1] - weight[0, 0].numel()))
    per_image = rows[:, None].expand(-1, images.shape[1], -1, -1).flatten(0, 1)
    found = torch.bmm(per_image, patches).unflatten(0, images.shape[:2])
    return found.unflatten(3, (height, width))


class _Patches(torch.autograd.Function):
    """All patches of images (N, C, H, W) as columns, shape (N, C·k·k and some zeros, places).

    The zeros make the length of a column a multiple of what fast products on a GPU want. Its
    gradient is one pass, where torch would take one for each axis.
    """

    @staticmethod
    def forward(ctx: Any, images: Tensor, size: int) -> Tensor:
        ctx.sides, ctx.size = images.shape[2:], size
        patches = images.unfold(2, size, 1).unfold(3, size, 1)  # (N, C, H', W', k, k), a view
        columns = patches.permute(0, 1, 4, 5, 2, 3).flatten(4).flatten(1, 3)
        ctx.length = columns.shape[1]
        return pad(columns, (0, 0, 0, -ctx.length % _ALIGNED))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return fold(gradients[0][:, : ctx.length], ctx.sides, ctx.size), None
