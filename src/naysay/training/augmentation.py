"""Random augmentations: functions that make another view of every example in a batch.

Images have shape (N, C, H, W), as floats or bytes, and keep their type and memory format. The
random numbers are those of torch's generator, or of a private one during training. No function
synchronises with the device, so that augmentations can be captured in a CUDA graph.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput
from naysay.networks.randomness import generator

__all__ = [
    "Augment",
    "Augments",
    "add_noise",
    "compose",
    "crop",
    "cutout",
    "default_for",
    "distort",
    "flip",
    "of_each_view",
    "recolour",
    "strong_for",
]

#: Maps a batch, whose first axis is the examples, to another view of it of the same shape.
Augment = Callable[[Tensor], Tensor]

#: One augmentation for every view, or a sequence with one for each view.
Augments = Augment | Sequence[Augment]


def add_noise(inputs: Tensor, scale: Tensor | float) -> Tensor:
    """Add Gaussian noise to the inputs; `scale` is its standard deviation for each feature."""
    noise = torch.empty_like(inputs).normal_(generator=generator())
    return inputs + noise * scale


def crop(images: Tensor, padding: int = 2) -> Tensor:
    """Shift each image (N, C, H, W) at random by up to `padding` pixels, mirroring its borders.

    Images that are too small to mirror that many pixels are shifted by less.

    Examples
    --------
    >>> crop(torch.arange(12.0).reshape(1, 1, 3, 4)).shape
    torch.Size([1, 1, 3, 4])
    """
    n, _, height, width = _image_shape(images)
    padding = min(padding, height - 1, width - 1)
    low, high, chosen = -padding, padding + 1, generator()
    shift = torch.randint(low, high, (2, n, 1), generator=chosen, device=images.device)
    rows = _mirrored(shift[0] + torch.arange(height, device=images.device), height)
    columns = _mirrored(shift[1] + torch.arange(width, device=images.device), width)
    pixel = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)
    if images.is_contiguous(memory_format=torch.channels_last):
        flat = images.movedim(1, -1).flatten(1, 2)
        moved = flat.gather(1, pixel[:, :, None].expand_as(flat))
        return torch.unflatten(moved, 1, (height, width)).movedim(-1, 1)
    flat = images.flatten(2)
    moved = flat.gather(2, pixel[:, None].expand_as(flat))
    return torch.unflatten(moved, 2, (height, width))


def flip(images: Tensor) -> Tensor:
    """Mirror each image (N, C, H, W) horizontally with probability one half.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> flip(torch.tensor([1, 2, 3]).expand(4, 1, 1, 3))[:, 0, 0]
    tensor([[3, 2, 1],
            [1, 2, 3],
            [3, 2, 1],
            [3, 2, 1]])
    """
    n = _image_shape(images)[0]
    mirrored = torch.rand(n, 1, 1, 1, device=images.device, generator=generator()) < 0.5
    return torch.where(mirrored, images.flip(3), images)


def cutout(images: Tensor, size: int = 8) -> Tensor:
    """Fill a random square of `size` pixels in each image (N, C, H, W) with its mean colour.

    The centre of the square is anywhere in the image, so that part of the square may be outside
    (DeVries and Taylor 2017).

    Examples
    --------
    >>> image = torch.eye(6).expand(1, 1, 6, 6)
    >>> bool((cutout(image, size=2) != image).sum() in (1, 2, 4))
    True
    """
    n, _, height, width = _image_shape(images)
    mean = images.mean((2, 3), keepdim=True, dtype=torch.float32).to(images.dtype)
    hit = _square_side(n, height, size, images.device)[:, :, None]
    hit = hit & _square_side(n, width, size, images.device)[:, None, :]
    return torch.where(hit[:, None], mean, images)


def distort(images: Tensor, strength: float = 1.0) -> Tensor:
    """Rotate, shear and zoom each image (N, C, H, W) at random, mirroring its borders.

    With strength 1, images are rotated by up to 20 degrees, sheared by up to a fifth along both
    sides, and zoomed in or out by up to a fifth.

    Examples
    --------
    >>> images = torch.rand(2, 3, 32, 32)
    >>> distort(images).shape, bool(distort(images, strength=0).allclose(images, atol=1e-5))
    (torch.Size([2, 3, 32, 32]), True)
    """
    n, _, height, width = _image_shape(images)
    if not images.numel():
        return images
    drawn = torch.rand(5, n, device=images.device, generator=generator())
    drawn = strength * (2 * drawn - 1)
    angle, zoom = math.radians(20) * drawn[0], torch.exp(0.2 * drawn[1:3])
    one, tall = torch.ones_like(angle), height / width  # in the grid both sides have length 2
    turn = [angle.cos(), -tall * angle.sin(), angle.sin() / tall, angle.cos()]
    turn = torch.stack(turn, 1).view(n, 2, 2)
    shear = torch.stack([one, 0.2 * tall * drawn[3], 0.2 / tall * drawn[4], one], 1).view(n, 2, 2)
    # written as sums of products, because autocast would multiply matrices in bfloat16
    where = (turn[:, :, :, None] * shear[:, None]).sum(2) * zoom.T[:, None]
    where = torch.cat([where, where.new_zeros(n, 2, 1)], 2)
    grid = affine_grid(where, list(images.shape), align_corners=False)
    moved = grid_sample(images.float(), grid, padding_mode="reflection", align_corners=False)
    return _like(moved, images)


def recolour(images: Tensor, strength: float = 1.0) -> Tensor:
    """Change contrast, brightness and colour of each image (N, C, H, W) at random.

    With strength 1, the contrast is multiplied by 0.55 to 1.8, colours range from grey to twice as
    saturated, brightness changes by up to half of the image's standard deviation and each channel
    by up to a further fifth of it. Floats may leave their range; bytes are clipped to theirs.

    Examples
    --------
    >>> images = torch.rand(2, 3, 32, 32)
    >>> recolour(images).shape, bool(recolour(images, strength=0).allclose(images, atol=1e-5))
    (torch.Size([2, 3, 32, 32]), True)
    """
    n, n_channels, _, _ = _image_shape(images)
    if not images.numel():
        return images
    sizes = (3 + n_channels, n, 1, 1, 1)
    drawn = torch.rand(sizes, device=images.device, generator=generator())
    drawn = strength * (2 * drawn - 1)
    contrast, colour = torch.exp(0.6 * drawn[0]), 1 + drawn[1]
    moved = 0.5 * drawn[2] + 0.2 * drawn[3:, :, 0].movedim(0, 1)  # (N, C, 1, 1)
    values = images.float()
    spread, mean = torch.std_mean(values, (1, 2, 3), correction=0, keepdim=True)
    grey = values.mean(1, keepdim=True)
    changed = mean + contrast * (grey - mean + colour * (values - grey)) + moved * spread
    return _like(changed, images)


def compose(*augments: Augment) -> Augment:
    """Combine several augmentations into one that applies them in order.

    Examples
    --------
    >>> augment = compose(partial(crop, padding=4), flip, cutout)
    >>> augment(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 3, 32, 32])
    """
    for augment in augments:
        if not callable(augment):
            raise InvalidInput(
                f"compose takes callables, each of which takes and returns a batch. Got "
                f"{shorten(augment)}. To set an option: partial(crop, padding=4)."
            )
    return partial(_do_all, augments)


def default_for(inputs: Tensor) -> Augment:
    """Make a weak augmentation for inputs like these.

    Images are shifted by up to 2 pixels, but not by more than a twelfth of a side. Other inputs
    get noise of a tenth of each feature's standard deviation.
    """
    if inputs.ndim == 4:
        return partial(crop, padding=min(2, min(inputs.shape[2:]) // 12))
    return partial(add_noise, scale=0.1 * inputs.float().std(0, correction=0))


def strong_for(inputs: Tensor) -> Augment:
    """Make a strong augmentation for inputs like these.

    Images are shifted as by `default_for`, distorted and recoloured, and a square of half their
    side is cut out. Other inputs get noise of three tenths of each feature's standard deviation.
    """
    if inputs.ndim == 4:
        size = min(inputs.shape[2:]) // 2
        return compose(default_for(inputs), distort, recolour, partial(cutout, size=size))
    return partial(add_noise, scale=0.3 * inputs.float().std(0, correction=0))


def of_each_view(augments: Augments, n_views: int) -> tuple[Augment, ...]:
    """Assign an augmentation to each view; the last one is repeated if there are too few.

    Examples
    --------
    >>> of_each_view([crop, distort], 3) == (crop, distort, distort)
    True
    """
    several = (augments,) if callable(augments) else augments
    if not isinstance(several, list | tuple) or not several or not all(map(callable, several)):
        raise InvalidInput(
            "augment must be a callable that takes and returns a batch, or a list of them, one "
            f"for each view. Got {shorten(augments) or 'an empty one'}."
        )
    return tuple(several[min(view, len(several) - 1)] for view in range(n_views))


def is_built_in(augment: Augment) -> bool:
    """Check whether an augmentation consists of functions of naysay only."""
    if isinstance(augment, partial) and augment.func is _do_all:
        return all(map(is_built_in, augment.args[0]))
    function = augment.func if isinstance(augment, partial) else augment
    return getattr(function, "__module__", "").startswith("naysay.")


def _do_all(augments: Sequence[Augment], inputs: Tensor) -> Tensor:
    for augment in augments:
        inputs = augment(inputs)
    return inputs


def _image_shape(images: Tensor) -> torch.Size:
    if images.ndim != 4:
        raise InvalidInput(
            f"Images must have shape (N, C, H, W). Got shape {tuple(images.shape)}. "
            "For features use add_noise."
        )
    return images.shape


def _like(values: Tensor, images: Tensor) -> Tensor:
    """Convert values to the type and memory format of the images, rounding to bytes if needed."""
    if not images.is_floating_point():
        values = values.round().clamp(0, 255)
    is_last = images.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if is_last else torch.contiguous_format
    return values.to(images.dtype).contiguous(memory_format=layout)


def _mirrored(index: Tensor, size: int) -> Tensor:
    """Reflect an index up to ``size - 1`` outside into the range, without repeating the border."""
    return size - 1 - (size - 1 - index.abs()).abs()


def _square_side(n: int, side: int, size: int, device: torch.device) -> Tensor:
    """Draw for each of n images which pixels along a side the square covers, shape (n, side)."""
    first = torch.randint(side, (n, 1), device=device, generator=generator()) - size // 2
    position = torch.arange(side, device=device)
    return (first <= position) & (position < first + size)
