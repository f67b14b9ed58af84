"""Views that differ much: distorted and recoloured images."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
import torch

from naysay.training.augmentation import (
    compose,
    crop,
    cutout,
    default_for,
    distort,
    recolour,
    strong_for,
)

BYTES = torch.randint(256, (40, 3, 9, 12), dtype=torch.uint8, generator=torch.manual_seed(1))


def seeded(augment, images, seed=0):
    torch.manual_seed(seed)
    return augment(images)


def mirrored_place(place, size):
    """Return where to look for a place in pixels; an image ends half a pixel beyond its last."""
    place = (place + 0.5) % (2 * size)
    place = min(place, 2 * size - place) - 0.5
    return min(max(place, 0.0), size - 1.0)


def between_pixels(image, row, column):
    """Return the colour between four pixels, nearer ones counting for more."""
    top, left = math.floor(row), math.floor(column)
    colour = torch.zeros(len(image), dtype=image.dtype)
    for i, down in ((top, 1 - (row - top)), (top + 1, row - top)):
        for j, across in ((left, 1 - (column - left)), (left + 1, column - left)):
            if down * across > 0:
                colour += down * across * image[:, i, j]
    return colour


@pytest.mark.parametrize("strength", [1.0, 2.5])
@pytest.mark.parametrize("shape", [(9, 12), (7, 7), (5, 1)])
def test_distort_agrees_with_a_loop_over_pixels(shape, strength):
    # angles and shears are those of pixels, also where an image is wider than high
    height, width = shape
    images = BYTES[:6, :, :height, :width].double() / 255
    found = seeded(partial(distort, strength=strength), images)
    torch.manual_seed(0)
    drawn = (strength * (2 * torch.rand(5, 6) - 1)).T.tolist()
    for view, image, (turned, wide, high, across, down) in zip(found, images, drawn, strict=True):
        angle = math.radians(20) * turned
        for row in range(height):
            for column in range(width):
                x = math.exp(0.2 * wide) * (column - (width - 1) / 2)
                y = math.exp(0.2 * high) * (row - (height - 1) / 2)
                x, y = x + 0.2 * across * y, y + 0.2 * down * x
                x, y = (
                    math.cos(angle) * x - math.sin(angle) * y,
                    math.sin(angle) * x + math.cos(angle) * y,
                )
                there = mirrored_place(y + (height - 1) / 2, height)
                beside = mirrored_place(x + (width - 1) / 2, width)
                expected = between_pixels(image, there, beside)
                torch.testing.assert_close(view[:, row, column], expected, rtol=0, atol=2e-5)


def test_distorted_images_have_no_other_colours_and_no_black_corners():
    flat = torch.tensor([0.2, 0.5, 0.9]).view(1, 3, 1, 1).expand(50, 3, 16, 16)
    torch.testing.assert_close(seeded(partial(distort, strength=3.0), flat), flat)
    images = BYTES.float() + 100
    view = seeded(partial(distort, strength=3.0), images)
    assert (view.amin((2, 3)) >= images.amin((2, 3)) - 1e-3).all()
    assert (view.amax((2, 3)) <= images.amax((2, 3)) + 1e-3).all()


def recoloured_by_hand(image, contrast, colour, shifts):
    """Return another image (C, H, W), in numpy, each channel moved by its share of the spread."""
    grey = image.mean(0)
    coloured = grey + colour * (image - grey)
    more = image.mean() + contrast * (coloured - image.mean())
    return more + np.reshape(shifts, (-1, 1, 1)) * image.std()


@pytest.mark.parametrize("n_channels", [1, 2, 3])
@pytest.mark.parametrize("strength", [1.0, 0.3])
def test_recolour_agrees_with_the_formula_of_one_image(n_channels, strength):
    images = BYTES[:, :n_channels].double() / 255
    found = seeded(partial(recolour, strength=strength), images)
    torch.manual_seed(0)
    drawn = strength * (2 * torch.rand(3 + n_channels, 40).double().numpy() - 1)
    for view, image, of_image in zip(found, images.numpy(), drawn.T, strict=True):
        contrast, colour, brighter, *channels = of_image
        shifts = [0.5 * brighter + 0.2 * channel for channel in channels]
        expected = recoloured_by_hand(image, math.exp(0.6 * contrast), 1 + colour, shifts)
        np.testing.assert_allclose(view.numpy(), expected, rtol=0, atol=1e-5)


def test_grey_images_get_a_tint_and_no_pattern_of_colours():
    grey = BYTES[:, :1].double().expand(-1, 3, -1, -1)
    view = seeded(recolour, grey)
    pattern = view - view.mean((2, 3), keepdim=True)
    torch.testing.assert_close(pattern, pattern[:, :1].expand_as(pattern), rtol=0, atol=1e-3)
    assert (view.mean((2, 3)).std(1) > 0.1).all()


def test_images_without_contrast_stay_as_they_are():
    flat = torch.tensor([3.0, 0.0, -2.0]).view(3, 1, 1, 1).expand(3, 3, 4, 4)
    torch.testing.assert_close(recolour(flat), flat)
    single = torch.tensor([7.0, 9.0]).view(2, 1, 1, 1)  # the spread of one value is 0, not NaN
    torch.testing.assert_close(recolour(single), single)
    torch.testing.assert_close(distort(single), single)


def test_recolouring_does_not_depend_on_the_unit_of_the_values():
    images = BYTES.double()
    found, rescaled = seeded(recolour, images), seeded(recolour, images / 50 - 3)
    torch.testing.assert_close(rescaled, found / 50 - 3, rtol=0, atol=1e-4)


@pytest.mark.parametrize("augment", [distort, recolour])
def test_strength_zero_changes_nothing_and_more_changes_more(augment):
    assert torch.equal(augment(BYTES, strength=0), BYTES)
    floats = BYTES.float() / 255
    torch.testing.assert_close(augment(floats, strength=0), floats, rtol=0, atol=1e-5)
    smooth = torch.linspace(0, 1, 16).expand(200, 3, 16, 16) ** 2
    changes = [
        (seeded(partial(augment, strength=s), smooth) - smooth).abs().mean() for s in (0.1, 0.5, 1)
    ]
    assert 0 < 2 * changes[0] < changes[1] < changes[2]


def test_what_is_strong_for_images_moves_distorts_recolours_and_cuts():
    images = BYTES[:, :, :, :9].repeat(1, 1, 3, 4)  # 27 x 36
    strong = strong_for(images)
    steps = compose(partial(crop, padding=2), distort, recolour, partial(cutout, size=13))
    assert torch.equal(seeded(strong, images), seeded(steps, images))
    assert torch.equal(seeded(pickle.loads(pickle.dumps(strong)), images), seeded(strong, images))
    assert strong_for(images[:, :1, :1, :1])(images[:, :1, :1, :1].float()).isfinite().all()


def test_what_is_strong_for_features_is_three_times_the_noise_of_the_default():
    torch.manual_seed(0)
    features = torch.randn(4000, 2) * torch.tensor([1.0, 100.0])
    weak, strong = (
        (make(features)(features) - features).std(0) for make in (default_for, strong_for)
    )
    torch.testing.assert_close(strong, torch.tensor([0.3, 30.0]), rtol=0.1, atol=0)
    torch.testing.assert_close(strong, 3 * weak, rtol=0.1, atol=0)
