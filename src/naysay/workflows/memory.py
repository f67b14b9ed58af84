"""Say before data are read what will take more memory than the option ``--memory`` limits."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from naysay._base.files import printable
from naysay.datasets.own.arrays import read_arrays
from naysay.datasets.own.columns import is_list, is_text
from naysay.datasets.own.partitions import ParquetFolder, kind_of_data

# Bytes for each row at the peak of reading, beyond those of data without: measured with a million
# and three million rows, ids of 10 characters, and lists of 2 labels or 4 offered classes.
_IDS, _OFFERED, _LISTS, _ANSWERS = 220, 580, 250, 100
_COPIES = 3  # of the predictions in float64 that a matrix is refined on: assumed, not measured
_N_CLASSES = 10  # assumed if the classes are not listed
_LONG = 20  # bytes for each row, from which on words are no categories
_WORDS = ("None", "uniform", "estimate")  # for a matrix, in place of a file
_ANSWER_ROLES = ("label", "suggested", "accepted", "true_label", "annotator")


class _Growing(NamedTuple):
    """What grows with the rows: a name, bytes, and what to do about it."""

    name: str
    n_bytes: float
    remedy: str


def explain_memory(
    data: Any, reading: Mapping[str, Any], fitting: Mapping[str, Any] | None = None
) -> tuple[str, ...]:
    """Name what will take more memory than `memory` limits when a folder is read; nothing is read.

    `reading` are parameters of `naysay.datasets.own.read_own`, and `fitting` those of `fit_own`;
    they are None if a model has been fitted already.

    Examples
    --------
    >>> import tempfile
    >>> import pandas
    >>> frame = pandas.DataFrame({"a": range(1000), "id": range(1000), "not": "cat"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     frame.to_parquet(f"{folder}/part.parquet")
    ...     explain_memory(folder, {"label": "not", "example_id": "id", "memory": 0.0001})
    ('ids (--id): about 0.00022 GB for 1,000 rows, which --memory does not limit; leave the option \
out if each row is an example of its own',)
    """
    kind = kind_of_data(data)
    if kind == "parquet":
        folder = ParquetFolder(Path(data))
        n_rows, found = folder.n_rows, [*_in_table(folder, reading, fitting)]
    elif kind == "arrays" and Path(data).is_dir():
        arrays = read_arrays(Path(data), printable(data))
        n_rows = len(np.atleast_1d(arrays["X"])) if "X" in arrays else 0
        columns = {"example_id": "example_ids", "annotator": "annotators", "label": "labels"}
        reading = {**{role: each for role, each in columns.items() if each in arrays}, **reading}
        found = [*_in_answers(n_rows, reading, fitting)]
        labels = arrays.get(reading.get("label", ""))
        if labels is not None and labels.ndim > 1:
            found.append(_Growing("labels (a matrix)", _LISTS * n_rows, "store one for each row"))
    else:
        return ()
    if fitting is not None and reading.get("annotator") and _estimates(reading, fitting):
        classes = reading.get("classes")
        n_classes = _N_CLASSES if classes is None else len(classes)
        name = f"predictions for all examples of annotators, with {n_classes} classes"
        remedy = "estimate the matrix without --annotator, or from some of the rows"
        found.append(_Growing(name, 8 * _COPIES * n_classes * n_rows, remedy))
    if sum(each.n_bytes for each in found) <= reading.get("memory", 1.0) * 1e9:
        return ()
    return tuple(
        f"{each.name}: about {each.n_bytes / 1e9:.2g} GB for {n_rows:,} rows, which --memory does "
        f"not limit; {each.remedy}"
        for each in found
    )


def _in_answers(
    n_rows: int, reading: Mapping[str, Any], fitting: Mapping[str, Any] | None
) -> Iterator[_Growing]:
    if reading.get("example_id"):
        remedy = "leave the option out if each row is an example of its own"
        yield _Growing("ids (--id)", _IDS * n_rows, remedy)
    is_open = fitting is not None and str(fitting.get("transition")) in _WORDS  # not in a matrix
    if reading.get("ignore_case") and is_open and not reading.get("classes"):
        remedy = "list the classes (--classes)"
        yield _Growing("answers with --ignore-case", _ANSWERS * n_rows, remedy)


def _in_table(
    folder: ParquetFolder, reading: Mapping[str, Any], fitting: Mapping[str, Any] | None
) -> Iterator[_Growing]:
    n_rows, schema = folder.n_rows, folder.head.schema
    kinds: dict[str, pa.DataType] = dict(zip(schema.names, schema.types, strict=True))
    yield from _in_answers(n_rows, reading, fitting)
    if reading.get("offered"):
        yield _Growing("lists (--offered)", _OFFERED * n_rows, "read some of the rows")
    roles = {role: reading[role] for role in _ANSWER_ROLES if reading.get(role) in kinds}
    for role, name in roles.items():
        if is_list(kinds[name]):
            remedy = "store them as text, like cat|dog"
            yield _Growing(f"lists in column {name!r}", _LISTS * n_rows, remedy)
        elif pa.types.is_floating(kinds[name]):
            remedy = f"store the {role.replace('_', ' ')} as text or integers"
            yield _Growing(f"column {name!r}", _ANSWERS * n_rows, remedy)
    if fitting is None:  # the words are known
        return
    others = {*roles.values(), *reading.get("ignore", ())}
    others |= {reading.get(role) for role in ("example_id", "offered")}
    for name in reading.get("features") or kinds:
        if name in others or name not in kinds or not is_text(kinds[name]):
            continue
        n_bytes = folder.bytes_of(name)
        if name in reading.get("text", ()) or n_bytes > _LONG * n_rows:
            remedy = "leave the column out (--ignore), or choose the words in some of the rows"
            yield _Growing(f"texts in column {name!r}", n_bytes, remedy)


def _estimates(reading: Mapping[str, Any], fitting: Mapping[str, Any]) -> bool:
    has_anchors = bool(reading.get("true_label") or fitting.get("anchors"))
    return has_anchors and str(fitting.get("transition")) in ("None", "estimate")
