"""Parts common to the networks: standardisation, checks of image shapes, and initial weights."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from naysay._base.checks import check_count, check_n_classes
from naysay._base.errors import InvalidInput

_CHUNK = 2**18  # numbers converted to float64 at a time: 2 MB, which fit in a cache


def last_layer(n_inputs: int, n_classes: int, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """Create the layer that computes the logits, with all weights zero."""
    last = kind(n_inputs, check_n_classes(n_classes))
    # Training starts from equal probabilities. Where annotators treat two classes alike, a random
    # preference for one of them would be hard to unlearn, and the other would never be predicted.
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


def initialise(module: nn.Module) -> None:
    """Draw weights that preserve the scale of activations through ReLUs (He et al. 2015)."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def mean_and_scale(inputs: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Compute mean and standard deviation over `axes`, of which the first axis is removed.

    A constant feature gets the scale 1. Inputs are read in chunks whose moments are merged (Chan et
    al. 1983), so that byte inputs are never converted to floats all at once.
    """
    n_seen = 0
    mean = squares = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for chunk in torch.split(inputs, max(1, _CHUNK // max(1, inputs[:1].numel()))):
        values = chunk.double()
        chunk_mean = values.mean(axes, keepdim=True)
        n = values.numel() // chunk_mean.numel()
        step = chunk_mean - mean
        n_seen += n
        mean = mean + step * (n / n_seen)
        squares = squares + (values - chunk_mean).square_().sum(axes, keepdim=True)
        squares = squares + step.square() * (n * (n_seen - n) / n_seen)
    deviation = (squares / n_seen).sqrt()
    least = torch.finfo(torch.float32).tiny  # a smaller scale would be 0
    constant = deviation <= (1e-6 * mean.abs()).clamp(min=least)  # up to rounding of the mean
    return mean.squeeze(0), deviation.where(~constant, 1).squeeze(0)


class Network(nn.Module):
    """Network that a model file restores from its `arguments`."""

    def __init__(self, input_shape: Sequence[int], n_classes: int, **options: Any) -> None:
        super().__init__()
        shape = [check_count(size, "each size of input_shape") for size in input_shape]
        self.arguments: dict[str, Any] = {
            "input_shape": shape,
            "n_classes": check_n_classes(n_classes),
            **options,
        }
        self.n_inputs = prod(shape)


class ImageNetwork(Network):
    """Network for images of a fixed shape that standardises each channel."""

    mean: Tensor
    scale: Tensor

    def __init__(
        self, input_shape: Sequence[int], n_classes: int, *, min_side: int, **options: Any
    ) -> None:
        super().__init__(input_shape, n_classes, **options)
        name = type(self).__name__
        if len(input_shape) != 3:
            raise InvalidInput(
                f"{name} needs images of shape (C, H, W). Got shape {tuple(input_shape)}. "
                "Use MLP for features, and add a channel to grey images: X[:, None]."
            )
        shape = tuple(self.arguments["input_shape"])
        if min(shape[1:]) < min_side:
            raise InvalidInput(
                f"{name} needs images of shape (C, H, W), channels first, with at least {min_side} "
                f"× {min_side} pixels. Got shape {shape}. Enlarge them, or use MLP."
            )
        self.input_shape = shape
        self.register_buffer("mean", torch.zeros(shape[0], 1, 1))
        self.register_buffer("scale", torch.ones(shape[0], 1, 1))

    def standardise(self, inputs: Tensor) -> None:
        """Compute mean and scale of each channel from training images, bytes or floats."""
        self._check(inputs)
        mean, scale = mean_and_scale(inputs, (0, 2, 3))
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def standardised(self, inputs: Tensor) -> Tensor:
        """Scale images to mean 0 and standard deviation 1 in each channel, as floats."""
        self._check(inputs)
        return (inputs - self.mean) / self.scale

    def _check(self, inputs: Tensor) -> None:
        if inputs.shape[1:] != self.input_shape:  # broadcasting would turn one channel into three
            raise InvalidInput(
                f"This {type(self).__name__} needs a batch of images of shape (N, "
                f"{', '.join(map(str, self.input_shape))}). Got shape {tuple(inputs.shape)}."
            )
