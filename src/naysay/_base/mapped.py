"""Arrays in temporary files, for data larger than memory.

The pages of a file that a process has read count as its memory until the operating system needs
them for something else. A limit makes the process release them earlier; they stay in the cache of
the operating system, so that this costs little, and no result depends on it.
"""

import math
import mmap
import os
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from naysay._base.checks import row_slices

_INTERVAL = 0.02  # seconds between two looks at the memory
_STATM = Path("/proc/self/statm")
_SMALL = 1 << 20  # bytes: smaller arrays with an entry for each row are in memory
_PART = 1 << 17  # rows that are computed together
_N_ARRAYS = 16  # about as many arrays have an entry for each row
_lock = threading.Lock()
_is_watched = False
_limits: "weakref.WeakKeyDictionary[mmap.mmap, float]" = weakref.WeakKeyDictionary()  # bytes


def new_array(shape: tuple[int, ...], dtype: DTypeLike, *, most_bytes: float) -> NDArray[Any]:
    """Make an array in memory or, if it takes more than `most_bytes`, in a temporary file.

    The file is in the folder of ``TMPDIR``, and vanishes with the array. About `most_bytes` of it
    are in memory at a time.
    """
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if n_bytes <= most_bytes:
        return np.empty(shape, dtype)
    array = _in_file(shape, dtype)
    limit_pages(array, most_bytes)
    return array


def _in_file(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Make an array in a temporary file."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(prefix="naysay-") as file:
        file.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):  # without the space, writing would kill the process
            try:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"The temporary folder {tempfile.gettempdir()} must have room for a file of "
                    f"{n_bytes / 1e9:.3g} GB: {error.strerror}. Name another one in TMPDIR, or "
                    "raise memory (--memory), so that it is not needed.",
                ) from None
        pages = mmap.mmap(file.fileno(), n_bytes)  # keeps the file until the array is gone
    return np.frombuffer(pages, dtype).reshape(shape)


class Growing:
    """An array with an entry for each row, to which parts are appended.

    It is in memory or, if it takes more than its share of `most_bytes`, in a temporary file.
    """

    def __init__(self, dtype: DTypeLike, *, most_bytes: float) -> None:
        self._dtype, self._most_bytes = np.dtype(dtype), most_bytes
        self._array, self._n = np.empty(0, dtype), 0

    def append(self, part: ArrayLike) -> None:
        """Append entries."""
        values = np.asarray(part, self._dtype)
        n = self._n + len(values)
        if n > len(self._array):
            size = max(2 * len(self._array), n)
            if size * self._dtype.itemsize > max(self._most_bytes / _N_ARRAYS, _SMALL):
                larger = _in_file((size,), self._dtype)
                limit_pages(larger, self._most_bytes)
            else:
                larger = np.empty(size, self._dtype)
            for rows in parts_of(self._n):
                larger[rows] = self._array[rows]
            self._array = larger
        self._array[self._n : n] = values
        self._n = n

    @property
    def array(self) -> NDArray[Any]:
        """The entries so far."""
        return self._array[: self._n]


def parts_of(n: int) -> Iterator[slice]:
    """Yield slices of rows that are computed together."""
    return row_slices(n, 1, _PART)


def compute(
    like: NDArray[Any],
    n: int,
    dtype: DTypeLike,
    values: Callable[[slice], ArrayLike],
    *,
    shape: tuple[int, ...] = (),
) -> NDArray[Any]:
    """Compute an array with an entry for each of n rows, in parts; in a file if `like` is in one.

    Each entry has this shape, by default that of a number. Copies that an expression makes on the
    way would otherwise take as much memory as the array.
    """
    pages, kind = find_pages(like), np.dtype(dtype)
    n_bytes = n * math.prod(shape) * kind.itemsize
    if pages is None or n_bytes <= _SMALL or kind.hasobject:
        found = np.empty((n, *shape), dtype)
    else:
        found = _in_file((n, *shape), dtype)
        _limit(found, _limits.get(pages, math.inf))
    for rows in parts_of(n):
        found[rows] = values(rows)
    return found


