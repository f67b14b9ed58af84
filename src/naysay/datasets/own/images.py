"""Images that users bring: a folder per complementary label, or a table of paths.

All images come out as one uint8 array of shape (n, channels, height, width). They must share one
size or be brought to one that the caller names: stretching pictures without being asked would
hide that they differ.
"""

import hashlib
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput, InvalidModelFile

__all__ = [
    "ImageRecipe",
    "digest_files",
    "find_images",
    "find_labelled_images",
    "plan_images",
    "resolve_paths",
]

_CHANNELS = {"L": 1, "RGB": 3}
_GREY = {"1", "L", "LA", "I;16", "I;16B", "I;16L", "I"}
_LITTER = {"thumbs.db", "desktop.ini"}  # what file managers leave behind
_ROTATED = {5, 6, 7, 8}  # EXIF orientations that swap height and width
_ORIENTATION = 0x0112

T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """What the first look at an image file tells, without decoding it."""

    height: int
    width: int
    is_grey: bool


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """How image files become an array: one size, greyscale (``L``) or colour (``RGB``)."""

    height: int
    width: int
    mode: str

    def __post_init__(self) -> None:
        if self.mode not in _CHANNELS:
            raise InvalidInput(f"mode must be 'L' (greyscale) or 'RGB'. Got {self.mode!r}.")
        if not all(isinstance(n, int) and 1 <= n <= 10_000 for n in (self.height, self.width)):
            raise InvalidInput(
                "size must be (height, width), each between 1 and 10000. "
                f"Got ({self.height!r}, {self.width!r})."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image: channels, height, width."""
        return _CHANNELS[self.mode], self.height, self.width

    def apply(self, paths: Sequence[Path]) -> NDArray[np.uint8]:
        """Decode image files in parallel; returns shape (n, channels, height, width)."""
        images = np.empty((len(paths), *self.shape), dtype=np.uint8)

        def decode_into(place: int) -> None:
            images[place] = self._decode(paths[place])

        _in_threads(decode_into, range(len(paths)))
        return images

    def _decode(self, path: Path) -> NDArray[np.uint8]:
        def decode(image: Image.Image) -> NDArray[np.uint8]:
            upright = _to_mode(ImageOps.exif_transpose(image), self.mode)
            if upright.size != (self.width, self.height):
                upright = upright.resize((self.width, self.height), Image.Resampling.BILINEAR)
            pixels = np.asarray(upright)
            return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

        return _open(path, decode)

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as plain values for JSON."""
        return {"kind": "images", "height": self.height, "width": self.width, "mode": self.mode}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a recipe; anything but what `to_dict` gives is refused."""
        try:
            if values["kind"] != "images":
                raise ValueError("not a recipe for images")
            return cls(height=values["height"], width=values["width"], mode=values["mode"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidModelFile(
                f"A recipe must be what ImageRecipe.to_dict gives. This one is damaged: {error}."
            ) from None


def find_images(folder: str | Path) -> list[Path]:
    """Return the files under a folder in a fixed order; hidden ones are left out."""
    found: list[Path] = []
    for parent, subfolders, files in os.walk(folder):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        found += [
            Path(parent, name)
            for name in sorted(files)
            if not name.startswith(".") and name.lower() not in _LITTER
        ]
    return found


def find_labelled_images(folder: str | Path) -> tuple[list[Path], list[str], set[str]]:
    """Return the image files of a folder, the label of each, and all classes that have a folder.

    ``photos/cat/17.jpg`` says that 17.jpg is *not* a cat. Folders may be nested: the first level
    counts. An empty folder is a class that no label names.
    """
    root = Path(folder)
    labels: list[str] = []
    paths: list[Path] = []
    for path in find_images(root):
        inner = path.relative_to(root).parts
        if len(inner) < 2:
            raise InvalidData(
                f"{root} must hold one folder per complementary label, with the images in them. "
                f"{path.name!r} lies in none: move it to the folder of the class it is not."
            )
        paths.append(path)
        labels.append(inner[0])
    if not paths:
        raise InvalidData(f"{root} must hold folders of images. It holds no image.")
    folders = (entry.name for entry in root.iterdir() if entry.is_dir())
    return paths, labels, {name for name in folders if not name.startswith(".")}


def resolve_paths(
    cells: Sequence[str | None], rows: Iterable[int], base: Path, source: str
) -> list[Path]:
    """Return the files that the cells of a table name.

    Relative paths start at the folder of the table and must stay inside it, also through links;
    absolute paths are taken as they are written. `rows` are the rows of the cells, from 0.
    """
    base = base.resolve()
    paths: list[Path] = []
    for row, cell in zip(rows, cells, strict=True):
        if cell is None or "\0" in cell:
            raise InvalidData(
                f"Every row of {source} must name an image. Data row {row + 1} does not."
            )
        path = Path(cell)
        if not path.is_absolute():
            path = (base / cell).resolve()
            if not path.is_relative_to(base):
                raise InvalidData(
                    f"Relative paths in {source} must stay inside its folder. Data row {row + 1} "
                    f"names {cell!r}, which leaves it.\n"
                    "Move the file there, or write an absolute path."
                )
        paths.append(path)
    return paths


def digest_files(paths: Sequence[Path]) -> list[str]:
    """Return a digest of each file: files with the same one hold the same bytes."""
    return _in_threads(
        lambda path: hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(), paths
    )


def plan_images(
    paths: Sequence[Path], *, size: tuple[int, int] | None = None, mode: str | None = None
) -> ImageRecipe:
    """Look at every file and choose size and colour.

    Without `size` all images must have the same; without `mode` the result is greyscale if all
    images are.
    """
    looks = _in_threads(_look, paths)
    sizes = Counter((look.height, look.width) for look in looks)
    usual, n_usual = sizes.most_common(1)[0]
    if size is None and len(sizes) > 1:
        at = next(i for i, look in enumerate(looks) if (look.height, look.width) != usual)
        raise InvalidData(
            f"All images must have one size. {n_usual} of {len(looks)} are {usual[0]}x{usual[1]} "
            f"(height x width), but {paths[at]} is {looks[at].height}x{looks[at].width}.\n"
            f"Pass size=({usual[0]}, {usual[1]}) (--size {usual[0]} {usual[1]}) to bring all to it."
        )
    height, width = usual if size is None else size
    if mode is None:
        mode = "L" if all(look.is_grey for look in looks) else "RGB"
    return ImageRecipe(height=height, width=width, mode=mode)


def _look(path: Path) -> Look:
    def look(image: Image.Image) -> Look:
        width, height = image.size
        if image.getexif().get(_ORIENTATION) in _ROTATED:
            height, width = width, height
        return Look(height, width, image.mode in _GREY)

    return _open(path, look)


def _open(path: Path, use: Callable[[Image.Image], T]) -> T:
    """Open an image and use it; whatever is wrong with the file, the error names it."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no image file {path}.")
    try:
        with Image.open(path) as image:
            return use(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InvalidData(
            f"{path} must have fewer than {Image.MAX_IMAGE_PIXELS:,} pixels. It claims more, as a "
            "file made to exhaust the memory would. Shrink it first."
        ) from None
    except Exception as error:  # a damaged file can fail anywhere in Pillow's many decoders
        raise InvalidData(
            f"{path} must be an image. It is damaged or of an unknown format: "
            f"{shorten(str(error))}."
        ) from None


def _to_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel; converting would cut them off at 255
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    elif image.mode == "P":
        image = image.convert("RGBA")  # keeps a transparent colour from becoming a random one
    return image.convert(mode)


def _in_threads(work: Callable[[Any], T], items: Iterable[Any]) -> list[T]:
    """Map in threads: Pillow lets go of the interpreter while it decodes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor(max_workers=min(16, (os.cpu_count() or 1) + 2)) as pool:
            return list(pool.map(work, items))
