"""Read the images of MNIST and Fashion-MNIST (idx files) and those of CIFAR (Python pickles).

All files have a published md5, which is compared before they are parsed, so that their form needs
no check. Yet no code in a pickle could run: the unpickler supports only what the official files
need (arrays of bytes, dicts, lists, text, numbers) and refuses a file that refers to anything else.
"""

import io
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.errors import InvalidData
from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    SourceFile,
    Split,
    read_checked,
)

_MNIST, _CIFAR = (28, 28), (3, 32, 32)  # shapes of an image


def read_idx(entry: Entry, files: Sequence[FoundFile]) -> Contents:
    """Read training images and labels, then test images and labels."""
    n_train, n_test = entry.n_train, entry.n_test or 0
    shapes = (n_train, *_MNIST), (n_train,), (n_test, *_MNIST), (n_test,)
    (X_train, y_train, X_test, y_test), records = zip(*map(_read_array, files, shapes), strict=True)
    train = Split(X_train[:, None], y_train.astype(np.int64))
    test = Split(X_test[:, None], y_test.astype(np.int64))
    return Contents(train, test, records, entry.classes)


def _read_array(file: FoundFile, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], SourceFile]:
    """Read an array of unsigned bytes.

    The header of 4 bytes, with the type and the number of axes, and 4 bytes for the length of each
    axis is skipped.
    """
    start = 4 + 4 * len(shape)
    content, record = read_checked(file, at_most=start + prod(shape))
    # Copied because an array over `bytes` is read-only, which torch warns about.
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy(), record


_make_array = np.empty(0).__reduce__()[0]
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): lambda *_: np.dtype(np.uint8),  # the official arrays are of unsigned bytes
    # The function that makes an empty array, up to numpy 1.x and since numpy 2.0.
    ("numpy.core.multiarray", "_reconstruct"): _make_array,
    ("numpy._core.multiarray", "_reconstruct"): _make_array,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ADMITTED:
            raise InvalidData(
                "A pickle of CIFAR must contain nothing but arrays, dicts, lists, text and "
                f"numbers. It refers to {module_name}.{global_name}, which could run code, so it "
                "was not read."
            )
        return _ADMITTED[module_name, global_name]


def read_pickle(content: bytes) -> dict[str, Any]:
    """Read the dict in a pickle of plain data; anything else is neither imported nor run."""
    loaded = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    return {key.decode() if isinstance(key, bytes) else key: loaded[key] for key in loaded}


def read_batches(
    entry: Entry, files: Sequence[FoundFile], *, labels_key: str, names_key: str
) -> Contents:
    """Read the training batches, the test batch and the names of the classes, in that order."""
    *batches, meta = files
    content, meta_record = read_checked(meta)
    classes = tuple(name.decode() for name in read_pickle(content)[names_key])
    X_train = np.empty((entry.n_train, *_CIFAR), np.uint8)
    X_test = np.empty((entry.n_test or 0, *_CIFAR), np.uint8)
    targets = [*np.split(X_train, len(batches) - 1), X_test]
    # Threads suffice because reading and hashing release the interpreter lock.
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(partial(_read_batch, labels_key), batches, targets))
    labels = [np.asarray(batch_labels, dtype=np.int64) for batch_labels, _ in parts]
    records = (*(record for _, record in parts), meta_record)
    train = Split(X_train, np.concatenate(labels[:-1]))
    return Contents(train, Split(X_test, labels[-1]), records, classes)


def _read_batch(
    labels_key: str, file: FoundFile, target: NDArray[np.uint8]
) -> tuple[list[int], SourceFile]:
    """Read the labels of a batch, and copy its images into `target`."""
    content, record = read_checked(file)
    batch = read_pickle(content)
    target[:] = batch["data"].reshape(target.shape)
    return batch[labels_key], record
