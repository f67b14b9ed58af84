import json
import os
import struct
import zlib

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from naysay import InvalidData, InvalidInput, InvalidModelFile
from naysay.datasets import summarise
from naysay.datasets.own import read_features, read_own, recipe_from_dict
from naysay.datasets.own.images import ImageRecipe, find_images, plan_images, resolve_paths


def save(path, shape=(6, 8, 3), seed=0, **options):
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return pixels


@pytest.fixture
def photos(tmp_path):
    """Six images in three folders; dog/1.png and owl/again.png are the same picture."""
    root = tmp_path / "photos"
    for seed, name in enumerate(["cat/1.png", "cat/deep/2.png", "dog/1.png", "dog/2.png"]):
        save(root / name, seed=seed)
    save(root / "owl/1.png", seed=9)
    (root / "owl/again.png").write_bytes((root / "dog/1.png").read_bytes())
    (root / "fox").mkdir()
    (root / ".cache").mkdir()
    (root / "cat/.DS_Store").write_bytes(b"x")
    (root / "cat/Thumbs.db").write_bytes(b"x")
    return root


def test_folders_are_complementary_labels_and_one_file_in_two_folders_has_two(photos):
    own = read_own(photos)
    assert own.classes == ("cat", "dog", "fox", "owl")
    assert own.ids == ("cat/1.png", "cat/deep/2.png", "dog/1.png", "dog/2.png", "owl/1.png")
    assert own.example.tolist() == [0, 1, 2, 2, 3, 4]
    assert own.label.tolist() == [0, 0, 1, 3, 1, 3]
    assert (own.n_rows, own.n_examples) == (6, 5)
    assert own.X.shape == (5, 3, 6, 8)
    assert own.X.dtype == np.uint8
    assert_array_equal(own.X[3], np.asarray(Image.open(photos / "dog/2.png")).transpose(2, 0, 1))


def test_new_images_are_read_in_the_order_of_find_images(photos):
    own = read_own(photos)
    recipe = recipe_from_dict(json.loads(json.dumps(own.recipe.to_dict())))
    X = read_features(photos, recipe)
    assert len(X) == len(find_images(photos)) == 6
    assert_array_equal(X[:5], own.X)


def test_a_table_of_paths(photos):
    path = photos / "labels.csv"
    path.write_text(
        "file,not,is,who\ncat/1.png,dog,,ann\ncat/1.png,owl,,bob\n"
        f"{photos / 'dog/1.png'},cat,owl,\n"
    )
    own = read_own(path, label="not", images="file", true_label="is", annotator="who")
    assert own.classes == ("cat", "dog", "owl")
    assert own.example.tolist() == [0, 0, 1]
    assert own.true_labels.tolist() == [-1, 2]
    assert own.X.shape == (2, 3, 6, 8)
    assert own.ids is not None
    assert own.ids[0] == "cat/1.png"
    assert_array_equal(read_features(path, own.recipe, images="file"), own.X[[0, 0, 1]])


def test_relative_paths_must_stay_inside_the_folder_of_the_table(tmp_path):
    inside = tmp_path / "inside"
    save(tmp_path / "secret.png")
    inside.mkdir()
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "t.csv").write_text("f,not\na.png,\n../secret.png,a|b\n")
    with pytest.raises(InvalidData, match=r"must stay inside its folder. Data row 2 has"):
        read_own(inside / "t.csv", label="not", images="f")
    (inside / "t.csv").write_text(f"f,not\n{tmp_path / 'secret.png'},a|b\n")
    assert len(read_own(inside / "t.csv", label="not", images="f").X) == 1
    for name in ("../secret.png", "link.png", "x/../../secret.png"):
        with pytest.raises(InvalidData, match=r"must stay inside its folder. Data row 8 has"):
            resolve_paths(["a.png", name], [3, 7], inside / "t.csv", "t.csv")
    for cell in (None, "a\0b"):
        with pytest.raises(InvalidData, match="data row 4 is empty or invalid"):
            resolve_paths([cell], [3], inside / "t.csv", "t.csv")


def test_a_missing_image_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("file,not\ngone.png,cat\nalso.png,dog\n")
    with pytest.raises(FileNotFoundError, match=r"There is no image file .*gone.png"):
        read_own(tmp_path / "t.csv", label="not", images="file")


def test_images_of_different_sizes_need_a_size(photos):
    save(photos / "owl/large.png", (20, 10, 3), seed=3)
    with pytest.raises(InvalidData, match=r"(?s)5 of 6 are 6x8 .*large.png is 20x10.*size=\(6, 8"):
        read_own(photos)
    assert read_own(photos, size=(5, 4)).X.shape == (6, 3, 5, 4)


def test_images_that_would_fill_the_memory_are_refused_before(photos, monkeypatch):
    monkeypatch.setenv("NAYSAY_MAX_GB", "1")
    with pytest.raises(InvalidData, match=r"\(5, 3, 10000, 10000\).* 1\.5 GB .*NAYSAY_MAX_GB"):
        read_own(photos, size=(10_000, 10_000))


def test_all_grey_images_stay_grey_and_one_in_colour_makes_all_colour(tmp_path):
    grey = save(tmp_path / "p/cat/1.png", (4, 5), seed=1)
    save(tmp_path / "p/dog/1.png", (4, 5), seed=2)
    own = read_own(tmp_path / "p")
    assert own.X.shape == (2, 1, 4, 5)
    assert_array_equal(own.X[0, 0], grey)
    assert read_own(tmp_path / "p", mode="RGB").X.shape == (2, 3, 4, 5)
    save(tmp_path / "p/dog/2.png", (4, 5, 3))
    assert read_own(tmp_path / "p").X.shape == (3, 3, 4, 5)


