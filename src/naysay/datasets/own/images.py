"""Read the user's images: one folder per complementary label, or a table of paths.

The result is a uint8 array of shape (n, channels, height, width). All images must have the same
size, unless the caller asks for one: resizing without being asked would hide that sizes differ.
"""

# callers and files may have anything, and get a clear error
# pyright: reportUnnecessaryIsInstance=false

import hashlib
import math
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
from naysay._base.files import check_memory, printable, visible_files
from naysay.datasets.own.tables import is_frame

_CHANNELS = {"L": 1, "RGB": 3}
_GREY = {"1", "L", "LA", "I;16", "I;16B", "I;16L", "I"}
_NOT_IMAGES = {"thumbs.db", "desktop.ini"}  # files that file managers create
_ROTATED = {5, 6, 7, 8}  # EXIF orientations that swap height and width
_ORIENTATION = 0x0112

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ImageRecipe:
    """The conversion of image files to an array: their size, and ``L`` (greyscale) or ``RGB``."""

    height: int
    width: int
    mode: str

    def __post_init__(self) -> None:
        if self.mode not in _CHANNELS:
            raise InvalidInput(
                f"mode must be 'L' (greyscale) or 'RGB' (colour). Got {self.mode!r}."
            )
        if not all(isinstance(n, int) and 1 <= n <= 10_000 for n in (self.height, self.width)):
            raise InvalidInput(
                "size must be (height, width), each between 1 and 10000. "
                f"Got ({self.height!r}, {self.width!r})."
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image: channels, height, width."""
        return _CHANNELS[self.mode], self.height, self.width

    def apply(
        self, paths: Sequence[Path], *, damaged: dict[int, str] | None = None
    ) -> NDArray[np.uint8]:
        """Decode image files in parallel, to an array of shape (n, channels, height, width).

        A damaged file is an error. If a dictionary `damaged` is given, its image is black instead,
        and the error is added to the dictionary by its position.
        """
        shape = (len(paths), *self.shape)
        check_memory(math.prod(shape), f"The array of images, of shape {shape},")
        images = np.zeros(shape, dtype=np.uint8)

        def decode(image: Image.Image) -> NDArray[np.uint8]:
            upright = _to_mode(ImageOps.exif_transpose(image), self.mode)
            if upright.size != (self.width, self.height):
                upright = upright.resize((self.width, self.height), Image.Resampling.BILINEAR)
            pixels = np.asarray(upright)
            return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

        def decode_into(index: int) -> None:
            images[index] = _open(paths[index], decode)

        _in_threads(decode_into, range(len(paths)), damaged)
        return images

    def to_dict(self) -> dict[str, Any]:
        """Convert the recipe to plain values for JSON."""
        return {"kind": "images", "height": self.height, "width": self.width, "mode": self.mode}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore a recipe from the values of `to_dict`; other values are an error."""
        try:
            if values["kind"] != "images":
                raise ValueError("not a recipe for images")
            return cls(height=values["height"], width=values["width"], mode=values["mode"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidModelFile(
                f"A recipe for images must be as ImageRecipe.to_dict writes it. This one is "
                f"damaged: {error}."
            ) from None


def find_images(folder: str | Path) -> list[Path]:
    """List the files in a folder at any depth in a fixed order, without hidden files."""
    return [file for file in visible_files(folder) if file.name.lower() not in _NOT_IMAGES]


def find_labelled_images(folder: str | Path) -> tuple[list[Path], list[str], set[str]]:
    """List the image files of a folder, the label of each, and all classes with a folder.

    ``photos/cat/17.jpg`` means that 17.jpg is *not* a cat. If folders are nested, the first level
    is the label. An empty folder is a class that no label names.
    """
    root = Path(folder)
    rule = f"{root} must contain one folder of images per complementary label."
    paths = find_images(root)
    labels: list[str] = []
    for path in paths:
        label, *inner = map(printable, path.relative_to(root).parts)
        if not inner:
            raise InvalidData(
                f"{rule} The file {path.name!r} is in none of them: move it to the folder of a "
                "class that it does not belong to."
            )
        labels.append(label)
    if not paths:
        raise InvalidData(f"{rule} It contains no image.")
    folders = (printable(entry.name) for entry in root.iterdir() if entry.is_dir())
    return paths, labels, {name for name in folders if not name.startswith(".")}


def resolve_paths(
    cells: Sequence[str | None], rows: Iterable[int], data: Any, source: str
) -> list[Path]:
    """Convert the cells of a table to paths of image files.

    Relative paths start at the folder of the table, or at the current folder for a data frame and
    for standard input, and must stay inside it, also when they are links. Absolute paths are not
    restricted. `rows` are the rows of the cells, counted from 0.
    """
    base = (Path() if is_frame(data) else Path(data).parent).resolve()
    paths: list[Path] = []
    for row, cell in zip(rows, cells, strict=True):
        if cell is None or "\0" in cell:
            raise InvalidData(
                f"Every row of {source} must name an image file. The image path in data row "
                f"{row + 1} is empty or invalid."
            )
        path = Path(cell)
        if not path.is_absolute():
            path = (base / cell).resolve()
            if not path.is_relative_to(base):
                raise InvalidData(
                    f"Relative image paths in {source} must stay inside its folder. Data row "
                    f"{row + 1} has {cell!r}, which leads outside.\n"
                    "Move the file into the folder, or write an absolute path."
                )
        paths.append(path)
    return paths


def digest_files(paths: Sequence[Path]) -> list[str]:
    """Compute a digest of the content of each file, which finds equal files."""

    def digest(path: Path) -> str:
        content = path.read_bytes() if path.is_file() else os.fsencode(path)
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    return _in_threads(digest, paths)


def plan_images(
    paths: Sequence[Path],
    *,
    size: tuple[int, int] | None = None,
    mode: str | None = None,
    damaged: dict[int, str] | None = None,
) -> ImageRecipe:
    """Read the header of every file, and choose the size and mode of the recipe.

    Without `size`, all images must have the same size. Without `mode`, the recipe is greyscale if
    all images are. `damaged` is as in `ImageRecipe.apply`, but one image must be intact.
    """

    def read_header(image: Image.Image) -> tuple[tuple[int, int], bool]:
        width, height = image.size
        if image.getexif().get(_ORIENTATION) in _ROTATED:
            height, width = width, height
        return (height, width), image.mode in _GREY

    def read_one(index: int) -> tuple[tuple[int, int], bool] | None:
        return _open(paths[index], read_header)

    found = _in_threads(read_one, range(len(paths)), damaged)
    if damaged and len(damaged) == len(paths):
        raise InvalidData(damaged[0])
    paths = [path for path, header in zip(paths, found, strict=True) if header is not None]
    headers = [header for header in found if header is not None]
    sizes = [size_of_file for size_of_file, _ in headers]
    (height, width), n_usual = Counter(sizes).most_common(1)[0]
    if size is None and n_usual < len(paths):
        odd = next(i for i, other in enumerate(sizes) if other != (height, width))
        raise InvalidData(
            f"All images must have the same size. {n_usual} of {len(paths)} are {height}x{width} "
            f"(height x width), but {paths[odd]} is {sizes[odd][0]}x{sizes[odd][1]}.\n"
            f"Pass size=({height}, {width}) (--size {height}x{width}) to resize all images."
        )
    if size is not None:
        height, width = size
    if mode is None:
        mode = "L" if all(is_grey for _, is_grey in headers) else "RGB"
    return ImageRecipe(height=height, width=width, mode=mode)


def _open(path: Path, use: Callable[[Image.Image], T]) -> T:
    """Open an image and apply a function to it, with errors that name the file."""
    if not path.is_file():
        if path.is_symlink() or path.exists():
            raise InvalidData(f"{path} must be an image. It is a pipe, or a link to nothing.")
        raise FileNotFoundError(f"There is no image file {path}.")
    try:
        with Image.open(path) as image:
            return use(image)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InvalidData(
            f"{path} must have fewer than {Image.MAX_IMAGE_PIXELS:,} pixels. Its header claims "
            "more, which could exhaust the memory. Make the image smaller first."
        ) from None
    except Exception as error:  # Pillow's decoders raise many types for damaged files
        raise InvalidData(
            f"{path} must be an image. It is damaged or in an unknown format: "
            f"{shorten(str(error))}."
        ) from None


def _to_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits per pixel, which convert() would clip at 255
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    elif image.mode == "F":
        raise ValueError("its pixels are floating-point numbers")
    elif image.mode == "P":
        image = image.convert("RGBA")  # otherwise Pillow warns about transparent colours
    return image.convert(mode)


def _in_threads(
    work: Callable[[Any], T], items: Iterable[Any], damaged: dict[Any, str] | None = None
) -> list[T]:
    """Map a function in threads, because Pillow releases the GIL while it decodes.

    If a dictionary `damaged` is given, it receives errors by their item, whose result is None.
    """

    def try_one(item: Any) -> Any:
        try:
            return work(item)
        except InvalidData as error:
            if damaged is None:
                raise
            damaged[item] = str(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor(max_workers=min(16, (os.cpu_count() or 1) + 2)) as pool:
            return list(pool.map(try_one, items))
