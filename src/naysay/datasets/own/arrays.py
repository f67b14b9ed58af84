"""Read the user's array files, ``.npz`` or a folder of ``.npy``, without pickle."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidData, InvalidInput
from naysay._base.files import check_memory, check_ordinary, printable
from naysay._base.mapped import limit_pages, parts_of
from naysay.datasets.own.columns import Encoded, encode_parts, join_texts
from naysay.datasets.own.partitions import MappedArray, as_columns

_PAGES = 2.5e8  # bytes of arrays in files that are in memory, where no option says how many
_USUAL_NAMES = {
    "suggested": "suggested",
    "accepted": "accepted",
    "true_label": "true_labels",
    "annotator": "annotators",
    "example_id": "example_ids",
}


def open_arrays(
    path: Path,
    columns: Mapping[str, str],
    classes: Sequence[str] | None,
    *,
    most_bytes: float,
) -> tuple[
    dict[str, pa.Array | Encoded], pa.Table | MappedArray | NDArray[np.uint8], Sequence[str] | None
]:
    """Read an array file: its label cells by role, the features of all rows, and the class names.

    `columns` maps a role to the name of its array if this is not the usual name. The default of
    `classes` is the array ``classes`` of the file, if there is one.
    """
    source = printable(path)
    arrays = read_arrays(path, source, most_bytes=most_bytes)
    features = split_features(find_array(arrays, "X", source), source)
    n_rows = len(features)
    if classes is None and "classes" in arrays:
        classes = [str(each) for each in arrays["classes"].ravel().tolist()]
        _as_arrow(classes, "classes", source)
    cells: dict[str, pa.Array | Encoded] = {}
    is_log = "suggested" in columns or "suggested" in arrays
    if "offered" in columns:
        raise InvalidInput(
            "offered must be omitted for an .npz file: use a table for such answers."
        )
    name = columns.get("label", "labels")
    if not is_log or name in arrays:
        labels = find_array(arrays, name, source)
        if labels.ndim == 2 and labels.dtype == np.bool_:
            classes = list(map(str, range(labels.shape[1]))) if classes is None else list(classes)
            lists = _lists_of_excluded(labels, classes, n_rows, source)
            cells["label"] = encode_parts(lists, most_bytes=most_bytes)
        else:
            texts = text_parts(labels, "labels", classes, n_rows, source)
            cells["label"] = encode_parts(texts, most_bytes=most_bytes)
    for role, usual in _USUAL_NAMES.items():
        if role in columns or usual in arrays:
            name = columns.get(role, usual)
            values = find_array(arrays, name, source)
            if values.dtype == np.bool_:
                values = values.astype(np.int8)
            names = classes if role in ("true_label", "suggested") else None
            texts = text_parts(values, name, names, n_rows, source)
            collect = join_texts if role == "example_id" else encode_parts
            cells[role] = collect(texts, most_bytes=most_bytes)
    return cells, features, classes


def read_arrays(path: Path, source: str, *, most_bytes: float = _PAGES) -> dict[str, NDArray[Any]]:
    """Read all arrays of the file, and refuse arrays of objects, which could run code.

    The arrays of a folder, such as ``X.npy`` and ``labels.npy``, stay on disk, and about
    `most_bytes` of them are in memory at a time.
    """
    if path.suffix.lower() == ".npy":
        return {"X": map_array(path, most_bytes=most_bytes)}
    if path.is_dir():
        files = sorted(path.glob("*.npy"))
        return {file.stem: map_array(file, most_bytes=most_bytes) for file in files}
    with check_ordinary(path).open("rb") as file:  # raises the usual OSError if it is missing
        try:
            with np.load(file, allow_pickle=False) as archive:
                check_memory(sum(each.file_size for each in archive.zip.infolist()), source)
                arrays = {name: archive[name] for name in archive.files}
                for name, array in arrays.items():
                    if not isinstance(array, np.ndarray):
                        raise TypeError(f"{name} is not an array")
                return arrays
        except (InvalidData, InvalidInput):
            raise
        except Exception as error:  # zipfile, zlib and numpy raise many types for damaged files
            raise InvalidData(
                f"{source} must be an .npz file of numbers and text. It is damaged, in another "
                f"format, or holds objects: {shorten(str(error))}."
            ) from None


def map_array(path: Path, *, most_bytes: float) -> NDArray[Any]:
    """Open an .npy file without reading it; about `most_bytes` are in memory at a time."""
    check_ordinary(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # numpy raises many types for damaged headers
        raise InvalidData(
            f"{printable(path)} must be an .npy file of numbers or text. It is damaged, in another "
            f"format, or holds objects: {shorten(str(error))}."
        ) from None
    limit_pages(array, most_bytes)
    return array


def find_array(arrays: dict[str, NDArray[Any]], name: str, source: str) -> NDArray[Any]:
    """Find an array by name, or raise an error that lists the arrays there are."""
    if name not in arrays:
        raise InvalidInput(
            f"{source} must contain an array {name!r}. Its arrays are {shorten(list(arrays))}."
        )
    return arrays[name]


def split_features(X: NDArray[Any], source: str) -> pa.Table | MappedArray | NDArray[np.uint8]:
    """Convert X to a table with columns ``x0, x1, …``, or to images (n, channels, h, w)."""
    if X.ndim not in (3, 4):
        if X.ndim != 2 or X.dtype.kind not in "biuf" or not X.size:
            raise InvalidData(
                f"X of {source} must contain numbers of shape (n, features), or images of shape "
                f"(n, channels, height, width). Got {X.dtype} of shape {X.shape}."
            )
        if isinstance(X, np.memmap):
            return MappedArray(X, source)
        return pa.table({f"x{index}": column for index, column in enumerate(as_columns(X))})
    if X.dtype != np.uint8:
        raise InvalidData(
            f"Images in {source} must be of type uint8, with values from 0 to 255. Got {X.dtype}. "
            "If the values are from 0 to 1, save (X * 255).round().astype('uint8')."
        )
    images = X[:, None] if X.ndim == 3 else X  # greyscale images may lack the axis of channels
    if images.shape[1] not in (1, 3) or not images.size:
        is_last = images.shape[3] in (1, 3)
        hint = " The channels are last: save X.transpose(0, 3, 1, 2)." if is_last else ""
        raise InvalidData(
            f"Images in {source} must have shape (n, channels, height, width) with 1 or 3 "
            f"channels. Got {X.shape}.{hint}"
        )
    return images


def _lists_of_excluded(
    excluded: NDArray[np.bool_], classes: list[str], n_rows: int, source: str
) -> Iterator[pa.Array]:
    """Convert a boolean matrix of shape (n, classes) to lists of excluded classes, in parts."""
    if excluded.shape != (n_rows, len(classes)):
        raise InvalidData(
            f"labels of {source} must have one row per example and one column per class, and "
            f"therefore the shape ({n_rows}, {len(classes)}). Got {excluded.shape}."
        )
    names = pa.array(classes, pa.large_string())
    for rows in parts_of(n_rows):
        ends = np.append(0, np.cumsum(excluded[rows].sum(axis=1)))
        named = names.take(pa.array(np.nonzero(excluded[rows])[1]))
        yield pa.LargeListArray.from_arrays(ends, named)


def text_parts(
    values: NDArray[Any], name: str, classes: Sequence[str] | None, n_rows: int, source: str
) -> Iterator[pa.Array]:
    """Convert values to one text per row, with null for unknown, in parts.

    Integers are positions in `classes`, if classes are given, and -1 means unknown.
    """
    if values.shape != (n_rows,) or values.dtype.kind not in "USiu":
        raise InvalidData(
            f"{name} of {source} must contain text or integers, one for each row of X, and "
            f"therefore have the shape ({n_rows},). Got {values.dtype} of shape {values.shape}."
        )
    if values.dtype.kind in "iu":
        lowest, highest = int(values.min(initial=0)), int(values.max(initial=0))
        if lowest < -1 or (classes is not None and highest >= len(classes)):
            upper = "upwards" if classes is None else f"to {len(classes) - 1}"
            raise InvalidData(
                f"{name} of {source} must be integers from 0 {upper}, or -1 for unknown. Got "
                f"{lowest if lowest < -1 else highest}."
            )
    for rows in parts_of(n_rows):
        yield _text_cells(values[rows], name, classes, source)


def _text_cells(
    values: NDArray[Any], name: str, classes: Sequence[str] | None, source: str
) -> pa.Array:
    if values.dtype.kind in "iu":
        distinct, positions = np.unique(values, return_inverse=True)
        names = [
            None if value == -1 else str(value) if classes is None else classes[value]
            for value in distinct.tolist()
        ]
        return pa.array(names, pa.large_string()).take(pa.array(positions))
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError:
            raise InvalidData(
                f"{name} of {source} must be text in UTF-8. Some of it is not valid UTF-8: save "
                "the array as text, not as bytes."
            ) from None
    text = [value.strip() or None for value in values.tolist()]
    return _as_arrow(text, name, source)


def _as_arrow(text: Sequence[str | None], name: str, source: str) -> pa.Array:
    try:
        return pa.array(text, pa.large_string())
    except UnicodeEncodeError as error:
        raise InvalidData(
            f"{name} of {source} must be valid text. Got {error.object!a}, which is half of a "
            "character."
        ) from None
