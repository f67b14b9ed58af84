"""Read the idx format of MNIST and Fashion-MNIST, gzipped or not."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    SourceFile,
    Split,
    read_checked,
)

_UNSIGNED_BYTES = 8  # type code in the idx header
_IMAGE = (28, 28)


def read_images(entry: Entry, files: Sequence[FoundFile]) -> Contents:
    """Read training images and labels, then test images and labels."""
    train_images, train_labels, test_images, test_labels = files
    train, train_files = _read_split(entry, train_images, train_labels, entry.n_train)
    test, test_files = _read_split(entry, test_images, test_labels, entry.n_test or 0)
    return Contents(train, test, train_files + test_files, entry.classes)


def _read_split(
    entry: Entry, images: FoundFile, labels: FoundFile, n_samples: int
) -> tuple[Split, tuple[SourceFile, ...]]:
    X, image_record = _read_array(images, (n_samples, *_IMAGE))
    y, label_record = _read_array(labels, (n_samples,))
    if y.max(initial=0) >= entry.n_classes:
        raise labels.invalid(
            f"must contain labels 0..{entry.n_classes - 1}", f"It has {int(y.max())}"
        )
    return Split(X[:, None], y.astype(np.int64)), (image_record, label_record)


def _read_array(file: FoundFile, shape: tuple[int, ...]) -> tuple[NDArray[Any], SourceFile]:
    content, record = read_checked(file, at_most=4 + 4 * len(shape) + prod(shape))
    array = parse_idx(content, file)
    if array.shape != shape:
        raise file.invalid(f"must contain an array of shape {shape}", f"Its shape is {array.shape}")
    return array, record


def parse_idx(content: bytes, file: FoundFile) -> NDArray[np.uint8]:
    """Parse the content of an idx file of unsigned bytes.

    The header consists of two zero bytes, the type (8 for unsigned bytes), the number of axes,
    and the length of each axis as a big-endian 32-bit number. The values follow.
    """
    if len(content) < 4 or content[:3] != bytes([0, 0, _UNSIGNED_BYTES]):
        raise file.invalid(
            "must begin as an idx file of unsigned bytes (00 00 08)",
            f"It begins with {content[:3].hex(' ')}",
        )
    n_axes = content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise file.invalid("must be a whole idx file", "It ends within its header")
    shape = tuple(map(int, np.frombuffer(content, ">u4", n_axes, offset=4)))
    if len(content) - start != prod(shape):
        raise file.invalid(
            f"must contain {prod(shape):,} values, as its header says",
            f"It has {len(content) - start:,}",
        )
    # Copied because an array over `bytes` is read-only, which torch warns about.
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
