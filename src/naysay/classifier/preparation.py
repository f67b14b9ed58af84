"""Convert X to the inputs of a network: fill missing values, and make sparse matrices dense.

Missing values are treated as in tables that ``naysay fit`` reads: NaN becomes the median of the
column, and a column with missing values in training gets a second feature that indicates them.
A sparse matrix of up to 1,000 columns is made dense. A wider one is reduced to 16 to 128 features
by a truncated singular value decomposition of the 32,768 columns that most examples have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from naysay._base.checks import row_slices
from naysay._base.errors import InvalidInput

_MOST_DENSE = 1_000  # columns
_MOST_NUMBERS = 2**27  # of a sparse matrix that is made dense: 512 MB
_MOST_COLUMNS = 2**15  # that are reduced
_SAMPLE = 100_000  # rows; medians of longer matrices are those of a sample
_BLOCK = 2**24  # numbers that are sorted at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """Conversion of X to inputs; the default changes nothing and refuses NaN.

    ``median`` has the value that replaces NaN in each column, and ``indicated`` the columns whose
    missing values have a feature. Sparse matrices have neither: ``columns`` are those that are
    used, and ``components``, shape (features, columns), the directions to which they are reduced.
    """

    median: NDArray[np.float32] | None = None
    indicated: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    columns: NDArray[np.int64] | None = None
    components: NDArray[np.float32] | None = None

    @classmethod
    def fit(cls, X: Any) -> Self:
        """Compute medians or directions from the training examples."""
        _check_sparse(X)
        if issparse(X):
            if X.shape[1] <= _MOST_DENSE and X.shape[0] * X.shape[1] <= _MOST_NUMBERS:
                return cls()
            return cls._of_sparse(X)
        if X.ndim != 2 or X.dtype.kind != "f":
            return cls()
        rows = X[np.linspace(0, len(X) - 1, min(len(X), _SAMPLE)).astype(np.int64)]
        median = np.empty(X.shape[1])  # `as_inputs` refuses values beyond float32
        has_gap = np.zeros(X.shape[1], dtype=bool)
        at_once = max(1, _BLOCK // len(rows))
        for start in range(0, X.shape[1], at_once):
            part = slice(start, start + at_once)
            for some in row_slices(len(X), at_once):  # X may be in a file
                has_gap[part] |= np.isnan(X[some, part]).any(axis=0)
            values = np.ascontiguousarray(rows[:, part].T)
            for place, column in enumerate(values, start):
                known = column[~np.isnan(column)] if has_gap[place] else column
                median[place] = np.median(known) if len(known) else 0.0
        with np.errstate(over="ignore"):
            median = median.astype(np.float32)
        return cls(median=median, indicated=np.flatnonzero(has_gap))

    @classmethod
    def _of_sparse(cls, X: Any) -> Self:
        from naysay.datasets.own.text import main_directions, n_directions_for  # loads pyarrow

        counts = np.bincount(X.indices, minlength=X.shape[1])
        used = np.argsort(-counts, kind="stable")[: min(_MOST_COLUMNS, (counts > 0).sum())]
        columns = np.sort(used)
        if not len(columns):
            raise InvalidInput("X must not be empty. This sparse matrix has only zeros.")
        chosen = csr_array(X)[:, columns].astype(np.float32)
        components = main_directions(chosen, n_directions_for(X.shape[0]))
        return cls(columns=columns, components=components)

    def apply(self, X: Any) -> NDArray[Any]:
        """Convert examples, of the shape that was fitted, to inputs; X itself is never changed."""
        _check_sparse(X)
        if self.components is not None:
            chosen = csr_array(X)[:, self.columns] if issparse(X) else X[:, self.columns]
            if not issparse(X) and np.isnan(chosen).any():
                raise InvalidInput("X must not contain NaN, because it was sparse in fit.")
            return np.asarray(chosen.astype(np.float32) @ self.components.T)
        if issparse(X):
            X = X.toarray()
        rows = row_slices(len(X), max(1, X[:1].size))
        if X.dtype.kind != "f" or not any(np.isnan(X[some]).any() for some in rows):
            return self._with_indicators(X, np.zeros((len(X), len(self.indicated)), dtype=bool))
        gaps = np.isnan(X)
        if self.median is None:
            raise InvalidInput(
                "Input X contains NaN. Missing values are filled in for dense tables of "
                "floats only, of models that were fitted to such a table."
            )
        X = np.where(gaps, self.median, X)
        return self._with_indicators(X, gaps[:, self.indicated] if X.ndim == 2 else gaps)

    def _with_indicators(self, X: NDArray[Any], indicators: NDArray[np.bool_]) -> NDArray[Any]:
        if not len(self.indicated):
            return X
        return np.hstack([X.astype(np.float32), indicators.astype(np.float32)])

    def shape_of_inputs(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Compute the shape of one input from the shape of one example."""
        if self.components is not None:
            return (len(self.components),)
        return (shape[0] + len(self.indicated), *shape[1:])

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name, for a model file."""
        return {name: each for name, each in vars(self).items() if each is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], shape: tuple[int, ...]) -> Self:
        """Restore a preparation of examples of this shape from its `arrays`, and check them."""
        self = cls(**arrays)
        columns = self.indicated if self.columns is None else self.columns
        if len(columns) and (columns.min() < 0 or columns.max() >= shape[0]):
            raise ValueError("the preparation has columns that X lacks")
        if self.median is not None and self.median.shape != shape:
            raise ValueError("the preparation has medians of other columns")
        if (self.columns is None) != (self.components is None) or (
            self.components is not None
            and self.columns is not None
            and self.components.shape[1:] != self.columns.shape
        ):
            raise ValueError("the preparation reduces other columns")
        return self


def _check_sparse(X: Any) -> None:
    if issparse(X) and np.isnan(X.data).any():
        raise InvalidInput(
            "A sparse X must not contain NaN. Fill missing values first, or pass a dense X."
        )