def count_up(like: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Count n rows from 0, in a file if `like` is in one."""
    return compute(like, n, np.int64, lambda rows: np.arange(rows.start, rows.stop))


def find_rows(
    like: NDArray[Any], n: int, chosen: Callable[[slice], NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """Find the rows of n that are chosen, as `numpy.flatnonzero` does, but in parts."""
    counts = [int(np.count_nonzero(chosen(rows))) for rows in parts_of(n)]
    found = compute(like, sum(counts), np.int64, lambda rows: 0)
    start = 0
    for rows, count in zip(parts_of(n), counts, strict=True):
        found[start : start + count] = rows.start + np.flatnonzero(chosen(rows))
        start += count
    return found


def places_of(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Find the place of each of n rows in a list of distinct rows; -1 if it is not there."""
    found = compute(rows, n, np.int64, lambda _: -1)
    for part in parts_of(len(rows)):
        found[rows[part]] = np.arange(part.start, part.stop)
    return found


def take(values: NDArray[Any], rows: NDArray[np.int64] | slice) -> NDArray[Any]:
    """Select entries as ``values[rows]`` does, but in parts; in a file if either is in one.

    If they are all entries in their order, the result is not a copy.
    """
    if isinstance(rows, slice) or (len(rows) == len(values) and is_count(rows)):
        return values[rows] if isinstance(rows, slice) else values
    like = values if find_pages(rows) is None else rows
    shape = values.shape[1:]
    return compute(like, len(rows), values.dtype, lambda part: values[rows[part]], shape=shape)


def count_values(values: NDArray[np.integer[Any]], n: int, *, least: int = 0) -> NDArray[np.int64]:
    """Count how often each number from `least` to n - 1 occurs."""
    counts = np.zeros(n - least, dtype=np.int64)
    for rows in parts_of(len(values)):
        counts += np.bincount(values[rows] - least, minlength=n - least)
    return counts


def is_count(rows: NDArray[np.int64]) -> bool:
    """Check whether numbers count up from 0."""
    return all(
        np.array_equal(rows[part], np.arange(part.start, part.stop)) for part in parts_of(len(rows))
    )


def argsort(values: NDArray[Any], *, largest_first: bool = False) -> NDArray[np.int64]:
    """Find the order of numbers as a stable `numpy.argsort` does, in a file if they are in one.

    Integers that are too large to be in one number with their place must be exact in float64.
    """
    if not largest_first and is_sorted(values):
        return count_up(values, len(values))
    n_bits = len(values).bit_length()
    most = 1 << (63 - n_bits)
    if (
        not largest_first
        and values.dtype.kind == "i"
        and -most <= values.min() <= values.max() < most
    ):
        order = compute(
            values,
            len(values),
            np.int64,
            lambda rows: values[rows].astype(np.int64) << n_bits | np.arange(rows.start, rows.stop),
        )
        order.sort()
        order &= (1 << n_bits) - 1
        return order
    # pairs as complex numbers, which are sorted by the first and then the second, where they are
    pairs = compute(values, len(values), np.float64, lambda _: 0, shape=(2,))
    for rows in parts_of(len(values)):
        pairs[rows, 0] = -values[rows] if largest_first else values[rows]
        pairs[rows, 1] = np.arange(rows.start, rows.stop)
    pairs.view(np.complex128).ravel().sort()
    return compute(values, len(values), np.int64, lambda rows: pairs[rows, 1])


def is_sorted(numbers: NDArray[Any]) -> bool:
    """Check whether numbers are in ascending order, some at a time."""
    overlapping = (numbers[max(0, part.start - 1) : part.stop] for part in parts_of(len(numbers)))
    return all((each[1:] >= each[:-1]).all() for each in overlapping)


def find_pages(array: Any) -> mmap.mmap | None:
    """Find the memory map that contains an array or the array that it is a view of."""
    while isinstance(array, np.ndarray | memoryview):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array if isinstance(array, mmap.mmap) else None


def take_rows(X: NDArray[Any], rows: NDArray[np.int64], *, most_bytes: float) -> NDArray[Any]:
    """Select rows as ``X[rows]`` does, but those of a file into another file, in parts."""
    pages = find_pages(X)
    if pages is None:
        return X[rows]
    if len(rows) == len(X) and is_count(rows):
        return X
    _give_back(pages)  # so that they are not among those that the new array may have beside it
    taken = new_array((len(rows), *X.shape[1:]), X.dtype, most_bytes=most_bytes)
    for part in row_slices(len(rows), max(1, X[:1].size)):
        taken[part] = X[rows[part]]
        trim_pages()
    return taken


def window_for(X: NDArray[Any], memory: float, numbers: NDArray[Any] | None = None) -> int | None:
    """Count the rows that fit into `memory` GB, if X is in a file that is larger; None if not.

    Where `numbers`, arrays with an entry for each row, are in files, a row counts with them.
    """
    n_bytes = X[:1].nbytes
    if numbers is not None and find_pages(numbers) is not None:
        n_bytes = max(n_bytes, _N_ARRAYS * 8)
    elif find_pages(X) is None:
        return None
    window = max(1, int(memory * 1e9 / n_bytes))
    return window if window < len(X) else None


def limit_pages(array: NDArray[Any], most_bytes: float) -> None:
    """Release the pages of an array in a file when the process has more than `most_bytes`.

    A thread checks the memory for as long as there is such an array. Without Linux, nothing is
    done.
    """
    if _STATM.exists() and hasattr(mmap, "MADV_DONTNEED"):
        _limit(array, _file_bytes() + most_bytes)


def _limit(array: NDArray[Any], n_bytes: float) -> None:
    global _is_watched
    pages = find_pages(array)
    if pages is None or n_bytes == math.inf:
        return
    with _lock:
        _limits[pages] = n_bytes
        is_watched, _is_watched = _is_watched, True
    if not is_watched:
        threading.Thread(target=_watch, daemon=True).start()


def trim_pages() -> None:
    """Give pages back now, which a reader that is faster than the thread calls for."""
    if _limits:
        n_bytes = _file_bytes()
        with _lock:
            found = list(_limits.items())
        for pages, most in found:
            if n_bytes > most:
                _give_back(pages)


def _watch() -> None:
    global _is_watched
    while True:
        with _lock:
            if not _limits:
                _is_watched = False
                return
        trim_pages()
        time.sleep(_INTERVAL)


def _give_back(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _file_bytes() -> int:
    """Look up how much memory of this process is pages of files."""
    return int(_STATM.read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")
