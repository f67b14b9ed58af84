import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from naysay import InvalidData, datasets
from naysay.datasets.official import tiny_imagenet
from naysay.datasets.official.registry import REGISTRY

WNIDS = ("n02", "n01", "n03")  # the order of the classes is that of wnids.txt, not of names
WORDS = "n01\tcrane\nn02\tcrane, bird\nn03\tgoldfish, Carassius auratus\nn09\tunused\n"
N_TRAIN, N_TEST = 11, 2  # of each class: 11, so that _9 must come before _10


def jpeg(shade, *, mode="RGB", size=(64, 64)):
    """An image of one colour: the red channel is `shade`."""
    colour = shade if mode == "L" else (shade, 0, 0)
    file = io.BytesIO()
    Image.new(mode, size, colour).save(file, "JPEG", quality=100)
    return file.getvalue()


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The official layout with 3 classes of 11 + 2 images."""
    root = tmp_path / "data" / "tiny-imagenet-200"
    (root / "val" / "images").mkdir(parents=True)
    (root / "wnids.txt").write_text("\n".join(WNIDS) + "\n")
    (root / "words.txt").write_text(WORDS)
    for label, wnid in enumerate(WNIDS):
        images = root / "train" / wnid / "images"
        images.mkdir(parents=True)
        for number in range(N_TRAIN):
            (images / f"{wnid}_{number}.JPEG").write_bytes(jpeg(80 * label + number * 2))
    lines = []
    for number in range(N_TEST * len(WNIDS)):
        label = number % len(WNIDS)
        (root / "val" / "images" / f"val_{number}.JPEG").write_bytes(jpeg(80 * label))
        lines.append(f"val_{number}.JPEG\t{WNIDS[label]}\t0\t0\t63\t63")
    (root / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    entry = replace(REGISTRY["tiny-imagenet"], n_classes=3, n_train=33, n_test=6, downloads=())
    monkeypatch.setitem(REGISTRY, "tiny-imagenet", entry)
    return root


def load(root):
    return datasets.load("tiny-imagenet", data_dir=root.parent, download=False)


def decoded_files(root):
    folder = root.parent / "tiny-imagenet-200.decoded"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_images_labels_and_names_belong_together(root):
    tiny = load(root)
    assert tiny.test is not None
    assert tiny.train.X.shape == (33, 3, 64, 64)
    assert tiny.train.y.tolist() == [0] * 11 + [1] * 11 + [2] * 11
    shades = tiny.train.X[:, 0, 5, 5].astype(int)
    expected = [80 * label + 2 * number for label in range(3) for number in range(11)]
    np.testing.assert_allclose(shades, expected, atol=3)  # JPEG is not exact
    assert tiny.test.y.tolist() == [0, 1, 2, 0, 1, 2]
    np.testing.assert_allclose(tiny.test.X[:, 0, 5, 5], 80 * tiny.test.y, atol=3)
    assert tiny.classes == ("crane, bird", "crane", "goldfish")


def test_greyscale_images_have_three_equal_channels(root):
    (root / "train" / "n02" / "images" / "n02_0.JPEG").write_bytes(jpeg(99, mode="L"))
    X = load(root).train.X
    assert (X[0] == 99).all()


def test_a_second_load_maps_what_the_first_decoded(root, monkeypatch):
    first = load(root)
    monkeypatch.setattr(tiny_imagenet, "_decode_image", None)
    second = load(root)
    np.testing.assert_array_equal(second.train.X, first.train.X)
    assert isinstance(second.train.X, np.memmap)
    second.train.X[0] = 7  # copy on write: torch wants writable arrays, the file stays as it is
    np.testing.assert_array_equal(load(root).train.X, first.train.X)


def test_an_interrupted_conversion_leaves_nothing_and_can_be_repeated(root, monkeypatch):
    decode = tiny_imagenet._decode_image

    def interrupt(file):
        if file.path.name == "n01_5.JPEG":
            raise KeyboardInterrupt
        return decode(file)

    with monkeypatch.context() as patch:
        patch.setattr(tiny_imagenet, "_decode_image", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load(root)
    assert decoded_files(root) == []
    assert len(load(root).train) == 33
    assert decoded_files(root) == ["test-X.npy", "test-y.npy", "train-X.npy", "train-y.npy"]


@pytest.mark.parametrize(
    "content, problem",
    [
        (jpeg(9)[:-300], "must be a whole JPEG image"),
        (b"", "must be a whole JPEG image"),
        (b"GIF89a no JPEG", "must be a whole JPEG image"),
        (jpeg(9, size=(64, 32)), r"must have 64 x 64 pixels. It has \(64, 32\)"),
        (jpeg(9, size=(8000, 8000)), r"must have 64 x 64 pixels. It has \(8000, 8000\)"),
    ],
)
def test_a_damaged_image_is_an_error_that_names_it(root, content, problem):
    (root / "train" / "n01" / "images" / "n01_3.JPEG").write_bytes(content)
    with pytest.raises(InvalidData, match=rf"n01_3\.JPEG {problem}"):
        load(root)
    assert decoded_files(root) == []


def test_a_missing_image_is_an_error(root):
    (root / "train" / "n01" / "images" / "n01_3.JPEG").unlink()
    with pytest.raises(InvalidData, match=r"must be beside 11 images .*n01/images holds 10"):
        load(root)
    (root / "val" / "images" / "val_0.JPEG").unlink()
    (root / "train" / "n01" / "images" / "n01_3.JPEG").write_bytes(jpeg(9))
    with pytest.raises(InvalidData, match=r"val_0\.JPEG must be a whole JPEG image"):
        load(root)


@pytest.mark.parametrize(
    "line, problem",
    [
        ("val_0.JPEG", "must have an image and its class in line 1. Got 'val_0.JPEG'"),
        ("val_0.JPEG\tn77", "in line 1"),
        ("../../secret.JPEG\tn01", "in line 1"),
        ("val_0.JPEG\tn01", "must list 2 images of each class. It lists 1 of n02"),
    ],
)
def test_a_wrong_annotation_is_an_error(root, line, problem):
    path = root / "val" / "val_annotations.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([line, *lines[1:]]))
    with pytest.raises(InvalidData, match=rf"val_annotations\.txt .*{problem}"):
        load(root)


def test_wrong_text_files_are_errors(root):
    (root / "wnids.txt").write_bytes(b"\xff\xfen\x000\x001")
    with pytest.raises(InvalidData, match=r"wnids\.txt must be text in UTF-8. Byte 0 is 0xff"):
        load(root)
    (root / "wnids.txt").write_text("n01\nn01\nn02\n")
    with pytest.raises(InvalidData, match=r"must name 3 classes. It names 2"):
        load(root)


def test_a_damaged_conversion_is_an_error_that_names_its_folder(root):
    load(root)
    (path,) = root.parent.glob("tiny-imagenet-200.decoded/*/test-X.npy")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InvalidData, match=r"imagenet-200\.decoded/\w+ must contain the decoded"):
        load(root)
    np.save(path, np.zeros((2, 3, 64, 64), np.uint8))
    with pytest.raises(InvalidData, match=r"test has shape \(2, 3, 64, 64\)"):
        load(root)


def test_a_read_only_data_folder_is_left_alone(root, monkeypatch, tmp_path):
    monkeypatch.setattr(tiny_imagenet.os, "access", lambda folder, mode: False)
    monkeypatch.setattr(tiny_imagenet, "user_folder", lambda: tmp_path / "user")
    for _ in range(2):
        assert len(load(root).train) == 33
    assert decoded_files(root) == []
    assert (tmp_path / "user" / "tiny-imagenet-200.decoded").is_dir()
