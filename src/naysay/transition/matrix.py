"""TransitionMatrix: the probability of each complementary label given the true class.

``Q[i, j] = P(complementary label j | true class i)``: rows are true classes and sum to 1. This
orientation is checked here once; all other code relies on it.
"""

from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from naysay._base.checks import (
    as_real_numbers,
    check_class_names,
    check_count,
    check_label_indices,
    check_n_classes,
    check_seed,
    check_transition_values,
    named,
    shorten,
)
from naysay._base.errors import InvalidInput
from naysay._base.frames import make_frame
from naysay.transition.csv import parse_matrix, read_matrix, write_matrix
from naysay.transition.diagnosis import Diagnosis, diagnose
from naysay.transition.sampling import distinct_integers, draw_distinct_labels, draw_labels

_MOST_PRINTED = 20  # classes of a matrix whose entries are printed
_PRINTED_WIDTH = 100  # characters


class TransitionMatrix:
    """Transition matrix ``Q[i, j] = P(complementary label j | true class i)``.

    The values are checked once; the matrix is immutable. Uniform and sparse matrices keep their
    structure, so 100,000 classes fit into memory; ``np.asarray(Q)`` gives the dense float64 array.

    Parameters
    ----------
    values : array-like or scipy sparse array of shape (n_classes, n_classes)
        Rows are true classes and sum to 1.
    classes : sequence of str, optional
        Class names, in the order of the rows; ``'0', '1', …`` when left out.
    allow_diagonal : bool, default=False
        Accept labels that exclude the true class by mistake.

    References
    ----------
    Yu, Liu, Gong, Tao: Learning with Biased Complementary Labels, ECCV 2018, section 3.

    Examples
    --------
    >>> rows = [[0, 0.9, 0.1], [0.5, 0, 0.5], [1, 0, 0]]
    >>> Q = TransitionMatrix(rows, classes=["cat", "dog", "owl"])
    >>> Q
    TransitionMatrix(3 classes: 'cat', 'dog', 'owl')
    >>> print(Q)
    % of labels: rows are true classes, columns are excluded classes
            cat    dog    owl
    cat       .   90.0   10.0
    dog    50.0      .   50.0
    owl   100.0      .      .
    >>> Q.sample(["owl", "owl"], seed=0).tolist()
    ['cat', 'cat']
    """

    __slots__ = ("__weakref__", "_allow_diagonal", "_classes", "_entries")

    def __init__(
        self, values: Any, classes: Sequence[str] | None = None, *, allow_diagonal: bool = False
    ) -> None:
        entries, names = check_transition_values(values, classes, allow_diagonal=allow_diagonal)
        is_uniform = (
            entries.nnz == len(names) * (len(names) - 1)
            and not entries.diagonal().any()
            and bool((entries.data == entries.data[0]).all())
        )
        self._set(None if is_uniform else entries, names, allow_diagonal and not is_uniform)

    def _set(self, entries: csr_array | None, names: tuple[str, ...], allow_diagonal: bool) -> None:
        if entries is not None:
            for array in (entries.data, entries.indices, entries.indptr):
                array.flags.writeable = False
        self._entries = entries  # None for the uniform matrix
        self._classes = names
        self._allow_diagonal = bool(allow_diagonal)

    @classmethod
    def uniform(cls, n_classes: int, *, classes: Sequence[str] | None = None) -> Self:
        """Create the uniform matrix: every class but the true one is equally likely.

        Examples
        --------
        >>> np.asarray(TransitionMatrix.uniform(3))
        array([[0. , 0.5, 0.5],
               [0.5, 0. , 0.5],
               [0.5, 0.5, 0. ]])
        """
        n_classes = check_n_classes(n_classes)
        self = cls.__new__(cls)
        self._set(None, check_class_names(classes, n_classes), False)
        return self

    @classmethod
    def without_zeros(
        cls,
        n_classes: int,
        shares: Sequence[float] = (0.6, 0.3, 0.1),
        *,
        seed: int | np.random.Generator = 0,
    ) -> Self:
        """Create a random biased matrix without zeros ("without0" in the paper).

        For each true class the other classes are split at random into groups of equal size (as
        equal as their number allows), and each group gets one share of the probability.
        """
        n_classes = check_n_classes(n_classes)
        given = as_real_numbers(shares, "shares must be a list of numbers", InvalidInput)
        if given.ndim != 1 or not (given > 0).all() or abs(given.sum() - 1) > 1e-9:
            raise InvalidInput(f"shares must be positive and sum to 1. Got {shorten(shares)}.")
        if len(given) > n_classes - 1:
            raise InvalidInput(
                f"shares must be at most one per other class: {n_classes} classes allow "
                f"{n_classes - 1}. Got {len(given)}."
            )
        sizes = [len(group) for group in np.array_split(np.arange(n_classes - 1), len(given))]
        row = np.repeat(given / sizes, sizes)
        order = check_seed(seed).permuted(np.tile(row, (n_classes, 1)), axis=1)
        values = np.zeros((n_classes, n_classes))
        values[~np.eye(n_classes, dtype=bool)] = order.ravel()
        return cls(values)

    @classmethod
    def with_zeros(
        cls, n_classes: int, n_labels: int = 3, *, seed: int | np.random.Generator = 0
    ) -> Self:
        """Create a random matrix with few non-zero labels per row ("with0" in the paper).

        Each row has ``n_labels`` random labels with probabilities uniform on the simplex. Every
        label occurs in some row; a class whose label never occurs could not be learned.
        """
        n_classes = check_n_classes(n_classes)
        n_labels = check_count(n_labels, "n_labels")
        if n_labels > n_classes - 1:
            raise InvalidInput(
                f"n_labels must be between 1 and the {n_classes - 1} other classes. Got {n_labels}."
            )
        rng = check_seed(seed)
        # A random cycle through all classes gives each row one label other than its own class
        # and uses every label once; the other labels of the row are free.
        cycle = rng.permutation(n_classes)
        required = np.empty(n_classes, dtype=np.int64)
        required[cycle] = np.roll(cycle, 1)
        excluded = np.sort(np.stack([np.arange(n_classes), required], axis=1), axis=1)
        free = distinct_integers(n_classes, n_classes - 2, n_labels - 1, rng)
        for position in range(2):  # skips the two classes that are excluded
            free += free >= excluded[:, [position]]
        labels = np.concatenate([required[:, None], free], axis=1)
        probabilities = rng.dirichlet(np.ones(n_labels), size=n_classes)
        starts = np.arange(n_classes + 1) * n_labels
        return cls(
            csr_array((probabilities.ravel(), labels.ravel(), starts), (n_classes, n_classes))
        )

    @classmethod
    def human(cls, name: str) -> Self:
        """Load a published matrix of human annotators, with their mistakes on the diagonal.

        The names are ``clcifar10``, ``clcifar10-early``, ``clcifar10-released`` (the released
        labels, with 4 digits) and ``clcifar20``. The values were published with 2 or 4 digits, so
        each row is divided by its sum.

        References
        ----------
        Wang et al.: CLImage: Human-Annotated Datasets for Complementary-Label Learning,
        arXiv:2305.08295.
        """
        folder = resources.files("naysay.transition") / "human"
        known = sorted(file.name.removesuffix(".csv") for file in folder.iterdir())
        if name not in known:
            raise InvalidInput(f"Unknown human matrix {name!r}. Known: {', '.join(known)}.")
        table = parse_matrix((folder / f"{name}.csv").read_text("utf-8"), name)
        values = table.values / table.values.sum(axis=1, keepdims=True)
        return cls(values, table.names, allow_diagonal=True)

    @classmethod
    def read(cls, path: str | Path, *, allow_diagonal: bool = False) -> Self:
        """Read a CSV file: class names in the first row and column, or numbers only."""
        table = read_matrix(path)
        return cls(
            table.values, table.names, allow_diagonal=allow_diagonal or table.allows_diagonal
        )

    def write(self, path: str | Path | TextIO) -> None:
        """Write a CSV file, or to an open text file; `read` restores the matrix exactly."""
        entries = self.entries
        rows = (entries[[k]].toarray()[0].tolist() for k in range(self.n_classes))
        write_matrix(path, self._classes, rows, allows_diagonal=self._allow_diagonal)

    def to_frame(self, library: str | None = None) -> Any:
        """Convert to a data frame of pandas, with true classes as index, or of polars.

        Columns are labels. In polars the true classes are the first column, ``class``.
        """
        columns = dict(zip(self.classes, np.asarray(self).T, strict=True))
        return make_frame(columns, library, index=self.classes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self._classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of rows and columns."""
        return self._classes

    @property
    def has_names(self) -> bool:
        """Whether class names were given, other than the default ``'0', '1', …``."""
        return self._classes != check_class_names(None, self.n_classes)

    @property
    def allow_diagonal(self) -> bool:
        """Whether labels may exclude the true class by mistake."""
        return self._allow_diagonal

    @property
    def is_uniform(self) -> bool:
        """Whether every class but the true one is equally likely; no entry is stored then."""
        return self._entries is None

    @property
    def entries(self) -> csr_array:
        """Non-zero entries, read-only; for a uniform matrix all of them are built."""
        if self._entries is None:
            return csr_array(np.asarray(self))
        stored = self._entries  # a new object each time, because its attributes can be assigned
        return csr_array((stored.data, stored.indices, stored.indptr), stored.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "A TransitionMatrix stores no full array: it cannot give one uncopied."
            )
        if self._entries is None:
            values = np.full((self.n_classes, self.n_classes), 1 / (self.n_classes - 1))
            np.fill_diagonal(values, 0)
        else:
            values = self._entries.toarray()
        return values if dtype is None else values.astype(dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransitionMatrix):
            return NotImplemented
        if self._classes != other._classes:
            return False
        mine, others = self._entries, other._entries
        if mine is None or others is None:
            return mine is others
        parts = ("indptr", "indices", "data")
        return all(np.array_equal(getattr(mine, part), getattr(others, part)) for part in parts)

    def __hash__(self) -> int:
        data = b"" if self._entries is None else self._entries.data.tobytes()
        return hash((self._classes, data))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable

    def __reduce__(self) -> Any:
        return _rebuild, (self._entries, self._classes, self._allow_diagonal)

    def __repr__(self) -> str:
        kind = "uniform, " if self.is_uniform else ""
        return f"TransitionMatrix({kind}{self.n_classes} classes: {shorten(self._classes, 3)})"

    def __str__(self) -> str:
        """Write the entries in %, for up to 20 classes; a dot is an exact zero."""
        n = self.n_classes
        if n > _MOST_PRINTED:
            return repr(self)
        digits = 1 if n <= 10 else 0
        heads, rows = list(self._classes), list(self._classes)
        width = max(map(len, heads))
        is_wide = (n + 1) * (max(width, 5) + 2) > _PRINTED_WIDTH
        if is_wide and self.has_names:  # columns by number
            heads = [str(place) for place in range(n)]
            rows = [
                f"{place:>2} {name if len(name) <= 20 else name[:19] + '…'}"
                for place, name in enumerate(rows)
            ]
        label, column = max(map(len, rows)), max(3 + digits, *map(len, heads)) + 1 + digits
        lines = [" " * label + "".join(f"{head:>{column}}" for head in heads)]
        for name, values in zip(rows, np.asarray(self), strict=True):
            cells = ["." if not each else f"{each:.{digits}%}"[:-1] for each in values]
            lines.append(f"{name:<{label}}" + "".join(f"{cell:>{column}}" for cell in cells))
        return "\n".join(
            ["% of labels: rows are true classes, columns are excluded classes", *lines]
        )

    def sample(self, labels: ArrayLike, *, seed: int | np.random.Generator = 0) -> NDArray[Any]:
        """Draw one complementary label for each true label.

        Parameters
        ----------
        labels : array of true classes, any shape
            Indices 0..n_classes-1, or class names (then names are returned).
        seed : int or numpy.random.Generator, default=0
            If the classes were drawn at random too, take another seed than theirs: the same
            random numbers would decide both, and the labels would not follow the matrix.

        Examples
        --------
        >>> TransitionMatrix.uniform(10).sample([3, 3, 3, 3], seed=1).tolist()
        [5, 5, 7, 9]
        """
        indices = check_label_indices(labels, self._classes)
        drawn = draw_labels(self._entries, self.n_classes, indices.ravel(), check_seed(seed))
        return self._as_given(drawn.reshape(indices.shape), labels)

    def sample_several(
        self, labels: ArrayLike, n_labels: int, *, seed: int | np.random.Generator = 0
    ) -> NDArray[Any]:
        """Draw several distinct complementary labels for each true label.

        Labels are drawn without replacement, one after another, in proportion to their
        probability among the labels not drawn yet.

        Parameters
        ----------
        labels, seed
            As for `sample`.
        n_labels : int
            Number of labels per example; every true class must have as many possible labels.

        Returns
        -------
        array of shape (*labels.shape, n_labels)

        Examples
        --------
        >>> TransitionMatrix.uniform(5).sample_several([3, 3], 4, seed=0).tolist()
        [[0, 4, 2, 1], [4, 1, 2, 0]]
        """
        indices = check_label_indices(labels, self._classes)
        n_labels = check_count(n_labels, "n_labels")
        true = indices.ravel()
        if self._entries is None:
            possible = np.full(len(true), self.n_classes - 1)
        else:
            possible = np.diff(self._entries.indptr)[true]
        if len(true) and possible.min() < n_labels:
            fewest = int(possible.argmin())
            raise InvalidInput(
                "n_labels must be at most the number of labels that each class can get. "
                f"Class {named(int(true[fewest]), self._classes)} can get {possible[fewest]}, and "
                f"{n_labels} were asked for."
            )
        drawn = draw_distinct_labels(
            self._entries, self.n_classes, true, n_labels, check_seed(seed)
        )
        return self._as_given(drawn.reshape(*indices.shape, n_labels), labels)

    def _as_given(self, drawn: NDArray[np.int64], labels: ArrayLike) -> NDArray[Any]:
        """Convert indices to names if the labels were given as names."""
        by_name = np.asarray(labels).dtype.kind in "USO"
        return np.array(self._classes)[drawn] if by_name else drawn

    def distance(self, other: "TransitionMatrix") -> float:
        """Compute the mean over rows of the L1 distance Σ |Q - other|, between 0 and 2.

        Examples
        --------
        >>> always_the_next = TransitionMatrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
        >>> TransitionMatrix.uniform(3).distance(always_the_next)
        1.0
        """
        if other.n_classes != self.n_classes:
            raise InvalidInput(
                f"The other matrix must have {self.n_classes} classes too. Got {other.n_classes}."
            )
        return float(np.abs(np.asarray(self) - np.asarray(other)).sum(axis=1).mean())

    def diagnose(self, *, prior: ArrayLike | None = None) -> Diagnosis:
        """Compute rank, conditioning and the information of labels drawn with this matrix.

        Parameters
        ----------
        prior : array of shape (n_classes,), optional
            Class prior for the information measures; uniform when left out.
        """
        return diagnose(self._entries, self._classes, prior)


#: The paper's three settings: a matrix for a number of classes and a seed.
PAPER_SETTINGS: dict[str, Callable[[int, int], TransitionMatrix]] = {
    "uniform": lambda n_classes, seed: TransitionMatrix.uniform(n_classes),
    "without0": lambda n_classes, seed: TransitionMatrix.without_zeros(n_classes, seed=seed),
    "with0": lambda n_classes, seed: TransitionMatrix.with_zeros(n_classes, seed=seed),
}


def as_transition_matrix(Q: Any, *, allow_diagonal: bool = True) -> TransitionMatrix:
    """Convert an array to a checked matrix; pass a `TransitionMatrix` through.

    Parameters
    ----------
    Q : TransitionMatrix, or array, scipy sparse array or torch tensor (n_classes, n_classes)
    allow_diagonal : bool, default=True
        Whether labels may name the true class by mistake. If False, a non-zero diagonal is an
        error for a `TransitionMatrix` too.
    """
    if isinstance(Q, TransitionMatrix):
        if Q.allow_diagonal and not allow_diagonal:
            check_transition_values(Q.entries, Q.classes, allow_diagonal=False)
        return Q
    values = Q.detach().cpu() if hasattr(Q, "detach") else Q  # a tensor, without importing torch
    return TransitionMatrix(values, allow_diagonal=allow_diagonal)


def _rebuild(
    entries: csr_array | None, classes: tuple[str, ...], allow_diagonal: bool
) -> TransitionMatrix:
    if entries is None:
        return TransitionMatrix.uniform(len(classes), classes=classes)
    return TransitionMatrix(entries, classes, allow_diagonal=allow_diagonal)
