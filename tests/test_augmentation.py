"""Views: small changes, seeded, each example on its own."""

import torch

from naysay.augmentation import add_noise, crop, default_for

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
