"""Arrays in temporary files, for data larger than memory.

The pages of a file that a process has read count as its memory until the operating system needs
them for something else. A limit makes the process release them earlier; they stay in the cache of
the operating system, so that this costs little, and no result depends on it.
"""

import mmap
import os
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from naysay._base.checks import row_slices

_INTERVAL = 0.02  # seconds between two looks at the memory
_STATM = Path("/proc/self/statm")
_limits: "weakref.WeakKeyDictionary[mmap.mmap, float]" = weakref.WeakKeyDictionary()  # bytes


def new_array(shape: tuple[int, ...], dtype: DTypeLike, *, most_bytes: float) -> NDArray[Any]:
    """Make an array in memory or, if it takes more than `most_bytes`, in a temporary file.

    The file is in the folder of ``TMPDIR``, and vanishes with the array. About `most_bytes` of it
    are in memory at a time.
    """
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if n_bytes <= most_bytes:
        return np.empty(shape, dtype)
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
    array = np.frombuffer(pages, dtype).reshape(shape)
    limit_pages(array, most_bytes)
    return array


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
    if len(rows) == len(X) and (np.diff(rows) == 1).all():
        return X
    _give_back(pages)  # so that they are not among those that the new array may have beside it
    taken = new_array((len(rows), *X.shape[1:]), X.dtype, most_bytes=most_bytes)
    for part in row_slices(len(rows), max(1, X[:1].size)):
        taken[part] = X[rows[part]]
        trim_pages()
    return taken


def window_for(X: NDArray[Any], memory: float) -> int | None:
    """Count the rows that fit into `memory` GB, if X is in a file that is larger; None if not."""
    if find_pages(X) is None or X.nbytes <= memory * 1e9:
        return None
    return max(1, int(memory * 1e9 / X[:1].nbytes))


def limit_pages(array: NDArray[Any], most_bytes: float) -> None:
    """Release the pages of an array in a file when the process has more than `most_bytes`.

    A thread checks the memory for as long as the array exists. Without Linux, nothing is done.
    """
    pages = find_pages(array)
    if pages is None or not _STATM.exists() or not hasattr(mmap, "MADV_DONTNEED"):
        return
    _limits[pages] = _file_bytes() + most_bytes
    threading.Thread(target=_watch, args=(weakref.ref(pages),), daemon=True).start()


def trim_pages() -> None:
    """Give pages back now, which a reader that is faster than the thread calls for."""
    if _limits:
        n_bytes = _file_bytes()
        for pages, most in list(_limits.items()):
            if n_bytes > most:
                _give_back(pages)


def _watch(pages_of: "weakref.ref[mmap.mmap]") -> None:
    while pages_of() is not None:
        trim_pages()
        time.sleep(_INTERVAL)


def _give_back(pages: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


def _file_bytes() -> int:
    """Look up how much memory of this process is pages of files."""
    return int(_STATM.read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")
