"""What the networks share: standardised inputs, a checked image shape, and the first weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from naysay._base.checks import check_count, check_n_classes
from naysay._base.errors import InvalidInput

_CHUNK = 2**18  # numbers that are float64 at once: 2 MB, which stay in a cache


def last_layer(n_inputs: int, n_classes: int, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """Return the layer that gives the logits, all of them zero at first."""
    last = kind(n_inputs, check_n_classes(n_classes))
    # Start from equal probabilities: a random preference between two classes that annotators
    # treat alike would be hard to unlearn, and one of the two would never be predicted.
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


def initialise(module: nn.Module) -> None:
    """Draw weights that keep the size of signals through ReLUs (He et al. 2015)."""
    if isinstance(module, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def mean_and_scale(inputs: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation over `axes`, the first among them; it is dropped.

    The scale of what is constant is 1. Inputs are read a part at a time, and the moments of parts
    merged (Chan et al. 1983), so that bytes are never all floats at once.
    """
    n_seen = 0
    mean = squares = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for part in inputs.split(max(1, _CHUNK // max(1, inputs[:1].numel()))):
        values = part.double()
        part_mean = values.mean(axes, keepdim=True)
        n = values.numel() // part_mean.numel()
        step = part_mean - mean
        n_seen += n
        mean = mean + step * (n / n_seen)
        squares = squares + (values - part_mean).square_().sum(axes, keepdim=True)
        squares = squares + step.square() * (n * (n_seen - n) / n_seen)
    deviation = (squares / n_seen).sqrt()
    constant = deviation <= 1e-6 * mean.abs()  # up to the rounding of its mean
    return mean.squeeze(0), deviation.where(~constant, 1).squeeze(0)


class ImageNetwork(nn.Module):
    """Network for images of one shape, standardised by channel."""

    mean: Tensor
    scale: Tensor

    def __init__(
        self, input_shape: Sequence[int], n_classes: int, *, min_side: int, **options: Any
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if len(input_shape) != 3:
            raise InvalidInput(
                f"{name} takes images, each of shape (C, H, W). Got shape {tuple(input_shape)}. "
                "For features use MLP, and give grey images one channel: X[:, None]."
            )
        shape = tuple(check_count(size, "each size of input_shape") for size in input_shape)
        if min(shape[1:]) < min_side:
            raise InvalidInput(
                f"{name} takes images of shape (C, H, W), channels first, with at least {min_side} "
                f"× {min_side} pixels. Got shape {shape}. Enlarge them, or use MLP."
            )
        self.input_shape = shape
        self.arguments: dict[str, Any] = {  # what a model file needs to build it again
            "input_shape": list(shape),
            "n_classes": n_classes,
            **options,
        }
        self.register_buffer("mean", torch.zeros(shape[0], 1, 1))
        self.register_buffer("scale", torch.ones(shape[0], 1, 1))

    def standardise(self, inputs: Tensor) -> None:
        """Take mean and scale of each channel from training images, bytes or floats."""
        self._check(inputs)
        mean, scale = mean_and_scale(inputs, (0, 2, 3))
        self.mean.copy_(mean)
        self.scale.copy_(scale)

    def standardised(self, inputs: Tensor) -> Tensor:
        """Return images with mean 0 and deviation 1 in each channel, as floats."""
        self._check(inputs)
        return (inputs - self.mean) / self.scale

    def _check(self, inputs: Tensor) -> None:
        if inputs.shape[1:] != self.input_shape:  # one channel would silently become three
            raise InvalidInput(
                f"This {type(self).__name__} takes a batch of images, shape (N, "
                f"{', '.join(map(str, self.input_shape))}). Got shape {tuple(inputs.shape)}."
            )
