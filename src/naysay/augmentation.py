"""Other views of the same examples, as pure functions of a batch; torch's generator draws them."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["Augment", "add_noise", "crop", "default_for"]

#: Takes a float batch, first axis examples, and returns another view of it, same shape.
Augment = Callable[[Tensor], Tensor]


def add_noise(inputs: Tensor, scale: Tensor | float) -> Tensor:
    """Return the inputs with Gaussian noise, its standard deviation given for each feature."""
    return inputs + torch.randn_like(inputs) * scale


def crop(images: Tensor, padding: int = 2) -> Tensor:
    """Return images (N, C, H, W) moved by up to `padding` pixels, their borders mirrored.

    Each is moved on its own. An image too small to mirror that far is moved by less.

    Examples
    --------
    >>> crop(torch.arange(12.0).reshape(1, 1, 3, 4)).shape
    torch.Size([1, 1, 3, 4])
    """
    n, _, height, width = images.shape
    padding = min(padding, height - 1, width - 1)
    padded = pad(images, (padding,) * 4, mode="reflect")
    shift = torch.randint(2 * padding + 1, (2, n, 1), device=images.device)
    rows = shift[0] + torch.arange(height, device=images.device)
    columns = shift[1] + torch.arange(width, device=images.device)
    which = torch.arange(n, device=images.device)[:, None, None]
    return padded.movedim(1, -1)[which, rows[:, :, None], columns[:, None, :]].movedim(-1, 1)


def default_for(inputs: Tensor) -> Augment:
    """Return what changes such inputs a little.

    Images are moved by up to 2 pixels, by less where that is more than a twelfth of a side. Other
    inputs get noise of a tenth of each feature's standard deviation.
    """
    if inputs.ndim == 4:
        return partial(crop, padding=min(2, min(inputs.shape[2:]) // 12))
    return partial(add_noise, scale=0.1 * inputs.float().std(0, correction=0))
