"""Read the Python version of CIFAR-10 and CIFAR-100 without running code in its pickles.

A pickle can call any function. The unpickler of this module supports only what the official files
need (arrays of bytes, dicts, lists, text, numbers) and refuses a file that refers to anything else.
"""

import io
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay.datasets.official.entry import (
    Contents,
    Entry,
    FoundFile,
    SourceFile,
    Split,
    read_checked,
)

_IMAGE = (3, 32, 32)


class _ByteArray:
    """Replacement for `numpy.ndarray` while unpickling, with bytes and a shape only."""

    def __init__(self, *_: Any) -> None:
        self.values: NDArray[np.uint8] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, shape, dtype, is_fortran, raw = state
        if not isinstance(dtype, _ByteType) or is_fortran or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array that does not hold plain bytes, row by row")
        # This is a view; the values are copied later into the array of the whole split.
        self.values = np.frombuffer(raw, np.uint8).reshape(shape)


class _ByteType:
    """Replacement for `numpy.dtype` while unpickling, which allows unsigned bytes only."""

    def __init__(self, name: Any = None, *_: Any) -> None:
        if name not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {name!r}, not of bytes (u1)")

    def __setstate__(self, state: Any) -> None:
        """Ignore byte order and field names, which bytes do not have."""


_ADMITTED = {
    ("numpy", "ndarray"): _ByteArray,
    ("numpy", "dtype"): _ByteType,
    # The function that makes an empty array, up to numpy 1.x and since numpy 2.0.
    ("numpy.core.multiarray", "_reconstruct"): _ByteArray,
    ("numpy._core.multiarray", "_reconstruct"): _ByteArray,
}


class _Refused(Exception):
    """A pickle refers to a name that no data file needs."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return _ADMITTED[module_name, global_name]
        except KeyError:
            raise _Refused(f"{module_name}.{global_name}") from None

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise _Refused(f"persistent id {pid!r}")


def read_pickle(content: bytes, file: FoundFile) -> dict[str, Any]:
    """Read the dict in a pickle of plain data; anything else is neither imported nor run."""
    try:
        loaded = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except _Refused as refused:
        raise file.invalid(
            "must contain nothing but arrays, dicts, lists, text and numbers",
            f"It refers to {shorten(str(refused))}, which could run code, so it was not read",
        ) from None
    except Exception as error:  # a damaged pickle can fail in any way
        raise file.invalid(
            "must be a pickle of plain data",
            f"It is damaged ({type(error).__name__}: {shorten(str(error))})",
        ) from None
    if not isinstance(loaded, dict):
        raise file.invalid("must contain a dict", f"It has a {type(loaded).__name__}")
    return {key.decode() if isinstance(key, bytes) else key: loaded[key] for key in loaded}


def read_batches(
    entry: Entry, files: Sequence[FoundFile], *, labels_key: str, names_key: str
) -> Contents:
    """Read the training batches, the test batch and the names of the classes, in that order."""
    *batches, meta = files
    content, meta_record = read_checked(meta)
    fields = read_pickle(content, meta)
    names = fields.get(names_key)
    if not isinstance(names, list) or len(names) != entry.n_classes:
        raise meta.invalid(
            f"must contain a list '{names_key}' of {entry.n_classes} names",
            f"It has {shorten(fields)}",
        )
    classes = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    X_train = np.empty((entry.n_train, *_IMAGE), np.uint8)
    X_test = np.empty((entry.n_test or 0, *_IMAGE), np.uint8)
    targets = [*np.split(X_train, len(batches) - 1), X_test]
    # Threads suffice because reading and hashing release the interpreter lock.
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(partial(_read_batch, entry, labels_key), batches, targets))
    labels = [np.asarray(batch_labels, dtype=np.int64) for batch_labels, _ in parts]
    records = (*(record for _, record in parts), meta_record)
    train = Split(X_train, np.concatenate(labels[:-1]))
    return Contents(train, Split(X_test, labels[-1]), records, classes)


def _read_batch(
    entry: Entry, labels_key: str, file: FoundFile, target: NDArray[np.uint8]
) -> tuple[list[int], SourceFile]:
    """Read the labels of a batch, and copy its images into `target`."""
    content, record = read_checked(file)
    batch = read_pickle(content, file)
    images, labels = batch.get("data"), batch.get(labels_key)
    if not isinstance(images, _ByteArray) or not isinstance(labels, list):
        raise file.invalid(
            f"must contain an array 'data' and a list '{labels_key}'",
            f"It has {shorten(tuple(batch))}",
        )
    expected = (len(target), int(np.prod(_IMAGE)))
    if images.values.shape != expected or len(labels) != len(target):
        raise file.invalid(
            f"must contain images of shape {expected} and as many labels",
            f"It has shape {images.values.shape} and {len(labels):,} labels",
        )
    if not all(isinstance(label, int) and 0 <= label < entry.n_classes for label in labels):
        raise file.invalid(f"must contain labels 0..{entry.n_classes - 1}", "It has others")
    target[:] = images.values.reshape(target.shape)
    return labels, record
