"""Residual networks for small images."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, relu

from naysay._base.checks import check_count
from naysay._base.errors import InvalidInput
from naysay.networks.parts import ImageNetwork, initialise, last_layer


class BatchNorm2d(nn.BatchNorm2d):
    """`torch.nn.BatchNorm2d` that does not count batches, which saves a GPU kernel per layer.

    In a compiled network, one pass over the batch computes both moments from sums.
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002  (torch's name)
        """Normalise a batch."""
        if self.training and torch.compiler.is_compiling():  # pragma: no cover - compiled
            return self._normalise_by_sums(input)
        return batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            training=self.training,
            momentum=self.momentum or 0.0,
            eps=self.eps,
        )

    def _normalise_by_sums(self, images: Tensor) -> Tensor:  # pragma: no cover - compiled
        values = images.float()
        mean = values.mean((0, 2, 3))
        variance = (values.square().mean((0, 2, 3)) - mean.square()).clamp_min(0)
        with torch.no_grad():
            n = values.numel() / len(mean)
            unbiased = variance * (n / (n - 1))
            for running, value in ((self.running_mean, mean), (self.running_var, unbiased)):
                if running is not None:
                    running.lerp_(value, self.momentum or 0.0)
        scale = self.weight * (variance + self.eps).rsqrt()
        shift = self.bias - mean * scale
        return (values * scale[:, None, None] + shift[:, None, None]).to(images.dtype)


class _Block(nn.Module):
    """Two 3 × 3 convolutions with a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False),
            BatchNorm2d(n_out),
            nn.ReLU(inplace=True),
            nn.Conv2d(n_out, n_out, 3, padding=1, bias=False),
            BatchNorm2d(n_out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if n_in != n_out or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), BatchNorm2d(n_out)
            )

    def forward(self, images: Tensor) -> Tensor:
        return relu(self.shortcut(images) + self.branch(images))


class _ResNet(ImageNetwork):
    """Four stages of blocks; each after the first halves the side and doubles the channels."""

    n_blocks: ClassVar[Sequence[int]]

    def __init__(
        self,
        input_shape: Sequence[int],
        n_classes: int,
        *,
        width: int = 64,
        stem_padding: int = 1,
        mirrored: bool = False,
    ) -> None:
        width = check_count(width, "width")
        if stem_padding not in (0, 1):
            raise InvalidInput(
                "stem_padding must be 1, the usual choice for CIFAR, or 0, the choice of the paper "
                f"for Tiny ImageNet. Got {stem_padding!r}."
            )
        super().__init__(
            input_shape,
            n_classes,
            min_side=10 - 2 * stem_padding,  # the side is 8 after the stem and then halved thrice
            width=width,
            stem_padding=int(stem_padding),
            mirrored=bool(mirrored),
        )
        self.mirrored = bool(mirrored)
        self.stem = nn.Sequential(
            nn.Conv2d(self.input_shape[0], width, 3, padding=stem_padding, bias=False),
            BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ).apply(initialise)
        blocks: list[nn.Module] = []
        n_in = width
        for stage, n_blocks in enumerate(self.n_blocks):
            n_out = width * 2**stage
            for index in range(n_blocks):
                blocks.append(_Block(n_in, n_out, stride=2 if stage and not index else 1))
                n_in = n_out
        self.blocks = nn.Sequential(*blocks).apply(initialise)
        self.last = last_layer(n_in, n_classes)

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the logits, shape (N, n_classes)."""
        logits = self._logits(inputs)
        if self.mirrored and not self.training:
            logits = (logits + self._logits(inputs.flip(3))) / 2
        return logits

    def _logits(self, inputs: Tensor) -> Tensor:
        features = self.blocks(self.stem(self.standardised(inputs)))
        return self.last(features.mean((2, 3)))


class ResNet18(_ResNet):
    """ResNet-18 for small images, the paper's network for CIFAR-10 and Tiny ImageNet.

    The first convolution is 3 × 3 with stride 1, and no max-pooling follows it.

    Parameters
    ----------
    input_shape : sequence of int
        ``(C, H, W)`` of one image, at least 8 × 8 pixels (10 × 10 without padding).
    n_classes : int
    width : int, default=64
        Channels of the first stage. The last stage has eight times as many.
    stem_padding : {0, 1}, default=1
        Padding of the first convolution: 1 is usual for CIFAR, and 0 is the choice of the paper
        for Tiny ImageNet.
    mirrored : bool, default=False
        In evaluation mode, average the logits of an image and its mirror image. This improves
        predictions where left and right do not matter, and takes twice the time. Training does not
        change.

    References
    ----------
    He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016.

    Examples
    --------
    >>> network = ResNet18((3, 32, 32), 10)
    >>> sum(weights.numel() for weights in network.parameters())
    11173962
    """

    n_blocks = (2, 2, 2, 2)


class ResNet34(_ResNet):
    """ResNet-34 for small images, the paper's network for CIFAR-100.

    The parameters are those of `ResNet18`. It has 16 blocks instead of 8.

    Examples
    --------
    >>> network = ResNet34((3, 32, 32), 100)
    >>> sum(weights.numel() for weights in network.parameters())
    21328292
    """

    n_blocks = (3, 4, 6, 3)
