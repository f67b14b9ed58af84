"""LeNet-5 for small grey images."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from naysay.networks.parts import ImageNetwork, initialise, last_layer


class LeNet5(ImageNetwork):
    """LeNet-5 with ReLU and max-pooling, the paper's network for MNIST.

    Images are padded by 2 pixels on each side, so 28 × 28 pixels become the 32 × 32 of LeCun et al.
    For larger images the first linear layer is wider.

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
        super().__init__(input_shape, n_classes, min_side=12)
        n_channels, *sides = self.input_shape
        height, width = ((side // 2 - 4) // 2 for side in sides)  # after both pooling layers
        self.layers = nn.Sequential(
            nn.Conv2d(n_channels, 6, 5, padding=2),
            nn.MaxPool2d(2),  # before the ReLU, which then processes a quarter of the values
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
        """Compute the logits, shape (N, n_classes)."""
        return self.last(self.layers(self.standardised(inputs)))

    def forward_many(self, state: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
        """Compute the logits of M networks at once, (M, N, n_classes), as `MLP.forward_many` does.

        Convolutions are products of image rows with a matrix of weights, which is faster on a GPU
        than grouped convolutions. Biases are added after pooling.
        """
        mean, scale = (state[name][:, None] for name in ("mean", "scale"))
        images = pad((inputs - mean).div_(scale), (2, 2, 2, 2))
        for name in ("layers.0", "layers.3"):
            maps = _convolve(images, state[f"{name}.weight"])
            images = torch.unflatten(max_pool2d(maps.flatten(0, 1), 2), 0, maps.shape[:2])
            images = (images + state[f"{name}.bias"][:, None, :, None, None]).relu_()
        hidden = images.flatten(2).mT
        for name in ("layers.7", "layers.9", "last"):
            weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
            hidden = torch.baddbmm(bias[:, :, None], weight, hidden)
            hidden = hidden if name == "last" else hidden.relu_()
        return hidden.mT


def _convolve(images: Tensor, weight: Tensor) -> Tensor:
    """Convolve images (M, N, C, H, W) of M networks with their weights (M, D, C, k, k).

    Each row of the result is the product of k rows of the images with a matrix that contains the
    weights once for each position along the row.
    """
    n_networks, n_images = images.shape[:2]
    rows: Tensor = cast("Any", _UnfoldRows).apply(images, weight.shape[-1])
    products = torch.bmm(rows.flatten(1, 2).flatten(2), _unroll_weights(weight, images.shape[-1]))
    per_row = (n_networks, n_images, rows.shape[2], weight.shape[1], -1)
    return products.view(per_row).transpose(2, 3)


def _unroll_weights(weight: Tensor, width: int) -> Tensor:
    """Build the matrix (M, C·k·width, D·n_places) that applies weights (M, D, C, k, k) to a row.

    The weights are padded with zeros to one more than the width of a row and repeated. Cut into
    rows again, each repetition is shifted by one place.
    """
    n_places = width - weight.shape[-1] + 1
    longer = pad(weight, (0, n_places))
    repeated = longer[..., None, :].expand(*longer.shape[:-1], n_places, -1).flatten(-2)
    shifted = torch.unflatten(repeated[..., : n_places * width], -1, (n_places, width))
    return shifted.permute(0, 2, 3, 5, 1, 4).flatten(1, 3).flatten(2)


class _UnfoldRows(torch.autograd.Function):
    """Gather the k rows of images (M, N, C, H, W) for each row of the result: (M, N, H', C, k, W).

    The gradient is a sum of k tensors. That of `torch.Tensor.unfold` adds single numbers.
    """

    @staticmethod
    def forward(ctx: Any, images: Tensor, size: int) -> Tensor:
        ctx.size = size
        return images.unfold(3, size, 1).permute(0, 1, 3, 2, 5, 4)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # one part for each of the k rows, (M, N, C, H', W)
        parts = gradients[0].transpose(2, 3).unbind(4)
        last = ctx.size - 1
        moved = [pad(part, (0, 0, number, last - number)) for number, part in enumerate(parts)]
        return torch.stack(moved).sum(0), None
