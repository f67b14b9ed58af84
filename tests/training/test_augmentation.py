"""Views: small changes and large ones, seeded, each example on its own."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch

from naysay import ComplementaryClassifier, InvalidInput
from naysay.networks import ResNet18
from naysay.training.augmentation import (
    add_noise,
    compose,
    crop,
    cutout,
    default_for,
    distort,
    flip,
    recolour,
)

IMAGES = torch.arange(5 * 2 * 6 * 7, dtype=torch.float32).reshape(5, 2, 6, 7)


def test_the_same_seed_gives_the_same_view():
    for augment in (crop, lambda x: add_noise(x, 0.1)):
        torch.manual_seed(0)
        first, second = augment(IMAGES), augment(IMAGES)
        torch.manual_seed(0)
        assert torch.equal(augment(IMAGES), first)
        assert not torch.equal(first, second)
        assert first.shape == IMAGES.shape
        assert first.dtype == IMAGES.dtype


def test_a_crop_is_a_part_of_the_mirrored_image_all_channels_alike():
    torch.manual_seed(0)
    padded = torch.nn.functional.pad(IMAGES, (2, 2, 2, 2), mode="reflect")
    shifts = set()
    for found, image in zip(crop(IMAGES), padded, strict=True):
        windows = {(i, j): image[:, i : i + 6, j : j + 7] for i in range(5) for j in range(5)}
        (shift,) = [at for at, window in windows.items() if torch.equal(window, found)]
        shifts.add(shift)
    assert len(shifts) > 1


def test_crops_move_both_ways_equally_often():
    torch.manual_seed(0)
    column = torch.arange(9.0).expand(4000, 1, 9, 9)
    moved = crop(column)[:, 0, 4, 4] - 4
    assert sorted(set(moved.tolist())) == [-2, -1, 0, 1, 2]
    assert abs(moved.mean()) < 0.1


def test_images_too_small_to_mirror_are_moved_by_less():
    assert torch.equal(crop(IMAGES[:, :, :1]), IMAGES[:, :, :1])
    assert crop(IMAGES[:, :, :2]).shape == (5, 2, 2, 7)


def test_noise_has_the_scale_of_each_feature():
    torch.manual_seed(0)
    inputs = torch.zeros(20_000, 3)
    found = add_noise(inputs, torch.tensor([0.0, 1.0, 5.0])).std(0)
    torch.testing.assert_close(found, torch.tensor([0.0, 1.0, 5.0]), rtol=0.03, atol=0)


def test_the_default_is_noise_for_features_and_a_shift_for_images():
    torch.manual_seed(0)
    features = torch.randn(1000, 2) * torch.tensor([1.0, 100.0])
    noise = (default_for(features)(features) - features).std(0)
    torch.testing.assert_close(noise, torch.tensor([0.1, 10.0]), rtol=0.1, atol=0)
    images = torch.randint(256, (50, 1, 28, 28), dtype=torch.uint8)
    view = default_for(images)(images.float())
    assert not torch.equal(view, images)
    assert set(view[0].unique().tolist()) <= set(images[0].unique().tolist())
    small = IMAGES[:, :, :, :6]
    assert torch.equal(default_for(small)(small), small)  # a pixel would be a sixth of it


# ---------------------------------------------------------------------- flip, cutout, compose

BYTES = torch.randint(256, (40, 3, 9, 12), dtype=torch.uint8, generator=torch.manual_seed(1))
IMAGE_VIEWS = {
    "crop": partial(crop, padding=4),
    "flip": flip,
    "cutout": partial(cutout, size=4),
    "distort": distort,
    "recolour": recolour,
    "all": compose(partial(crop, padding=4), flip, partial(cutout, size=3), distort, recolour),
}
#: by how much bytes may be off: rounded once, but by "all" thrice, and contrast and colour of the
#: last of them make a difference up to 1.8 times 2 times as large
ROUNDED = {"all": 8}


@pytest.fixture(params=IMAGE_VIEWS)
def name(request):
    return request.param


@pytest.fixture
def augment(name):
    return IMAGE_VIEWS[name]


def seeded(augment, images, seed=0):
    torch.manual_seed(seed)
    return augment(images)


def assert_same_bytes(found, expected):
    """Equal, but for the few that a sum in another order rounds up instead of down."""
    assert (found.int() - expected.int()).abs().max() <= 1
    assert (found != expected).float().mean() < 0.001


def test_views_of_bytes_are_those_of_floats(name, augment):
    view = seeded(augment, BYTES)
    assert (view.dtype, view.shape) == (torch.uint8, BYTES.shape)
    assert not torch.equal(view, BYTES)
    as_floats = seeded(augment, BYTES.float())
    assert as_floats.dtype == torch.float32
    as_floats = as_floats.clamp(0, 255)  # bytes stay in their range
    assert (as_floats - view.float()).abs().max() < ROUNDED.get(name, 1)
    assert seeded(augment, BYTES.double()).dtype == torch.float64


def test_views_keep_the_memory_format_and_the_batch(augment):
    last = BYTES.contiguous(memory_format=torch.channels_last)
    before = last.clone()
    assert seeded(augment, BYTES).is_contiguous()
    view = seeded(augment, last)
    assert view.is_contiguous(memory_format=torch.channels_last)
    assert_same_bytes(view, seeded(augment, BYTES))
    assert torch.equal(last, before)  # nobody's batch is edited
    assert augment(BYTES[:0]).shape == (0, 3, 9, 12)


def test_views_never_wait_for_a_value(augment):
    # a tensor without values: reading one, which a CUDA graph cannot do, would raise
    view = augment(BYTES.to("meta"))
    assert (view.device.type, view.shape, view.dtype) == ("meta", BYTES.shape, torch.uint8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@pytest.mark.unmeasured
def test_all_views_compile_as_one_graph():
    torch.compiler.reset()
    compiled = torch.compile(IMAGE_VIEWS["all"], fullgraph=True, backend="eager")
    assert_same_bytes(seeded(compiled, BYTES), seeded(IMAGE_VIEWS["all"], BYTES))


def test_a_view_of_an_image_does_not_depend_on_the_others(augment):
    others = BYTES.clone()
    others[1::2] = 255 - others[1::2]
    assert torch.equal(seeded(augment, others)[::2], seeded(augment, BYTES)[::2])
    alike = seeded(augment, BYTES[:1].expand(40, -1, -1, -1).contiguous())
    assert any(not torch.equal(view, alike[0]) for view in alike)


def mirrored_index(index, size):
    """Walk outwards from the border and back in, one pixel at a time."""
    position, step = 0, 1 if index > 0 else -1
    for _ in range(abs(index)):
        if position + step not in range(size):
            step = -step
        position += step
    return position


def test_crop_agrees_with_a_loop_over_pixels():
    found = seeded(partial(crop, padding=4), BYTES)
    n, _, height, width = BYTES.shape
    torch.manual_seed(0)
    shift = torch.randint(-4, 5, (2, n, 1))[..., 0].tolist()
    for i in range(n):
        for row in range(height):
            for column in range(width):
                there = mirrored_index(row + shift[0][i], height)
                across = mirrored_index(column + shift[1][i], width)
                assert torch.equal(found[i, :, row, column], BYTES[i, :, there, across])


def test_flip_mirrors_whole_images_half_of_the_time():
    found = seeded(flip, BYTES)
    n_mirrored = 0
    for view, image in zip(found.tolist(), BYTES.tolist(), strict=True):
        mirrored = [[row[::-1] for row in channel] for channel in image]
        assert view in (image, mirrored)
        n_mirrored += view == mirrored
    assert 0 < n_mirrored < len(BYTES)
    many = seeded(flip, torch.tensor([0.0, 1.0]).expand(20_000, 1, 1, 2))
    assert abs(many[:, 0, 0, 0].mean() - 0.5) < 0.015  # four standard errors


@pytest.mark.parametrize("size", [1, 3, 4, 50])
def test_cutout_agrees_with_a_loop_over_pixels(size):
    images = BYTES.double() + 1000  # no pixel equals a mean by chance
    found = seeded(partial(cutout, size=size), images)
    n, _, height, width = images.shape
    torch.manual_seed(0)
    tops = (torch.randint(height, (n, 1))[:, 0] - size // 2).tolist()
    lefts = (torch.randint(width, (n, 1))[:, 0] - size // 2).tolist()
    for view, image, top, left in zip(found, images, tops, lefts, strict=True):
        expected = image.clone()
        for channel in range(3):
            mean = sum(image[channel].flatten().tolist()) / (height * width)
            for row in range(max(0, top), min(height, top + size)):
                for column in range(max(0, left), min(width, left + size)):
                    expected[channel, row, column] = mean
        torch.testing.assert_close(view, expected, rtol=1e-6, atol=0)


def test_cutout_hits_every_pixel_and_those_at_the_border_less():
    images = torch.zeros(20_000, 1, 8, 8)
    images[:, :, 0, 0] = 64.0
    share = (seeded(partial(cutout, size=4), images) == 1).float().mean((0, 1))
    inner, edge = share[4, 4], share[4, 0]
    # a pixel inside is hit by 4 * 4 of 64 middles, one in the first column by 4 * 3
    assert abs(inner - 16 / 64) < 0.015
    assert abs(edge - 12 / 64) < 0.015


def test_compose_does_one_after_the_other_and_can_be_pickled():
    def double(inputs):
        return inputs * 2

    def add_one(inputs):
        return inputs + 1

    x = torch.tensor([3.0])
    assert compose(double, add_one)(x) == 7
    assert compose(add_one, double)(x) == 8
    assert compose()(x) is x
    twin = pickle.loads(pickle.dumps(IMAGE_VIEWS["all"]))
    assert torch.equal(seeded(twin, BYTES), seeded(IMAGE_VIEWS["all"], BYTES))


def test_what_is_no_augmentation_or_no_image_is_refused(augment):
    with pytest.raises(InvalidInput, match=r"shape \(N, C, H, W\)\. Got shape \(5, 8\)"):
        augment(torch.zeros(5, 8))
    with pytest.raises(InvalidInput, match=r"compose takes callables.* Got 4\. .*padding=4"):
        compose(crop, 4)


def test_a_classifier_trains_through_composed_views():
    seen = []

    def watch(images):
        seen.append(images.shape[1:])
        return images

    X = BYTES.numpy()
    clf = ComplementaryClassifier(
        network=partial(ResNet18, width=2),
        augment=compose(IMAGE_VIEWS["all"], watch),
        epochs=1,
        random_state=0,
    ).fit(X, np.arange(len(X)) % 3)
    assert set(seen) == {(3, 9, 12)}
    assert clf.predict_proba(X).shape == (len(X), 3)