def test_16_bit_palette_and_transparent_images_are_read(tmp_path):
    deep = np.array([[0, 65535], [256, 512]], dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "a.png")
    recipe = ImageRecipe(height=2, width=2, mode="L")
    assert recipe.apply([tmp_path / "a.png"])[0, 0].tolist() == [[0, 255], [1, 2]]
    palette = Image.new("P", (2, 2), 1)
    palette.putpalette([0, 0, 0, 10, 20, 30])
    palette.save(tmp_path / "b.png", transparency=b"\x00\x80")
    colour = ImageRecipe(height=2, width=2, mode="RGB")
    assert colour.apply([tmp_path / "b.png"])[0, :, 0, 0].tolist() == [10, 20, 30]
    Image.new("F", (2, 2)).save(tmp_path / "c.tiff")
    with pytest.raises(InvalidData, match=r"c.tiff must be an image.*floating-point"):
        recipe.apply([tmp_path / "c.tiff"])


def test_a_photo_that_says_it_is_rotated_is_turned_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = save(tmp_path / "a.png", (6, 8, 3), exif=exif)
    recipe = plan_images([tmp_path / "a.png"])
    assert recipe.shape == (3, 8, 6)
    upright = np.rot90(pixels, -1).transpose(2, 0, 1)
    assert_array_equal(recipe.apply([tmp_path / "a.png"])[0], upright)


@pytest.mark.parametrize("content", [b"", b"no image at all", "cut"])
def test_a_broken_image_is_named(photos, content):
    broken = photos / "cat/broken.png"
    whole = (photos / "cat/1.png").read_bytes()
    broken.write_bytes(whole[: len(whole) // 2] if content == "cut" else content)
    with pytest.raises(InvalidData, match=r"cat/broken.png must be an image. It is damaged"):
        read_own(photos)


@pytest.mark.parametrize("side", [10_000, 30_000])
def test_an_image_that_claims_to_be_enormous_is_refused(photos, side):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    (photos / "cat/bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", b""))
    with pytest.raises(InvalidData, match=r"bomb.png must have fewer than 89,478,485 pixels"):
        read_own(photos)


def test_folders_that_hold_no_labels_are_refused(tmp_path):
    with pytest.raises(InvalidData, match="It contains no image"):
        read_own(tmp_path)
    save(tmp_path / "loose.png")
    with pytest.raises(InvalidData, match=r"'loose.png' is in none"):
        read_own(tmp_path)


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"label": "not"}, "label must be omitted for a folder"),
        ({"features": ["a"]}, "features must be omitted"),
        ({"size": (0, 4)}, "size must be"),
        ({"mode": "CMYK"}, "mode must be 'L'"),
    ],
)
def test_options_that_do_not_fit_a_folder_are_refused(photos, options, problem):
    with pytest.raises(InvalidInput, match=problem):
        read_own(photos, **options)


@pytest.mark.parametrize("change", [{"kind": "table"}, {"height": "6"}, {"mode": "x"}])
def test_a_damaged_image_recipe_is_refused(change):
    recipe = ImageRecipe(height=6, width=8, mode="L")
    assert ImageRecipe.from_dict(recipe.to_dict()) == recipe
    with pytest.raises(InvalidModelFile, match="This one is damaged"):
        ImageRecipe.from_dict(recipe.to_dict() | change)


def test_a_damaged_image_is_left_out_if_asked_for(photos):
    (photos / "dog/2.png").write_bytes((photos / "dog/2.png").read_bytes()[:60])
    (photos / "cat/1.png").write_bytes(b"no image")
    with pytest.raises(InvalidData, match=r"1\.png must be an image"):
        read_own(photos)
    own = read_own(photos, strict=False)
    assert own.skipped == ("cat/1.png", "dog/2.png")
    assert own.ids == ("cat/deep/2.png", "dog/1.png", "owl/1.png")
    assert own.example.tolist() == [0, 1, 1, 2]
    assert own.label.tolist() == [0, 1, 3, 3]
    assert_array_equal(own.X[0], np.asarray(Image.open(photos / own.ids[0])).transpose(2, 0, 1))
    assert any("'cat/1.png', 'dog/2.png': left out" in each for each in summarise(own).warnings)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_and_a_link_to_nothing_are_damaged_images(photos):
    os.mkfifo(photos / "cat/pipe.png")
    (photos / "dog/link.png").symlink_to("nowhere")
    with pytest.raises(InvalidData, match=r"must be an image\. It is a pipe, or a link to nothing"):
        read_own(photos)
    assert read_own(photos, strict=False).skipped == ("cat/pipe.png", "dog/link.png")


def test_images_that_are_all_damaged_are_refused(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.png").write_bytes(b"no image")
    with pytest.raises(InvalidData, match="must be an image"):
        read_own(tmp_path, strict=False)


def test_capitals_of_folders_can_be_ignored(photos):
    (photos / "cat/deep/2.png").rename(photos / "fox/2.png")
    (photos / "fox").rename(photos / "Cat")
    own = read_own(photos, ignore_case=True)
    assert own.classes == ("Cat", "dog", "owl")
