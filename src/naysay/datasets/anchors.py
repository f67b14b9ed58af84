"""Anchors in a file of their own: examples whose true class is known, beside `read_own`'s data."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from naysay._base.checks import shorten
from naysay._base.errors import InvalidInput, InvalidLabels
from naysay.datasets import _npz
from naysay.datasets._arrow import to_text
from naysay.datasets._preprocess import Recipe
from naysay.datasets.folders import find_labelled_images
from naysay.datasets.own import OwnData, read_features
from naysay.datasets.tables import find_column, is_frame, read_table, source_name

__all__ = ["read_anchors"]


def read_anchors(
    data: Any,
    own: OwnData,
    *,
    true_label: str | None = None,
    images: str | None = None,
    ignored: Collection[str] = (),
    delimiter: str | None = None,
    decimal: str = ".",
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read examples and their true classes, with features as those of `own`.

    Parameters
    ----------
    data : path or data frame
        A table with the feature columns of `own` and a column of true classes, an .npz file with
        ``X`` and ``true_labels``, or a folder with one folder of images per *true* class.
    own : OwnData
        The data that the anchors belong to.
    true_label : str, optional
        The column of true classes. Left out, it is the one column of the table that is neither a
        feature nor listed in `ignored`.
    images : str, optional
        The column of image paths, for a table of images.
    ignored : collection of str
        Columns of `own`'s table that are no features: labels, annotators, ids.
    delimiter, decimal : str
        As in `read_own`.

    Returns
    -------
    X, true_labels : arrays
        Features, and classes as positions in ``own.classes``. Rows with an empty true class are
        left out.

    Examples
    --------
    >>> import pandas
    >>> from naysay.datasets.own import read_own
    >>> own = read_own(pandas.DataFrame({"age": [3, 9], "not": ["cat", "dog"]}), label="not")
    >>> X, y = read_anchors(pandas.DataFrame({"age": [5], "is": ["dog"]}), own)
    >>> X.tolist(), y.tolist()
    ([[5.0]], [1])
    """
    name = source_name(data)
    is_path = not is_frame(data) and str(data) != "-"
    if is_path and Path(data).is_dir():
        labels = find_labelled_images(data)[1]
        X = read_features(data, own.recipe)
    elif is_path and Path(data).suffix.lower() == ".npz":
        column = true_label or "true_labels"
        values = _npz.find_array(_npz.read_arrays(Path(data), name), column, name)
        X = read_features(data, own.recipe)
        labels = _npz.text_cells(values, column, own.classes, len(X), name).to_pylist()
    else:
        column = true_label
        if column is None:
            table = read_table(data, delimiter=delimiter, decimal=decimal)
            column = _guess_column(table.column_names, own, {*ignored, images}, name)
        table = read_table(data, text=[column], delimiter=delimiter, decimal=decimal)
        labels = to_text(find_column(table, column, name, role="true_label"), column, name)
        labels = labels.to_pylist()
        X = read_features(data, own.recipe, images=images, delimiter=delimiter, decimal=decimal)
    return _known(X, labels, own, name)


def _guess_column(
    columns: list[str], own: OwnData, ignored: Collection[str | None], source: str
) -> str:
    used = {column.name for column in own.recipe.columns} if isinstance(own.recipe, Recipe) else ()
    left = [column for column in columns if column not in used and column not in ignored]
    if len(left) == 1:
        return left[0]
    raise InvalidInput(
        f"true_label (--anchor-label) must name the column of {source} that holds the true "
        f"classes. It may be any of {shorten(left or columns)}."
    )


def _known(
    X: NDArray[Any], labels: Sequence[str | None], own: OwnData, source: str
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    place = {name: index for index, name in enumerate(own.classes)}
    unknown = sorted({label for label in labels if label is not None and label not in place})
    if unknown:
        raise InvalidLabels(
            f"{source} must hold true classes that {own.source} names too, "
            f"{shorten(own.classes)}. It has also {shorten(unknown)}. A class that is never named "
            "as complementary cannot be learned; mend the names, or list all classes."
        )
    true = np.array([-1 if label is None else place[label] for label in labels], dtype=np.int64)
    if not (true >= 0).any():
        raise InvalidLabels(f"{source} must hold at least one true class. It holds none.")
    return X[true >= 0], true[true >= 0]
