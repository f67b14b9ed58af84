"""Read Tiny ImageNet: decode its 110,000 JPEG images once, and map the result into memory.

The decoded arrays are stored beside the folder of the images, in ``tiny-imagenet-200.decoded``, or
in the user's cache folder where that place is read-only. They are renamed into place once they are
complete.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray
from PIL import Image

from naysay._base.checks import shorten
from naysay._base.files import replacing_folder
from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    Split,
    md5_of,
    read_text,
    user_folder,
)

_IMAGE = (3, 64, 64)
_CHUNK = 250  # images that one worker decodes between two updates of the progress bar


def read_folder(entry: Entry, files: Sequence[FoundFile]) -> Contents:
    """Read the official folder, whose labelled validation images become the test split.

    The files are ``wnids.txt``, ``words.txt`` and ``val/val_annotations.txt``. Images are mapped
    into memory copy-on-write. Training images are ordered by class, then by number.
    """
    (wnids_text, words, annotations), records = zip(
        *(read_text(file, encoding="UTF-8") for file in files), strict=True
    )
    wnids_file, _, annotations_file = files
    wnids = wnids_text.split()
    if len(set(wnids)) != entry.n_classes:
        raise wnids_file.invalid(
            f"must name {entry.n_classes} classes", f"It names {len(set(wnids))}"
        )
    fingerprint = md5_of("".join(record.md5 for record in records).encode())[:12]
    decoded = _decoded_folder(wnids_file.path.parent, fingerprint)
    if not decoded.is_dir():
        train = _list_train(entry, wnids_file, wnids)
        test = _list_test(entry, annotations_file, annotations, wnids)
        _decode_all(wnids_file, decoded, train=train, test=test)
    return Contents(
        train=_map_split(wnids_file, decoded, "train", entry.n_train),
        test=_map_split(wnids_file, decoded, "test", entry.n_test or 0),
        files=records,
        classes=_class_names(wnids, words),
    )


def _class_names(wnids: Sequence[str], words: str) -> tuple[str, ...]:
    """Name each class by its first synonym, or by all synonyms where two classes share it."""
    words_of = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    whole = [words_of.get(wnid, wnid).strip() for wnid in wnids]
    first = [name.split(",")[0] for name in whole]
    return tuple(
        short if first.count(short) == 1 else long for short, long in zip(first, whole, strict=True)
    )


def _decoded_folder(root: Path, fingerprint: str) -> Path:
    """Locate the decoded arrays, or choose where to store them if there are none yet."""
    beside, own = (
        home / "tiny-imagenet-200.decoded" / fingerprint for home in (root.parent, user_folder())
    )
    is_beside = beside.is_dir() or (not own.is_dir() and os.access(root.parent, os.W_OK))
    return beside if is_beside else own


def _list_train(
    entry: Entry, wnids_file: FoundFile, wnids: Sequence[str]
) -> list[tuple[Path, int]]:
    root = wnids_file.path.parent
    per_class = entry.n_train // entry.n_classes
    listed: list[tuple[Path, int]] = []
    for label, wnid in enumerate(wnids):
        folder = root / "train" / wnid / "images"
        images = sorted(folder.glob("*.JPEG"), key=lambda path: (len(path.name), path.name))
        if len(images) != per_class:
            raise wnids_file.invalid(
                f"must be beside {per_class} images of each class",
                f"{folder} holds {len(images)}: delete {root}",
            )
        listed += [(path, label) for path in images]
    return listed


def _list_test(
    entry: Entry, file: FoundFile, annotations: str, wnids: Sequence[str]
) -> list[tuple[Path, int]]:
    label_of = {wnid: label for label, wnid in enumerate(wnids)}
    listed: list[tuple[Path, int]] = []
    for number, line in enumerate(annotations.splitlines(), start=1):
        cells = line.split("\t")
        if len(cells) < 2 or cells[1] not in label_of or Path(cells[0]).name != cells[0]:
            raise file.invalid(
                f"must have an image and its class in line {number}", f"Got {shorten(line)}"
            )
        listed.append((file.path.parent / "images" / cells[0], label_of[cells[1]]))
    counts = np.bincount([label for _, label in listed], minlength=entry.n_classes)
    per_class = (entry.n_test or 0) // entry.n_classes
    if (counts != per_class).any():
        label = int(np.argmax(counts != per_class))
        raise file.invalid(
            f"must list {per_class} images of each class",
            f"It lists {counts[label]} of {wnids[label]}",
        )
    return listed


def _decode_all(file: FoundFile, decoded: Path, **parts: list[tuple[Path, int]]) -> None:
    """Decode the images of each part into ``<part>-X.npy``, and write its labels beside it."""
    from naysay._base.progress import job_bar

    n_decoded, total = 0, sum(map(len, parts.values()))
    with (
        replacing_folder(decoded, of=Path.is_dir, what="decoded images") as ready,
        job_bar("Decoding Tiny ImageNet", "images") as show,
    ):
        for part, images in parts.items():
            X = open_memmap(ready / f"{part}-X.npy", "w+", np.uint8, (len(images), *_IMAGE))
            for n_more in _decode_images(file, [path for path, _ in images], X):
                n_decoded += n_more
                show(n_decoded, total)
            X.flush()
            np.save(ready / f"{part}-y.npy", np.array([label for _, label in images], np.int64))


def _decode_images(file: FoundFile, paths: Sequence[Path], X: NDArray[np.uint8]) -> Iterator[int]:
    """Decode images into `X` in several threads, and yield the number of each chunk."""

    def decode_chunk(start: int) -> int:
        chunk = paths[start : start + _CHUNK]
        for index, path in enumerate(chunk, start=start):
            X[index] = _decode_image(FoundFile(file.dataset, file.official, path))
        return len(chunk)

    # Threads rather than processes: images are small, so that most of the time is spent waiting
    # for the disk, and a script that uses processes must have `if __name__ == "__main__"`.
    with ThreadPoolExecutor() as pool:  # `map` cancels the other chunks after an error
        yield from pool.map(decode_chunk, range(0, len(paths), _CHUNK))


def _decode_image(file: FoundFile) -> NDArray[np.uint8]:
    try:
        with Image.open(file.path, formats=["JPEG"]) as image:
            if image.size != _IMAGE[1:]:  # the header is known before the image is decoded
                raise file.invalid("must have 64 x 64 pixels", f"It has {image.size}")
            return np.asarray(image.convert("RGB")).transpose(2, 0, 1)
    except (OSError, SyntaxError) as error:  # raised by Pillow for missing and damaged files
        raise file.invalid("must be a whole JPEG image", f"{shorten(str(error))}") from None


def _map_split(file: FoundFile, decoded: Path, part: str, n_samples: int) -> Split:
    folder = FoundFile(file.dataset, file.official, decoded)
    try:
        # "c" is copy-on-write: torch gets a writable array, and the file is not changed.
        X = np.load(decoded / f"{part}-X.npy", mmap_mode="c", allow_pickle=False)
        y = np.load(decoded / f"{part}-y.npy", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise folder.invalid("must contain the decoded images", shorten(str(error))) from None
    if X.shape != (n_samples, *_IMAGE) or X.dtype != np.uint8 or y.shape != (n_samples,):
        raise folder.invalid("must contain the decoded images", f"{part} has shape {X.shape}")
    return Split(X, y)
